"""Skyband on Spark beside Spark itself: the same files, the same session, one run.

Speed is rows a second over the batches after the first, which pays for workers and compilers. The
floor is a ``mapInArrow`` that only counts rows: what Python on Spark costs before anything is done.
The native form is ``groupBy(window, key)`` in append mode with ``row_number`` over each batch of
finished windows; it reads fewer rows, for it would run for minutes.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from skyband.bench import Progress

ROWS = 10_000_000
FILES = 20
FILES_A_BATCH = 4
HOUR = 3_600_000_000
START = 1_700_000_000_000_000
WINDOW = sb.TimeWindow("10 minutes", slide="1 minute")


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    from skyband.spark import session

    spark = session(
        "local[2]", **{"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    )
    spark.sparkContext.setLogLevel("ERROR")
    try:
        with tempfile.TemporaryDirectory() as folder:
            return Benchmark(spark, Path(folder), max(200_000, int(ROWS * scale)), progress).run()
    finally:
        spark.stop()


def flows(rows: int, seed: int = 1) -> pa.Table:
    """An hour of events in order, Zipf keys, uniform scores."""
    rng = np.random.default_rng(seed)
    keys = np.minimum(rng.zipf(1.2, rows), 2**31 - 1)
    return pa.table(
        {
            "ts": pa.array(START + np.arange(rows) * (HOUR // rows)).cast(
                pa.timestamp("us", tz="UTC")
            ),
            "key": pa.array(keys.astype(np.int64)),
            "bytes": pa.array(rng.random(rows)),
            "p": pa.array(rng.integers(1, 101, rows) / 100),
            "price": pa.array(rng.random(rows)),
            "g10": pa.array(rng.integers(0, 10, rows)),
            "g1000": pa.array(rng.integers(0, 1_000, rows)),
            "g100000": pa.array(rng.integers(0, 100_000, rows)),
        }
    )


def queries() -> dict[str, sb.Query]:
    every: dict[str, Any] = {"window": WINDOW, "time": "ts"}
    return {
        "count top-k": sb.HeavyHitters(k=10, item="key", **every),
        "score top-k": sb.TopK(k=10, score="bytes", id="key", **every),
        "uncertain top-k": sb.UncertainTopK(
            k=10, score="bytes", probability="p", id="key", **every
        ),
        "skyline": sb.Skyline(prefer={"bytes": "max", "price": "min"}, id="key", **every),
    }


class Benchmark:
    def __init__(self, spark: Any, folder: Path, rows: int, progress: Progress) -> None:
        self.spark = spark
        self.folder = folder
        self.rows = rows
        self.progress = progress
        self.table = flows(rows)
        self.source = folder / "in"
        self.source.mkdir()
        for number in range(FILES):
            part = self.table.slice(number * rows // FILES, rows // FILES)
            pq.write_table(part, self.source / f"{number:03}.parquet")
        self.bytes_in = sum(path.stat().st_size for path in self.source.glob("*.parquet"))
        self.schema = spark.read.parquet(str(self.source)).schema
        self.runs = 0

    def run(self) -> list[dict[str, Any]]:
        floor, _ = self.measure("mapInArrow that counts", self.counting)
        found = [{"case": "mapInArrow that counts", "rows/s": round(floor)}]
        speeds: dict[str, float] = {}
        for name, query in queries().items():
            speed, told = self.measure(name, lambda frame, q=query: ranked(frame, q))
            speeds[name] = speed
            embedded = self.embedded(query)
            sent = told["bytes_packed"] / self.bytes_in
            found.append(
                {
                    "case": name,
                    "rows/s": round(speed),
                    "of mapInArrow": f"{speed / floor:.0%}",
                    "of embedded": f"{speed / embedded:.0%}",
                    "bytes packed of bytes in": f"{sent:.2%}",
                    "state bytes": int(told["state_bytes"]),
                    "s a batch": round(told["batch_seconds"], 2),
                }
            )
        for name, native in (
            ("count top-k", self.native_count),
            ("score top-k", self.native_score),
        ):
            speed, _ = self.measure(f"native {name}", native, files=1, upto=4)
            ratio = speeds[name] / speed
            case = {"case": f"Spark's own {name}", "rows/s": round(speed), "ours": f"{ratio:.1f}x"}
            found.append(case)
        return [*found, *self.growth(), self.latency()]

    def growth(self) -> Iterator[dict[str, Any]]:
        query = queries()["score top-k"]
        for shards in (1, 2, 4, 8):
            name = f"score top-k, {shards} shards"
            speed, told = self.measure(name, lambda f, n=shards: ranked(f, query, shards=n))
            yield self.grown(name, speed, told)
        for groups in (10, 1_000, 100_000):
            by = sb.TopK(
                k=10, score="bytes", id="key", by=(f"g{groups}",), time="ts", window=WINDOW
            )
            name = f"score top-k, {groups:,} groups"
            speed, told = self.measure(name, lambda f, q=by: ranked(f, q))
            yield self.grown(name, speed, told)

    @staticmethod
    def grown(name: str, speed: float, told: dict[str, float]) -> dict[str, Any]:
        size, seconds = int(told["state_bytes"]), round(told["batch_seconds"], 2)
        return {"case": name, "rows/s": round(speed), "state bytes": size, "s a batch": seconds}

    def embedded(self, query: sb.Query) -> float:
        """Rows a second of the embedded engine over the same files, read included."""
        sb.rank(self.table.slice(0, 100_000), query)
        began = time.perf_counter()
        sb.rank(str(self.source), query)
        return self.rows / (time.perf_counter() - began)

    # Streams ------------------------------------------------------------------------------------

    def measure(
        self, name: str, build: Callable[[Any], Any], files: int = FILES_A_BATCH, upto: int = FILES
    ) -> tuple[float, dict[str, float]]:
        """Rows a second after the first batch, and the last figures that the query told of."""
        from skyband.spark.metrics import read_progress

        self.progress(name)
        self.runs += 1
        reader = self.spark.readStream.schema(self.schema).option("maxFilesPerTrigger", files)
        pattern = "*" if upto == FILES else f"0{{{','.join(f'{n:02}' for n in range(upto))}}}*"
        frame = reader.option("pathGlobFilter", f"{pattern}.parquet").parquet(str(self.source))
        writer = build(frame).writeStream.format("noop").outputMode("append")
        writer = writer.option("checkpointLocation", str(self.folder / f"cp{self.runs}"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [p for p in query.recentProgress if p.numInputRows]
        steady = batches[1:] or batches
        seconds = sum(batch.batchDuration for batch in steady) / 1000
        told: dict[str, float] = {"bytes_packed": 0, "state_bytes": 0}
        for each in query.recentProgress:
            figures = read_progress(each) or {}
            told["bytes_packed"] += figures.get("bytes_packed", 0)
            told["state_bytes"] = max(told["state_bytes"], figures.get("state_bytes", 0))
        told["batch_seconds"] = seconds / len(steady)
        return sum(batch.numInputRows for batch in steady) / seconds, told

    @staticmethod
    def counting(frame: Any) -> Any:
        def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            rows = sum(batch.num_rows for batch in batches)
            yield pa.record_batch([pa.array([rows])], names=["rows"])

        return frame.select("ts", "key", "bytes").mapInArrow(count, "rows bigint")

    @staticmethod
    def native_count(frame: Any) -> Any:
        from pyspark.sql import functions as F  # noqa: N812

        marked = frame.withWatermark("ts", "0 seconds")
        window = F.window("ts", "10 minutes", "1 minute")
        return marked.groupBy(window, "key").count()

    @staticmethod
    def native_score(frame: Any) -> Any:
        """Spark has no streaming top-k, so each window's rows are collected and sorted."""
        from pyspark.sql import functions as F  # noqa: N812

        marked = frame.withWatermark("ts", "0 seconds")
        window = F.window("ts", "10 minutes", "1 minute")
        rows = F.sort_array(F.collect_list(F.struct("bytes", "ts", "key")), asc=False)
        return marked.groupBy(window).agg(F.slice(rows, 1, 10).alias("best"))

    def latency(self) -> dict[str, Any]:
        """Seconds from a window's end to its rows in the sink, with a trigger of one second."""
        self.progress("latency")
        self.runs += 1
        query = sb.TopK(
            k=10,
            score="value",
            time="timestamp",
            window=sb.TimeWindow("5 seconds", slide="1 second"),
        )
        frame = self.spark.readStream.format("rate").option("rowsPerSecond", 10_000).load()
        waits: list[float] = []

        def sink(answers: Any, _: int) -> None:
            now = datetime.now(UTC).timestamp()
            ends = {row.window_end for row in answers.select("window_end").distinct().collect()}
            waits.extend(now - end.timestamp() for end in ends)

        writer = (
            ranked(frame, query).writeStream.foreachBatch(sink).trigger(processingTime="1 second")
        )
        stream = writer.option("checkpointLocation", str(self.folder / f"cp{self.runs}")).start()
        stream.awaitTermination(40)
        stream.stop()
        steady = waits[len(waits) // 3 :]
        median = statistics.median(steady) if steady else float("nan")
        return {"case": "latency, trigger 1 s", "median s": round(median, 2), "windows": len(waits)}


def ranked(frame: Any, query: sb.Query, **settings: Any) -> Any:
    from skyband.spark import rank

    return rank(frame, query, **settings)
