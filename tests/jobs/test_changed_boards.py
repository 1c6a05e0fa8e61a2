"""A board that changes between two runs of one checkpoint, in this process."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import parse_job, run_job
from skyband.jobs.local.local_job import LocalJob
from skyband.query import KINDS, Query

WINDOW = {"size": 50, "slide": 10, "lateness": 5}
QUERIES: dict[str, dict[str, Any]] = {
    "best": {"kind": "TopK", "k": 2, "score": "x", "id": "id", "time": "ts", "window": WINDOW},
    "gone": {"kind": "HeavyHitters", "k": 3, "item": "id", "time": "ts", "window": WINDOW},
    "fresh": {
        "kind": "TopK",
        "k": 3,
        "score": "x",
        "id": "id",
        "time": "ts",
        "window": {"size": 40, "slide": 20},
    },
}


def hours(count: int) -> list[pa.Table]:
    rng = np.random.default_rng(3)
    return [
        pa.table(
            {
                "ts": np.sort(rng.integers(i * 100, (i + 1) * 100, 60)),
                "id": rng.integers(0, 9, 60),
                "x": rng.integers(0, 1_000, 60),
            }
        )
        for i in range(count)
    ]


def add(folder: Path, tables: list[pa.Table], first: int = 0) -> None:
    (folder / "in").mkdir(exist_ok=True)
    for i, table in enumerate(tables, first):
        path = folder / "in" / f"{i}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_700_000_000 + i,) * 2)  # Spark reads files in the order of these


def job(folder: Path, *names: str, **changes: Any) -> dict[str, Any]:
    return {
        "name": "network",
        "engine": "local",
        "checkpoint": str(folder / "state"),
        "source": {"kind": "files", "path": str(folder / "in"), "files_per_batch": 1},
        "queries": {
            n: QUERIES[n] | {"sink": {"kind": "files", "path": str(folder / n)}} for n in names
        },
        "trigger": {"once": True},
        **changes,
    }


def query_of(name: str) -> Query:
    told = QUERIES[name] | {"window": sb.TimeWindow(**QUERIES[name]["window"])}
    return KINDS[told.pop("kind")](**told)


def out(folder: Path, name: str) -> list[Any]:
    order = [("window_end", "ascending"), ("rank", "ascending")]
    return list(pq.read_table(folder / name).sort_by(order).to_pylist())


def alone(name: str, tables: list[pa.Table]) -> list[Any]:
    monitor = sb.Monitor(query_of(name))
    found = [answer for table in tables for answer in monitor.push(table)]
    return [row for answer in found for row in answer.table.to_pylist()]


def test_a_query_is_added_and_one_is_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = hours(5)
    add(tmp_path, tables[:2])
    run_job(parse_job(job(tmp_path, "best", "gone")))
    before = out(tmp_path, "gone")
    assert before == alone("gone", tables[:2])
    assert not caplog.records

    add(tmp_path, tables[2:4], 2)
    with caplog.at_level(logging.WARNING):
        run_job(parse_job(job(tmp_path, "fresh", "best")))
    seen = int(tables[1]["ts"][-1].as_py())
    first = -(-seen // 20) * 20
    said = " ".join(record.getMessage() for record in caplog.records)
    assert f"query 'fresh' is new; its first window starts at {first}" in said
    assert "query 'gone' was removed, along with its state" in said
    caplog.clear()

    add(tmp_path, tables[4:], 4)
    run_job(parse_job(job(tmp_path, "fresh", "best")))
    assert not caplog.records  # nothing has changed since
    assert out(tmp_path, "best") == alone("best", tables)
    assert out(tmp_path, "gone") == before
    whole = alone("fresh", tables)
    assert out(tmp_path, "fresh") == [row for row in whole if row["window_start"] >= seen]

    running = LocalJob(parse_job(job(tmp_path, "fresh", "best")))
    stats = running.monitor.stats()
    running.close()
    assert stats["fresh"]["rows_late"] == 0
    assert stats["fresh"]["rows_unused"] == sum(
        time < first for table in tables[2:] for time in table["ts"].to_pylist()
    )


def test_a_crash_after_the_change(tmp_path: Path) -> None:
    """The first run with the new board is killed before its first snapshot."""
    tables = hours(4)
    add(tmp_path, tables[:2])
    run_job(parse_job(job(tmp_path, "best", "gone")))
    add(tmp_path, tables[2:], 2)
    killed = LocalJob(parse_job(job(tmp_path, "best", "fresh")))
    next(killed.steps(lambda: False))
    killed.close()
    run_job(parse_job(job(tmp_path, "best", "fresh")))
    seen = tables[1]["ts"][-1].as_py()
    assert out(tmp_path, "best") == alone("best", tables)
    whole = alone("fresh", tables)
    assert out(tmp_path, "fresh") == [row for row in whole if row["window_start"] >= seen]


def test_a_count_window_and_another_time_start_empty(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tables = [each.append_column("other", each["ts"]) for each in hours(2)]
    add(tmp_path, tables[:1])
    run_job(parse_job(job(tmp_path, "best")))
    add(tmp_path, tables[1:], 1)
    told = job(tmp_path, "best")
    sinks = {n: {"sink": {"kind": "files", "path": str(tmp_path / n)}} for n in ("last", "other")}
    own = {n: value for n, value in QUERIES["best"].items() if n not in ("time", "window")}
    told["queries"]["last"] = own | {"window": {"count": 30}} | sinks["last"]
    told["queries"]["other"] = QUERIES["best"] | {"time": "other"} | sinks["other"]
    run_job(parse_job(told))
    ends = {row["window_end"] for row in out(tmp_path, "last")}
    assert ends == {30, 60}
    assert out(tmp_path, "other")[0]["window_end"] == 110  # as at the start of any stream
    assert caplog.text.count("it starts with the next rows") == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": {"best": QUERIES["best"] | {"k": 7}}}, "best changed since"),
        ({"queries": {"fresh": QUERIES["fresh"]}}, "none of its queries"),
        ({"queries": None, "query": QUERIES["best"]}, "none of its queries"),
        ({"name": "best", "queries": None, "query": QUERIES["best"]}, r"\[queries.NAME\]"),
    ],
)
def test_what_is_refused(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    add(tmp_path, hours(1))
    run_job(parse_job(job(tmp_path, "best", "gone")))
    told = {n: value for n, value in job(tmp_path, "best", **change).items() if value is not None}
    with pytest.raises(sb.EngineError, match=message):
        run_job(parse_job(told))


def test_a_source_cannot_be_added(tmp_path: Path) -> None:
    add(tmp_path, hours(1))
    source = {"kind": "files", "path": str(tmp_path / "in")}
    window = {"size": 50}
    fused = {"kind": "FusedTopK", "k": 1, "id": "id", "value": "x", "time": "ts", "window": window}
    fused |= {"bounds": [0, 1000]}
    told = job(tmp_path, "best", source=None, queries={"a": fused | {"streams": ["a", "b"]}})
    del told["source"]
    run_job(parse_job(told | {"sources": {"a": source, "b": source}}))
    told["queries"]["c"] = fused | {"streams": ["a", "c"]}
    with pytest.raises(sb.EngineError, match="source 'c' is new"):
        run_job(parse_job(told | {"sources": {"a": source, "b": source, "c": source}}))


@pytest.mark.spark
def test_a_board_changes_on_spark(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from skyband.spark.checkpoint import read_heads

    def run(*names: str) -> list[list[str]]:
        """The queries of each key of the state."""
        run_job(parse_job(job(tmp_path, *names, engine="spark")), session=spark)
        heads = read_heads(spark, str(tmp_path / "state" / "answers"))
        return sorted(list(head["queries"]) for _, head, _ in heads)

    tables = hours(4)
    add(tmp_path, tables[:2])
    assert run("best", "gone") == [["best"], ["gone"]]
    assert not [record for record in caplog.records if record.name == "skyband.jobs"]
    add(tmp_path, tables[2:], 2)
    assert run("fresh", "best") == [["best"], ["fresh"]]
    seen = int(tables[1]["ts"][-1].as_py())
    said = " ".join(record.getMessage() for record in caplog.records)
    assert f"'fresh' is new; its first window starts at {-(-seen // 20) * 20}" in said
    assert "query 'gone' was removed, along with its state" in said
    assert out(tmp_path, "best") == alone("best", tables)
    whole = alone("fresh", tables)
    assert out(tmp_path, "fresh") == [row for row in whole if row["window_start"] >= seen]


@pytest.mark.spark
def test_a_job_with_a_single_query_may_be_renamed_on_spark(spark: Any, tmp_path: Path) -> None:
    tables = hours(3)
    sink = {"kind": "files", "path": str(tmp_path / "best")}
    for i, name in enumerate(("network", "flows")):
        add(tmp_path, tables[i : i + 2] if i else tables[:1], i)
        told = job(tmp_path, name=name, engine="spark", query=QUERIES["best"], sink=sink)
        del told["queries"]
        run_job(parse_job(told), session=spark)
    assert out(tmp_path, "best") == alone("best", tables)
