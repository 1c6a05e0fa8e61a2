"""Skyband on Spark compared with Spark itself: the same files, the same session, one run.

Speed is rows per second over all batches except the first, which pays for starting workers and
compiling. The baseline is a ``mapInArrow`` that only counts rows: what Python on Spark costs before
any work is done. The native forms are ``groupBy(window, key)`` in append mode with ``row_number``
over the finished windows of each batch, and for scores also ``max_by`` with k. They read only the
first 2 of 10 million rows, in batches of half the size, since all rows would take minutes. Bytes in
are those of the columns that a query reads, as compressed in the files; bytes shuffled are what
Spark reports as written.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import skyband as sb
from lab.bench import Progress
from lab.benchmarks.spark_aims import aims
from lab.benchmarks.spark_cases import (
    WINDOW,
    columns_of,
    counting,
    flows,
    native_count,
    native_max_by,
    native_score,
    numbered,
    queries,
    ranking,
    reports,
    sides,
    sources_of,
)
from lab.benchmarks.spark_told import Told, latency, spent

ROWS = 10_000_000
FILES = 20
FILES_A_BATCH = 4
NATIVE_FILES = 4
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "3g",
}
TRAVELS = "What a run shuffles, and the state it keeps"
GROWTH = "Growth: score top-k over shards and groups"


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


TARGETS = {"count top-k": 0.6, "score top-k": 0.6}
"""Targets as a share of the baseline; other queries: half of it or of the embedded engine."""
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
        self.schemas = {}
        for name, table in self.tables.items():
            source = folder / name
            source.mkdir()
            for number in range(FILES):
                size = table.num_rows // FILES
                part = table.slice(number * size, size)
                pq.write_table(part, source / f"{number:03}.parquet")
            self.schemas[name] = spark.read.parquet(str(source)).schema

    def run(self) -> Iterator[dict[str, Any]]:
        count = lambda frames: counting(frames["flows"])  # noqa: E731
        # A Java virtual machine that has just started is slow; only the first case would suffer.
        self.measure("warming up", ("flows",), count)
        self.measure("warming up", ("flows",), ranking(queries()["score top-k"]), upto=NATIVE_FILES)
        floor = self.measure("mapInArrow that counts", ("flows",), count)
        yield {"case": "mapInArrow that counts", "M rows/s": floor.speed / 1e6}
        found: dict[str, Told] = {}
        for name, query in queries().items():
            sources = sources_of(query)
            told = found[name] = self.measure(name, sources, ranking(query))
            yield {
                "case": name,
                "M rows/s": told.speed / 1e6,
                "s per batch": told.batch_seconds,
                "target × mapInArrow": TARGETS.get(name),
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
                "state MB": told.state_bytes / 1e6,
            }
        own: dict[str, Told] = {}
        yield from self.native(found, own)
        yield from aims(self, own["count top-k"])
        yield from self.growth()
        yield latency(self)
        for name, told in {"mapInArrow that counts": floor, **found}.items():
            yield {"group": "Milliseconds of a batch", "case": name, **told.parts}

    def native(self, found: Mapping[str, Told], own: dict[str, Told]) -> Iterator[dict[str, Any]]:
        """Spark's own forms; what they measured is put into ``own``."""
        from pyspark.sql import functions as F  # noqa: N812

        forms: list[tuple[str, str, Any, Any]] = [
            ("count top-k", "groupBy(window, key).count(), row_number", native_count, numbered),
            ("score top-k", "groupBy(window, key).max(), row_number", native_score, numbered),
        ]
        if "k" in signature(F.max_by).parameters:
            form = "groupBy(window).max_by(row, score, 10)"
            forms.append(("score top-k", form, native_max_by, None))
        for name, form, build, sink in forms:
            told = self.measure(
                form,
                ("flows",),
                _of_flows(build),
                files=FILES_A_BATCH // 2,
                upto=NATIVE_FILES,
                sink=sink,
            )
            own.setdefault(name, told)
            yield {
                "group": "Compared with Spark's own",
                "case": f"{name}: {form}",
                "rows of it": told.rows,
                "Spark's own M rows/s": told.speed / 1e6,
                "M rows/s": found[name].speed / 1e6,
                "target × Spark's own": NATIVE_TARGETS[name],
                "× Spark's own": found[name].speed / told.speed,
            }

    def growth(self) -> Iterator[dict[str, Any]]:
        """Speed by shards and by groups, in batches of a million rows."""
        query = queries()["score top-k"]
        settings: list[tuple[str, sb.Query, int]] = [
            (f"{shards} shards", query, shards) for shards in (1, 2, 4, 8)
        ]
        for groups in (10, 1_000):
            by = (f"g{groups}",)
            grouped = sb.TopK(k=10, score="bytes", id="key", by=by, time="ts", window=WINDOW)
            settings.append((f"{groups:,} groups", grouped, 1))
        for name, asked, shards in settings:
            build = ranking(asked, shards=shards)
            told = self.measure(name, ("flows",), build, files=2, upto=8)
            yield {
                "group": GROWTH,
                "case": name,
                "M rows/s": told.speed / 1e6,
                "s per batch of 1 M": told.batch_seconds,
                "MB shuffled": told.shuffled / 1e6,
                "state MB": told.state_bytes / 1e6,
            }

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
        files: int = FILES_A_BATCH,
        upto: int = FILES,
        sink: Callable[[Any, int], None] | None = None,
    ) -> Told:
        """Run a query to the end of the first ``upto`` files of its sources."""
        from skyband.spark.metrics import read_progress

        self.progress(name)
        answers = build({each: self.stream(each, files, upto) for each in sources})
        writer = answers.writeStream.outputMode("append").trigger(availableNow=True)
        writer = writer.format("noop") if sink is None else writer.foreachBatch(sink)
        before = self.shuffled()
        query = writer.option("checkpointLocation", self.checkpoint()).start()
        query.awaitTermination()
        progress = list(query.recentProgress)
        batches = [batch for batch in progress if batch.numInputRows]
        steady = batches[1:] or batches
        seconds = sum(batch.batchDuration for batch in steady) / 1000
        rows = sum(batch.numInputRows for batch in batches)
        told = [read_progress(batch) or {} for batch in progress]
        return Told(
            rows,
            sum(batch.numInputRows for batch in steady) / seconds,
            seconds / len(steady),
            self.shuffled() - before,
            int(max(figures.get("state_bytes", 0) for figures in told)),
            spent(steady),
        )

    def stream(self, name: str, files: int, upto: int) -> Any:
        reader = self.spark.readStream.schema(self.schemas[name])
        names = ",".join(f"{number:03}" for number in range(upto))
        reader = reader.option("maxFilesPerTrigger", files)
        reader = reader.option("pathGlobFilter", f"{{{names}}}.parquet")
        return reader.parquet(str(self.folder / name))

    def files(self, folder: Path, most: int) -> Any:
        """Files that the workers read by themselves."""
        from skyband.spark import files

        return files(self.spark, folder, files_per_batch=most)

    def records(self, folder: Path) -> Any:
        """JSON records that the workers read, one file per batch."""
        from skyband.spark.json_source import json_frame

        reader = self.spark.readStream.schema("value binary").option("maxFilesPerTrigger", 1)
        return json_frame(reader.parquet(str(folder)), "ts timestamp, key bigint", {})

    def checkpoint(self) -> str:
        self.runs += 1
        return str(self.folder / f"checkpoint{self.runs}")

    def shuffled(self) -> int:
        """Bytes that this session has written for shuffles so far."""
        store = self.spark.sparkContext._jsc.sc().statusStore()
        return int(store.executorSummary("driver").totalShuffleWrite())


def _of_flows(build: Callable[[Any], Any]) -> Callable[[dict[str, Any]], Any]:
    """A native query as ``measure`` takes it."""
    return lambda frames: build(frames["flows"])
