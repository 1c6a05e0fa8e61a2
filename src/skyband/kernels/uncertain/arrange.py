"""Rows of every run in row order, as far as score and time decide it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.uncertain.types import Ints

__all__ = ["sort_runs"]

_FEW = 24


@patient
@jit
def sort_runs(key: Ints, tie: Ints, offsets: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """An order of rows, best first within each run, and whether a run has rows that it left tied.

    The greater key stands first, then the greater tie. An insertion sort for short runs, a merge
    sort of positions for the others.
    """
    n_rows = len(key)
    order = np.empty(n_rows, np.int64)
    spare = np.empty(n_rows, np.int64)
    tied = np.zeros(len(offsets) - 1, np.bool_)
    for run in range(len(tied)):
        low, high = offsets[run], offsets[run + 1]
        for start in range(low, high, _FEW):
            for i in range(start, min(start + _FEW, high)):
                a, b = key[i], tie[i]
                j = i
                while j > start:
                    other = order[j - 1]
                    if key[other] > a or (key[other] == a and tie[other] >= b):
                        break
                    order[j] = other
                    j -= 1
                order[j] = i
        width = _FEW
        source, target = order, spare
        while width < high - low:
            for start in range(low, high, 2 * width):
                middle = min(start + width, high)
                end = min(middle + width, high)
                i, j = start, middle
                for at in range(start, end):
                    left = i < middle
                    if left and j < end:
                        a, b = source[i], source[j]
                        left = key[a] > key[b] or (key[a] == key[b] and tie[a] >= tie[b])
                    if left:
                        target[at] = source[i]
                        i += 1
                    else:
                        target[at] = source[j]
                        j += 1
            source, target = target, source
            width *= 2
        for i in range(low, high):
            order[i] = source[i]
        for i in range(low + 1, high):
            a, b = order[i - 1], order[i]
            if key[a] == key[b] and tie[a] == tie[b]:
                tied[run] = True
    return order, tied
