"""How many rows of a prefix are there: the recursion that three of the semantics share.

``r[j]`` is the probability that exactly j of the rows so far are there, for j < k (equation 2 of
the paper). Sums and products of non-negative numbers only, never a division: nothing turns negative
or NaN, and certain rows (p = 1) leave exact zeros behind.
"""

from __future__ import annotations

from skyband.kernels.jit import jit
from skyband.kernels.uncertain.types import Floats

__all__ = ["add_row", "fewer"]


@jit
def add_row(r: Floats, k: int, p: float) -> None:
    """Take one more row."""
    q = 1.0 - p
    for j in range(k - 1, 0, -1):
        r[j] = r[j] * q + r[j - 1] * p
    r[0] *= q


@jit
def fewer(r: Floats, k: int, before: float) -> float:
    """The probability that fewer than k rows are there; never more than ``before``, one row ago."""
    a, b, c, d = 0.0, 0.0, 0.0, 0.0  # four sums, so that an addition need not wait for the last one
    for j in range(0, k - 3, 4):
        a += r[j]
        b += r[j + 1]
        c += r[j + 2]
        d += r[j + 3]
    for j in range(k - k % 4, k):
        a += r[j]
    return min((a + b) + (c + d), before)
