"""Whole numbers may come from numpy; everything else that is not whole is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

WINDOW = sb.TimeWindow(10)


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.int32])
def test_numbers_of_numpy_become_plain(kind: Any) -> None:
    topk = sb.TopK(k=kind(2), score="x", window=sb.CountWindow(kind(3)))
    assert topk == sb.TopK(k=2, score="x", window=sb.CountWindow(3))
    assert type(topk.k) is int
    heavy = sb.HeavyHitters(k=1, item="i", window=WINDOW, time="t", capacity=kind(9))
    assert type(heavy.capacity) is int
    fused = sb.FusedTopK(
        k=1, id="i", value="v", streams=("s",), window=WINDOW, time="t", recurrences=kind(2)
    )
    assert type(fused.recurrences) is int
    monitor = sb.Monitor(topk)
    monitor.push(pa.table({"x": [1]}))
    assert sb.Monitor.restore(monitor.snapshot()).query.k == 2


@pytest.mark.parametrize("k", [0, -1, 1.0, 1.5, True, np.bool_(True), np.float64(2), "2", None])
def test_other_values_are_refused(k: Any) -> None:
    with pytest.raises(sb.QueryError, match="k must be a whole number of at least 1"):
        sb.TopK(k=k, score="x", window=WINDOW, time="t")
