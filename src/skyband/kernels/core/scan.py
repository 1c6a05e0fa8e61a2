"""Passes over one whole column, at the speed of memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient

__all__ = ["gather", "is_sorted"]

# Inner loops have a fixed length and no exit: that is what the compiler turns into vector code.
_BLOCK = 1024


@patient
@jit
def is_sorted(values: npt.NDArray[np.int64]) -> bool:
    """Whether no value is less than the one before it."""
    n = len(values)
    i = 1
    while i + _BLOCK <= n:
        falls = np.int64(0)  # as wide as the values, so that neither has to be packed
        for j in range(_BLOCK):
            falls |= np.int64(values[i + j] < values[i + j - 1])
        if falls != 0:
            return False
        i += _BLOCK
    for j in range(i, n):
        if values[j] < values[j - 1]:
            return False
    return True


@patient
@jit
def gather(values: npt.NDArray[np.int64], indices: npt.NDArray[np.int32]) -> npt.NDArray[np.int64]:
    """The values at these places."""
    found = np.empty(len(indices), values.dtype)
    for i in range(len(indices)):
        found[i] = values[indices[i]]
    return found
