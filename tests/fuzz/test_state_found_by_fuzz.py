"""Faults of states and snapshots that fuzzing found."""

from __future__ import annotations

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
