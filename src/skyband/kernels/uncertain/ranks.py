"""U-kRanks: for each rank the row likeliest to have it; a row may win twice (condition 9).

The paper calls its conditions (8) and (9) equivalent. They are not; (9) is sufficient and survives
insertions, so (9) it is.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels.jit import jit
from skyband.kernels.uncertain.poisson import add_row
from skyband.kernels.uncertain.types import Floats, Ints

__all__ = ["ranks_answer", "ranks_end"]


@jit
def ranks_end(prob: Floats, slots: Ints, n: int, k: int, slack: float) -> int:
    """Rows of the compact set of sorted rows; -1 where they admit none."""
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
        # A rank is out of reach for rows before it; where all chances vanish, the first one wins.
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
    return count
