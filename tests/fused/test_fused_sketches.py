"""The sketches of the approximate fused algorithm stay within their stated errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from skyband.data.keys import hash_array
from skyband.fused.kernels.sketches import bits_since
from skyband.fused.sketches import LEVELS, Appearances, SelfJoin, levels_for


def hashes(numbers: np.ndarray) -> np.ndarray:
    import pyarrow as pa

    return hash_array(pa.array(numbers.astype(np.int64)))


def add(sketch: Appearances | SelfJoin, numbers: np.ndarray, stream: int, pane: int = 0) -> None:
    size = len(numbers)
    sketch.add(hashes(numbers), np.full(size, stream, np.int32), np.full(size, pane, np.int64))


def union(sketch: Appearances, mask: int, first: int) -> float:
    """Distinct objects in any stream of a mask since pane ``first``."""
    streams = [s for s in range(len(sketch.stamps)) if mask >> s & 1]
    words = np.bitwise_or.reduce(bits_since(sketch.stamps, first)[streams], axis=0)
    return float(sketch.estimate(words[None, :])[0])


@pytest.mark.parametrize("estimator", ["fm", "hll"])
@pytest.mark.parametrize("size", [20, 300, 3_000, 50_000])
def test_unions_within_their_error(estimator: str, size: int) -> None:
    bitmaps = 256
    error = {"fm": 0.78, "hll": 1.04}[estimator] / bitmaps**0.5
    rng = np.random.default_rng(size)
    off = []
    for _ in range(30):
        sketch = Appearances(2, bitmaps, estimator)
        numbers = rng.integers(0, 2**62, size)
        add(sketch, numbers[: size // 2], 0)
        add(sketch, numbers[size // 3 :], 1)
        off.append(union(sketch, 0b11, first=0) / size - 1)
    # Few objects lie between the estimators' ranges, where either has a bias of some hundredths.
    assert abs(np.mean(off)) < 0.05
    assert np.sqrt(np.mean(np.square(off))) < 1.5 * error + 0.03


@pytest.mark.parametrize("estimator", ["fm", "hll"])
@pytest.mark.parametrize("size", [200, 1_000, 20_000])
def test_levels_for_a_window_are_enough(estimator: str, size: int) -> None:
    """Sketches sized by the window estimate as those with all levels do."""
    levels = levels_for(size, 64)
    assert levels < LEVELS
    rng = np.random.default_rng(size)
    for _ in range(20):
        numbers = rng.integers(0, 2**62, size)
        small, large = Appearances(1, 64, estimator, levels), Appearances(1, 64, estimator)
        add(small, numbers, 0)
        add(large, numbers, 0)
        assert small.nbytes * LEVELS == large.nbytes * levels
        assert union(small, 1, first=0) == pytest.approx(union(large, 1, first=0), rel=0.02)


@pytest.mark.parametrize("streams", [3, 9])
def test_conditional_shares_of_sets_of_streams(streams: int) -> None:
    """Three streams with known overlaps; the others are silent."""
    numbers = np.random.default_rng(5).integers(0, 2**62, 40_000)
    parts = {0: numbers[:20_000], 1: numbers[10_000:30_000], 2: numbers[5_000:25_000]}
    sketch = Appearances(streams, 1024)
    for stream, part in parts.items():
        add(sketch, part, stream)
    names = {stream: set(part.tolist()) for stream, part in parts.items()}
    for count in (1, 2):
        for given in itertools.combinations(range(3), count):
            mask = sum(1 << s for s in given)
            shares = sketch.conditionals(np.array([mask]), first=0)[0]
            for stream in set(range(3)) - set(given):
                known = set.intersection(*(names[s] for s in given))
                want = len(known & names[stream]) / len(known)
                assert shares[stream] == pytest.approx(want, abs=0.15)
            if streams > 3:
                assert shares[3] < 0.1


def test_many_streams_are_estimated_as_few_are() -> None:
    rng = np.random.default_rng(1)
    few, many = Appearances(3, 64), Appearances(9, 64)
    for stream in range(3):
        numbers = rng.integers(0, 500, 300)
        add(few, numbers, stream)
        add(many, numbers, stream)
    masks = np.arange(1, 8)
    assert few.conditionals(masks, 0) == pytest.approx(many.conditionals(masks, 0)[:, :3])


def test_objects_leave_the_window() -> None:
    sketch = Appearances(1, 256)
    numbers = np.random.default_rng(2).integers(0, 2**62, 20_000)
    for pane in range(20):
        add(sketch, numbers[pane * 1000 : (pane + 1) * 1000], 0, pane)
    for first in (0, 10, 15, 19):
        assert union(sketch, 1, first) == pytest.approx((20 - first) * 1000, rel=0.25)
    assert union(sketch, 1, 20) == 0.0


@pytest.mark.parametrize("most", [1, 4, 20])
def test_self_join_sizes_within_their_error(most: int) -> None:
    rng = np.random.default_rng(most)
    off = []
    for turn in range(20):
        sketch = SelfJoin(2, 10)
        numbers = np.repeat(rng.integers(0, 2**62, 600), rng.integers(1, most + 1, 600))
        add(sketch, numbers, turn % 2, 3)
        true = int((np.unique(numbers, return_counts=True)[1] ** 2).sum())
        sizes, totals = sketch.sizes(first=0)
        assert totals[turn % 2] == len(numbers)
        assert sizes[1 - turn % 2] == 0
        off.append(sizes[turn % 2] / true - 1)
    assert abs(np.mean(off)) < 0.06
    assert np.sqrt(np.mean(np.square(off))) < (2 / SelfJoin.WIDTH) ** 0.5


def test_recurrences_of_a_window() -> None:
    sketch = SelfJoin(1, 40)
    rng = np.random.default_rng(3)
    for pane in range(40):
        add(sketch, rng.integers(0, 2**62, 50), 0, pane)
    assert sketch.recurrences(first=0) == 1
    often = np.repeat(rng.integers(0, 2**62, 100), 6)
    for pane in range(40, 80):
        add(sketch, rng.permutation(often)[:15], 0, pane)
    assert 4 <= sketch.recurrences(first=42) <= 8
    assert SelfJoin(1, 40).recurrences(first=0) == 1
