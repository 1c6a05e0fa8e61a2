"""Skyband on a standalone cluster: a driver, a master and two workers of one core, on one machine.

What a machine with two cores can say of larger clusters: how much of the work the driver does, and
how that grows with the number of tasks; what crosses the exchange; what it costs if nine tenths of
the rows are in one group; and what one slow worker costs, with and without Spark's speculation.
Processor time of the driver's processes and of the workers' is what the system says of them. Files
are read by the workers; the first batch is left out.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from lab.bench import Progress
from lab.bench.standalone import Cluster, below, processor_seconds, slowed, standalone
from lab.benchmarks.spark_cases import HOUR, WINDOW, flows

BATCHES, FILES_A_BATCH = 5, 4
ROWS = 4_000_000
FEW_ROWS = 20_000
TASKS = (2, 16, 64)
GROUPS = 1_000
SETTINGS = {
    "spark.executor.memory": "1g",
    "spark.cores.max": "2",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.authenticate.socketTimeout": "120s",
}
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.interval": "100ms",
}


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        with standalone(home, {"PYTHONPATH": str(Path(sb.__file__).parents[1])}) as cluster:
            return list(Bench(cluster, home, scale, progress).run())


class Bench:
    def __init__(self, cluster: Cluster, folder: Path, scale: float, progress: Progress) -> None:
        self.cluster = cluster
        self.folder = folder
        self.progress = progress
        self.runs = 0
        self.rows = max(100_000, int(ROWS * scale))
        progress("writing files")
        self.write("many", self.rows)
        self.write("few", FEW_ROWS)

    def write(self, name: str, rows: int) -> None:
        """Batches of one hour each; ``skewed`` has nine tenths of its rows in one group."""
        (self.folder / name).mkdir()
        for batch in range(BATCHES):
            table = flows(rows, seed=batch, groups=(GROUPS, 100_000))
            moments = table["ts"].cast(pa.int64()).to_numpy() + batch * HOUR
            table = table.set_column(0, "ts", pa.array(moments).cast(table.schema.field("ts").type))
            group = table[f"g{GROUPS}"].to_numpy()
            skewed = np.where(np.random.default_rng(batch).random(rows) < 0.9, 0, group)
            table = table.append_column("skewed", pa.array(skewed))
            size = -(-rows // FILES_A_BATCH)
            for number in range(FILES_A_BATCH):
                file = self.folder / name / f"{batch}-{number}.parquet"
                pq.write_table(table.slice(number * size, size), file)
                os.utime(file, (1_000_000_000 + batch * FILES_A_BATCH + number,) * 2)

    def run(self) -> Iterator[dict[str, Any]]:
        every: dict[str, Any] = {"k": 10, "window": WINDOW, "time": "ts"}
        score = sb.TopK(score="bytes", id="key", **every)
        count = sb.HeavyHitters(item="key", **every)
        self.start()
        self.measure("warming up", score, "few")
        group = f"Where the work is: batches of {self.rows:,} rows"
        for case, query in {
            "score top-k": score,
            "count top-k, exact": count,
            "count top-k, fsw": sb.HeavyHitters(
                item="key", algorithm="fsw", capacity=1_000, **every
            ),
            f"score top-k of {GROUPS:,} groups": sb.TopK(
                score="bytes", id="key", by=f"g{GROUPS}", **every
            ),
        }.items():
            yield {"group": group, "case": case, **self.measure(case, query, "many")}
        group = f"One group with nine tenths of the rows: batches of {self.rows:,} rows"
        for case, kind, own in (
            ("score top-k by group", sb.TopK, {"score": "bytes", "id": "key"}),
            ("count top-k by group", sb.HeavyHitters, {"item": "key"}),
        ):
            even, skewed = (
                self.measure(f"{case}, {by}", kind(by=by, **own, **every), "many")
                for by in (f"g{GROUPS}", "skewed")
            )
            yield {
                "group": group,
                "case": case,
                "even s per batch": even["s per batch"],
                "skewed s per batch": skewed["s per batch"],
                "× even": skewed["s per batch"] / even["s per batch"],
                "even MB shuffled": even["MB shuffled per batch"],
                "skewed MB shuffled": skewed["MB shuffled per batch"],
            }
        group = f"The driver and the number of tasks: score top-k, batches of {FEW_ROWS:,} rows"
        for tasks in TASKS:
            self.spark.conf.set("spark.sql.shuffle.partitions", str(tasks))
            told = self.measure(f"{tasks} state tasks", score, "few")
            yield {
                "group": group,
                "case": f"{tasks} state tasks",
                **{name: told[name] for name in ("s per batch", "driver s", "workers s")},
            }
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        group = f"A slow worker: count top-k, exact, batches of {self.rows:,} rows"
        plain = self.measure("both workers at full speed", count, "many")
        yield {"group": group, "case": "both at full speed", "s per batch": plain["s per batch"]}
        for case, settings in (("as Spark is set", {}), ("with speculation", SPECULATION)):
            self.spark.stop()
            self.start(**settings)
            self.measure("warming up", count, "few")
            with slowed(self.cluster.workers[0].pid, share=0.75):
                told = self.measure(f"one at a quarter of its speed, {case}", count, "many")
            yield {
                "group": group,
                "case": f"one at a quarter of its speed, {case}",
                "s per batch": told["s per batch"],
                "× full speed": told["s per batch"] / plain["s per batch"],
            }
        self.spark.stop()

    def start(self, **settings: str) -> None:
        from skyband.spark import session

        self.spark = session(self.cluster.master, **SETTINGS | settings)
        self.spark.sparkContext.setLogLevel("OFF")

    def measure(self, name: str, query: sb.Query, files: str) -> dict[str, float]:
        """Run a query over files to their end; figures are those of all batches but the first."""
        from skyband.spark import files as worker_files
        from skyband.spark import rank

        self.progress(name)
        frame = worker_files(self.spark, self.folder / files, files_per_batch=FILES_A_BATCH)
        self.runs += 1
        marks: list[tuple[float, float, int]] = []

        def sink(answers: Any, _: int) -> None:
            answers.write.format("noop").mode("append").save()
            marks.append((*self.spent(), self.shuffled()))

        writer = rank(frame, query).writeStream.foreachBatch(sink).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(self.folder / f"checkpoint{self.runs}"))
        stream = writer.start()
        stream.awaitTermination()
        seconds = [each.batchDuration / 1000 for each in stream.recentProgress][1:BATCHES]
        first, last = marks[0], marks[BATCHES - 1]
        driver, workers, shuffled = (
            (b - a) / (BATCHES - 1) for a, b in zip(first, last, strict=True)
        )
        return {
            "s per batch": sum(seconds) / len(seconds),
            "driver s": driver,
            "workers s": workers,
            "driver's share %": 100 * driver / (driver + workers),
            "MB shuffled per batch": shuffled / 1e6,
        }

    def spent(self) -> tuple[float, float]:
        """Processor seconds so far of the driver, and of the workers."""
        cluster = {pid for process in self.cluster.started for pid in below(process.pid)}
        workers = {pid for process in self.cluster.workers for pid in below(process.pid)}
        return processor_seconds(below(os.getpid()) - cluster), processor_seconds(workers)

    def shuffled(self) -> int:
        """Bytes that all executors have written for exchanges so far."""
        executors = self.spark.sparkContext._jsc.sc().statusStore().executorList(False)
        return sum(int(executors.apply(i).totalShuffleWrite()) for i in range(executors.size()))
