"""PT-k: every row that is among the best k with at least the threshold's probability.

Definition 5.1, but the compact set ends at the first d where the probability of fewer than k rows
falls *below* the threshold: with "at most", rows whose chance equals the threshold would be lost.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.sorting import sort_best
from skyband.kernels.uncertain.poisson import add_row, fewer


@jit
def _scan(
    prob: Floats, slots: Ints, n: int, k: int, threshold: float, slack: float, chance: Floats
) -> int:
    r = np.zeros(k)
    r[0] = 1.0
    under = 1.0
    for i in range(n):
        p = prob[slots[i]]
        chance[i] = p if i < k else p * under
        add_row(r, k, p)
        if i + 1 >= k:
            under = fewer(r, k, under)
            if under * (1.0 + slack) < threshold:
                return i + 1
    return -1


@jit
def pt_end(prob: Floats, slots: Ints, n: int, k: int, threshold: float, slack: float) -> int:
    """Rows of the compact set of sorted rows; -1 if they admit none."""
    if n < k:
        return -1
    return _scan(prob, slots, n, k, threshold, slack, np.empty(n))


@jit
def pt_answer(
    prob: Floats, slots: Ints, n: int, k: int, threshold: float, found: Ints, chance: Floats
) -> int:
    """The answer's slots in its order, with their chances; returns how many."""
    chances = np.empty(n)
    end = _scan(prob, slots, n, k, threshold, 0.0, chances)
    order = np.empty(n, np.int64)
    count = 0
    for i in range(n if end < 0 else end):
        if chances[i] >= threshold:
            order[count] = i
            count += 1
    sort_best(order[:count], np.empty(count, np.int64), chances, chances)
    for j in range(count):
        found[j] = slots[order[j]]
        chance[j] = chances[order[j]]
    return count
