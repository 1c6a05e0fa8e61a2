"""Tables as sinks: whole windows are replaced, and the current form keeps the newest window."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.data.ipc import table_to_bytes
from skyband.jobs import parse_job
from skyband.jobs.job import JobSection
from skyband.jobs.sinks.base import SinkTarget

SCHEMA = pa.schema(
    [
        ("window_start", pa.timestamp("us")),
        ("window_end", pa.timestamp("us")),
        ("rank", pa.int32()),
        ("it's", pa.string()),
    ]
)


def answers(*windows: tuple[int, str]) -> pa.Table:
    """One row per letter of each window that ends at this hour."""
    rows = [
        {
            "window_start": datetime(2026, 11, 16, hour - 1),
            "window_end": datetime(2026, 11, 16, hour),
            "rank": rank,
            "it's": item,
        }
        for hour, items in windows
        for rank, item in enumerate(items, 1)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


@pytest.fixture
def name(spark: Any) -> Iterator[str]:
    chosen = f"answers_{uuid.uuid4().hex}"
    yield chosen
    spark.sql(f"DROP TABLE IF EXISTS {chosen}")


def write(spark: Any, sink: Any, batch: int, table: pa.Table) -> None:
    from skyband.jobs.spark.batches import SparkRows

    blob = table_to_bytes(table)
    frame = spark.createDataFrame([(blob, None)], "payload binary, letters binary")
    size = len(blob) if table.num_rows else 0
    sink.write(batch, SparkRows(frame, "payload", table.schema, size))


def shown(spark: Any, name: str) -> dict[int, str]:
    """The items of each window in the order of their ranks, by the hour at which it ends."""
    found = spark.table(name).orderBy("window_end", "rank").toArrow()
    assert found.schema.field("window_end").type == pa.timestamp("us")
    windows: dict[int, str] = {}
    for row in found.to_pylist():
        windows[row["window_end"].hour] = windows.get(row["window_end"].hour, "") + row["it's"]
    return windows


@pytest.mark.spark
def test_windows_are_replaced(spark: Any, tmp_path: Path, name: str) -> None:
    from skyband.jobs.sinks.on_spark import Table

    section = JobSection("table", {"table": name, "path": str(tmp_path / "data")})
    sink = Table(SinkTarget(section, query="busiest"))
    sink.open("run")
    write(spark, sink, 0, answers((10, "ab"), (11, "cd")))
    write(spark, sink, 1, answers((12, "ef")))
    assert shown(spark, name) == {10: "ab", 11: "cd", 12: "ef"}
    write(spark, sink, 1, answers((12, "ef")))  # the batch is repeated
    write(spark, sink, 2, answers())
    assert shown(spark, name) == {10: "ab", 11: "cd", 12: "ef"}
    # A newer run over corrected rows, in a session whose catalog has forgotten the table.
    spark.sql(f"DROP TABLE {name}")
    again = Table(SinkTarget(section, query="busiest"))
    again.open("another run")
    write(spark, again, 0, answers((11, "x")))
    assert shown(spark, name) == {10: "ab", 11: "x", 12: "ef"}
    assert spark.conf.get("spark.sql.sources.partitionOverwriteMode").lower() == "static"
    with pytest.raises(sb.EngineError, match=r"belongs to 'busiest'; give another table"):
        write(spark, Table(SinkTarget(section, query="other")), 0, answers((11, "x")))
    current = JobSection("table", {**section.settings, "current": True})
    with pytest.raises(sb.EngineError, match=r"made with current = false"):
        write(spark, Table(SinkTarget(current, query="busiest")), 0, answers((11, "x")))


@pytest.mark.spark
def test_only_the_newest_window(spark: Any, tmp_path: Path, name: str) -> None:
    from skyband.jobs.sinks.on_spark import Table

    settings = {"table": name, "path": str(tmp_path / "data"), "current": True}
    sink = Table(SinkTarget(JobSection("table", settings), query="it's"))
    write(spark, sink, 0, answers((10, "ab"), (11, "cd")))
    assert shown(spark, name) == {11: "cd"}
    write(spark, sink, 1, answers())
    assert shown(spark, name) == {11: "cd"}
    write(spark, sink, 2, answers((12, "e")))
    assert shown(spark, name) == {12: "e"}


def in_revisions(table: pa.Table, *revisions: int) -> pa.Table:
    """Answers with a column that says which revision each row is of."""
    return table.add_column(2, "revision", pa.array(revisions, pa.int32()))


@pytest.mark.spark
def test_the_newest_window_in_its_last_revision(spark: Any, tmp_path: Path, name: str) -> None:
    from skyband.jobs.sinks.on_spark import Table

    settings = {"table": name, "path": str(tmp_path / "data"), "current": True}
    sink = Table(SinkTarget(JobSection("table", settings), query="best", revises=True))
    write(spark, sink, 0, in_revisions(answers((11, "d"), (12, "e")), 0, 0))
    assert shown(spark, name) == {12: "e"}
    write(spark, sink, 1, in_revisions(answers((11, "z")), 1))
    assert shown(spark, name) == {12: "e"}
    write(spark, sink, 2, in_revisions(answers((12, "f"), (12, "g")), 1, 2))
    assert shown(spark, name) == {12: "g"}


JOB: dict[str, Any] = {
    "name": "best",
    "checkpoint": "state",
    "source": {"kind": "files", "path": "in"},
    "query": {"kind": "TopK", "k": 1, "score": "v", "time": "ts", "window": {"size": 10}},
}


@pytest.mark.parametrize(
    ("sink", "more", "message"),
    [
        ({}, {}, "needs 'table'"),
        ({"table": "a.b.c.d"}, {}, "table must be a plain name"),
        ({"table": "a; drop table b"}, {}, "table must be a plain name"),
        ({"table": "t", "format": "parquet x"}, {}, "format must be the name of a format"),
        ({"table": "t"}, {"engine": "local"}, "written by Spark"),
        ({"table": "t", "current": True}, {"changes": True}, "leave out current, or changes"),
    ],
)
def test_refused(sink: dict[str, Any], more: dict[str, Any], message: str) -> None:
    with pytest.raises(sb.QueryError, match=message):
        parse_job(JOB | {"sink": {"kind": "table", **sink}} | more)
    parse_job(JOB | {"sink": {"kind": "table", "table": "lake.network.busiest", "format": "delta"}})
