"""Jobs from a file, killed in the middle of batches: each sink still keeps its guarantee."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support import faulty, kills, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]

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
window = {{ size = 30, slide = 7, lateness = 5 }}

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


def rows_in(connection: Any, table: str) -> int:
    """Number of rows of a table; 0 if the table does not exist yet."""
    (found,) = connection.execute("SELECT to_regclass(%s)", [table]).fetchone()
    if found is None:
        return 0
    (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


def stored(dsn: str, table: str) -> pa.Table:
    """All rows of a table, under its own column names."""
    import psycopg

    with psycopg.connect(dsn) as connection:
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [column.name for column in cursor.description or ()]
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in cursor])


def after_writing(dsn: str, table: str) -> Callable[[], kills.Ready]:
    """Kill right after a batch was written, when Spark has most likely not committed it yet."""
    import psycopg

    def prepare() -> kills.Ready:
        with psycopg.connect(dsn, autocommit=True) as connection:
            known = rows_in(connection, table)

        def ready(process: subprocess.Popen[bytes]) -> bool:
            with psycopg.connect(dsn, autocommit=True) as connection:
                while process.poll() is None:
                    if rows_in(connection, table) > known:
                        return True
                    time.sleep(0.02)
            return False

        return ready

    return prepare


@pytest.mark.parametrize(
    ("shards", "changes", "times", "batches"),
    [
        (2, False, 2, 4),
        pytest.param(1, False, 20, 90, marks=pytest.mark.slow),
        pytest.param(2, True, 20, 90, marks=pytest.mark.slow),
    ],
)
def test_postgres_has_each_window_once(
    dsn: str, tmp_path: Path, shards: int, changes: bool, times: int, batches: int
) -> None:
    pytest.importorskip("typer", reason="the command line is an extra")
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    table = f"killed_{shards}_{int(changes)}"
    faulty.write_inputs(tmp_path, ["one"], batches)
    job, log = tmp_path / "job.toml", tmp_path / "log"
    job.write_text(JOB.format(shards=shards, changes=str(changes).lower(), table=table))

    def start(_: int) -> subprocess.Popen[bytes]:
        command = ("-m", "skyband", "pipeline", str(job))
        return kills.launch(log, *command, SKYBAND_TEST_DSN=dsn)

    written = after_writing(dsn, table)
    committed = kills.after_commit(tmp_path / "state", random.Random(times))
    ways = [committed if n % 4 == 1 else written for n in range(times)]
    assert kills.run_with_kills(log, start, ways) == times
    # Rows are judged late batch by batch, and a kill can make Spark take two files at once.
    made = faulty.batches_run(tmp_path / "state" / "answers", faulty.flows(batches))
    want, _ = spark_session.embedded(faulty.QUERY, made, changes=changes)
    assert want.num_rows > 5 * batches
    got = stored(dsn, table).select(want.column_names)
    assert spark_session.rows(got) == spark_session.rows(want)
    if times > 2:  # run once more with nothing new to read: nothing is written again
        assert kills.run_with_kills(log, start, []) == 0
        assert stored(dsn, table).num_rows == want.num_rows
