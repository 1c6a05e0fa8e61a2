"""Spark Connect: rank, files, shards, changes and metrics in a session without a JVM of its own.

It runs in a process of its own, because a process has either kind of session, not both. Starting
a server takes more than ten seconds, so ``make slow`` runs it.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from support import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PROGRAM = """
import sys
from pathlib import Path
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
import skyband as sb
from skyband.spark import files, rank
from skyband.spark.metrics import Progress
from support import spark_session, streams

builder = SparkSession.builder.remote("local[2]")
for name, value in (spark_session.SETTINGS | spark_session.WARM).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
folder = Path(sys.argv[1])
stream = streams.stream(9, 200, batches=3, start=1_000)
spark_session.write_batches(folder / "in", stream.batches)
window = sb.TimeWindow(30, slide=10, lateness=3)
query = sb.TopK(k=2, score="score", id="id", time="ts", window=window, by=("g",))
frame = spark.read.parquet(str(folder / "in"))
want = spark_session.rows(sb.rank(pa.concat_tables(stream.batches), query))
assert spark_session.rows(rank(frame, query).toArrow()) == want
read = files(spark, folder / "in", streaming=False)
assert spark_session.rows(rank(read, query, shards=2).toArrow()) == want
live = spark_session.read_stream(spark, folder / "in", frame.schema)
marked = live.withColumn("at", live.ts.cast("timestamp")).withWatermark("at", "1 second")
with pytest.raises(sb.EngineError, match="already has a watermark"):
    rank(marked, query)
progress = Progress()
spark.streams.addListener(progress)
answers = rank(files(spark, folder / "in", files_per_batch=1), query, shards=2, changes=True)
writer = answers.writeStream.format("parquet").option("path", str(folder / "out"))
writer = writer.option("checkpointLocation", str(folder / "state")).queryName("best")
started = writer.outputMode("append").start()
started.processAllAvailable()
started.stop()
got = spark_session.rows(spark.read.parquet(str(folder / "out")).toArrow())
wanted, stats = spark_session.embedded(query, stream.batches, changes=True)
assert got == spark_session.rows(wanted)
assert progress.snapshot()["best"]["rows_in"] == stats["rows_in"]
print("all of it")
"""  # the listener is left registered: the process has to exit all the same


def test_in_a_process_of_its_own(tmp_path: Path) -> None:
    reason = spark_session.missing()
    if reason is None and importlib.util.find_spec("grpc") is None:
        reason = "grpcio is not installed (pyspark[connect])"
    if reason:
        pytest.skip(reason)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path)],
        env=spark_session.environment(),
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("all of it\n", 0), done.stderr[-3_000:]
    assert "StreamingQueryListenerBus" not in done.stderr
