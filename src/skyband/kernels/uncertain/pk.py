"""Pk-topk: the k rows likeliest to be among the best k (definition 3.1)."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.uncertain.poisson import add_row, fewer


@jit
def _scan(prob: Floats, slots: Ints, n: int, k: int, slack: float, chance: Floats) -> int:
    """Fill in each row's chance up to the end of the compact set; -1 if there is none."""
    r = np.zeros(k)
    r[0] = 1.0
    best = np.zeros(k)  # the k greatest chances, descending
    under = 1.0
    for i in range(n):
        p = prob[slots[i]]
        # Each of the first k rows is among the best k whenever it exists: no digit is lost.
        chance[i] = p if i < k else p * under
        add_row(r, k, p)
        j = min(i, k - 1)
        if chance[i] > best[j]:
            while j > 0 and best[j - 1] < chance[i]:
                best[j] = best[j - 1]
                j -= 1
            best[j] = chance[i]
        if i + 1 >= k:
            under = fewer(r, k, under)
            if best[k - 1] >= under * (1.0 + slack):
                return i + 1
    return -1


@jit
def pk_end(prob: Floats, slots: Ints, n: int, k: int, slack: float) -> int:
    """Rows of the compact set of sorted rows; -1 if they admit none."""
    if n < k:
        return -1
    return _scan(prob, slots, n, k, slack, np.empty(n))


@jit
def pk_answer(prob: Floats, slots: Ints, n: int, k: int, found: Ints, chance: Floats) -> int:
    """The answer's slots in its order, with their chances; returns how many."""
    chances = np.empty(n)
    end = _scan(prob, slots, n, k, 0.0, chances)
    count = 0
    for i in range(n if end < 0 else end):
        # Of equal chances the earlier row comes first.
        if count < k:
            count += 1
        elif chances[i] <= chance[k - 1]:
            continue
        j = count - 1
        while j > 0 and chance[j - 1] < chances[i]:
            chance[j] = chance[j - 1]
            found[j] = found[j - 1]
            j -= 1
        chance[j] = chances[i]
        found[j] = slots[i]
    return count
