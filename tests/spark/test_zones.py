"""Times without a zone count as UTC, whatever the zone of the host or of the session.

The tests' session is in America/Sao_Paulo, three hours behind: a time read in its zone falls into
another window.
"""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_session

pytestmark = pytest.mark.spark
ZONE = "America/Sao_Paulo"
START = datetime(2024, 11, 2, 21, 0)  # without a zone on purpose
JOB = """
name = "zones"
checkpoint = "state"
master = "local[1]"

[sources.a]
kind = "files"
path = "a"
format = "csv"
schema = "ts timestamp, car string, v double"
options = { header = true }

[sources.b]
kind = "files"
path = "b"
format = "json"
schema = "ts timestamp, car string, v double"

[sources.c]
kind = "files"
path = "c"
format = "text"
columns.ts = "to_timestamp(split(value, ';')[0])"
columns.car = "split(value, ';')[1]"
columns.v = "double(split(value, ';')[2])"

[query]
kind = "FusedTopK"
k = 2
id = "car"
value = "v"
time = "ts"
streams = ["a", "b", "c"]
bounds = [0.0, 100.0]
window = { size = "20 minutes", slide = "10 minutes" }

[sink]
kind = "files"
path = "out"

[trigger]
once = true

[spark]
"spark.sql.session.timeZone" = "America/Sao_Paulo"
"spark.sql.shuffle.partitions" = 1
"spark.python.daemon.module" = "skyband.spark.daemon"
"spark.ui.enabled" = false
"""


def reports(stream: str) -> pa.Table:
    """One report per minute for three and a half hours, with times without a zone."""
    rows = range(210)
    seed = ord(stream)
    return pa.table(
        {
            "ts": pa.array([START + timedelta(minutes=n) for n in rows], pa.timestamp("us")),
            "car": [f"{stream}{n % 30}" if n % 3 else f"car{n % 30}" for n in rows],
            "v": [float(n * seed % 97) for n in rows],
        }
    )


def written(folder: Path) -> dict[str, pa.Table]:
    """Write the three sources of the job as files, one in each format."""
    tables = {name: reports(name) for name in "abc"}
    lines: dict[str, list[str]] = {"a": ["ts,car,v"], "b": [], "c": []}
    shapes = {"a": "{0:%Y-%m-%d %H:%M:%S},{1},{2}", "c": "{0:%Y-%m-%d %H:%M:%S};{1};{2}"}
    shapes["b"] = '{{"ts": "{0:%Y-%m-%dT%H:%M:%S}", "car": "{1}", "v": {2}}}'
    for name, table in tables.items():
        lines[name] += [shapes[name].format(*row.values()) for row in table.to_pylist()]
        (folder / name).mkdir()
        (folder / name / f"rows.{name}").write_text("\n".join(lines[name]) + "\n")
    (folder / "job.toml").write_text(JOB)
    return tables


def in_utc(table: pa.Table) -> list[dict[str, Any]]:
    """Rows with window edges in UTC, whether they have a zone or not."""
    for at, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            moment = table.column(at).cast(pa.timestamp("us", tz=field.type.tz)).cast(pa.int64())
            table = table.set_column(at, field.name, moment.cast(pa.timestamp("us", tz="UTC")))
    return spark_session.rows(table)


def check(spark: Any, folder: Path, tables: dict[str, pa.Table]) -> None:
    from skyband.jobs import load_job

    (query,) = load_job(folder / "job.toml").queries.values()
    want, _ = spark_session.embedded(query, [tables])
    got = spark.read.parquet(str(folder / "out")).toArrow()
    assert want.num_rows > 20
    assert in_utc(got) == in_utc(want)
    first = START.replace(tzinfo=UTC) + timedelta(minutes=10)
    assert min(row["window_end"] for row in in_utc(got)) == int(first.timestamp() * 1e6)


def test_a_job_in_a_session_of_another_zone(spark: Any, tmp_path: Path) -> None:
    from skyband.jobs import load_job
    from skyband.jobs.spark.run_job import run

    assert spark.conf.get("spark.sql.session.timeZone") == ZONE
    tables = written(tmp_path)
    run(load_job(tmp_path / "job.toml"), spark)
    check(spark, tmp_path, tables)
    assert spark.conf.get("spark.sql.session.timeZone") == ZONE


