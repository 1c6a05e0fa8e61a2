"""Jobs from a file, killed in the middle of batches: each sink still keeps its guarantee.

``test_stopping.py`` has a short form.
"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from skyband.answers.tables import last_revisions
from support import faulty, kills, postgres_server, spark_session

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(3600)]

JOB = """
name = "best"
checkpoint = "state"
shards = {shards}
changes = {changes}
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
window = {{ size = 30, slide = 7, lateness = 5{revise} }}

[sink]
kind = "postgres"
table = "{table}"
dsn_env = "SKYBAND_TEST_DSN"

[trigger]
once = true

[spark]
"spark.sql.shuffle.partitions" = 1
"spark.python.daemon.module" = "skyband.spark.daemon"
"spark.ui.enabled" = false
"spark.python.authenticate.socketTimeout" = "120s"
"""


def after_writing(dsn: str, table: str) -> Callable[[], kills.Ready]:
    """Kill right after a batch was written, when Spark has most likely not committed it yet."""

    def prepare() -> kills.Ready:
        known = postgres_server.rows_in(dsn, table)
        return lambda process: kills.wait_until(
            process, lambda: postgres_server.rows_in(dsn, table) > known
        )

    return prepare


@pytest.mark.parametrize(
    ("shards", "changes", "times", "batches", "revise"),
    [(1, False, 20, 90, None), (2, True, 20, 90, None), (1, False, 4, 16, 100)],
)
def test_postgres_has_each_window_once(
    dsn: str,
    tmp_path: Path,
    shards: int,
    changes: bool,
    times: int,
    batches: int,
    revise: int | None,
) -> None:
    """And, if late rows correct windows, each in its last revision."""
    pytest.importorskip("typer", reason="the command line is an extra")
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    table = f"killed_{shards}_{int(changes)}_{revise}"
    faulty.write_inputs(tmp_path, ["one"], batches)
    job, log = tmp_path / "job.toml", tmp_path / "log"
    told = {"shards": shards, "changes": str(changes).lower(), "table": table}
    job.write_text(JOB.format(**told, revise=f", revise = {revise}" if revise else ""))

    def start(_: int) -> subprocess.Popen[bytes]:
        command = ("-m", "skyband", "pipeline", str(job))
        return kills.launch(log, *command, SKYBAND_TEST_DSN=dsn)

    written = after_writing(dsn, table)
    committed = kills.after_commit(tmp_path / "state", random.Random(times))
    ways = [committed if n % 4 == 1 else written for n in range(times)]
    assert kills.run_with_kills(log, start, ways) == times
    # Rows are judged late batch by batch, and a kill can make Spark take two files at once.
    made = faulty.batches_run(tmp_path / "state" / "answers", faulty.flows(batches))
    query = replace(faulty.QUERY, window=replace(faulty.WINDOW, revise=revise))
    want, _ = spark_session.embedded(query, made, changes=changes)
    want = last_revisions(want) if revise else want
    assert want.num_rows > 5 * batches
    got = postgres_server.stored(dsn, table).select(want.column_names)
    assert spark_session.rows(got) == spark_session.rows(want)
    # Run once more with nothing new to read: nothing is written again.
    assert kills.run_with_kills(log, start, []) == 0
    assert postgres_server.stored(dsn, table).num_rows == want.num_rows
