"""Spark Connect: batch, streaming, changes, shards, boards and metrics in a remote session.

All of it runs in one process of its own, because a process has either kind of session, not both,
and starting a server takes more than ten seconds.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from support import spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
PROGRAM = """
import sys
from pathlib import Path
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
import skyband as sb
from skyband.spark import files, rank, split
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
often = sb.HeavyHitters(k=2, item="id", time="ts", window=window)
board = {"best": query, "often": often}
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
both = rank(files(spark, folder / "in", files_per_batch=1), board)
writer = both.writeStream.format("parquet").option("path", str(folder / "both"))
writer = writer.option("checkpointLocation", str(folder / "board")).queryName("board")
together = writer.outputMode("append").start()
for stream_query in (started, together):
    stream_query.processAllAvailable()
    stream_query.stop()
tables = split(spark.read.parquet(str(folder / "both")), board)
for name, asked in board.items():
    told, _ = spark_session.embedded(asked, stream.batches)
    assert spark_session.rows(tables[name].toArrow()) == spark_session.rows(told), name
got = spark_session.rows(spark.read.parquet(str(folder / "out")).toArrow())
wanted, stats = spark_session.embedded(query, stream.batches, changes=True)
assert got == spark_session.rows(wanted)
for name in ("best", "board"):
    assert progress.snapshot()[name]["rows_in"] == stats["rows_in"], name
print("all of it")
"""  # the listener is left registered: the process has to exit all the same


def test_in_a_process_of_its_own(tmp_path: Path) -> None:
    reason = spark_session.missing()
    if reason is None and importlib.util.find_spec("grpc") is None:
        reason = "grpcio is not installed (the connect extra)"
    if reason:
        pytest.skip(reason)
    (tmp_path / "program.py").write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), str(tmp_path)],
        env=spark_session.environment(),
        capture_output=True,
        text=True,
        timeout=1_500,  # on a busy machine; half a minute otherwise
        check=False,
    )
    assert (done.stdout, done.returncode) == ("all of it\n", 0), done.stderr[-3_000:]
    assert "StreamingQueryListenerBus" not in done.stderr
