"""The best entries of many short lists, in one pass."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient

__all__ = ["best_of_runs"]


@patient
@jit
def best_of_runs(
    count: NDArray[Any], order_key: Ints, offsets: Ints, runs: Ints, k: int, decided: bool
) -> tuple[Ints, Ints]:
    """Positions of the best k entries of each of these runs, best first, and how many there are.

    Entries rank by count, then by the smaller key, then as they stand. Where keys do not decide,
    entries that tie with the last one follow it.
    """
    room = 0
    for run in runs:
        entries = offsets[run + 1] - offsets[run]
        room += min(entries, k) if decided else entries
    found = np.empty(room, np.int64)
    lengths = np.empty(len(runs), np.int64)
    n = 0
    for at in range(len(runs)):
        start, stop = offsets[runs[at]], offsets[runs[at] + 1]
        size = 0
        for i in range(start, stop):
            own, key = count[i], order_key[i]
            if size == k:
                last = found[n + k - 1]
                if own < count[last] or (own == count[last] and key >= order_key[last]):
                    continue
                size -= 1
            j = n + size
            while j > n and (
                own > count[found[j - 1]]
                or (own == count[found[j - 1]] and key < order_key[found[j - 1]])
            ):
                found[j] = found[j - 1]
                j -= 1
            found[j] = i
            size += 1
        if size == k and not decided:
            last = found[n + k - 1]
            for i in range(start, stop):
                if count[i] == count[last] and order_key[i] == order_key[last] and i != last:
                    among = False
                    for j in range(n, n + k):
                        among |= found[j] == i
                    if not among:
                        found[n + size] = i
                        size += 1
        lengths[at] = size
        n += size
    return found[:n].copy(), lengths
