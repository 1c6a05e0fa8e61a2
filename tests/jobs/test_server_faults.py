"""PostgreSQL that goes away during a batch, and damaged checkpoints: nothing is lost."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs import parse_job
from support import faulty, postgres_server, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(3600)]


def job(folder: Path, sink: dict[str, Any]) -> Any:
    query = {"kind": "TopK", "k": 3, "score": "score", "id": "id", "time": "ts", "by": ["g"]}
    return parse_job(
        {
            "name": "best",
            "engine": "spark",
            "checkpoint": str(folder / "state"),
            "shards": 1,
            "source": {"kind": "files", "path": str(folder / "in-flows"), "files_per_batch": 1},
            "query": query | {"window": {"size": 30, "slide": 7, "lateness": 5}},
            "sink": sink,
            "trigger": {"once": True},
        }
    )


class Outages:
    """Stops the server before, in the middle of, and after the transaction of a batch, in turn."""

    def __init__(self, server: postgres_server.Server, times: int) -> None:
        self.server = server
        self.left = times
        self.down = False

    def stop(self) -> None:
        self.server.stop()
        self.left -= 1
        self.down = True

    def around(self, write: Callable[..., int], middle: Callable[..., None]) -> tuple[Any, Any]:
        """Versions of two methods of the sink that stop the server."""

        def write_tables(sink: Any, batch: int, tables: list[pa.Table]) -> int:
            if self.left and self.left % 3 == 0:
                self.stop()
            ends_after = self.left % 3 == 2
            written = write(sink, batch, tables)
            if self.left and ends_after and not self.down:
                self.stop()
            return written

        def remove(sink: Any, *given: Any) -> None:
            if self.left and self.left % 3 == 1 and not self.down:
                self.stop()
            middle(sink, *given)

        return write_tables, remove


@pytest.mark.parametrize(
    ("times", "batches"), [(2, 4), pytest.param(21, 30, marks=pytest.mark.slow)]
)
def test_postgres_is_stopped_and_started_again(
    spark: Any,
    postgres: postgres_server.Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    batches: int,
) -> None:
    import psycopg

    from skyband.jobs.sinks.postgres import PostgresSink
    from skyband.jobs.spark.run_job import run

    faulty.write_inputs(tmp_path, ["one"], batches)
    table = f"outage_{times}"
    told = job(tmp_path, {"kind": "postgres", "table": table, "dsn": postgres.address})
    outages = Outages(postgres, times)
    write, middle = outages.around(PostgresSink.write_tables, PostgresSink._remove)
    monkeypatch.setattr(PostgresSink, "write_tables", write)
    monkeypatch.setattr(PostgresSink, "_remove", middle)
    failures: list[str] = []
    while True:
        try:
            run(told, spark)
            break
        except sb.EngineError as problem:
            failures.append(str(problem))
        finally:
            if outages.down:
                postgres.resume()
                outages.down = False
    assert outages.left == 0
    assert len(failures) >= times // 2  # an outage after the last batch is noticed by nobody
    for told_of in failures:
        assert "PostgreSQL" in told_of or "could not write batch" in told_of
    made = faulty.batches_run(tmp_path / "state" / "answers", faulty.flows(batches))
    want, _ = spark_session.embedded(faulty.QUERY, made)
    with psycopg.connect(postgres.address) as connection:
        cursor = connection.execute(f"SELECT * FROM {table}")
        names = [column.name for column in cursor.description or ()]
        got = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in cursor])
    assert spark_session.rows(got.select(want.column_names)) == spark_session.rows(want)


Damage = Callable[[Path], None]


def nothing(path: Path) -> None:
    path.write_bytes(b"nothing")


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def spoil(folder: Path, damage: Damage, *patterns: str) -> None:
    """Damage files of a checkpoint, and remove their checksums."""
    found = [path for pattern in patterns for path in folder.rglob(pattern) if path.is_file()]
    assert found
    for path in found:
        damage(path)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


DAMAGES: list[tuple[Damage, tuple[str, ...]]] = [
    (nothing, ("answers/metadata",)),
    (nothing, ("answers/offsets/[0-9]*",)),
    (half, ("answers/commits/[0-9]*",)),
    (Path.unlink, ("answers/commits/[0-9]*",)),
    (half, ("answers/sources/0/[0-9]*",)),
    (nothing, ("answers/state/0/_metadata/v2/[0-9]*",)),
    (nothing, ("answers/state/0/_stateSchema/default/[0-9]*",)),
    (nothing, ("skyband.json",)),
    (nothing, ("*.zip", "*.changelog", "*.sst")),
]
"""``tests/spark/test_damage.py`` has more of them, without Spark."""


def test_a_damaged_checkpoint_says_what_to_do(spark: Any, tmp_path: Path) -> None:
    from skyband.jobs.spark.run_job import run

    batches = faulty.flows(3)
    spark_session.write_batches(tmp_path / "in-flows", batches[:2])
    told = job(tmp_path, {"kind": "files", "path": str(tmp_path / "out")})
    run(told, spark)
    spark_session.write_batches(tmp_path / "in-flows", batches)
    shutil.move(tmp_path / "state", tmp_path / "copy")
    for damage, patterns in DAMAGES:
        shutil.rmtree(tmp_path / "state", ignore_errors=True)
        shutil.copytree(tmp_path / "copy", tmp_path / "state")
        spoil(tmp_path / "state", damage, *patterns)
        with pytest.raises(sb.EngineError, match=r"damaged.*(copy|empty|new)") as problem:
            run(told, spark)
        assert "Traceback" not in str(problem.value)
    # As the message says: from a copy the job goes on.
    shutil.rmtree(tmp_path / "state")
    shutil.copytree(tmp_path / "copy", tmp_path / "state")
    run(told, spark)
    made = faulty.batches_run(tmp_path / "state" / "answers", batches)
    want, _ = spark_session.embedded(faulty.QUERY, made)
    got = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert spark_session.rows(got) == spark_session.rows(want)
