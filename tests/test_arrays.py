"""Large arrays that live for one batch lie in Arrow's memory pool."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.arrays import copied, pooled


def test_large_arrays_are_pooled_and_small_ones_are_not() -> None:
    before = pa.total_allocated_bytes()
    small = pooled(10, np.int32)
    assert small.shape == (10,)
    assert small.dtype == np.int32
    assert pa.total_allocated_bytes() == before
    large = pooled((3, 100_000), np.int64)
    assert large.shape == (3, 100_000)
    assert large.dtype == np.int64
    assert pa.total_allocated_bytes() >= before + large.nbytes
    large[:] = 7
    other = copied(large)
    assert (other == 7).all()
    large[:] = 8
    assert (other == 7).all()
    del large, other
    assert pa.total_allocated_bytes() < before + 2_400_000


def test_an_answer_does_not_hold_on_to_what_the_kernel_wrote() -> None:
    n = 40_000
    columns = {"ts": np.arange(n), "id": np.arange(n), "x": np.random.default_rng(1).random(n)}
    window = sb.TimeWindow(50, slide=1)
    query = sb.TopK(k=5, score="x", id="id", time="ts", window=window)
    before = pa.total_allocated_bytes()
    answers = sb.rank(pa.table(columns), query)
    held = pa.total_allocated_bytes() - before
    assert answers.num_rows > 5 * n - 50
    assert held < 25 * answers.num_rows  # 8 bytes for each of id, score and time
