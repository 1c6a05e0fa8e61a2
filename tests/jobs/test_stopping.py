"""A real job that is killed, or stopped within seconds, resumes from its checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from skyband.jobs import load_job
from skyband.jobs.report import Report
from skyband.jobs.stopping import Stop
from support import faulty, kills, postgres_server, spark_session

JOB = """
name = "best"
checkpoint = "state"
shards = 2
master = "local[2]"
[source]
kind = "files"
path = "in-flows"
files_per_batch = 1
[query]
kind = "TopK"
k = 3
score = "score"
id = "id"
time = "ts"
by = ["g"]
window = { size = 30, slide = 7, lateness = 5 }
[sink]
SINK
[spark]
"spark.ui.enabled" = false
"spark.python.daemon.module" = "skyband.spark.daemon"
"spark.sql.shuffle.partitions" = 1
"""
TO_POSTGRES = 'kind = "postgres"\ntable = "stopped"\ndsn_env = "SKYBAND_TEST_DSN"'
TO_FILES = 'kind = "files"\npath = "out"'


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str | None:
    """The address of a PostgreSQL server, if there is one."""
    try:
        return str(request.getfixturevalue("dsn"))
    except pytest.skip.Exception:
        return None


@pytest.mark.spark
@pytest.mark.timeout(3600)
def test_a_job_is_killed_then_stopped_and_goes_on(tmp_path: Path, address: str | None) -> None:
    """Killed between its write and Spark's commit, then ended by Ctrl-C, which Spark listens to.

    The answers go to PostgreSQL; where there is none, to files.
    """
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    job, log, state = tmp_path / "job.toml", tmp_path / "log", tmp_path / "state" / "answers"
    job.write_text(JOB.replace("SINK", TO_POSTGRES if address else TO_FILES))
    batches = faulty.flows(4)

    def launch() -> subprocess.Popen[bytes]:
        command = ("-m", "skyband", "pipeline", str(job))
        return kills.launch(log, *command, SKYBAND_TEST_DSN=address or "")

    def answers() -> pa.Table:
        if address:
            return postgres_server.stored(address, "stopped")
        files = sorted((tmp_path / "out").glob("*.parquet"))
        return pa.concat_tables([pa.parquet.read_table(file) for file in files])

    def wrote() -> bool:
        if address:
            return postgres_server.rows_in(address, "stopped") > 0
        return any((tmp_path / "out").glob("*.parquet"))

    def wanted() -> pa.Table:
        # Rows are judged late batch by batch, and a kill can make Spark take two files at once.
        return spark_session.embedded(faulty.QUERY, faulty.batches_run(state, batches))[0]

    def answered() -> bool:
        """Whether all batches have been committed, and so have their last windows."""
        planned = list((state / "offsets").glob("[0-9]*"))
        if len(planned) > kills.commits(state) or not planned:
            return False
        made = faulty.batches_run(state, batches)
        if sum(map(len, made)) < sum(map(len, batches)):
            return False
        return bool(answers().num_rows >= wanted().num_rows)

    spark_session.write_batches(tmp_path / "in-flows", batches[:2])
    process = launch()
    assert kills.wait_until(process, wrote), log.read_text()[-3000:]
    kills.kill(process)
    spark_session.write_batches(tmp_path / "in-flows", batches)
    process = launch()
    try:
        assert kills.wait_until(process, answered), log.read_text()[-3000:]
        before, begun = log.stat().st_size, time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(180) == 0
        took = time.monotonic() - begun
    finally:
        kills.kill(process)
    told = log.read_text()[before:]
    assert "Traceback" not in told, told
    assert "Exception" not in told, told
    assert took < 60  # for a busy machine; it takes a second or two on an idle one
    want = wanted()
    assert want.num_rows > 20
    assert spark_session.rows(answers().select(want.column_names)) == spark_session.rows(want)


@pytest.mark.spark
def test_a_job_in_a_session_is_stopped_by_sigterm(spark: Any, tmp_path: Path) -> None:
    """It ends while it waits for more files; a process of its own is ended by Ctrl-C above."""
    from skyband.jobs.spark.run_job import run

    batches, sent = faulty.flows(2), list[Report]()
    want, _ = spark_session.embedded(faulty.QUERY, batches)
    spark_session.write_batches(tmp_path / "in-flows", batches)
    (tmp_path / "job.toml").write_text(JOB.replace("SINK", TO_FILES).replace("shards = 2", ""))

    def answers() -> pa.Table:
        files = sorted((tmp_path / "out").glob("*.parquet"))
        return pa.concat_tables([pa.parquet.read_table(file) for file in files])

    def tell(report: Report) -> None:
        if report.windows and not sent and answers().num_rows >= want.num_rows:
            sent.append(report)
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    run(load_job(tmp_path / "job.toml"), spark, tell)
    assert len(sent) == 1
    assert signal.getsignal(signal.SIGTERM) is before
    assert not spark.streams.active
    assert spark_session.rows(answers().select(want.column_names)) == spark_session.rows(want)


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
