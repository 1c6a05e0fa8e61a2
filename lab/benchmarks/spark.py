"""Skyband on Spark compared with Spark itself: the same files, the same session, one run.

Speed is rows per second over all batches except the first, which pays for starting workers and
compiling. Files are read by the workers (``skyband.spark.files``), in batches of 4 million rows;
two queries are measured through Spark's own reader too, in batches of 2 million. The baseline is a
``mapInArrow`` that only counts rows: what Python on Spark costs before any work is done. The native
forms are ``groupBy(window, key)`` in append mode with ``row_number`` over the finished windows of
each batch, and for scores ``max_by`` with k. They read only the first 2 of 10 million rows, in
batches of a million, since all rows would take minutes. Bytes in are those of the columns that a
query reads, as compressed in the files; bytes shuffled are what Spark reports as written.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from lab.bench import Progress
from lab.benchmarks.spark_aims import aims
from lab.benchmarks.spark_boards import nexmark, ten_queries
from lab.benchmarks.spark_cases import (
    columns_of,
    counting,
    flows,
    native_count,
    native_max_by,
    numbered,
    queries,
    ranking,
    reports,
    sides,
    sources_of,
)
from lab.benchmarks.spark_growth import CORES, growth, hundred_nodes, latency
from lab.benchmarks.spark_told import Told, spent
from skyband.spark.sharding import FirstRows, split_of

ROWS = 10_000_000
FILES = 20
FILES_A_BATCH = 8
SPARK_FILES = 4
NATIVE_FILES = 4
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
    "spark.python.authenticate.socketTimeout": "120s",
}
TRAVELS = "What a run shuffles, and the state it keeps"
OWN = "Beside Spark's own"
ATTEMPTS = 4
SLOW_START = "Python worker failed to connect back"
"""What Spark says of a worker that did not start within its fixed ten seconds: a busy machine."""
THROUGH = ("count top-k", "score top-k")
"""Queries that are measured through Spark's reader too."""


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    from skyband.spark import session

    # Spark cleans up its state in the background, even while the folder is being removed.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        spark = session("local[2]", **SETTINGS)
        spark.sparkContext.setLogLevel("OFF")
        try:
            rows = max(200_000, int(ROWS * scale))
            return list(Benchmark(spark, Path(folder), rows, progress).run())
        finally:
            spark.stop()


NATIVE_TARGETS = {"count top-k": 15, "score top-k": 10}


# Measuring ------------------------------------------------------------------------------------


