"""Windows of several queries with groups, counted from one set of lists.

Windows that end at the same moment lie within each other. So for each group the lists of the panes
are added up once, from the newest to the oldest, and the best items are read on the way:

    panes        ├ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┤
    added up                         ◄───┤  then the best of the shortest window are read
                     ◄───────────────────┤  then those of the next one

Items are numbered in the order in which they come up, so those of a window are the first ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Array, Codes, Ints
from skyband.kernels.core.best import best_of
from skyband.kernels.core.jit import jit, piece
from skyband.kernels.core.patient import kernel


class Lists(NamedTuple):
    """Runs of entries by (group, pane): group i has those from ``starts[i]`` to ``starts[i + 1]``.

    Groups are in the order in which answers show them.
    """

    group: Ints
    starts: Ints
    pane: Ints
    low: Ints  # where the entries of each run begin and end
    high: Ints
    code: Codes
    value: Ints


class Asked(NamedTuple):
    """Windows by (end, size): those that end together from ``moments[i]`` to ``moments[i + 1]``."""

    moments: Ints
    reader: Ints  # which query asks
    first: Ints
    end: Ints
    k: Ints


class Order(NamedTuple):
    """How items compare: by their counts, then by their keys.

    With ``packs`` both fit one number, and the keys decide. Otherwise, unless ``decided``, items
    that tie with the last one follow it.
    """

    key: Ints
    least: int
    packs: bool
    decided: bool


class Room(NamedTuple):
    """Arrays to work in; ``local`` is -1 for each item."""

    local: Codes
    code: Codes
    sums: Array
    key: Ints
    best: Ints
    values: Ints


class Found(NamedTuple):
    """What was read of each query's windows, one query after the other.

    The best items and their sums begin at ``at``, the groups and the ends of their items at
    ``answers``; ``pairs`` are the (group, item) pairs of each window.
    """

    code: Codes
    sums: Ints
    at: Ints
    group: Codes
    ends: Ints
    answers: Ints
    many: Ints  # how many groups each window has
    pairs: Ints


_SHIFT = 31
_HALF = np.int64(0x7FFFFFFF)
_MOST_COMPARED = 128  # up to so many items, each is compared with each
LEAST_BUFFER = 512


@jit
def _greatest(values: Ints, size: int, k: int) -> int:
    """The k-th greatest of different values; the k greatest come first."""
    low, high = 0, size - 1
    while low < high:
        a, b, c = values[low], values[(low + high) >> 1], values[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while values[i] > pivot:
                i += 1
            while values[j] < pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            break
    return values[k - 1]


@jit
def _chosen(sums: Array, size: int, k: int, values: Ints, best: Ints) -> None:
    """The k greatest of more values, in ``values``, and where they are, in ``best``.

    Values that may be among them are collected; when there is no more room, the others are dropped.
    """
    n, room = 0, max(4 * k, LEAST_BUFFER)
    least = np.int64(-1)
    for i in range(size):
        if sums[i, 0] > least:
            if n == room:
                least = _greatest(values, n, k)
                n = k
            if sums[i, 0] > least:
                values[n] = sums[i, 0]
                n += 1
    least = _greatest(values, n, k)
    n = 0
    for i in range(size):
        if sums[i, 0] >= least:
            values[n], best[n] = sums[i, 0], i
            n += 1


@jit
def _sort(values: Ints, best: Ints, size: int) -> None:
    """Sort by value, the greatest first: a Shell sort."""
    gap = size
    while gap > 1:
        gap = max(gap * 4 // 9, 1)
        for i in range(gap, size):
            value, own = values[i], best[i]
            j = i
            while j >= gap and values[j - gap] < value:
                values[j], best[j] = values[j - gap], best[j - gap]
                j -= gap
            values[j], best[j] = value, own


@piece
def _read_packed(size: int, k: int, room: Room, found: Found, at: int) -> int:
    """Write the best items of a group, whose sums have the keys in them; returns how many."""
    items, sums, values, best = room.code, room.sums, room.values, room.best
    many = min(size, k)
    if many < size:
        _chosen(sums, size, k, values, best)
    else:
        for i in range(size):
            values[i], best[i] = sums[i, 0], i
    if many > _MOST_COMPARED:
        _sort(values, best, many)
        for i in range(many):
            found.code[at + i], found.sums[at + i] = items[best[i]], values[i] >> _SHIFT
    else:
        for i in range(many):  # the rank of an item is how many are greater
            own = values[i]
            before = 0
            for j in range(many):
                before += values[j] > own
            found.code[at + before], found.sums[at + before] = items[best[i]], own >> _SHIFT
    return many


@piece
def _read(size: int, k: int, order: Order, room: Room, found: Found, at: int) -> int:
    """Write the best items of a group; returns how many."""
    none, all_live = np.empty(0, np.int64), np.empty(0, np.int32)
    many = best_of(none, 0, size, all_live, room.sums, room.key, k, order.decided, room.best)
    for j in range(many):
        i = room.best[j]
        found.code[at + j], found.sums[at + j] = room.code[i], room.sums[i, 0]
    return many


@kernel
def count_groups(lists: Lists, asked: Asked, order: Order, room: Room, found: Found) -> None:
    """Count windows and write the best items of each group; ``at`` and ``answers`` move on."""
    group, starts, pane, low, high, code, value = lists
    local, items, sums, keys = room.local, room.code, room.sums, room.key
    shift = _SHIFT if order.packs else 0
    for moment in range(len(asked.moments) - 1):
        begin, stop = asked.moments[moment], asked.moments[moment + 1]
        for g in range(len(group)):
            run, size = starts[g + 1] - 1, 0
            while run >= starts[g] and pane[run] >= asked.end[begin]:
                run -= 1
            for window in range(begin, stop):
                while run >= starts[g] and pane[run] >= asked.first[window]:
                    for i in range(low[run], high[run]):
                        c = code[i]
                        own = local[c]
                        if own < 0:
                            local[c] = size
                            items[size], keys[size] = c, order.key[c]
                            rest = _HALF - (order.key[c] - order.least) if order.packs else 0
                            sums[size, 0] = (value[i] << shift) + rest
                            size += 1
                        else:
                            sums[own, 0] += value[i] << shift
                    run -= 1
                if size == 0:
                    continue
                reader = asked.reader[window]
                at, answers = found.at[reader], found.answers[reader]
                if order.packs:
                    at += _read_packed(size, asked.k[window], room, found, at)
                else:
                    at += _read(size, asked.k[window], order, room, found, at)
                found.group[answers], found.ends[answers] = group[g], at
                found.at[reader], found.answers[reader] = at, answers + 1
                found.many[window] += 1
                found.pairs[window] += size
            for i in range(size):
                local[items[i]] = -1


@kernel
def gather_runs(low: Ints, high: Ints, code: Codes, value: Ints) -> tuple[Codes, Ints]:
    """The entries of runs, one run after the other."""
    codes, values = np.empty(len(code), np.int32), np.empty(len(code), np.int64)
    n = 0
    for run in range(len(low)):
        for i in range(low[run], high[run]):
            codes[n], values[n] = code[i], value[i]
            n += 1
    return codes[:n], values[:n]
