"""What every TopK algorithm folds: runs of rows, one per pane and group."""

from __future__ import annotations

from typing import NamedTuple

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit

KEY, TIE = 0, 1  # columns of kept rows, in every algorithm


class Runs(NamedTuple):
    """The rows that are pushed: run i has the rows ``offsets[i]`` to ``offsets[i + 1]``.

    A greater ``key`` is better, then a greater ``tie``; by its ``slot`` the owner knows a row.
    """

    pane: Ints  # of each run
    offsets: Ints
    key: Ints
    tie: Ints
    slot: Ints


@jit
def place_of(rows: Ints, n: int, key: int, tie: int) -> int:
    """Where a row belongs among n sorted rows: after those that tie with it."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if rows[middle, KEY] > key or (rows[middle, KEY] == key and rows[middle, TIE] >= tie):
            low = middle + 1
        else:
            high = middle
    return low
