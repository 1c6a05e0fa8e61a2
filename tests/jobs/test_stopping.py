"""Ctrl-C and SIGTERM: a real job ends within seconds, and resumes from its checkpoint."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs.stopping import Stop
from support import spark_session

JOB = """
name = "endless"
checkpoint = "state"
master = "local[2]"
[source]
kind = "files"
path = "in"
[query]
kind = "TopK"
k = 2
score = "score"
id = "id"
time = "ts"
window = { size = 10 }
[sink]
kind = "files"
path = "out"
[spark]
"spark.ui.enabled" = false
"spark.python.daemon.module" = "skyband.spark.daemon"
"spark.sql.shuffle.partitions" = 1
"""


def table(start: int) -> pa.Table:
    times = list(range(start, start + 60))
    return pa.table({"ts": times, "id": [f"i{t}" for t in times], "score": [t % 7 for t in times]})


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_job_is_stopped_and_goes_on(tmp_path: Path) -> None:
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    (tmp_path / "job.toml").write_text(JOB)
    command = [sys.executable, "-m", "skyband", "pipeline", str(tmp_path / "job.toml")]
    tables: list[pa.Table] = []
    for number, sign in enumerate((signal.SIGTERM, signal.SIGINT)):
        tables.append(table(1_000 + 60 * number))
        spark_session.write_batches(tmp_path / "in", tables)
        with (tmp_path / "log").open("wb") as log:
            environment = spark_session.environment()
            process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
            try:
                end = 990 + 60 * (number + 1)
                while len(done := answered(tmp_path / "out")) == 0 or max(done) < end:
                    assert process.poll() is None, (tmp_path / "log").read_text()[-3000:]
                    time.sleep(0.2)
                before = (tmp_path / "log").stat().st_size
                begun = time.monotonic()
                process.send_signal(sign)
                assert process.wait(180) == 0
                took = time.monotonic() - begun
            finally:
                process.kill()
        told = (tmp_path / "log").read_text()[before:]
        assert "Traceback" not in told, told
        assert "Exception" not in told, told
        assert took < 60  # for a busy machine; it takes a second or two on an idle one
    query = sb.TopK(k=2, score="score", id="id", time="ts", window=sb.TimeWindow(10))
    want, _ = spark_session.embedded(query, tables)
    got = pa.concat_tables(
        pa.parquet.read_table(file) for file in sorted((tmp_path / "out").glob("*.parquet"))
    )
    assert spark_session.rows(got) == spark_session.rows(want)


def answered(folder: Path) -> set[int]:
    """The ends of the windows written to a folder."""
    import pyarrow.parquet as pq

    found: set[int] = set()
    for path in folder.glob("*.parquet"):
        found |= set(pq.read_table(path)["window_end"].to_pylist())
    return found


def test_signals() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Stop() as stop, pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)
    with Stop() as stop:
        stop.listen()
        assert not stop.asked()
        signal.raise_signal(signal.SIGTERM)
        assert stop.asked()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) is before
