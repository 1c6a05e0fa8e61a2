"""Passes over one whole column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.kernels.jit import jit

__all__ = ["any_nan", "is_sorted"]


@jit
def any_nan(values: npt.NDArray[Any]) -> bool:
    """Whether a float column holds a NaN."""
    n = len(values)
    block = 4096
    for start in range(0, n, block):
        # A sum of comparisons, not an early exit, is what the compiler turns into vector code.
        found = 0
        for i in range(start, min(start + block, n)):
            found += values[i] != values[i]
        if found:
            return True
    return False


@jit
def is_sorted(values: npt.NDArray[np.int64]) -> bool:
    """Whether no value is less than the one before it."""
    n = len(values)
    block = 4096
    for start in range(1, n, block):
        falls = 0
        for i in range(start, min(start + block, n)):
            falls += values[i] < values[i - 1]
        if falls:
            return False
    return True
