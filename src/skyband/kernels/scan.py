"""Passes over one whole column, at the speed of memory."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.patient import kernel_of

# Inner loops have a fixed length and no exit, so that the compiler turns them into vector code.
_BLOCK = 1024


def _never_falls(values: Ints) -> bool:
    return bool((values[1:] >= values[:-1]).all())


@kernel_of(stand_in=_never_falls)
def is_sorted(values: Ints) -> bool:
    """Whether no value is less than the one before it."""
    n = len(values)
    i = 1
    while i + _BLOCK <= n:
        falls = np.int64(0)  # as wide as the values, so that neither is converted
        for j in range(_BLOCK):
            falls |= np.int64(values[i + j] < values[i + j - 1])
        if falls != 0:
            return False
        i += _BLOCK
    for j in range(i, n):
        if values[j] < values[j - 1]:
            return False
    return True


def _taken(values: Ints, indices: Codes, out: Ints) -> None:
    out[:] = values[indices]


@kernel_of(stand_in=_taken)
def gather(values: Ints, indices: Codes, out: Ints) -> None:
    """Write the values at these indices to ``out``."""
    for i in range(len(indices)):
        out[i] = values[indices[i]]
