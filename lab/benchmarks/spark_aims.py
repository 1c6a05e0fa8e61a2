"""The figures that Spark's users care about, each beside its aim: one table, in one run.

Files are read by the workers (``skyband.spark.files``) in batches of 20 million rows; the first
batch pays for starting and is left out. JSON records are the values that a Kafka topic of four
partitions would hold, in batches of four million, read from Parquet files instead of a broker; what
Spark's Kafka client costs is not in it. A row with an aim in seconds is better if it is smaller.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lab.benchmarks.spark_cases import HOUR, flows, queries, ranking
from lab.benchmarks.spark_growth import grouped

if TYPE_CHECKING:
    from lab.benchmarks.spark import Benchmark
    from lab.benchmarks.spark_told import Told

GROUP = "Figures to reach"
BATCH_ROWS = 20_000_000
BATCHES = 4
FILES_A_BATCH = 8
RECORDS, RECORD_BATCHES, TOPIC = 4_000_000, 2, 4
SMALL_ROWS, SMALL_BATCHES = 1_000, 12
JOB = """
name = "best"
engine = "spark"
checkpoint = "state"
source = { kind = "files", path = "in" }
[query]
kind = "TopK"
k = 10
score = "bytes"
id = "key"
time = "ts"
window = { size = "10 minutes", slide = "1 minute" }
[sink]
kind = "files"
path = "out"
"""


def aims(
    bench: Benchmark, native: Told, fused: Told, large: dict[str, Told]
) -> Iterator[dict[str, Any]]:
    """One row per figure; ``native`` is Spark's own count over the same kind of rows.

    What was measured in large batches, and with many groups, is put into ``large``.
    """
    from skyband.spark import rank

    scale = bench.rows / 10_000_000
    big = large_files(bench, max(200_000, int(BATCH_ROWS * scale)))
    for name, aim in (("score top-k", 12), ("count top-k", 8)):
        bench.progress(f"{name}, large batches")
        large[name] = bench.told(rank(bench.files(big, FILES_A_BATCH), queries()[name]))
        yield row(f"{name} from Parquet, M rows/s", large[name].mega, aim)
    ratio = large["count top-k"].speed / native.speed
    yield row("count top-k, times Spark's own groupBy and row_number", ratio, 100)
    records = json_files(bench, max(50_000, int(RECORDS * scale)))
    bench.progress("JSON records")
    told = bench.told(rank(bench.records(records, TOPIC), queries()["count top-k"]))
    yield row("JSON records, count top-k, M records/s", told.mega, 1.2)
    name = "score top-k of 100,000 groups"
    many = bench.measure(name, ("flows",), ranking(grouped(100_000)), files=2, upto=8)
    large[name] = many
    yield row("100,000 groups, a batch of 1 M rows, s", many.batch_seconds, 2)
    yield row("untuned job over three small files, first answer, s", first_answer(bench), 25)
    yield row("a small batch, steady, s", small_batch(bench), 1)
    yield row("fused top-k, M rows/s", fused.mega, 3)


def row(case: str, value: float, aim: float) -> dict[str, Any]:
    return {"group": GROUP, "case": case, "measured": value, "aim": aim}


def large_files(bench: Benchmark, rows: int) -> Path:
    """Some hours of flows, one batch each, in large files."""
    bench.progress("writing large files")
    folder = bench.folder / "large"
    folder.mkdir()
    table = flows(rows, seed=10, groups=()).select(["ts", "key", "bytes"])
    moments = table["ts"].cast(pa.int64()).to_numpy()
    for batch in range(BATCHES):
        later = pa.array(moments + batch * HOUR).cast(table.schema.field("ts").type)
        table = table.set_column(0, "ts", later)
        size = -(-rows // FILES_A_BATCH)
        for number in range(FILES_A_BATCH):
            path = folder / f"{batch}-{number}.parquet"
            part = table.slice(number * size, size)
            pq.write_table(part, path, row_group_size=1 << 19, compression="snappy")
            os.utime(path, (1_000_000_000 + batch * FILES_A_BATCH + number,) * 2)
    return folder


def json_files(bench: Benchmark, records: int) -> Path:
    """JSON records as bytes; a batch has one file for each partition of a topic."""
    bench.progress("writing JSON records")
    folder = bench.folder / "json"
    folder.mkdir()
    table = flows(records * RECORD_BATCHES, seed=3, groups=())
    times = pa.compute.strftime(table["ts"], "%Y-%m-%dT%H:%M:%SZ").combine_chunks()
    keys = table["key"].cast(pa.string()).combine_chunks()
    pieces = ['{"ts": "', times, '", "key": ', keys, "}"]
    values = pa.compute.binary_join_element_wise(*pieces, "").cast(pa.binary())
    assert json.loads(values[0].as_py())
    for batch in range(RECORD_BATCHES):
        mine = values.slice(batch * records, records)
        for number in range(TOPIC):
            path = folder / f"{batch}-{number}.parquet"
            part = pa.array(range(number, len(mine), TOPIC))
            pq.write_table(pa.table({"value": mine.take(part)}), path)
            os.utime(path, (1_000_000_000 + batch * TOPIC + number,) * 2)
    return folder


def first_answer(bench: Benchmark) -> float:
    """Seconds from starting an untuned job to its first answer, Spark's start included."""
    bench.progress("an untuned job")
    folder = bench.folder / "job"
    (folder / "in").mkdir(parents=True)
    table = flows(30_000).select(["ts", "key", "bytes"])
    for number in range(3):
        pq.write_table(table.slice(number * 10_000, 10_000), folder / "in" / f"{number}.parquet")
    (folder / "job.toml").write_text(JOB)
    command = [sys.executable, "-m", "skyband", "pipeline", "job.toml", "--master", "local[2]"]
    path = os.pathsep.join(p for p in sys.path if p)
    began = time.monotonic()
    job = subprocess.Popen(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": path}, stderr=subprocess.DEVNULL
    )
    try:
        while not list(folder.glob("out/*.parquet")) and time.monotonic() - began < 300:
            if job.poll() is not None:
                return float("nan")
            time.sleep(0.05)
        return time.monotonic() - began
    finally:
        job.terminate()
        job.wait(60)


def small_batch(bench: Benchmark) -> float:
    """The median seconds of a batch of some rows, after the first third."""
    from skyband.spark import rank
    from skyband.spark.sessions import PARTITIONS, partitions_for

    bench.progress("small batches")
    folder = bench.folder / "small"
    folder.mkdir()
    table = flows(SMALL_ROWS * SMALL_BATCHES).select(["ts", "key", "bytes"])
    for number in range(SMALL_BATCHES):
        path = folder / f"{number:02}.parquet"
        pq.write_table(table.slice(number * SMALL_ROWS, SMALL_ROWS), path)
        os.utime(path, (1_000_000_000 + number,) * 2)
    answers = rank(bench.files(folder, 1), queries()["score top-k"])
    before = bench.spark.conf.get(PARTITIONS)
    bench.spark.conf.set(PARTITIONS, partitions_for(1, "local[2]"))  # as a job of this query has it
    try:
        seconds = [each.batchDuration / 1000 for each in bench.finished(answers).recentProgress]
    finally:
        bench.spark.conf.set(PARTITIONS, before)
    return float(np.median(seconds[len(seconds) // 3 :]))
