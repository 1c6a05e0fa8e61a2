"""Landmark windows at their edges: the landmark, unused rows, bounded state, refusals."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.query import from_spec

START = dt.datetime(2026, 1, 1)


def table(seconds: list[float], **columns: Any) -> pa.Table:
    times = [START + dt.timedelta(seconds=each) for each in seconds]
    return pa.table({"ts": pa.array(times, pa.timestamp("us", "UTC")), **columns})


def topk(window: sb.LandmarkWindow, **more: Any) -> sb.TopK:
    return sb.TopK(**{"k": 1, "score": "x", "time": "ts", "window": window, **more})


@pytest.mark.parametrize(
    "since",
    [
        dt.datetime(2026, 1, 1, 0, 0, 3),
        "2026-01-01T00:00:03",
        "2026-01-01 01:00:03+01:00",
        dt.datetime(2026, 1, 1, 1, 0, 3, tzinfo=dt.timezone(dt.timedelta(hours=1))),
    ],
)
def test_rows_before_the_landmark_are_unused(since: Any) -> None:
    """Rows at 1, 2 and 3 s are in one pane; the landmark cuts through it.

    rows    x  x |x        x |       x
    ends                    10        20        30
    """
    rows = table([1, 2, 3, 8, 27], x=[9, 8, 5, 4, 7])
    monitor = sb.Monitor(topk(sb.LandmarkWindow("10 s", since=since)))
    answers = monitor.push(rows) + monitor.flush()
    assert [answer.end.second for answer in answers] == [10, 20, 30]
    assert [answer.table["x"].to_pylist() for answer in answers] == [[5], [5], [7]]
    assert {answer.start for answer in answers} == {START.replace(second=3, tzinfo=dt.UTC)}
    assert [answer.total for answer in answers] == [2, 2, 3]
    edges = answers[0].table.schema
    assert edges.field("window_start").type == edges.field("window_end").type
    assert monitor.stats()["rows_unused"] == 2


def test_since_the_first_row() -> None:
    got = sb.rank(table([12, 25], x=[1, 2]), topk(sb.LandmarkWindow(slide="10 s")))
    assert got["window_start"].to_pylist() == [None, None]
    assert [end.second for end in got["window_end"].to_pylist()] == [20, 30]


def test_integers() -> None:
    rows = pa.table({"ts": [4, 5, 14], "x": [9, 2, 1]})
    got = sb.rank(rows, topk(sb.LandmarkWindow(10, since=5)))
    assert got["window_start"].to_pylist() == [5, 5]
    assert got["x"].to_pylist() == [2, 2]


@pytest.mark.parametrize("capacity", [None, 8])
def test_the_state_does_not_grow(capacity: int | None) -> None:
    rng = np.random.default_rng(1)
    window = sb.LandmarkWindow(10)
    queries = [
        topk(window, k=5),
        sb.HeavyHitters(k=3, item="i", time="ts", window=window, capacity=capacity),
        sb.Skyline(prefer={"x": "max"}, time="ts", window=window),
    ]
    for query in queries:
        monitor, sizes = sb.Monitor(query), []
        for batch in range(40):
            times = np.sort(rng.integers(25 * batch, 25 * (batch + 1), 50))
            rows = {"ts": times, "x": rng.integers(0, 1000, 50), "i": rng.integers(0, 20, 50)}
            monitor.push(pa.table(rows))
            sizes.append(monitor.stats()["state_bytes"])
        assert max(sizes[20:]) <= 1.5 * max(sizes[:20])


def test_space_saving_keeps_its_bounds() -> None:
    rng = np.random.default_rng(2)
    rows = pa.table({"ts": np.arange(2000), "i": rng.zipf(1.3, 2000) % 400})
    window = sb.LandmarkWindow(100)
    every = sb.HeavyHitters(k=1000, item="i", time="ts", window=window)
    truth = {(r["window_end"], r["i"]): r["count"] for r in sb.rank(rows, every).to_pylist()}
    bounded = sb.HeavyHitters(k=20, item="i", time="ts", window=window, capacity=20)
    wrong = 0
    for answer in sb.watch(rows, bounded):
        for row in answer.table.to_pylist():
            true = truth[answer.end, row["i"]]
            assert row["count"] - row["error"] <= true <= row["count"]
            assert row["error"] <= answer.total / 21
            wrong += row["error"] > 0
    assert wrong > 0


def test_refusals() -> None:
    window = sb.LandmarkWindow("10 s")
    with pytest.raises(sb.QueryError, match="LandmarkWindow, which is for TopK, HeavyHitters"):
        sb.FusedTopK(
            k=1, id="i", stream="s", value="v", streams=("a", "b"), time="ts", window=window
        )
    with pytest.raises(sb.QueryError, match="no algorithm 'skyband' over a LandmarkWindow"):
        topk(window, algorithm="skyband")
    for since in ("soon", 5, 3.5):
        with pytest.raises(sb.QueryError, match="since"):
            sb.LandmarkWindow("10 s", since=since)  # type: ignore[arg-type]
    with pytest.raises(sb.QueryError, match="since"):
        sb.LandmarkWindow(10, since="2026-01-01")
    monitor = sb.Monitor(topk(window))
    monitor.push(table([1, 15], x=[1, 2]))
    with pytest.raises(sb.EngineError, match="leave out last="):
        monitor.peek(last="1 s")
    assert monitor.peek().table["x"].to_pylist() == [1]
    query = topk(sb.LandmarkWindow("10 s", since="2026-01-01"))
    assert from_spec(query.spec()) == query
