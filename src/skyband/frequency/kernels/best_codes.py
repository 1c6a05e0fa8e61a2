"""The best codes of groups and short lists: by insertion, or of numbers that hold count and key."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Ints
from skyband.kernels.jit import jit, piece
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import kth_greatest

SHIFT, HALF = 31, np.int64(0x7FFFFFFF)
"""A count and a key, counted down from ``HALF``, form one number if both are below it."""
LANES = 8  # so many numbers are compared at a time
MOST_COMPARED = 128  # up to so many items are ranked by comparing all with each other


class Top(NamedTuple):
    """Room for the best k: what they are sorted by, and themselves."""

    sum: Array
    key: Ints
    code: Ints


@piece
def insert_best(top: Top, size: int, k: int, own: Any, key: int, code: int) -> int:
    """Insert a code into the best k, best first, unless it is after the last; the new size."""
    if size == k:
        if own < top.sum[k - 1] or (own == top.sum[k - 1] and key >= top.key[k - 1]):
            return size
        size -= 1
    j = size
    while j > 0 and (own > top.sum[j - 1] or (own == top.sum[j - 1] and key < top.key[j - 1])):
        top.sum[j], top.key[j], top.code[j] = top.sum[j - 1], top.key[j - 1], top.code[j - 1]
        j -= 1
    top.sum[j], top.key[j], top.code[j] = own, key, code
    return size + 1


@piece
def ties_last(top: Top, k: int, own: Any, key: int, code: int) -> bool:
    """Whether a code ties with the last of the best k and is not among them."""
    tied: bool = own == top.sum[k - 1] and key == top.key[k - 1]
    if tied:
        for j in range(k):
            tied &= top.code[j] != code
    return tied


@piece
def best_of_few(
    members: Ints, start: int, stop: int, refs: Codes, found: Array, order_key: Ints, k: int,
    decided: bool, top: Top, best: Ints,
) -> int:  # fmt: skip
    """As ``best_of`` for a few members without errors, into ``best``."""
    size = 0
    for i in range(start, stop):
        c = members[i]
        if refs[c] > 0:
            size = insert_best(top, size, k, found[c, 0], order_key[c], c)
    for j in range(size):
        best[j] = top.code[j]
    if size == k and not decided:
        for i in range(start, stop):
            c = members[i]
            if refs[c] > 0 and ties_last(top, k, found[c, 0], order_key[c], c):
                best[size] = c
                size += 1
    return size


@kernel
def best_of_runs(
    count: Array, order_key: Ints, offsets: Ints, runs: Ints, k: int, decided: bool
) -> tuple[Ints, Ints]:
    """Positions of the best k entries of each of these runs, best first, and how many there are.

    Entries rank by count, then by the smaller key, then by position. If keys do not decide,
    entries that tie with the last one follow it.
    """
    room = 0
    for run in runs:
        entries = offsets[run + 1] - offsets[run]
        room += min(entries, k) if decided else entries
    found = np.empty(room, np.int64)
    lengths = np.empty(len(runs), np.int64)
    top = Top(np.empty(k, count.dtype), np.empty(k, np.int64), np.empty(k, np.int64))
    n = 0
    for at in range(len(runs)):
        start, stop = offsets[runs[at]], offsets[runs[at] + 1]
        size = 0
        for i in range(start, stop):
            size = insert_best(top, size, k, count[i], order_key[i], i)
        for j in range(size):
            found[n + j] = top.code[j]
        if size == k and not decided:
            for i in range(start, stop):
                if ties_last(top, k, count[i], order_key[i], i):
                    found[n + size] = i
                    size += 1
        lengths[at] = size
        n += size
    return found[:n].copy(), lengths


@jit
def nth(values: Ints, size: int, k: int, room: Ints, spare: Ints) -> Any:
    """The k-th greatest of some values, found in a copy of them."""
    for i in range(size):
        room[i] = values[i]
    return kth_greatest(room, spare, size, k)


@jit
def ranked(values: Ints, size: int, k: int, best: Ints, room: Ints) -> int:
    """Where the k greatest of different values are, best first; returns how many there are.

    No branch depends on the values: the rank of each is how many are greater. ``values`` and
    ``room`` have room for ``LANES`` more, and are changed.
    """
    worst: Any = np.int64(-1)
    if k < size:
        worst = nth(values, size, k, room, best)
    n = 0
    for i in range(size):
        values[n], room[n] = values[i], i
        n += values[i] >= worst
    whole = (n + LANES - 1) // LANES * LANES
    for i in range(n, whole):
        values[i] = -1
    for i in range(n):
        own = values[i]
        before = 0
        for j in range(whole):
            before += values[j] > own
        best[before] = room[i]
    return n
