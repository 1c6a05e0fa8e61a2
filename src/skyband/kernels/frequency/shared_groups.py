"""Windows of several queries with groups, counted from one set of lists.

Windows that end at the same moment lie within each other. So for each group the lists of the panes
are added up once, from the newest to the oldest, and the best items are read on the way:

    panes        ├ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┤
    added up                         ◄───┤  then the best of the shortest window are read
                     ◄───────────────────┤  then those of the next one

Items are numbered in the order in which they come up, so those of a window are the first ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.core.best import best_of
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel


class Lists(NamedTuple):
    """Runs of entries by (group, pane): group i has those from ``starts[i]`` to ``starts[i + 1]``.

    Groups are in the order in which answers show them. The items of a group are numbered from 0;
    they are ``item[first[i] : first[i + 1]]``, with their keys.
    """

    group: Ints
    starts: Ints
    pane: Codes
    ends: Ints  # where the entries of each run end
    number: Codes  # that of each entry's item
    newer: Codes  # the next pane in which the group has this item
    value: Ints
    first: Ints
    item: Codes
    key: Ints


class Asked(NamedTuple):
    """Windows by (end, size): those that end together from ``moments[i]`` to ``moments[i + 1]``."""

    moments: Ints
    reader: Ints  # which query asks
    first: Ints
    end: Ints
    k: Ints


class Order(NamedTuple):
    """How items compare: by their counts, then by their keys, the least of which is given.

    With ``packs`` both fit one number, and the keys decide. Otherwise, unless ``decided``, items
    that tie with the last one follow it.
    """

    least: int
    packs: bool
    decided: bool


class Room(NamedTuple):
    """Arrays to work in, with room for each item of a group."""

    used: Codes  # the numbers of the items that have come up
    sums: Ints
    values: Ints  # the sums of these items, and a few more
    best: Ints
    more: Ints


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


SHIFT = 31
HALF = np.int64(0x7FFFFFFF)
_LAST = np.int32(0x7FFFFFFF)
_LANES = 8  # so many are compared at a time
_MOST_COMPARED = 128  # up to so many items, each is compared with each
LEAST_BUFFER = 512
_GOLDEN = np.uint32(0x9E3779B1)
_16 = np.uint32(16)


@jit
def _greatest(values: Ints, size: int, k: int) -> Any:
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
def _chosen(values: Ints, size: int, k: int, best: Ints, more: Ints) -> None:
    """Bring the k greatest values to the front; ``best`` says where they were.

    Values that may be among them are collected; when there is no more room, the others are dropped.
    """
    n, room = 0, max(4 * k, LEAST_BUFFER)
    least: Any = np.int64(-1)
    for i in range(size):
        if values[i] > least:
            if n == room:
                least = _greatest(more, n, k)
                n = k
            if values[i] > least:
                more[n] = values[i]
                n += 1
    least = _greatest(more, n, k)
    n = 0
    for i in range(size):
        if values[i] >= least:
            values[n], best[n] = values[i], i
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


@jit
def read_packed(size: int, k: int, item: Codes, room: Room, found: Found, at: int) -> int:
    """Write the best items of a group, whose values have the keys in them; returns how many."""
    used, values, best = room.used, room.values, room.best
    for i in range(size):
        values[i] = room.sums[used[i]]
        best[i] = i
    many = min(size, k)
    if many < size:
        _chosen(values, size, k, best, room.more)
    if many > _MOST_COMPARED:
        _sort(values, best, many)
        for i in range(many):
            found.code[at + i], found.sums[at + i] = item[used[best[i]]], values[i] >> SHIFT
        return many
    whole = (many + _LANES - 1) // _LANES * _LANES
    for i in range(many, whole):
        values[i] = -1
    for i in range(many):  # the rank of an item is how many values are greater
        own = values[i]
        before = 0
        for j in range(whole):
            before += values[j] > own
        found.code[at + before], found.sums[at + before] = item[used[best[i]]], own >> SHIFT
    return many


@jit
def read(
    size: int, k: int, item: Codes, key: Ints, decided: bool, room: Room, found: Found, at: int
) -> int:
    """Write the best items of a group; returns how many."""
    used, values, keys = room.used, room.values, room.more
    for i in range(size):
        values[i], keys[i] = room.sums[used[i]], key[used[i]]
    none, all_live, sums = np.empty(0, np.int64), np.empty(0, np.int32), values.reshape(-1, 1)
    many = best_of(none, 0, size, all_live, sums, keys, k, decided, room.best)
    for j in range(many):
        i = room.best[j]
        found.code[at + j], found.sums[at + j] = item[used[i]], values[i]
    return many


@kernel
def count_groups(lists: Lists, asked: Asked, order: Order, room: Room, found: Found) -> None:
    """Count windows and write the best items of each group; ``at`` and ``answers`` move on."""
    group, starts, pane, ends, numbers, newer, value, first, item, key = lists
    used, sums = room.used, room.sums
    shift = SHIFT if order.packs else 0
    for moment in range(len(asked.moments) - 1):
        begin, stop = asked.moments[moment], asked.moments[moment + 1]
        end = asked.end[begin]
        for g in range(len(group)):
            run, size = starts[g + 1] - 1, 0
            own_item, own_key = item[first[g] : first[g + 1]], key[first[g] : first[g + 1]]
            while run >= starts[g] and pane[run] >= end:
                run -= 1
            for window in range(begin, stop):
                while run >= starts[g] and pane[run] >= asked.first[window]:
                    for i in range(ends[run - 1] if run else 0, ends[run]):
                        number = numbers[i]
                        fresh = newer[i] >= end  # its newest entry before the end; no branches
                        rest = HALF - (own_key[number] - order.least) if order.packs else 0
                        sums[number] = (rest if fresh else sums[number]) + (value[i] << shift)
                        used[size] = number
                        size += fresh
                    run -= 1
                if size == 0:
                    continue
                reader, k = asked.reader[window], asked.k[window]
                at, answers = found.at[reader], found.answers[reader]
                if order.packs:
                    at += read_packed(size, k, own_item, room, found, at)
                else:
                    at += read(size, k, own_item, own_key, order.decided, room, found, at)
                found.group[answers], found.ends[answers] = group[g], at
                found.at[reader], found.answers[reader] = at, answers + 1
                found.many[window] += 1
                found.pairs[window] += size


@jit
def _home(code: np.int32) -> Any:
    """Where the probing for a code starts, before it is reduced to the size of the table."""
    mixed = np.uint32(code) * _GOLDEN
    return np.int64(mixed ^ (mixed >> _16))


@kernel
def number_items(
    starts: Ints, pane: Codes, low: Ints, high: Ints, code: Codes, value: Ints, order_key: Ints
) -> tuple[Ints, Codes, Codes, Ints, Ints, Codes, Ints]:
    """The entries of runs, one run after the other, with the items of each group numbered.

    Returns the arrays of ``Lists`` from ``ends`` on.
    """
    ends, first = np.empty(len(low), np.int64), np.zeros(len(starts), np.int64)
    entries = most = 0
    for g in range(len(starts) - 1):
        before = entries
        for run in range(starts[g], starts[g + 1]):
            entries += high[run] - low[run]
            ends[run] = entries
        most = max(most, entries - before)
    room = 4
    while room < 2 * most:
        room *= 2
    table, last = np.empty(room, np.int32), np.empty(most, np.int32)
    number, newer = np.empty(entries, np.int32), np.empty(entries, np.int32)
    values = np.empty(entries, np.int64)
    item, key = np.empty(entries, np.int32), np.empty(entries, np.int64)
    before = pairs = 0
    for g in range(len(starts) - 1):
        after = ends[starts[g + 1] - 1] if starts[g + 1] > starts[g] else before
        size = 4
        while size < 2 * (after - before):
            size *= 2
        for i in range(size):
            table[i] = -1
        base = first[g]
        for run in range(starts[g + 1] - 1, starts[g] - 1, -1):
            n = ends[run] - (high[run] - low[run])
            for i in range(low[run], high[run]):
                c = code[i]
                at = _home(c) & (size - 1)
                while table[at] >= 0 and item[base + table[at]] != c:
                    at = (at + 1) & (size - 1)
                if table[at] < 0:
                    table[at] = pairs - base
                    last[pairs - base] = _LAST
                    item[pairs], key[pairs] = c, order_key[c]
                    pairs += 1
                own = table[at]
                number[n], newer[n], values[n] = own, last[own], value[i]
                last[own] = pane[run]
                n += 1
        first[g + 1] = pairs
        before = after
    return ends, number, newer, values, first, item[:pairs], key[:pairs]
