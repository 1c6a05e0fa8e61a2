"""The local skylines of the join, kept from window to window, against their definition."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.kernels.patient import patient
from skyband.skyline.kernels.isj import local_update as compiled
from support.skyline_cases import SMALL, Point, array, beats

pytestmark = pytest.mark.nojit

local_update = patient(compiled)


@given(
    st.lists(st.tuples(st.integers(0, 1), SMALL), min_size=1, max_size=16),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2**16 - 1)), min_size=1, max_size=4),
)
def test_a_local_skyline_goes_on_from_the_last(
    rows: list[tuple[int, Point]], steps: list[tuple[int, int]]
) -> None:
    """Rows expire in front, and any of the others may be active."""
    check_local(rows, steps)


@pytest.mark.parametrize("seed", range(12))
def test_a_local_skyline_of_rows_that_mostly_stay(seed: int) -> None:
    rng = random.Random(seed)
    rows = [(rng.randrange(2), tuple(rng.randrange(3) for _ in range(3))) for _ in range(16)]
    many = [(rng.randrange(3), rng.getrandbits(16) | rng.getrandbits(16)) for _ in range(6)]
    check_local(rows, many)
    # Row 0 dominates most of the others, which are parked under it.
    check_local([(0, (2, 2, 2)), *rows], [(0, bits | 1) for _, bits in many])


def check_local(rows: list[tuple[int, Point]], steps: list[tuple[int, int]]) -> None:
    known = parents = np.zeros(0, np.int64)
    counts = np.zeros(4, np.int64)
    expired = 0
    for gone, bits in steps:
        expired = min(expired + gone, len(rows))
        live = rows[expired:]
        points = array([point for _, point in live], 3)
        segment = np.array([s for s, _ in live], np.int64)
        chosen = [i for i in range(len(live)) if bits >> i & 1]
        active = np.array(chosen, np.int64)
        known, parents, sky = local_update(points, segment, known, parents, active, expired, counts)
        assert known.tolist() == [i + expired for i in chosen]
        best = {
            i
            for i in chosen
            if not any(live[j][0] == live[i][0] and beats(live[j][1], live[i][1]) for j in chosen)
        }
        assert sorted(sky.tolist()) == sorted(best)
        for i, parent in zip(chosen, parents.tolist(), strict=True):
            assert (parent < 0) == (i in best)
            if parent >= 0:
                above = live[parent - expired]
                assert parent - expired in chosen
                assert above[0] == live[i][0]
                assert beats(above[1], live[i][1])


def test_the_comparisons_of_a_local_skyline() -> None:
    points = array([(0, 0, 3, 3), (9, 9, 0, 0), (0, 0, 5, 5), (0, 0, 4, 4)], 4)
    segment, none = np.zeros(4, np.int64), np.zeros(0, np.int64)
    counts = np.zeros(4, np.int64)
    known, parents, sky = local_update(points, segment, none, none, np.arange(4), 0, counts)
    assert sorted(sky.tolist()) == [1, 2]
    assert parents.tolist() == [2, -1, -1, 2]
    # The best by its key, row 1, is compared with all four and dominates none. Then best first:
    # row 1 with nothing, row 2 with row 1, row 3 with rows 1 and 2; row 2 dominates, so that it
    # moves forward, and row 0 meets it first.
    assert counts[0] == 4 + (0 + 1 + 2 + 1)
    # Rows that stay, under parents that stay, are not compared again.
    known, parents, sky = local_update(points, segment, known, parents, np.arange(4), 0, counts)
    assert sorted(sky.tolist()) == [1, 2]
    assert counts[0] == 8
    # Without their parent, rows 0 and 3 are: the better one parks the other, and meets row 1.
    active = np.array([0, 1, 3])
    known, parents, sky = local_update(points, segment, known, parents, active, 0, counts)
    assert parents.tolist() == [3, -1, -1]
    assert counts[0] == 8 + 2 + 1
    # A new row is compared with itself and with what is on the skyline, even if it equals it.
    points = np.concatenate([points, points[3:]])
    segment = np.zeros(5, np.int64)
    known, parents, sky = local_update(
        points, segment, known, parents, np.array([0, 1, 3, 4]), 0, counts
    )
    assert sorted(sky.tolist()) == [1, 3, 4]
    assert counts[0] <= 11 + 1 + 2


def test_rows_of_another_segment_are_not_compared() -> None:
    points = array([(1, 1), (2, 2), (3, 3)])
    segment, none = np.array([0, 1, 0]), np.zeros(0, np.int64)
    counts = np.zeros(4, np.int64)
    _, parents, sky = local_update(points, segment, none, none, np.arange(3), 7, counts)
    assert parents.tolist() == [2 + 7, -1, -1]
    assert sorted(sky.tolist()) == [1, 2]
    assert counts[0] == 3, "with the best of all, once each; row 0 is parked under it"
