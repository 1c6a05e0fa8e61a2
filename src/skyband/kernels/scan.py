"""Passes over one whole column, at the speed of memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.kernels.jit import jit

__all__ = ["is_sorted"]

# Inner loops have a fixed length and no exit: that is what the compiler turns into vector code.
_BLOCK = 1024


@jit
def is_sorted(values: npt.NDArray[np.int64]) -> bool:
    """Whether no value is less than the one before it."""
    n = len(values)
    i = 1
    while i + _BLOCK <= n:
        falls = False
        for j in range(i, i + _BLOCK):
            falls |= values[j] < values[j - 1]
        if falls:
            return False
        i += _BLOCK
    for j in range(i, n):
        if values[j] < values[j - 1]:
            return False
    return True
