"""Sorted lists of objects by their value, one list per stream, for the threshold algorithm.

A list holds the objects that are live in its stream, the greatest value first, equal values by
code. It is an array that is searched by bisection and shifted to make room, like the paper's
lists.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Array, Codes, Floats, Ints
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel


@jit
def _find(value: float, code: int, values: Floats, codes: Codes, size: int) -> int:
    """Where an entry is, or would be."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        at = values[middle]
        if at > value or (at == value and codes[middle] < code):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def _close(column: Array, at: int, size: int) -> None:
    """Move what follows an entry to its place."""
    for i in range(at, size - 1):
        column[i] = column[i + 1]


@jit
def _open(column: Array, at: int, size: int) -> None:
    """Make room for an entry."""
    for i in range(size, at, -1):
        column[i] = column[i - 1]


@kernel
def move_in_lists(
    touched: Codes, rows: Floats, known: Floats, values: Floats, codes: Codes, sizes: Ints,
    work: Ints,
) -> None:  # fmt: skip
    """Move objects to their new values in all lists; NaN means no value, before and after.

    ``known[code]`` are the values that an object has in the lists.
    """
    for i in range(len(touched)):
        code = touched[i]
        for s in range(len(sizes)):
            was, now = known[code, s], rows[i, s]
            if was == now or (np.isnan(was) and np.isnan(now)):
                continue
            size = sizes[s]
            if not np.isnan(was):
                at = _find(was, code, values[s], codes[s], size)
                _close(values[s], at, size)
                _close(codes[s], at, size)
                size -= 1
                work[1] += 1
            if not np.isnan(now):
                at = _find(now, code, values[s], codes[s], size)
                _open(values[s], at, size)
                _open(codes[s], at, size)
                values[s, at] = now
                codes[s, at] = code
                size += 1
                work[0] += 1
            sizes[s] = size
            known[code, s] = now


@kernel
def first_of_lists(
    depth: int, codes: Codes, sizes: Ints, mark: Ints, serial: int
) -> tuple[Codes, int]:
    """The distinct objects among the first ``depth`` entries of all lists, and the entries read."""
    room = 0
    for s in range(len(sizes)):
        room += min(depth, sizes[s])
    found = np.empty(room, np.int32)
    count = 0
    for s in range(len(sizes)):
        for i in range(min(depth, sizes[s])):
            code = codes[s, i]
            if mark[code] != serial:
                mark[code] = serial
                found[count] = code
                count += 1
    return found[:count], room
