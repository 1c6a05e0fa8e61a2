"""Levels: scores cut into fixed steps a little narrower than epsilon.

Two rows of one level differ by less than epsilon, so one may stand for the other. A level never
moves, whatever arrives later. Steps are a thousandth narrower than epsilon, which covers the
rounding of the division for quotients below 2^40; beyond them, and at infinity, every score is a
level of its own. Integers are divided as integers, exactly.

Keys are sortable integers (``skyband.data.order``), greater is better, so smallest-first queries
need nothing of their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from skyband.kernels.core.jit import jit

__all__ = ["LOWEST", "least_key", "level_of"]

LOWEST = -(1 << 63)
_LOW_BITS = 0x7FFF_FFFF_FFFF_FFFF
_INFINITY = 0x7FF0_0000_0000_0000
_FAR = float(1 << 40)
_OWN = 1 << 50


@jit
def level_of(key: Any, width: float, whole: int) -> Any:
    """The level of a key; ``whole`` is the step of integer scores, ``width`` (and 0) of others."""
    if whole > 0:
        return key // whole
    bits = np.int64(key ^ ((key >> 63) & _LOW_BITS))
    place = bits.view(np.float64) / width
    if -_FAR < place < _FAR:
        return np.int64(math.floor(place))
    size = _OWN + (bits & _LOW_BITS)
    return size if key >= 0 else -size


@jit
def least_key(level: int, width: float, whole: int) -> Any:
    """The least key whose level is at least this one, the one after all keys if none has it."""
    if whole > 0:
        low, high = np.int64(LOWEST), np.int64(_LOW_BITS)
    else:
        low, high = np.int64(~_INFINITY), np.int64(_INFINITY)
    if level_of(low, width, whole) >= level:
        return low
    if level_of(high, width, whole) < level:
        return high + (high < _LOW_BITS)
    while high - 1 != low:
        middle = (low & high) + ((low ^ high) >> 1)  # their mean, without overflow
        if level_of(middle, width, whole) >= level:
            high = middle
        else:
            low = middle
    return high