class Benchmark:
    def __init__(self, spark: Any, folder: Path, rows: int, progress: Progress) -> None:
        self.spark = spark
        self.folder = folder
        self.rows = rows
        self.progress = progress
        self.runs = 0
        progress("writing files")
        self.tables = {"flows": flows(rows), "reports": reports(rows), **sides(rows)}
        self.schemas: dict[str, Any] = {}
        for name, table in self.tables.items():
            self.write(name, table)

    def write(self, name: str, table: pa.Table) -> None:
        """Put a table into files."""
        source = self.folder / name
        source.mkdir()
        size = table.num_rows // FILES
        for number in range(FILES):
            path = source / f"{number:03}.parquet"
            pq.write_table(table.slice(number * size, size), path)
            os.utime(path, (1_000_000_000 + number,) * 2)
        self.schemas[name] = self.spark.read.parquet(str(source)).schema

    def run(self) -> Iterator[dict[str, Any]]:
        count = lambda frames: counting(frames["flows"])  # noqa: E731
        # A Java virtual machine that has just started is slow; only the first case would suffer.
        self.measure("warming up", ("flows",), count, read="spark", upto=NATIVE_FILES)
        self.measure("warming up", ("flows",), ranking(queries()["score top-k"]), upto=NATIVE_FILES)
        floor = self.measure("mapInArrow that counts", ("flows",), count, read="spark")
        yield {"case": "mapInArrow that counts", "through Spark's reader M rows/s": floor.mega}
        found: dict[str, Told] = {}
        for name, query in queries().items():
            sources = sources_of(query)
            shards = self.shards(query)
            told = found[name] = self.measure(name, sources, ranking(query, shards=shards))
            through = None
            if name in THROUGH:
                through = self.measure(name, sources, ranking(query), read="spark", upto=12).mega
            yield {
                "case": name,
                "shards": shards,
                "M rows/s": told.mega,
                "s per batch": told.batch_seconds,
                "through Spark's reader M rows/s": through,
                "× mapInArrow": told.speed / floor.speed,
                "× embedded": told.speed / self.embedded(query),
            }
        for name, query in queries().items():
            told = found[name]
            bytes_in = self.bytes_of(query)
            yield {
                "group": TRAVELS,
                "case": name,
                "MB in": bytes_in / 1e6,
                "MB shuffled": told.shuffled / 1e6,
                "% of bytes in": 100 * told.shuffled / bytes_in,
                "bytes of summaries a row": told.packed / told.rows,
                "state MB": told.state_bytes / 1e6,
            }
        own: dict[str, Told] = {}
        yield from self.native(found, own)
        large: dict[str, Told] = {}
        yield from aims(self, own["count top-k"], found["fused top-k"], large)
        yield from ten_queries(self)
        yield from nexmark(self)
        yield from growth(self)
        yield latency(self)
        yield from hundred_nodes(found | large)
        for name, told in {"mapInArrow that counts": floor, **found}.items():
            yield {"group": "Milliseconds of a batch", "case": name, **told.parts}

    def shards(self, query: sb.Query) -> int:
        """As many shards as a job would choose for these files."""
        tables = {name: self.tables[name] for name in sources_of(query)}
        some = {
            name if query.needs_mapping else "": FirstRows(
                table.slice(0, 20_000), FILES_A_BATCH * table.num_rows // FILES
            )
            for name, table in tables.items()
        }
        return split_of([query], some, CORES).shards

    def native(self, found: Mapping[str, Told], own: dict[str, Told]) -> Iterator[dict[str, Any]]:
        """Spark's own forms; what they measured is put into ``own``."""
        from pyspark.sql import functions as F  # noqa: N812

        forms: list[tuple[str, str, Any, Any]] = [
            ("count top-k", "groupBy(window, key).count(), row_number", native_count, numbered),
        ]
        if "k" in signature(F.max_by).parameters:
            form = "groupBy(window).max_by(row, score, 10)"
            forms.append(("score top-k", form, native_max_by, None))
        for name, form, build, sink in forms:
            told = self.native_run(form, "flows", build, sink)
            own.setdefault(name, told)
            yield {
                "group": OWN,
                "case": f"{name}: {form}",
                "rows of it": told.rows,
                "Spark's own M rows/s": told.mega,
                "M rows/s": found[name].mega,
                "target × Spark's own": NATIVE_TARGETS[name],
                "× Spark's own": found[name].speed / told.speed,
            }

    def native_run(self, name: str, source: str, build: Any, sink: Any) -> Told:
        """A native query over the first files."""
        return self.measure(
            name,
            (source,),
            lambda frames: build(frames[source]),
            files=NATIVE_FILES // 2,
            upto=NATIVE_FILES,
            sink=sink,
            read="spark",
        )

    def embedded(self, query: sb.Query) -> float:
        """Rows per second of the embedded engine over the same files, including the reading."""
        few = {name: self.tables[name].slice(0, 50_000) for name in sources_of(query)}
        files: dict[str, Any] = {name: str(self.folder / name) for name in few}
        given: list[dict[str, Any]] = [few, files]
        warm, work = (each if query.needs_mapping else next(iter(each.values())) for each in given)
        sb.rank(warm, query)
        began = time.perf_counter()
        sb.rank(work, query)
        return self.rows / (time.perf_counter() - began)

    def bytes_of(self, query: sb.Query) -> int:
        """Bytes of the columns that a query reads, as compressed in the files."""
        found = 0
        for name in sources_of(query):
            needed = set(columns_of(query, self.tables[name].schema, name))
            for path in (self.folder / name).glob("*.parquet"):
                about = pq.read_metadata(path)
                groups = [about.row_group(i) for i in range(about.num_row_groups)]
                columns = [g.column(i) for g in groups for i in range(g.num_columns)]
                found += sum(c.total_compressed_size for c in columns if c.path_in_schema in needed)
        return found

    # Streams ----------------------------------------------------------------------------------

    def measure(
        self,
        name: str,
        sources: tuple[str, ...],
        build: Callable[[dict[str, Any]], Any],
        files: int | None = None,
        upto: int = FILES,
        sink: Callable[[Any, int], None] | None = None,
        read: str = "workers",
    ) -> Told:
        """Run a query to the end of the first ``upto`` files of its sources."""
        self.progress(name if read == "workers" else f"{name}, read by Spark")
        if read == "workers":
            most = files or FILES_A_BATCH
            frames = {each: self.files(self.folder / each, most, upto) for each in sources}
        else:
            frames = {each: self.stream(each, files or SPARK_FILES, upto) for each in sources}
        return self.told(build(frames), sink)

    def told(self, answers: Any, sink: Callable[[Any, int], None] | None = None) -> Told:
        """Run a streaming query until it has read what is there."""
        from skyband.spark.metrics import read_progress

        before = self.shuffled()
        batches, rows, packed, state = [], [], 0, 0
        for batch in self.finished(answers, sink).recentProgress:
            figures = read_progress(batch) or {"rows_in": batch.numInputRows}
            packed += int(figures.get("bytes_packed", 0))
            state = max(state, int(figures.get("state_bytes", 0)))
            if figures["rows_in"]:
                batches.append(batch)
                rows.append(int(figures["rows_in"]))
        steady = slice(min(1, len(batches) - 1), None)
        seconds = sum(batch.batchDuration for batch in batches[steady]) / 1000
        return Told(
            sum(rows),
            sum(rows[steady]) / seconds,
            seconds / len(batches[steady]),
            len(batches),
            self.shuffled() - before,
            packed,
            state,
            spent(batches[steady]),
        )

    def finished(self, answers: Any, sink: Callable[[Any, int], None] | None = None) -> Any:
        """A streaming query that has come to its end."""
        from pyspark.errors import StreamingQueryException

        for attempt in range(ATTEMPTS):
            writer = answers.writeStream.outputMode("append").trigger(availableNow=True)
            writer = writer.format("noop") if sink is None else writer.foreachBatch(sink)
            query = writer.option("checkpointLocation", self.checkpoint()).start()
            try:
                query.awaitTermination()
            except StreamingQueryException as problem:
                if SLOW_START not in str(problem) or attempt + 1 == ATTEMPTS:
                    raise
                self.progress("a Python worker was too slow to start; trying again")
            else:
                break
        return query

    def stream(self, name: str, files: int, upto: int) -> Any:
        """Files that Spark reads."""
        reader = self.spark.readStream.schema(self.schemas[name])
        reader = reader.option("maxFilesPerTrigger", files).option("pathGlobFilter", first(upto))
        return reader.parquet(str(self.folder / name))

    def files(self, folder: Path, most: int, upto: int | None = None) -> Any:
        """Files that the workers read by themselves."""
        from skyband.spark import files

        options = None if upto is None else {"pathGlobFilter": first(upto)}
        schema = self.schemas.get(folder.name)
        return files(self.spark, folder, files_per_batch=most, schema=schema, options=options)

    def records(self, folder: Path, most: int) -> Any:
        """JSON records that the workers read, so many files a batch."""
        from skyband.spark.json_source import json_frame

        reader = self.spark.readStream.schema("value binary").option("maxFilesPerTrigger", most)
        return json_frame(reader.parquet(str(folder)), "ts timestamp, key bigint", {})

    def checkpoint(self) -> str:
        self.runs += 1
        return str(self.folder / f"checkpoint{self.runs}")

    def shuffled(self) -> int:
        """Bytes that this session has written for shuffles so far."""
        store = self.spark.sparkContext._jsc.sc().statusStore()
        return int(store.executorSummary("driver").totalShuffleWrite())


def first(upto: int) -> str:
    """The names of the first files."""
    return f"{{{','.join(f'{number:03}' for number in range(upto))}}}.parquet"
