"""U-Topk: the likeliest whole answer, a vector of exactly k rows (definition 5.3).

Of the vectors within the first i rows the likeliest takes the k greatest probabilities; its chance is
``rho_i``, with the factor (1 - p) for every other row up to i (the paper prints d). Products are kept
as a mantissa and a power of two, so that they neither vanish nor lose ties.
"""

from __future__ import annotations

import math

import numpy as np

from skyband.kernels.jit import jit
from skyband.kernels.uncertain.types import Floats, Ints

__all__ = ["vector_answer", "vector_end"]


@jit
def _scan(
    prob: Floats, slots: Ints, n: int, k: int, slack: float, chosen: Ints
) -> tuple[int, int, float, int]:
    """The end of the compact set or -1; rows of the best vector, its mantissa and exponent.

    ``chosen`` gets the positions of the best vector, in row order, where there is one.
    """
    top = np.empty(k, np.int64)  # positions of the k greatest probabilities, greatest first
    count = 0
    out, out_power = 1.0, 0  # the product of (1 - p) over the others
    bound, bound_power = 1.0, 0  # the product of max(p, 1 - p) over all
    best, best_power = 0.0, 0
    have = 0
    for i in range(n):
        p = prob[slots[i]]
        factor, power = math.frexp(bound * max(p, 1.0 - p))
        bound, bound_power = factor, bound_power + power
        # Of equal probabilities the earlier row stays: the vector that comes first in row order.
        leaver = p
        if count < k:
            count += 1
            j = count - 1
            leaver = 0.0
        elif p > prob[slots[top[k - 1]]]:
            leaver = prob[slots[top[k - 1]]]
            j = k - 1
        else:
            j = -1
        if j >= 0:
            while j > 0 and prob[slots[top[j - 1]]] < p:
                top[j] = top[j - 1]
                j -= 1
            top[j] = i
        factor, power = math.frexp(out * (1.0 - leaver))
        out, out_power = factor, out_power + power
        if j >= 0 and count == k:
            rho, rho_power = out, out_power
            for m in range(k):
                factor, power = math.frexp(rho * prob[slots[top[m]]])
                rho, rho_power = factor, rho_power + power
            if rho > 0.0 and (
                have == 0
                or rho_power > best_power
                or (rho_power == best_power and rho > best)
            ):
                best, best_power = rho, rho_power
                have = k
                chosen[:k] = np.sort(top)
        if have > 0:
            shift = min(max(bound_power - best_power, -1000), 1000)
            if best >= math.ldexp(bound, shift) * (1.0 + slack):
                return i + 1, have, best, best_power
    return -1, have, best, best_power


@jit
def vector_end(prob: Floats, slots: Ints, n: int, k: int, slack: float) -> int:
    """Rows of the compact set of sorted rows; -1 where they admit none."""
    if n < k:
        return -1
    return _scan(prob, slots, n, k, slack, np.empty(k, np.int64))[0]


@jit
def vector_answer(
    prob: Floats, slots: Ints, n: int, k: int, found: Ints, chance: Floats
) -> int:
    """The likeliest vector in row order, each row with the vector's chance; 0 or k rows."""
    if n < k:
        return 0
    chosen = np.empty(k, np.int64)
    _, have, best, power = _scan(prob, slots, n, k, 0.0, chosen)
    for j in range(have):
        found[j] = slots[chosen[j]]
        chance[j] = math.ldexp(best, power)
    return have
