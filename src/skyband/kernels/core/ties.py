"""Runs in which the order of rows hangs on more than score and time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient

__all__ = ["tied_runs"]

_FEW = 16


@patient
@jit
def tied_runs(key: Ints, tie: Ints, offsets: Ints) -> npt.NDArray[np.bool_]:
    """Whether a run holds two rows that are equal in key and tie."""
    tied = np.zeros(len(offsets) - 1, np.bool_)
    for run in range(len(tied)):
        first, last = offsets[run], offsets[run + 1]
        if last - first <= _FEW:
            for i in range(first + 1, last):
                for j in range(first, i):
                    if key[i] == key[j] and tie[i] == tie[j]:
                        tied[run] = True
            continue
        order = np.argsort(tie[first:last], kind="mergesort")
        at = 0
        while at < len(order) and not tied[run]:
            end = at + 1
            while end < len(order) and tie[first + order[end]] == tie[first + order[at]]:
                end += 1
            if end - at > 1:
                keys = np.sort(key[first + order[at:end]])
                tied[run] = (keys[1:] == keys[:-1]).any()
            at = end
    return tied
