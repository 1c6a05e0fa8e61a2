"""The best row of each key, in a few passes over whole columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from skyband.arrays import Array, Codes, Hashes, Ints

__all__ = ["winners"]

_LEAST = np.iinfo(np.int64).min


def winners(
    codes: Codes, count: int, keys: Sequence[Ints], last: Callable[[Ints], Hashes] | None = None
) -> Ints:
    """The row of each code ``0 ... count - 1`` with the greatest keys, compared one after another.

    ``last`` gives hashes of some rows; of rows with equal keys the one with the smallest hash wins.
    Every code must occur. Costs one pass per key over the rows that are still tied.

    >>> codes = np.array([0, 1, 0, 1], np.int32)
    >>> winners(codes, 2, [np.array([5, 7, 5, 6]), np.array([1, 2, 3, 4])]).tolist()
    [2, 1]
    """
    rows: Array = np.arange(len(codes))
    own: Array = codes
    for key in keys:
        if len(rows) == count:
            break
        mine = key if len(rows) == len(key) else key[rows]
        best = np.full(count, _LEAST)
        np.maximum.at(best, own, mine)
        kept = np.flatnonzero(mine == best[own])
        rows, own = rows[kept], own[kept]
    if len(rows) > count:
        hashes = np.zeros(len(rows), np.uint64) if last is None else last(rows)
        order = np.lexsort((hashes, own))
        order = order[np.append(True, own[order][1:] != own[order][:-1])]
        return np.asarray(rows[order])
    found = np.empty(count, np.int64)
    found[own] = rows
    return found
