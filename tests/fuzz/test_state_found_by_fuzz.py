"""Faults of states and snapshots that fuzzing found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb


@pytest.mark.parametrize("seed", range(20))
def test_two_snapshots_of_groups_are_alike(seed: int) -> None:
    """Groups without rows moved when gaps were closed, so the second snapshot differed."""
    rng = np.random.default_rng(seed)
    window = sb.CountWindow(3, slide=3)
    monitor = sb.Monitor(sb.TopK(k=1, score="s", by=("g",), window=window))
    for n in rng.integers(1, 9, 4):
        monitor.push(pa.table({"g": rng.integers(0, 5, n), "s": rng.integers(0, 9, n)}))
    assert monitor.snapshot() == monitor.snapshot()


def test_fsp_remembers_what_panes_with_great_numbers_lack() -> None:
    """Such panes were forgotten when the next window was read, and a guess was called exact."""
    start = 1_700_000_000_000_000
    query = sb.HeavyHitters(
        k=1, item="x", time="t", window=sb.TimeWindow(8, slide=2), algorithm="fsp", capacity=1
    )
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"t": [start, start, start + 5], "x": [3, -128, 3]}))
    monitor.push(pa.table({"t": [start + 6], "x": [3]}))
    assert not monitor.peek().exact


def _great_panes() -> sb.Monitor:
    """Panes with numbers past 2^40, the first of which lack items, in three groups."""
    start = 1_700_000_000_000_000
    query = sb.HeavyHitters(
        k=1, item="x", time="t", window=sb.TimeWindow(8, slide=2), by=("g",), algorithm="fsp",
        capacity=1,
    )  # fmt: skip
    monitor = sb.Monitor(query)
    rows = {"t": [start, start, start + 5], "x": [3, -128, 3]}
    tables = [pa.table({**rows, "g": [group] * 3}) for group in range(3)]
    monitor.push(pa.concat_tables(tables).sort_by("t"))
    monitor.push(pa.table({"t": [start + 6], "x": [3], "g": [0]}))
    return monitor


def test_fsp_remembers_what_panes_of_groups_with_great_numbers_lack() -> None:
    """A pane's number and its group shared 64 bits, and windows found the wrong panes."""
    monitor = _great_panes()
    assert not monitor.peek().exact
    shown = monitor.peek().table.to_pylist()
    assert [row["g"] for row in shown] == [0, 1, 2]
    for row in shown:
        assert row["count"] - row["error"] <= {3: 2, -128: 1}[row["x"]] <= row["count"]


@pytest.mark.parametrize(
    "window",
    [sb.LandmarkWindow(slide="5 us"), sb.TimeWindow("100 days", slide="5 us")],
    ids=["landmark", "time"],
)
def test_more_windows_than_fit_into_memory_are_refused(window: Any) -> None:
    """The array of their numbers could not be allocated; the state stays as it was."""
    query = sb.HeavyHitters(k=1, item="x", time="t", window=window)
    monitor = sb.Monitor(query)
    day = 86_400_000_000
    monitor.push(_timed(0, "a"))
    before = monitor.snapshot()
    with pytest.raises(sb.EngineError, match="windows end at once"):
        monitor.push(_timed(40 * day, "b"))
    assert monitor.snapshot() == before
    assert [answer.total for answer in monitor.push(_timed(7, "a"))] == [1]


def _timed(time: int, item: str) -> pa.Table:
    return pa.table({"t": pa.array([time], pa.timestamp("us")), "x": [item]})
