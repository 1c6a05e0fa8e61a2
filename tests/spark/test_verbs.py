"""The commands on Spark: what they write, and what is refused before a job starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from support import spark_session, streams

pytest.importorskip("typer")

from support.command_line import TIMED, bad, good, table

pytestmark = pytest.mark.spark
SQL = (
    "SELECT window_end, id, score FROM HOP(TABLE rows, DESCRIPTOR(ts), 10, 30) QUALIFY "
    "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY score DESC) <= 2"
)
WINDOW = ("--time", "ts", "--window", "30", "--slide", "10")
CSV = ("--format", "csv")


@pytest.fixture
def shared(spark: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str | None]]:
    """Run commands in the tests' session, in the time zone they ask for; gives their masters."""
    zone = "spark.sql.session.timeZone"
    before = spark.conf.get(zone)
    masters: list[str | None] = []

    def session(master: str | None = None, name: str = "skyband", **settings: Any) -> Any:
        masters.append(master)
        spark.conf.set(zone, settings.get(zone, before))
        return spark_session.Kept(spark)

    monkeypatch.setattr("skyband.spark.session", session)
    yield masters
    spark.conf.set(zone, before)


def written(folder: Path, **tables: pa.Table) -> dict[str, Path]:
    paths = {name: folder / f"{name}.parquet" for name in tables}
    for name, path in paths.items():
        pq.write_table(tables[name], path)
    return paths


def commands(folder: Path) -> list[tuple[object, ...]]:
    """One command of every verb."""
    rows = streams.stream(3, 150, step=3, groups=3).table
    made = streams.reports(3, 150, size=30, streams=("a", "b")).table
    both = streams.two_sides(3, 80)
    sides = {name: each.table for name, each in both.items()}
    paths = written(folder, rows=rows, reports=made, **sides)
    scored = ("--score", "score", "--id", "id")
    return [
        ("topk", paths["rows"], "-k", 2, *scored, "--by", "g", *WINDOW),
        ("heavy-hitters", paths["rows"], "-k", 3, "--item", "item", *WINDOW),
        ("uncertain", paths["rows"], "-k", 2, *scored, "--probability", "p", *WINDOW),
        (
            *("fused", paths["reports"], "-k", 2, "--id", "object", "--stream", "stream"),
            *("--value", "value", "--streams", "a,b", *WINDOW),
        ),
        ("skyline", paths["rows"], "--prefer", "price=min,volume=max", "--id", "id", *WINDOW),
        (
            *("skyline-join", f"trades={paths['trades']}", f"risks={paths['risks']}"),
            *("--left", "trades", "--right", "risks", "--on", "stock"),
            *("--prefer", "price=min,risk=max", *WINDOW),
        ),
        ("sql", SQL, paths["rows"]),
    ]


def test_every_verb_writes_what_the_embedded_engine_writes(
    shared: list[str | None], tmp_path: Path
) -> None:
    import typer

    from skyband.cli.app import app

    asked = commands(tmp_path)
    group: Any = typer.main.get_command(app)
    verbs = set(group.commands)
    others = {"demo", "pipeline", "state", "bench", "reproduce"}
    others |= {"board", "check", "explain", "init", "serve", "warm"}
    assert {command[0] for command in asked} == verbs - others
    for command in asked:
        want = good(*command, *CSV)
        assert want.count("\n") > 1, command
        assert good(*command, *CSV, "--engine", "spark", "--master", "local[2]") == want
    assert shared == ["local[2]"] * len(asked)


def test_state_shows_buckets_and_shards(
    shared: list[str | None], spark: Any, tmp_path: Path
) -> None:
    from skyband.spark import rank

    stream = streams.stream(3, 200, step=4, batches=2, groups=6, start=1_000)
    window = sb.TimeWindow(40, slide=10)
    query = sb.TopK(k=2, score="score", id="id", time="ts", by=("g",), window=window)
    frame = spark_session.stream_of(spark, tmp_path / "in", stream.batches)
    spark_session.collect(rank(frame, query, shards=2), tmp_path)
    told = good("state", tmp_path / "checkpoint", "--format", "json")
    rows = [json.loads(line) for line in told.splitlines()]
    assert {row["shard"] for row in rows} == {0, 1}
    assert len({row["bucket"] for row in rows}) > 1
    assert all(row["panes"] > 0 and row["retained"] > 0 for row in rows)
    assert {row["algorithm"] for row in rows} == {"skyband"}
    assert "checkpointLocation" in bad("state", tmp_path / "in")


def test_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (flows,) = written(tmp_path, flows=table()).values()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    line = bad("topk", flows, *TIMED, "--engine", "spark")
    assert "install Java 17" in line
    assert "JAVA_HOME" in line


@pytest.mark.parametrize(
    ("module", "package"), [("pandas", "pandas"), ("google.protobuf", "proto")]
)
def test_without_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, package: str
) -> None:
    (flows,) = written(tmp_path, flows=table()).values()
    monkeypatch.setitem(sys.modules, module, None)
    line = bad("topk", flows, *TIMED, "--engine", "spark")
    assert package in line
    assert "pip install 'skyband[spark]'" in line


def other_python() -> str | None:
    """An interpreter of another minor version, if there is one."""
    import shutil

    mine = f"python3.{sys.version_info.minor}"
    names = (f"python3.{minor}" for minor in range(9, 16))
    return next((found for n in names if n != mine and (found := shutil.which(n))), None)


@pytest.mark.slow
@pytest.mark.parametrize("python", ["/nowhere/python", other_python()])
def test_the_wrong_python_on_the_workers(tmp_path: Path, python: str | None) -> None:
    if python is None:
        pytest.skip("no interpreter of another version is installed")
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    (flows,) = written(tmp_path, flows=table()).values()
    path = os.pathsep.join(p for p in sys.path if p)
    on_spark = ("--engine", "spark", "--master", "local[1]")
    done = subprocess.run(
        [sys.executable, "-m", "skyband", "topk", str(flows), *map(str, TIMED), *on_spark],
        env=os.environ | {"PYTHONPATH": path, "PYSPARK_PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "PYSPARK_PYTHON" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