@pytest.mark.timeout(1800)
def test_a_job_on_a_host_of_another_zone(spark: Any, tmp_path: Path) -> None:
    pytest.importorskip("typer", reason="the command line is an extra")
    tables = written(tmp_path)
    assert ZONE in JOB
    job = "\n".join(line for line in JOB.splitlines() if ZONE not in line)
    (tmp_path / "job.toml").write_text(job)
    done = subprocess.run(
        [sys.executable, "-m", "skyband", "pipeline", str(tmp_path / "job.toml")],
        env=spark_session.environment(TZ=ZONE),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    check(spark, tmp_path, tables)


def test_columns_with_and_without_a_zone(spark: Any, tmp_path: Path) -> None:
    """One side has timestamps without a zone, the other with one; batch and stream."""
    from skyband.spark import rank

    naive = reports("a")
    zoned = naive.set_column(0, "ts", naive["ts"].cast(pa.timestamp("us", tz="UTC")))
    sides = {
        "a": [naive.slice(0, 100), naive.slice(100)],
        "b": [zoned.slice(0, 90), zoned.slice(90)],
    }
    window = sb.TimeWindow("20 minutes", slide="10 minutes")
    query = sb.FusedTopK(
        k=2, id="car", value="v", time="ts", streams=("a", "b"), bounds=(0.0, 100.0), window=window
    )
    frames = {
        name: spark_session.stream_of(spark, tmp_path / name, tables)
        for name, tables in sides.items()
    }
    kinds = {name: dict(frame.dtypes)["ts"] for name, frame in frames.items()}
    assert kinds == {"a": "timestamp_ntz", "b": "timestamp"}
    pushes = [dict(zip(sides, tables, strict=True)) for tables in zip(*sides.values(), strict=True)]
    want, _ = spark_session.embedded(query, pushes)
    got, _ = spark_session.collect(rank(frames, query), tmp_path)
    assert want.num_rows > 20
    assert in_utc(got) == in_utc(want)
    batch = {name: spark.read.parquet(str(tmp_path / name)) for name in sides}
    whole = {name: pa.concat_tables(tables) for name, tables in sides.items()}
    assert in_utc(rank(batch, query).toArrow()) == in_utc(sb.rank(whole, query))


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_verbs_read_text_as_utc(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """In the tests' session, with the settings that the command line asks for."""
    pytest.importorskip("typer", reason="the command line is an extra")
    from support.command_line import good

    before: dict[str, str] = {}

    def session(master: str | None = None, name: str = "skyband", **settings: Any) -> Any:
        for key in [key for key in settings if key.startswith("spark.sql.")]:
            before[key] = spark.conf.get(key)
            spark.conf.set(key, settings[key])
        return spark_session.Kept(spark)

    monkeypatch.setattr("skyband.spark.session", session)
    written(tmp_path)
    (source,) = (tmp_path / {"csv": "a", "json": "b"}[kind]).iterdir()
    path = source.rename(tmp_path / f"rows.{kind}")
    window = ("--time", "ts", "--window", "20 minutes", "--slide", "10 minutes")
    command = ("topk", path, "-k", 2, "--score", "v", "--id", "car", *window, "--format", "csv")
    want = good(*command)
    assert want.count("\n") > 20
    try:
        got = good(*command, "--engine", "spark", "--master", "local[2]")
        # Spark reads times in microseconds; pyarrow reads whole seconds as seconds.
        assert got.replace(".000000", "") == want.replace(".000000", "")
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)
    assert before["spark.sql.session.timeZone"] == ZONE


def test_dates(spark: Any) -> None:
    from skyband.spark import rank

    days = pa.table(
        {"day": [datetime(2024, 11, n).date() for n in range(1, 6)], "x": [1, 5, 3, 2, 4]}
    )
    for zone in (None, ZONE):
        window = sb.TimeWindow("2 days", slide="1 day", zone=zone)
        query = sb.TopK(k=1, score="x", time="day", window=window)
        want = sb.rank(days, query)
        assert want.num_rows == 5
        assert in_utc(rank(spark.createDataFrame(days), query).toArrow()) == in_utc(want)
