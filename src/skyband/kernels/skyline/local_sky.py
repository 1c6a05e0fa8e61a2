"""Local skylines of the iterative skyline join, kept from window to window."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.core.jit import jit
from skyband.kernels.core.sorting import sort_best
from skyband.kernels.skyline.dominance import (
    BETTER,
    EQUAL,
    WORSE,
    dominates,
    relation,
    sort_keys,
)

COMPARISONS = 0  # place in ``counts``


@jit
def _sort_out(
    here: Mask, known: Ints, parents: Ints, numbers: Ints, expired: int, fresh: Ints, sky: Ints
) -> tuple[Ints, int]:
    """The places of active rows that have lost their parent, and how many rows are on the skyline.

    Of the others, those without a parent are written to ``sky``, the parents of the rest to
    ``fresh``.
    """
    ask = np.empty(len(numbers), np.int64)
    asked = 0
    on_sky = 0
    i = 0
    for n in range(len(numbers)):
        while i < len(known) and known[i] < numbers[n]:
            i += 1
        if i == len(known) or known[i] != numbers[n]:
            ask[asked] = n
            asked += 1
        elif parents[i] < 0:
            sky[on_sky] = n
            on_sky += 1
        elif parents[i] >= expired and here[parents[i] - expired]:
            fresh[n] = parents[i]
        else:
            ask[asked] = n
            asked += 1
    return ask[:asked], on_sky


@jit
def _park_under_best(
    points: Ints, segment: Ints, rows: Ints, expired: int, ask: Ints, fresh: Ints, counts: Ints
) -> Ints:
    """Park those rows of ``ask`` that the best of them dominates; the others, best first.

    The best dominates most of the others, which need no sort then. ``rows`` are their positions.
    """
    asked = len(ask)
    mine = points[rows]
    keys = np.empty(asked, np.float64)
    sort_keys(mine, 0, asked, keys)
    best = int(np.argmax(keys))
    top = rows[best]
    near = np.empty(asked, np.int64)
    left = 0
    for place in range(asked):
        counts[COMPARISONS] += 1
        if segment[rows[place]] == segment[top] and dominates(mine, best, mine, place):
            fresh[ask[place]] = top + expired
        else:
            near[left] = place
            left += 1
    near = near[:left]
    sort_best(near, np.empty(left, np.int64), keys, keys)
    return ask[near]


@jit
def local_update(
    points: Ints, segment: Ints, known: Ints, parents: Ints, active: Ints, expired: int,
    counts: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """Move on from the known rows to the active ones, which may differ in any way.

    ``active`` are positions; ``known`` and ``parents`` are numbers, positions plus ``expired``. All
    ascend. A row without a parent (-1) is on the skyline, every other one is parked under a row
    that dominates it. Returns numbers and parents of the active rows, and those on the skyline.
    """
    here = np.zeros(len(points), np.bool_)
    for row in active:
        here[row] = True
    numbers = active + expired
    fresh = np.full(len(active), -1, np.int64)
    sky = np.empty(len(active), np.int64)
    ask, on_sky = _sort_out(here, known, parents, numbers, expired, fresh, sky)
    if len(ask):
        ask = _park_under_best(points, segment, active[ask], expired, ask, fresh, counts)
    for n in ask:
        row = active[n]
        g = 0
        while g < on_sky:
            other = active[sky[g]]
            if segment[other] != segment[row]:
                g += 1
                continue
            counts[COMPARISONS] += 1
            found = relation(points, other, points, row)
            if found == BETTER:
                fresh[n] = other + expired
                # Move rows that dominate forward, so that the next rows are compared with them
                # early.
                ahead = g // 2
                sky[g], sky[ahead] = sky[ahead], sky[g]
                break
            if found == EQUAL:
                g = on_sky
            elif found == WORSE:
                fresh[sky[g]] = row + expired
                on_sky -= 1
                sky[g] = sky[on_sky]
            else:
                g += 1
        if fresh[n] < 0:
            sky[on_sky] = n
            on_sky += 1
    return numbers, fresh, active[sky[:on_sky]]
