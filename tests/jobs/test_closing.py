"""A finite job that closes its last windows, and letters of several queries: as locally."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import parse_job, run_job
from skyband.jobs.spark.checkpoint import closing_of, plan_closing
from skyband.spark.bucket import reached_ms
from support import spark_simulator
from support.board_simulator import board_plan_of

WINDOWS = {"best": {"size": 20, "slide": 10, "lateness": 5}, "often": {"size": 60}}


def rows(start: int, count: int) -> pa.Table:
    times = list(range(start, start + count))
    ids, scores = [f"i{t % 7}" for t in times], [t * 37 % 101 / 2 for t in times]
    return pa.table({"ts": times, "id": ids, "score": scores})


def bad() -> pa.Table:
    """The second row is bad for both queries, the first one only for one of them."""
    return pa.table({"ts": [1_010, 1_020], "id": ["i1", None], "score": [None, None]})


def told(folder: Path, engine: str, **changes: Any) -> dict[str, Any]:
    def sink(name: str) -> dict[str, str]:
        return {"kind": "files", "path": str(folder / engine / name), "format": "json"}

    best = {"kind": "TopK", "k": 2, "score": "score", "id": "id", "time": "ts"}
    often = {"kind": "HeavyHitters", "k": 2, "item": "id", "time": "ts"}
    queries = {"best": best, "often": often}
    for name, query in queries.items():
        query |= {"window": WINDOWS[name], "sink": sink(name)}
    return {
        "name": "closed",
        "engine": engine,
        "checkpoint": str(folder / engine / "state"),
        "source": {"kind": "files", "path": str(folder / "in")},
        "queries": queries,
        "dead_letters": {"kind": "files", "path": str(folder / engine / "bad")},
        "trigger": {"once": True, "close": True},
    } | changes


def found(folder: Path, engine: str) -> dict[str, list[Any]]:
    """What a job has written, by query; letters without the file they name."""
    told: dict[str, list[Any]] = {}
    for name in ("best", "often", "bad"):
        paths = sorted((folder / engine / name).glob("*.json"))
        each = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
        told[name] = sorted(json.dumps(row | {"file": None}, sort_keys=True) for row in each)
    return told


def test_each_query_ends_with_its_own_last_window() -> None:
    table = pa.table({"ts": [1], "id": ["a"], "score": [1.0]})
    queries = {
        "best": sb.TopK(k=2, score="score", id="id", time="ts", window=sb.TimeWindow(20, 10, 5)),
        "often": sb.HeavyHitters(k=2, item="id", time="ts", window=sb.TimeWindow(60)),
    }
    board = board_plan_of(queries, {"": table})
    closing = closing_of(board, 1_043)
    assert closing is not None
    assert (closing.watermark_ms, dict(closing.ends_ms)) == (1_080, {"best": 1_050, "often": 1_080})
    alone = spark_simulator.plan_of(queries["best"], {"": table})
    assert closing_of(alone, 1_050).watermark_ms == 1_060  # type: ignore[union-attr]
    assert closing_of(board, None) is None
    closed = replace(board, closing=closing)
    reached = [reached_ms(closed, "best", at) for at in (1_079, 1_080, 1_081)]
    assert reached == [1_074, 1_050, 1_076]


def test_a_job_that_is_served_knows_how_it_was_closed() -> None:
    pytest.importorskip("pyspark")
    from skyband.jobs.spark.run_job import promising

    table = pa.table({"ts": [1], "id": ["a"]})
    query = sb.HeavyHitters(k=2, item="id", time="ts", window=sb.TimeWindow(60))
    board = board_plan_of(dict.fromkeys(("one", "other"), query), {"": table})
    closing = closing_of(board, 1_043)
    served = promising(replace(board, closing=closing))
    assert served.closing == closing is not None
    assert all(plan.bounds for plan in served.plans.values())


@pytest.mark.spark
def test_both_engines_close_alike(spark: Any, tmp_path: Path) -> None:
    """Two queries, with bad rows; closed, and closed again with more rows."""
    (tmp_path / "in").mkdir()
    first_rows = rows(1_000, 44)
    mixed = pa.concat_tables([first_rows, bad().cast(first_rows.schema)])
    pq.write_table(mixed, tmp_path / "in" / "1.parquet")

    def run() -> None:
        for engine in ("local", "spark"):
            session = spark if engine == "spark" else None
            run_job(parse_job(told(tmp_path, engine)), session)
        got, want = found(tmp_path, "spark"), found(tmp_path, "local")
        for name, each in want.items():
            assert got[name] == each, name

    run()
    first = found(tmp_path, "spark")
    assert max(json.loads(row)["window_end"] for row in first["best"]) == 1_050
    assert max(json.loads(row)["window_end"] for row in first["often"]) == 1_080
    letters = [json.loads(row) for row in first["bad"]]
    reasons = {letter["record"]: letter["reason"] for letter in letters}
    assert len(letters) == 2
    one = next(reason for record, reason in reasons.items() if "1010" in record)
    assert one == "best: column 'score': the score is null (None)"
    both = next(reason for record, reason in reasons.items() if "1020" in record)
    assert both.startswith("best: column ")
    assert "; often: column 'id'" in both
    # Without new rows there is nothing left to close.
    queries = parse_job(told(tmp_path, "spark")).queries
    plan = board_plan_of(queries, {"": first_rows})
    assert not plan_closing(spark, str(tmp_path / "spark" / "state"), plan)
    # Rows of closed windows are late; later windows go on.
    pq.write_table(rows(1_046, 50), tmp_path / "in" / "2.parquet")
    run()
    assert max(json.loads(row)["window_end"] for row in found(tmp_path, "spark")["best"]) == 1_100
