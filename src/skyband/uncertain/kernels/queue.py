"""The state that the compact set queues share.

    arena    lists of slots, one or two per entry, entries from the oldest to the newest
    entry    of each: where it begins, the lengths of its two lists, the oldest pane of its set
    num      single numbers, named below

The newest rows, those of panes after the newest entry's oldest, are the slots from ``TAIL`` on: the
paper's D, and its buffer B. They have no list of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.jit import jit
from skyband.uncertain.kernels.compact import compact_end
from skyband.uncertain.kernels.types import (
    KEEP,
    SemanticsCode,
    UncertainRowsState,
    before,
    merged,
    oldest_pane,
    sort_slots,
)

# Columns of ``entry``.
BEGIN, SIZE, MORE, OLDEST = 0, 1, 2, 3

# Places in ``num``.
FIRST = 0  # the oldest entry
LAST = 1  # after the newest entry
TAIL = 2
FRESH = 3  # slots from here on are not in the entries yet
HIGH = 4  # after the newest slot
LARGEST = 5  # H: the largest compact set, renewed when that has changed by a factor of two
ROOM = 6  # rows that the buffer takes before it is emptied
BOUND = 7  # the greatest H under which a segment was filled that still exists
# Operations, as the paper counts them.
MADE = 8  # compact sets made of the newest rows
UPDATED = 9  # compact sets updated with new rows
MERGED = 10  # segments merged
FLUSHED = 11  # times the buffer was emptied
NUMBERS = 12


class Queue(NamedTuple):
    """See the module's table."""

    arena: Ints
    entry: Ints
    num: Ints


@jit
def updated(
    rule: SemanticsCode,
    rows: UncertainRowsState,
    old: Ints,
    n: int,
    fresh: Ints,
    n_fresh: int,
    out: Ints,
) -> int:
    """The compact set of a compact set and new rows (theorem 3.2), written to ``out``.

    New rows after its lowest row cannot enter. If rounding hides an end that must exist, all rows
    are kept.
    """
    count = before(rows, fresh, n_fresh, old[n - 1])
    total = merged(rows, old, n, fresh, count, out)
    end = compact_end(rule, rows.prob, out, total, KEEP)
    return end if end > 0 else total


@jit
def arrived(q: Queue, low: int, high: int) -> Ints:
    """Note a new pane that does not wait; returns its slots, which are in row order."""
    q.num[HIGH] = high
    q.num[FRESH] = high
    return np.arange(low, high)


@jit
def used(q: Queue) -> int:
    """Where the arena's free room begins."""
    last = q.num[LAST]
    if last == q.num[FIRST]:
        return 0
    return int(q.entry[last - 1, BEGIN] + q.entry[last - 1, SIZE] + q.entry[last - 1, MORE])


@jit
def _roomy(q: Queue, slots: int) -> Queue:
    """Make room for one more entry of so many slots; the room of expired entries is reused."""
    num = q.num
    first, last = num[FIRST], num[LAST]
    start = q.entry[first, BEGIN] if first < last else 0
    end = used(q)
    fits = end + slots <= len(q.arena) and last < len(q.entry)
    if fits and (first < 64 or first < last - first):
        return q
    arena = q.arena
    if end - start + slots > len(arena):
        arena = np.empty(2 * (end - start + slots), np.int64)
    for i in range(end - start):
        arena[i] = q.arena[start + i]
    entry = q.entry
    if last - first >= len(entry):
        entry = np.empty((2 * len(entry) + 4, 4), np.int64)
    for e in range(last - first):
        for column in range(4):
            entry[e, column] = q.entry[first + e, column]
        entry[e, BEGIN] -= start
    num[FIRST] = 0
    num[LAST] = last - first
    return Queue(arena, entry, num)


@jit
def append(q: Queue, one: Ints, n: int, two: Ints, m: int, oldest: int) -> Queue:
    """Append an entry at the newest end."""
    q = _roomy(q, n + m)
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
def mark(marks: Ints, i: int, begin: int, n: int, m: int, oldest: int) -> None:
    """Note where the two lists of a staged entry begin, and their lengths."""
    marks[i, BEGIN] = begin
    marks[i, SIZE] = n
    marks[i, MORE] = m
    marks[i, OLDEST] = oldest


@jit
def append_staged(q: Queue, stage: Ints, marks: Ints, staged: int, newest_first: bool) -> Queue:
    """Append the staged entries, from the oldest to the newest."""
    for i in range(staged):
        at = staged - 1 - i if newest_first else i
        start, n = marks[at, BEGIN], marks[at, SIZE]
        q = append(q, stage[start:], n, stage[start + n :], marks[at, MORE], marks[at, OLDEST])
    return q


@jit
def append_set(rows: UncertainRowsState, q: Queue, slots: Ints, n: int) -> Queue:
    """Append a compact set without a second list."""
    return append(q, slots, n, slots, 0, oldest_pane(rows, slots, n))


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
def from_pane(rows: UncertainRowsState, slot: int, high: int, first: int) -> int:
    """The first slot from ``slot`` on whose pane is ``first`` or comes after it."""
    while slot < high and rows.pane[slot] < first:
        slot += 1
    return slot


@jit
def find(q: Queue, first: int) -> int:
    """The entry for windows that start with pane ``first``; ``LAST`` if only the tail is left."""
    e = q.num[FIRST]
    while e < q.num[LAST] and q.entry[e, OLDEST] < first:
        e += 1
    return int(e)


@jit
def drop_old(rows: UncertainRowsState, q: Queue, first: int) -> None:
    """Drop the panes before ``first``."""
    num = q.num
    num[FIRST] = find(q, first)
    num[TAIL] = from_pane(rows, num[TAIL], num[HIGH], first)
    num[FRESH] = max(num[FRESH], num[TAIL])


@jit
def tail_from(rows: UncertainRowsState, q: Queue, first: int) -> Ints:
    """The newest rows of panes from ``first`` on, in row order."""
    num = q.num
    return sort_slots(rows, from_pane(rows, num[TAIL], num[HIGH], first), num[HIGH])
