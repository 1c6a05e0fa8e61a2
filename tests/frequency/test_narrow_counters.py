"""FSW counts whole numbers in 32 bits as long as they fit, and in 64 bits afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

LARGE = 2**30


def query(algorithm: str, **more: Any) -> sb.HeavyHitters:
    window = sb.TimeWindow(40, slide=10)
    return sb.HeavyHitters(
        k=3, item="item", time="ts", weight="w", window=window, algorithm=algorithm, **more
    )


def stream(weights: list[int]) -> pa.Table:
    """One row of each weight every five ticks, and small ones of many items between them."""
    rows = [(5 * i, "heavy", w) for i, w in enumerate(weights)]
    rows += [(5 * i + 1, f"light {i % 7}", 1) for i in range(len(weights))]
    return pa.table(dict(zip(("ts", "item", "w"), zip(*sorted(rows), strict=True), strict=True)))


def counters(monitor: sb.Monitor) -> np.dtype[Any]:
    synopsis: Any = monitor.session.synopsis
    synopsis._check()
    kind: np.dtype[Any] = synopsis.base.dtype
    return kind


@pytest.mark.parametrize("algorithm", ["fsw", "fsw-r"])
@pytest.mark.parametrize("restarts", [False, True])
def test_counters_widen_before_they_overflow(algorithm: str, restarts: bool) -> None:
    table = stream([1, 2, 3] * 8 + [LARGE] * 30)
    asked, kinds = query(algorithm, capacity=20), []
    monitor, found = sb.Monitor(asked), []
    for at in range(0, table.num_rows, 6):
        if restarts:
            monitor = sb.Monitor.restore(monitor.snapshot())
        found += [answer.table for answer in monitor.push(table.slice(at, 6))]
        kinds.append(counters(monitor))
    found += [answer.table for answer in monitor.flush()]
    assert pa.concat_tables(found).equals(sb.rank(table, query("exact")))
    assert max(t["count"][0].as_py() for t in found if t.num_rows) == 8 * LARGE
    assert kinds[0] == np.int32
    assert kinds[-1] == np.int64
    assert kinds == sorted(kinds, key=lambda kind: kind.itemsize), "they never become narrow again"


def test_a_single_weight_may_need_64_bits() -> None:
    table = stream([2**62, 5])
    assert sb.rank(table, query("fsw")).equals(sb.rank(table, query("exact")))


def test_counts_one_each_stay_narrow_and_floats_stay_floats() -> None:
    table = stream([1] * 50)
    plain = sb.HeavyHitters(
        k=3, item="item", time="ts", window=sb.TimeWindow(40, slide=10), algorithm="fsw"
    )
    monitor = sb.Monitor(plain)
    monitor.push(table)
    assert counters(monitor) == np.int32
    assert monitor.peek().table.schema.field("count").type == pa.int64()
    floats = table.set_column(2, "w", table["w"].cast(pa.float64()))
    monitor = sb.Monitor(query("fsw"))
    monitor.push(floats)
    assert counters(monitor) == np.float64


def test_state_of_an_hour_by_minutes() -> None:
    """In the benchmark's setting the aim is 5 MB, of which the open pane's rows take 1.4."""
    asked = sb.HeavyHitters(
        k=10, item="item", time="ts", window=sb.TimeWindow(60, slide=1), capacity=2_000
    )
    monitor = sb.Monitor(asked)
    rng = np.random.default_rng(1)
    for minute in range(3):
        item = rng.integers(0, 50_000, 20_000)
        monitor.push(pa.table({"ts": np.full(20_000, minute), "item": item}))
    assert monitor.stats()["state_bytes"] < 3_500_000
