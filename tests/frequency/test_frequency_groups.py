"""Exact counts of groups; windows of one pane and of several panes have different states."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.contract.tumbling import Tumbling
from skyband.frequency.block_sums import BlockSums
from skyband.frequency.exact import Exact

K, SIZE = 3, 60


def stream(seed: int, rows: int, groups: int, items: int, far: int, text: bool) -> pa.Table:
    """Rows whose last group is far larger; items may be huge, or texts with a common prefix."""
    rng = np.random.default_rng(seed)
    item = rng.integers(0, items, rows)
    group = np.where(rng.random(rows) < 0.3, groups, rng.integers(0, groups, rows))
    names: Any = [f"always alike {i}" for i in item.tolist()] if text else item * far - far
    return pa.table({
        "ts": np.sort(rng.integers(0, 600, rows)), "g": group * 7 % 13, "item": names,
        "w": rng.integers(0, 4, rows),
    })  # fmt: skip


def wanted(table: pa.Table, size: int, slide: int, weight: str | None) -> list[tuple[Any, ...]]:
    rows = table.to_pylist()
    found: list[tuple[Any, ...]] = []
    for end in range(slide, 600 + slide, slide):
        counts: dict[Any, Counter[Any]] = defaultdict(Counter)
        for row in rows:
            if end - size <= row["ts"] < end:
                counts[row["g"]][row["item"]] += row[weight] if weight else 1
        for group in sorted(counts):
            best = sorted(counts[group].items(), key=lambda pair: (-pair[1], pair[0]))[:K]
            found += [(end, group, rank + 1, *pair) for rank, pair in enumerate(best)]
    return found


def shown(table: pa.Table) -> list[tuple[Any, ...]]:
    names = ("window_end", "g", "rank", "item", "count")
    return list(zip(*(table[name].to_pylist() for name in names), strict=True))


@pytest.mark.parametrize("weight", [None, "w"])
@pytest.mark.parametrize("slide", [SIZE, 20, 7])
@pytest.mark.parametrize(("far", "text"), [(1, False), (2**40, False), (1, True)])
def test_groups_of_all_sizes(far: int, text: bool, slide: int, weight: str | None) -> None:
    table = stream(slide, 1_500, 12, 120, far, text)
    window = sb.TimeWindow(SIZE, slide)
    query = sb.HeavyHitters(
        k=K, item="item", time="ts", by=("g",), window=window, weight=weight, algorithm="exact"
    )
    want = wanted(table, SIZE, slide, weight)
    assert shown(sb.rank(table, query)) == want
    monitor = sb.Monitor(query)
    got: list[tuple[Any, ...]] = []
    for at in range(0, table.num_rows, 170):
        monitor = sb.Monitor.restore(monitor.snapshot())
        got += [row for a in monitor.push(table.slice(at, 170)) for row in shown(a.table)]
        monitor._check()
    got += [row for a in monitor.flush() for row in shown(a.table)]
    assert got == want
    synopsis: Any = monitor.session.synopsis
    assert isinstance(synopsis, Exact)
    counts: Any = synopsis.counts
    assert isinstance(counts, Tumbling) == (slide == SIZE)
    assert slide == SIZE or isinstance(counts.sums[0], BlockSums)


def test_a_group_that_falls_silent_leaves_nothing() -> None:
    first = stream(1, 800, 12, 200, 1, False)
    later = first.set_column(0, "ts", pa.array(np.arange(800) // 4 + 5_000))
    later = later.set_column(1, "g", pa.array(np.full(800, 99)))
    query = sb.HeavyHitters(
        k=K, item="item", time="ts", by=("g",), window=sb.TimeWindow(SIZE, 20), algorithm="exact"
    )
    monitor = sb.Monitor(query)
    monitor.push(first)
    assert len(set(first["g"].to_pylist())) > 10
    monitor.push(later)
    monitor._check()
    counts: Any = monitor.session.synopsis
    sizes = counts.counts.sums[0].blocks.sizes
    assert sizes.sum() == sizes.max() == monitor.stats()["retained"] > 0
