"""The levels of PABF's candidates and the order in which these stand, by definition."""

from __future__ import annotations

import numpy as np
import pytest

from skyband.data.order import sortable
from skyband.topk.kernels.pabf import KEY, LEVEL, PANE, before, least_key, level_of
from support.uncompiled import UNCOMPILED

pytestmark = UNCOMPILED

KEYS = sorted(
    int(key)
    for key in sortable(
        np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 2.0, 2.5, 9.75, 1e6, 2.0**41, 2.0**42, 1e300])
    )
)
INFINITE = int(sortable(np.array([np.inf]))[0])


def test_the_levels_of_scores_are_steps_of_one_width() -> None:
    score = np.array([-2.5, -2.0, -0.25, 0.0, 0.25, 1.75, 2.0, 2.0**40, -(2.0**40)])
    for width in (0.5, 2.0):
        found = [int(level_of(np.int64(key), width, 0)) for key in sortable(score)]
        assert found[:-2] == np.floor(score[:-2] / width).astype(int).tolist()
    # Quotients from 2^40 on are levels of their own, farther out than any quotient.
    near, far = (int(level_of(np.int64(k), 2.0, 0)) for k in sortable(np.array([2.0**40, 2.0**41])))
    assert near == 2**39
    assert far > 2**50
    negative = int(level_of(sortable(np.array([-(2.0**41)]))[0], 2.0, 0))
    assert negative == -far


def test_levels_rise_with_the_scores() -> None:
    keys = [~INFINITE, *(~key for key in reversed(KEYS)), *KEYS, INFINITE]
    levels = [int(level_of(np.int64(key), 0.25, 0)) for key in keys]
    assert levels == sorted(levels)
    far = [level for key, level in zip(keys, levels, strict=True) if key >= KEYS[-3]]
    assert len(set(far)) == len(far)


@pytest.mark.parametrize("whole", [1, 3, 1000])
def test_the_levels_of_integers(whole: int) -> None:
    for key in (-(2**63), -whole - 1, -whole, -1, 0, 1, whole - 1, whole, 2**63 - 1):
        assert level_of(np.int64(key), 1.0, whole) == key // whole


@pytest.mark.parametrize("whole", [0, 1, 3, 1000])
def test_the_least_key_of_a_level(whole: int) -> None:
    lowest, highest = (-(2**63), 2**63 - 1) if whole else (~INFINITE, INFINITE)
    some = [lowest, lowest + 1, *(~key for key in KEYS), *KEYS, highest - 1, highest]
    for key in some:
        level = int(level_of(np.int64(key), 0.25, whole))
        for aim in (level, level + 1):
            least = int(least_key(aim, 0.25, whole))
            if least <= highest and not (least == highest and whole):
                assert level_of(np.int64(least), 0.25, whole) >= aim
            assert least == lowest or level_of(np.int64(least - 1), 0.25, whole) < aim
            assert least <= key or aim > level
    # Above all levels it is the key after the last; for integers there is no such key.
    top = int(level_of(np.int64(highest), 0.25, whole))
    assert least_key(top + 1, 0.25, whole) == (highest if whole else highest + 1)
    assert least_key(top, 0.25, whole) == (top * whole if whole else highest)


@pytest.mark.parametrize(
    ("a", "b", "first"),
    [
        ((2, 0, 0), (1, 9, 9), True),
        ((1, 9, 9), (2, 0, 0), False),
        ((1, 5, 0), (1, 4, 9), True),
        ((1, 4, 9), (1, 5, 0), False),
        ((1, 4, 9), (1, 4, 8), True),
        ((1, 4, 8), (1, 4, 9), False),
        ((1, 4, 8), (1, 4, 8), False),
    ],
)
def test_rows_stand_by_level_then_pane_then_key(
    a: tuple[int, int, int], b: tuple[int, int, int], first: bool
) -> None:
    rows = np.zeros((2, 6), np.int64)
    for row, each in zip(rows, (a, b), strict=True):
        row[LEVEL], row[PANE], row[KEY] = each
    assert before(rows, 0, 1) is first
