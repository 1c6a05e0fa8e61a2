"""Windows that are answered from the most frequent items of each pane: the same answers."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.frequency import listed, pane_sums

K = 3
SHAPES = ("zipf", "alike", "few", "ties", "none", "huge")


def table_of(shape: str, seed: int, rows: int = 2_000) -> pa.Table:
    rng = np.random.default_rng(seed)
    item = rng.zipf(1.3, rows) % 10_000
    weight = rng.integers(0, 3, rows)
    if shape == "alike":
        item = rng.integers(0, 500, rows)
    elif shape == "few":
        item = rng.integers(0, 4, rows)
    elif shape == "ties":  # five items share the first places in every pane
        item = np.where(np.arange(rows) % 6, np.arange(rows) % 6, rng.integers(9, 9_000, rows))
    elif shape == "none":
        weight[:] = 0
    elif shape == "huge":
        weight = np.where(item < 5, 2**51 + item, 2**48)
    moments = np.sort(rng.integers(0, 400, rows))
    names = pa.array([f"always the same {i}" for i in item.tolist()])
    return pa.table({"ts": moments, "item": item, "name": names, "w": weight})


def counted(table: pa.Table, size: int, slide: int, item: str, weight: str | None) -> list[Any]:
    rows, found = table.to_pylist(), []
    for end in range(slide, 400 + slide, slide):
        counts: Counter[Any] = Counter()
        for row in rows:
            if end - size <= row["ts"] < end:
                counts[row[item]] += row[weight] if weight else 1
        best = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:K]
        found += [(end, *pair) for pair in best]
    return found


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Small limits; notes whether each fold could use lists."""
    noted: list[bool] = []
    own = listed.from_listed

    def noting(state: Any, empty: Any, panes: Runs, windows: list[Windows]) -> Any:
        found = own(state, empty, panes, windows)
        noted.append(found is not None)
        return found

    monkeypatch.setattr(pane_sums, "from_listed", noting)
    for name, value in {"_FEWEST": 6, "_PER_RANK": 1, "_WORTH": 1, "_RARE": 0, "_TRIAL": 1}.items():
        monkeypatch.setattr(listed, name, value)
    return noted


def answered(table: pa.Table, query: sb.HeavyHitters, pushes: int) -> list[Any]:
    monitor = sb.Monitor(query)
    size = -(-table.num_rows // pushes)
    found = []
    for start in range(0, table.num_rows, size):
        found += monitor.push(table.slice(start, size))
        monitor._check()
    found += monitor.flush()
    columns = ("window_end", query.item, "count")
    tables = [answer.table for answer in found]
    return [row for t in tables for row in zip(*(t[c].to_pylist() for c in columns), strict=True)]


@pytest.mark.parametrize("item", ["item", "name"])
@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("shape", SHAPES)
def test_answers(shape: str, weight: str | None, item: str, used: list[bool]) -> None:
    for pushes, (size, slide) in enumerate([(60, 20), (50, 20), (20, 10), (90, 10)], start=1):
        table = table_of(shape, pushes)
        query = sb.HeavyHitters(
            k=K, item=item, time="ts", weight=weight, window=sb.TimeWindow(size, slide),
            algorithm="exact",
        )  # fmt: skip
        assert answered(table, query, pushes) == counted(table, size, slide, item, weight)
    if shape in ("alike", "none"):
        assert not all(used)
    elif shape != "huge":
        assert any(used)


def test_kept_columns_and_snapshots(used: list[bool]) -> None:
    table = table_of("zipf", 1)
    query = sb.HeavyHitters(
        k=K, item="item", time="ts", keep=("w",), window=sb.TimeWindow(60, 20), algorithm="exact"
    )
    monitor, found = sb.Monitor(query), []
    for start in range(0, table.num_rows, 700):
        found += monitor.push(table.slice(start, 700))
        monitor = sb.Monitor.restore(monitor.snapshot())
    found += monitor.flush()
    assert any(used)
    used.clear()
    listed._WORTH = 1 << 40  # the fixture sets it back
    wanted = sb.rank(table, query)
    assert not any(used)
    assert pa.concat_tables([answer.table for answer in found]).equals(wanted)


def test_panes_that_come_and_go_never_enter_the_state(used: list[bool]) -> None:
    table = table_of("zipf", 2)
    query = sb.HeavyHitters(
        k=K, item="item", time="ts", window=sb.TimeWindow(60, 20), algorithm="exact"
    )
    monitor = sb.Monitor(query)
    monitor.push(table)
    assert used == [True]
    stats = monitor.stats()
    last = table.filter(pa.compute.greater_equal(table["ts"], 320))["item"].to_pylist()
    assert stats["inserts"] <= len(set(last))
    assert stats["removals"] == 0


def test_an_item_that_is_listed_nowhere_may_win(used: list[bool]) -> None:
    """It is never the most frequent of a pane, and is the most frequent of all."""
    rows = [(ts, f"pane {ts} {i}") for ts in range(12) for i in range(20) for _ in range(5)]
    rows += [(ts, "steady") for ts in range(12) for _ in range(4)]
    table = pa.table({"ts": [ts for ts, _ in rows], "item": [item for _, item in rows]})
    table = table.sort_by("ts")
    window = sb.TimeWindow(4, 1)
    query = sb.HeavyHitters(k=1, item="item", time="ts", window=window, algorithm="exact")
    found = [row[:3] for row in answered(table, query, 1)]
    assert found[3:12] == [(end, "steady", 16) for end in range(4, 13)]
    assert used == [False]


def test_one_window_is_tried_first(used: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where items are about as frequent as each other, most panes are not looked at."""
    looked: list[int] = []
    own = listed._listed

    def noting(lists: Any, many: int) -> Any:
        looked.append(len(lists.stamps))
        return own(lists, many)

    monkeypatch.setattr(listed, "_listed", noting)
    query = sb.HeavyHitters(
        k=K, item="item", time="ts", window=sb.TimeWindow(60, 20), algorithm="exact"
    )
    for shape, panes in (("alike", 3), ("zipf", 3 + 20)):
        looked.clear()
        sb.Monitor(query).push(table_of(shape, 1))
        assert sum(looked) <= panes
    assert used == [False, True]
    assert sum(looked) > 20
