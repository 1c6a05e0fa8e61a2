"""U-kRanks: for each rank the row likeliest to have it; a row may win twice (condition 9).

The paper calls its conditions (8) and (9) equivalent. They are not. Condition (9) is sufficient and
stays true after insertions, so it is used here.

Every rank up to the number of rows has a winner, even if only because all rows before it exist. If
that is too unlikely for the exponent of a float, the recursion is run again with a wider exponent.
This cannot happen in a compact set: if (9) holds for n rows, the winner of each rank has a chance
of at least 1 / 2kn.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.uncertain.poisson import add_row, add_wide_row

_SOUND = 2.0**-900
"""Sums of products down to this size have lost nothing to underflow."""


@jit
def ranks_end(prob: Floats, slots: Ints, n: int, k: int, slack: float) -> int:
    """Rows of the compact set of sorted rows; -1 if they admit none."""
    r = np.zeros(k)
    r[0] = 1.0
    best = 0.0  # the greatest chance of the last rank
    for i in range(n):
        p = prob[slots[i]]
        best = max(best, p * r[k - 1])
        add_row(r, k, p)
        if best > 0.0:
            most = 0.0
            for j in range(k):
                most = max(most, r[j])
            if best >= most * (1.0 + slack):
                return i + 1
    return -1


@jit
def ranks_answer(prob: Floats, slots: Ints, n: int, k: int, found: Ints, chance: Floats) -> int:
    """The winner of each rank, with its chance; returns how many ranks there are."""
    end = ranks_end(prob, slots, n, k, 0.0)
    count = min(k, n)
    for j in range(count):
        found[j] = slots[j]
        chance[j] = 0.0
    r = np.zeros(k)
    r[0] = 1.0
    for i in range(n if end < 0 else end):
        p = prob[slots[i]]
        for j in range(min(i + 1, count)):
            if p * r[j] > chance[j]:
                chance[j] = p * r[j]
                found[j] = slots[i]
        add_row(r, k, p)
    sound = True
    for j in range(count):
        sound = sound and chance[j] >= _SOUND
    if not sound:
        _unlikely_ranks(prob, slots, n, count, found, chance)
    return count


@jit
def _unlikely_ranks(
    prob: Floats, slots: Ints, n: int, count: int, found: Ints, chance: Floats
) -> None:
    """Find the winners of ranks whose chances are too small for floats; the others stay."""
    r = np.zeros(count)
    power = np.zeros(count, np.int64)
    r[0] = 1.0
    best = np.zeros(count)
    best_power = np.zeros(count, np.int64)
    for i in range(n):
        p = prob[slots[i]]
        part, part_power = math.frexp(p)
        for j in range(min(i + 1, count)):
            own, own_power = math.frexp(part * r[j])
            own_power += part_power + power[j]
            greater = own_power > best_power[j] or (own_power == best_power[j] and own > best[j])
            if chance[j] < _SOUND and own > 0.0 and (best[j] == 0.0 or greater):
                best[j] = own
                best_power[j] = own_power
                found[j] = slots[i]
        add_wide_row(r, power, count, p)
    for j in range(count):
        if chance[j] < _SOUND:
            chance[j] = math.ldexp(best[j], int(max(best_power[j], -2000)))
