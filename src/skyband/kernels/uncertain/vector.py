"""U-Topk: the likeliest whole answer, a vector of exactly k rows (definition 5.3).

The likeliest vector within the first i rows takes the k greatest probabilities; its chance is
``rho_i``, with a factor (1 - p) for every other row up to i (the paper prints d). Products are
kept as a mantissa and a power of two, so that they neither vanish nor lose ties.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.core.jit import jit


@jit
def _choose(prob: Floats, slots: Ints, i: int, k: int, top: Ints, count: int) -> int:
    """Put row i among the k greatest probabilities so far; the position that left, or -1.

    ``top`` holds positions, greatest first. Of equal probabilities the earlier row stays,
    which gives the vector that comes first in row order.
    """
    p = prob[slots[i]]
    gone = -1
    j = count
    if count == k:
        gone = top[k - 1]
        if p <= prob[slots[gone]]:
            return i
        j = k - 1
    while j > 0 and prob[slots[top[j - 1]]] < p:
        top[j] = top[j - 1]
        j -= 1
    top[j] = i
    return gone


@jit
def _scan(
    prob: Floats, slots: Ints, n: int, k: int, slack: float, top: Ints
) -> tuple[int, int, float, int]:
    """The end of the compact set or -1; where the best vector ends, its mantissa and power."""
    out, out_power = 1.0, 0  # the product of (1 - p) over the rows that are not chosen
    bound, bound_power = 1.0, 0  # the product of max(p, 1 - p) over all
    best, best_power = 0.0, 0
    reach = 0
    for i in range(n):
        p = prob[slots[i]]
        bound, power = math.frexp(bound * max(p, 1.0 - p))
        bound_power += power
        gone = _choose(prob, slots, i, k, top, min(i, k))
        if gone >= 0:
            out, power = math.frexp(out * (1.0 - prob[slots[gone]]))
            out_power += power
        if gone != i and i + 1 >= k:
            rho, rho_power = out, out_power
            for m in range(k):
                part, part_power = math.frexp(prob[slots[top[m]]])
                rho, power = math.frexp(rho * part)
                rho_power += power + part_power
            greater = rho_power > best_power or (rho_power == best_power and rho > best)
            if rho > 0.0 and (reach == 0 or greater):
                best, best_power = rho, rho_power
                reach = i + 1
        if reach > 0:
            shift = min(max(bound_power - best_power, -1000), 1000)
            if best >= math.ldexp(bound, shift) * (1.0 + slack):
                return i + 1, reach, best, best_power
    return -1, reach, best, best_power


@jit
def vector_end(prob: Floats, slots: Ints, n: int, k: int, slack: float) -> int:
    """Rows of the compact set of sorted rows; -1 if they admit none."""
    if n < k:
        return -1
    return _scan(prob, slots, n, k, slack, np.empty(k, np.int64))[0]


@jit
def vector_answer(prob: Floats, slots: Ints, n: int, k: int, found: Ints, chance: Floats) -> int:
    """The likeliest vector in row order, each row with the vector's chance; 0 or k rows."""
    if n < k:
        return 0
    top = np.empty(k, np.int64)
    _, reach, best, power = _scan(prob, slots, n, k, 0.0, top)
    for i in range(reach):
        _choose(prob, slots, i, k, top, min(i, k))
    chosen = np.zeros(reach, np.bool_)
    for m in range(k):
        chosen[top[m]] = True
    count = 0
    for i in range(reach):
        if chosen[i]:
            found[count] = slots[i]
            chance[count] = math.ldexp(best, max(power, -2000))
            count += 1
    return count
