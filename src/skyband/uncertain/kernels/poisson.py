"""How many rows of a prefix exist: the recursion that three of the semantics share.

``r[j]`` is the probability that exactly j of the rows so far exist, for j < k (equation 2 of the
paper). It takes only sums and products of non-negative numbers, no division: nothing becomes
negative or NaN, and certain rows (p = 1) give exact zeros.
"""

from __future__ import annotations

import math

from skyband.arrays import Floats, Ints
from skyband.kernels.jit import jit


@jit
def add_row(r: Floats, k: int, p: float) -> None:
    """Add one more row."""
    q = 1.0 - p
    for j in range(k - 1, 0, -1):
        r[j] = r[j] * q + r[j - 1] * p
    r[0] *= q


@jit
def add_wide_row(r: Floats, power: Ints, k: int, p: float) -> None:
    """Add one more row, with probabilities ``r[j] * 2 ** power[j]``.

    The same digits as with ``add_row``, but no number is too small.
    """
    q = 1.0 - p
    part, part_power = math.frexp(p)
    for j in range(k - 1, -1, -1):
        stays = r[j] * q
        comes = r[j - 1] * part if j > 0 else 0.0
        base = power[j]
        if comes > 0.0:
            # Scale both by the power of the greater one; what vanishes is less than its last digit.
            one, one_power = math.frexp(stays)
            two, two_power = math.frexp(comes)
            one_power += power[j]
            two_power += power[j - 1] + part_power
            base = max(one_power, two_power) if stays > 0.0 else two_power
            stays = math.ldexp(one, int(max(one_power - base, -1000)))
            comes = math.ldexp(two, int(max(two_power - base, -1000)))
        r[j], more = math.frexp(stays + comes)
        power[j] = base + more


@jit
def fewer(r: Floats, k: int, before: float) -> float:
    """The probability that fewer than k rows exist; never more than ``before``, one row ago."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four sums, so that additions need not wait for each other
    for j in range(0, k - 3, 4):
        a += r[j]
        b += r[j + 1]
        c += r[j + 2]
        d += r[j + 3]
    for j in range(k - k % 4, k):
        a += r[j]
    return min((a + b) + (c + d), before)
