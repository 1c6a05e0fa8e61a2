"""The state that the compact set queues share, and the window's own compact set.

    arena    lists of slots, one or two an entry, entries from the oldest to the newest
    entry    of each: where it begins, the lengths of its two lists, the oldest pane of its set
    head     the window's own compact set in row order, from which answers are read
    num      single numbers, named below

The newest rows, those of panes after the newest entry's oldest, are the slots from ``TAIL`` on: the
paper's D, and its buffer B. They hold no list of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.jit import jit
from skyband.kernels.uncertain.compact import compact_end
from skyband.kernels.uncertain.types import KEEP, Ints, Rows, Rule, better, merged

__all__ = ["Queue"]

# Columns of ``entry``.
BEGIN, SIZE, MORE, OLDEST = 0, 1, 2, 3

# Places in ``num``.
ALGORITHM = 0
FIRST = 1  # the oldest entry
LAST = 2  # after the newest entry
HEAD = 3  # slots in the head
OPEN = 4  # whether the head is all rows of the window, because they admit no compact set
HEAD_OLDEST = 5
STALE = 6  # whether the head changed since it was last read
TAIL = 7
FRESH = 8  # slots from here on are not in the entries yet
HIGH = 9  # after the newest slot
LARGEST = 10  # H: the largest compact set, renewed when that has changed by a factor of two
ROOM = 11  # rows that the buffer takes before it is emptied
# Operations, as the paper counts them.
MADE = 12  # compact sets made of the newest rows
UPDATED = 13  # compact sets updated with new rows
REBUILT = 14  # times the window's own compact set was made anew
MERGED = 15  # segments merged
FLUSHED = 16  # times the buffer was emptied
NUMBERS = 17

CSQ, CCSQ, SCSQ, BUFFER = 0, 1, 2, 3
FAR = np.iinfo(np.int64).max


class Queue(NamedTuple):
    """See the module's table."""

    arena: Ints
    entry: Ints
    head: Ints
    num: Ints


@jit
def oldest_pane(rows: Rows, slots: Ints, n: int) -> int:
    """The oldest pane among these rows."""
    oldest = FAR
    for i in range(n):
        oldest = min(oldest, rows.pane[slots[i]])
    return oldest


@jit
def before(rows: Rows, slots: Ints, n: int, last: int) -> int:
    """How many of n sorted rows stand before a given one."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if better(rows, slots[middle], last):
            low = middle + 1
        else:
            high = middle
    return low


@jit
def updated(
    rule: Rule, rows: Rows, old: Ints, n: int, fresh: Ints, n_fresh: int, out: Ints
) -> int:
    """The compact set of a compact set and new rows (theorem 3.2), written to ``out``.

    New rows after its lowest can only be left out; and should rounding hide the end that must be
    there, all is kept.
    """
    count = before(rows, fresh, n_fresh, old[n - 1])
    total = merged(rows, old, n, fresh, count, out)
    end = compact_end(rule, rows.prob, out, total, KEEP)
    return end if end > 0 else total


@jit
def slot_range(low: int, high: int) -> Ints:
    """The slots of one pane, which stand in row order."""
    return np.arange(low, high)


@jit
def set_head(rows: Rows, q: Queue, head: Ints, n: int, is_open: int) -> Queue:
    """Make these slots the window's own compact set."""
    num = q.num
    num[HEAD] = n
    num[OPEN] = is_open
    num[HEAD_OLDEST] = oldest_pane(rows, head, n)
    num[STALE] = 1
    return Queue(q.arena, q.entry, head, num)


@jit
def push_head(rule: Rule, rows: Rows, q: Queue, low: int, high: int) -> Queue:
    """Take the rows of a new pane into the window's own compact set, where they matter."""
    n = q.num[HEAD]
    if q.num[OPEN] == 0:
        if not better(rows, low, q.head[n - 1]):
            return q
        out = np.empty(n + high - low, np.int64)
        n = updated(rule, rows, q.head, n, slot_range(low, high), high - low, out)
        return set_head(rows, q, out, n, 0)
    out = np.empty(n + high - low, np.int64)
    total = merged(rows, q.head, n, slot_range(low, high), high - low, out)
    end = compact_end(rule, rows.prob, out, total, KEEP)
    return set_head(rows, q, out, total if end < 0 else end, 1 if end < 0 else 0)


@jit
def without(rows: Rows, slots: Ints, n: int, first: int, out: Ints) -> int:
    """Only the rows of panes from ``first`` on."""
    kept = 0
    for i in range(n):
        if rows.pane[slots[i]] >= first:
            out[kept] = slots[i]
            kept += 1
    return kept


@jit
def used(q: Queue) -> int:
    """Where the arena's free room begins."""
    last = q.num[LAST]
    if last == q.num[FIRST]:
        return 0
    return q.entry[last - 1, BEGIN] + q.entry[last - 1, SIZE] + q.entry[last - 1, MORE]


@jit
def roomy(q: Queue, slots: int, entries: int) -> Queue:
    """Room for so many more slots and entries at the end; what expired in front is given back."""
    num = q.num
    first, last = num[FIRST], num[LAST]
    start = q.entry[first, BEGIN] if first < last else 0
    end = used(q)
    fits = end + slots <= len(q.arena) and last + entries <= len(q.entry)
    if fits and (first < 64 or first < last - first):
        return q
    arena = q.arena
    if end - start + slots > len(arena):
        arena = np.empty(2 * (end - start + slots), np.int64)
    for i in range(end - start):
        arena[i] = q.arena[start + i]
    entry = q.entry
    if last - first + entries > len(entry):
        entry = np.empty((2 * (last - first + entries), 4), np.int64)
    for e in range(last - first):
        for column in range(4):
            entry[e, column] = q.entry[first + e, column]
        entry[e, BEGIN] -= start
    num[FIRST] = 0
    num[LAST] = last - first
    return Queue(arena, entry, q.head, num)


@jit
def append(q: Queue, one: Ints, n: int, two: Ints, m: int, oldest: int) -> Queue:
    """Add an entry at the newest end."""
    q = roomy(q, n + m, 1)
    begin = used(q)
    last = q.num[LAST]
    for i in range(n):
        q.arena[begin + i] = one[i]
    for i in range(m):
        q.arena[begin + n + i] = two[i]
    q.entry[last, BEGIN] = begin
    q.entry[last, SIZE] = n
    q.entry[last, MORE] = m
    q.entry[last, OLDEST] = oldest
    q.num[LAST] = last + 1
    return q


@jit
def set_of(q: Queue, e: int) -> Ints:
    """The first list of an entry, in place."""
    begin = q.entry[e, BEGIN]
    return q.arena[begin : begin + q.entry[e, SIZE]]


@jit
def more_of(q: Queue, e: int) -> Ints:
    """The second list of an entry, in place."""
    begin = q.entry[e, BEGIN] + q.entry[e, SIZE]
    return q.arena[begin : begin + q.entry[e, MORE]]


@jit
def after_pane(rows: Rows, slot: int, high: int, pane: int) -> int:
    """The first slot from ``slot`` on whose pane comes after ``pane``."""
    while slot < high and rows.pane[slot] <= pane:
        slot += 1
    return slot
