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
    """Runs of entries by (group, pane): those of group g from ``starts[g]`` to ``starts[g + 1]``."""

    starts: Ints
    pane: Ints
    low: Ints  # where the entries of each run begin and end
    high: Ints
    code: Codes
    value: Ints


class Asked(NamedTuple):
    """Windows by (end, size): those that end together from ``moments[i]`` to ``moments[i + 1]``."""

    moments: Ints
    first: Ints
    end: Ints
    k: Ints
    room: Ints  # where what is read of each window begins


class Order(NamedTuple):
    """How items compare; if keys do not decide, items that tie with the last one follow it."""

    key: Ints
    least: int
    decided: bool


class Room(NamedTuple):
    """Arrays to work in; ``local`` is -1 for each item."""

    local: Codes
    code: Codes
    sums: Array
    key: Ints
    best: Ints


class Found(NamedTuple):
    """Codes and sums of the best items, how many each (window, group) has, and all (group, item)
    pairs of each window."""

    code: Codes
    sums: Ints
    lengths: Codes
    pairs: Ints


_FEW = 32
_HALF = np.int64(0x7FFFFFFF)


@piece
def _few(size: int, k: int, order: Order, room: Room, found: Found, at: int) -> bool:
    """Write the best of a few items, if count and key of each fit one number.

    The rank of an item is how many numbers are greater, which takes no branches.
    """
    fits = True
    packed = room.best
    for i in range(size):
        key = room.key[i] - order.least
        fits &= (key >= 0) & (key <= _HALF) & (room.sums[i, 0] < _HALF)
        packed[i] = (room.sums[i, 0] << 31) + (_HALF - key)
    if fits:
        for i in range(size):
            own = packed[i]
            before = 0
            for j in range(size):
                before += packed[j] > own
            if before < k:
                found.code[at + before] = room.code[i]
                found.sums[at + before] = room.sums[i, 0]
    return fits


@jit
def _read(size: int, k: int, order: Order, room: Room, found: Found, at: int) -> int:
    """Write the best items of a group in a window; returns how many."""
    if order.decided and size <= _FEW and _few(size, k, order, room, found, at):
        return min(size, k)
    none, all_live = np.empty(0, np.int64), np.empty(0, np.int32)
    many = best_of(none, 0, size, all_live, room.sums, room.key, k, order.decided, room.best)
    for j in range(many):
        i = room.best[j]
        found.code[at + j], found.sums[at + j] = room.code[i], room.sums[i, 0]
    return many


@kernel
def count_groups(lists: Lists, asked: Asked, order: Order, room: Room, found: Found) -> None:
    """Count windows and write the best items of each, group by group in the order of codes."""
    starts, pane, low, high, code, value = lists
    local, items, sums, keys = room.local, room.code, room.sums, room.key
    at = asked.room.copy()
    for moment in range(len(asked.moments) - 1):
        begin, stop = asked.moments[moment], asked.moments[moment + 1]
        for group in range(len(starts) - 1):
            run, size = starts[group + 1] - 1, 0
            while run >= starts[group] and pane[run] >= asked.end[begin]:
                run -= 1
            for window in range(begin, stop):
                while run >= starts[group] and pane[run] >= asked.first[window]:
                    for i in range(low[run], high[run]):
                        c = code[i]
                        own = local[c]
                        if own < 0:
                            local[c] = size
                            items[size], keys[size] = c, order.key[c]
                            sums[size, 0] = value[i]
                            size += 1
                        else:
                            sums[own, 0] += value[i]
                    run -= 1
                if size > 0:
                    many = _read(size, asked.k[window], order, room, found, at[window])
                    at[window] += many
                    found.lengths[window, group] = many
                    found.pairs[window] += size
            for i in range(size):
                local[items[i]] = -1


@kernel
def in_sequence(
    found: Found, room: Ints, windows: Ints, sequence: Ints, code: Codes, sums: Ints,
    group: Codes, ends: Ints, many: Ints,
) -> None:  # fmt: skip
    """Write what was read of these windows again, the groups of each in ``sequence``."""
    begin = np.empty(found.lengths.shape[1], np.int64)
    n = answers = 0
    for i in range(len(windows)):
        window = windows[i]
        at = room[window]
        for g in range(len(begin)):
            begin[g] = at
            at += found.lengths[window, g]
        before = answers
        for g in sequence:
            length = found.lengths[window, g]
            if length == 0:
                continue
            for j in range(begin[g], begin[g] + length):
                code[n], sums[n] = found.code[j], found.sums[j]
                n += 1
            group[answers], ends[answers] = g, n
            answers += 1
        many[i] = answers - before
