"""The kernel that selects the best rows of every run, against its definition in plain Python."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.arrays import Ints
from skyband.kernels.select import select_runs
from skyband.kernels.sorting import kth_greatest
from support.key_patterns import PATTERNS
from support.uncompiled import PARTS

DTYPES = ("f8", "f4", "f2", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1")
NO_TIE = np.empty(0, np.int64)


def best_of_runs(
    score: npt.NDArray[Any],
    tie: Ints,
    offsets: Sequence[int],
    k: int,
    largest: bool,
) -> tuple[list[int], list[int]]:
    positions: list[int] = []
    ends = [0]
    sign = -1 if largest else 1
    for start, stop in itertools.pairwise(offsets):
        # Python's own numbers: exact for every type.
        place = {
            i: (sign * score[i].item(), -int(tie[i]) if len(tie) else -i)
            for i in range(start, stop)
        }
        ranked = sorted(place.values())
        last = ranked[min(k, len(ranked)) - 1] if ranked else None
        positions += [i for i in range(start, stop) if last is not None and place[i] <= last]
        ends.append(len(positions))
    return positions, ends


def check_selection(
    score: npt.NDArray[Any], tie: Ints, offsets: list[int], k: int, largest: bool
) -> None:
    before = score.copy()
    found, ends = select_runs(score, tie, np.array(offsets, np.int64), k, largest)
    wanted, wanted_ends = best_of_runs(score, tie, offsets, k, largest)
    assert ends.tolist() == wanted_ends
    assert found.tolist() == wanted
    assert score.tobytes() == before.tobytes()


@st.composite
def selections(draw: st.DrawFn) -> tuple[Any, ...]:
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    n = draw(st.integers(0, 40))
    if dtype.kind == "f":
        width: Any = 8 * dtype.itemsize
        number = st.one_of(
            st.sampled_from([0.0, -0.0, float("inf"), -float("inf"), 1.5, -1.5]),
            st.floats(allow_nan=False, width=width),
        )
    else:
        limits = np.iinfo(str(dtype))
        low, high = int(limits.min), int(limits.max)
        number = st.one_of(st.sampled_from([low, high, 0, 1]), st.integers(low, high))
    score = np.array(draw(st.lists(number, min_size=n, max_size=n)), dtype)
    tied = draw(st.lists(st.integers(-2, 2), min_size=n, max_size=n))
    tie = np.array(tied, np.int64) if draw(st.booleans()) else NO_TIE
    cuts = draw(st.lists(st.integers(0, n), max_size=5))
    offsets = sorted([*cuts, n])
    return score, tie, offsets, draw(st.integers(1, 12)), draw(st.booleans())


@pytest.mark.nojit
@given(selections())
def test_the_best_rows_of_every_run(case: tuple[Any, ...]) -> None:
    check_selection(*case)


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["f8", "i8", "u8", "f4"])
@pytest.mark.parametrize("largest", [True, False])
def test_long_runs_in_every_order(pattern: str, dtype: str, largest: bool) -> None:
    """Inputs long enough for guesses and samples, and for these to fail."""
    rng = random.Random(f"{pattern} {dtype} {largest}")
    n = 8_000
    made = [PATTERNS[pattern](rng, i) for i in range(n)]
    kind = np.dtype(dtype)
    if kind.kind == "f":
        score = np.array(made, np.float64).astype(kind)
    else:
        limits = np.iinfo(kind)
        score = np.array([min(max(x, int(limits.min)), int(limits.max)) for x in made], kind)
    by_time = np.arange(n) // 3
    anyhow = np.array([rng.randint(0, 5) for _ in range(n)])
    offsets = [7, 1000, 2000, 2000, 2001, 2040, 2300, n]
    for tie in (NO_TIE, by_time, anyhow):
        for k in (1, 10, 200):
            check_selection(score, tie, offsets, k, largest)


@pytest.mark.nojit
@pytest.mark.parametrize("pattern", PATTERNS)
def test_runs_just_long_enough_for_a_cut(pattern: str) -> None:
    """From 128 rows on a run is scanned with a cut: guessed, or from a sample of 64 rows."""
    rng = random.Random(pattern)
    lengths = [128, 320, 200, 127, 129, *(rng.choice([0, 3, 128, 160]) for _ in range(16)), 192]
    made = [PATTERNS[pattern](rng, i) for i in range(sum(lengths))]
    offsets = [0, *itertools.accumulate(lengths)]
    anyhow = np.array([rng.randint(0, 2) for _ in made])
    for number, dtype in enumerate(("f8", "u8", "f4", "i8")):
        kind = np.dtype(dtype)
        limits = np.iinfo(kind) if kind.kind != "f" else None
        fitting = [min(max(x, int(limits.min)), int(limits.max)) if limits else x for x in made]
        score = np.array(fitting, np.float64 if limits is None else kind).astype(kind)
        for tie in (NO_TIE, anyhow):
            check_selection(score, tie, offsets, 1 + 4 * number, number % 2 == 0)
            check_selection(score, tie, offsets, 2 + 9 * number, number % 2 == 1)


@pytest.mark.nojit
@pytest.mark.parametrize("dtype", ["f8", "f4"])
def test_a_cut_at_zero_takes_both_zeros(dtype: str) -> None:
    rng = random.Random(dtype)
    for high in (0.0, 1.0):
        drawn = [rng.choice([0.0, -0.0, -1.0, -2.0, high]) for _ in range(600)]
        for largest in (True, False):
            score = np.array(drawn, dtype) * (1 if largest else -1)
            for k in (1, 3, 20, 60):
                check_selection(score, NO_TIE, [0, 200, 400, 600], k, largest)


@PARTS
@pytest.mark.nojit
@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.data())
def test_the_kth_greatest(numbers: list[int], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(numbers)))
    values, spare = np.array([*numbers, 99]), np.empty(len(numbers), np.int64)
    assert kth_greatest(values, spare, len(numbers), k) == sorted(numbers)[-k]


@pytest.mark.nojit
def test_minus_zero_equals_zero() -> None:
    score = np.array([0.0, -0.0, -1.0] * 100)
    for largest in (True, False):
        check_selection(score, NO_TIE, [0, 300], 150, largest)


@pytest.mark.nojit
def test_read_only_columns_and_no_runs() -> None:
    score = np.arange(4.0)
    score.flags.writeable = False
    found, ends = select_runs(score, NO_TIE, np.zeros(1, np.int64), 3, True)
    assert (len(found), ends.tolist()) == (0, [0])
    found, ends = select_runs(score, NO_TIE, np.array([1, 4]), 2, True)
    assert (found.tolist(), ends.tolist()) == ([2, 3], [0, 2])
