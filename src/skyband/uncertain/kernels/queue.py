"""The state that the compact set queues share, and the loops of CSQ and CCSQ.

    arena    lists of slots, one or two per entry, entries from the oldest to the newest
    entry    of each: where it begins, the lengths of its two lists, the oldest pane of its set
    num      single numbers, named below

The newest rows, those of panes after the newest entry's oldest, are the slots from ``TAIL`` on: the
paper's D, and its buffer B. They have no list of their own.

CSQ (section 4.1) keeps every distinct compact set of the newest panes. CCSQ (4.2) keeps the newest
set and, for each older one, how it differs: the first list of an entry has what its set contains
and the next newer one does not (rows of its oldest pane), the second list the opposite. The newest
entry's first list is its set. While panes are added, all sets are restored, so that both take panes
alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.uncertain.kernels.compact import set_end
from skyband.uncertain.kernels.types import (
    UncertainRowsState,
    before,
    better,
    merged,
    oldest_pane,
    sort_slots,
    without,
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
def updated(rows: UncertainRowsState, old: Ints, fresh: Ints, out: Ints) -> int:
    """The compact set of a compact set and new rows (theorem 3.2), written to ``out``.

    New rows after its lowest row cannot enter. If rounding hides an end that must exist, all rows
    are kept.
    """
    count = before(rows, fresh, len(fresh), old[-1])
    total = merged(rows, old, len(old), fresh, count, out)
    end = set_end(rows, out, total)
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


# CSQ and CCSQ -------------------------------------------------------------------------------------


@jit
def newest_set(rows: UncertainRowsState, q: Queue, high: int) -> tuple[Ints, int]:
    """The compact set of the newest rows, and its size; the rows then start after its oldest pane.

    Call it until there is none: the rows left may admit another.
    """
    num = q.num
    slots = sort_slots(rows, num[TAIL], high)
    end = set_end(rows, slots, len(slots))
    if end > 0:
        num[MADE] += 1
        num[TAIL] = from_pane(rows, num[TAIL], high, oldest_pane(rows, slots, end) + 1)
    return slots, end


@jit
def update_entries(rows: UncertainRowsState, q: Queue, fresh: Ints, high: int) -> Queue:
    """Update the compact sets that sorted new rows enter; sets that become equal are merged."""
    num = q.num
    first, last = num[FIRST], num[LAST]
    e = last
    while e > first and better(rows, fresh[0], set_of(q, e - 1)[-1]):
        e -= 1  # a set that no new row enters ends the search: older sets end higher up
    if e == last:
        return q
    spare = np.empty(used(q) - q.entry[e, BEGIN] + (last - e) * len(fresh), np.int64)
    marks = np.empty((last - e, 4), np.int64)
    at = 0
    kept = 0
    for i in range(e, last):
        old = set_of(q, i)
        n = updated(rows, old, fresh, spare[at:])
        num[UPDATED] += 1
        oldest = oldest_pane(rows, spare[at:], n)
        if kept > 0 and marks[kept - 1, OLDEST] == oldest:
            continue  # the same set as the older one before it, whose segment goes further back
        # Its segment loses the rows that the set ends before, and those of panes that the older
        # set now covers.
        segment = more_of(q, i)
        more = before(rows, segment, len(segment), spare[at + n - 1])
        if kept > 0:
            more = without(rows, segment, more, marks[kept - 1, OLDEST] + 1, segment)
        for j in range(more):
            spare[at + n + j] = segment[j]
        mark(marks, kept, at, n, more, oldest)
        kept += 1
        at += n + more
    num[LAST] = e
    q = append_staged(q, spare, marks, kept, False)
    num[TAIL] = from_pane(rows, num[TAIL], high, marks[kept - 1, OLDEST] + 1)
    return q


@jit
def csq_take(rows: UncertainRowsState, q: Queue, low: int, high: int) -> Queue:
    """Add a pane (algorithm 1)."""
    q = update_entries(rows, q, arrived(q, low, high), high)
    while True:
        slots, n = newest_set(rows, q, high)
        if n < 0:
            return q
        q = append_set(rows, q, slots, n)


@jit
def _take_panes(rows: UncertainRowsState, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Add panes; those before ``gone[i]`` expire before pane i, the last of them at the end."""
    for i in range(len(offsets) - 1):
        drop_old(rows, q, gone[i])
        q = csq_take(rows, q, offsets[i], offsets[i + 1])
    drop_old(rows, q, gone[-1])
    return q


@kernel
def csq_fold(rows: UncertainRowsState, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Add panes, see ``_take_panes``."""
    return _take_panes(rows, q, offsets, gone)


@kernel
def csq_read(rows: UncertainRowsState, q: Queue, first: int) -> Ints:
    """Rows that contain the compact set of the panes from ``first`` on, in row order."""
    e = find(q, first)
    return tail_from(rows, q, first) if e == q.num[LAST] else set_of(q, e).copy()


@jit
def _less(rows: UncertainRowsState, a: Ints, n: int, b: Ints, m: int, out: Ints) -> int:
    """The slots of sorted list a that are not in sorted list b."""
    j = 0
    kept = 0
    for i in range(n):
        while j < m and better(rows, b[j], a[i]):
            j += 1
        if j < m and b[j] == a[i]:
            j += 1
        else:
            out[kept] = a[i]
            kept += 1
    return kept


@jit
def _older(rows: UncertainRowsState, q: Queue, e: int, newer: Ints, n: int, out: Ints) -> int:
    """The set of entry e from that of the next newer one."""
    plus, minus = set_of(q, e), more_of(q, e)
    i = 0
    j = 0
    gone = 0
    total = 0
    while i < n or j < len(plus):
        if i < n and gone < len(minus) and minus[gone] == newer[i]:
            gone += 1
            i += 1
        elif j == len(plus) or (i < n and better(rows, newer[i], plus[j])):
            out[total] = newer[i]
            i += 1
            total += 1
        else:
            out[total] = plus[j]
            j += 1
            total += 1
    return total


@jit
def ccsq_set(rows: UncertainRowsState, q: Queue, e: int) -> Ints:
    """The set of an entry, restored from the newest one."""
    last = q.num[LAST] - 1
    room = used(q) - q.entry[e, BEGIN]
    a = np.empty(room, np.int64)
    b = np.empty(room, np.int64)
    newest = set_of(q, last)
    n = len(newest)
    for i in range(n):
        a[i] = newest[i]
    for older in range(last - 1, e - 1, -1):
        n = _older(rows, q, older, a, n, b)
        a, b = b, a
    return a[:n]


@jit
def _restored(rows: UncertainRowsState, q: Queue) -> Queue:
    """The queue with every set in full."""
    first, last = q.num[FIRST], q.num[LAST]
    sets = set_of(q, last - 1).copy() if first < last else q.arena[:0]
    marks = np.empty((last - first, 4), np.int64)
    at, n = 0, len(sets)
    for e in range(last - 1, first - 1, -1):
        begin = at
        if e + 1 < last:
            begin = at + n
            sets = with_room(sets, begin, begin + n + q.entry[e, SIZE])
            n = _older(rows, q, e, sets[at:begin], n, sets[begin:])
        at = begin
        mark(marks, last - 1 - e, at, n, 0, q.entry[e, OLDEST])
    q.num[LAST] = first
    return append_staged(q, sets, marks, last - first, True)


@jit
def _compressed(rows: UncertainRowsState, q: Queue) -> Queue:
    """The queue with, of every set but the newest, only how it differs from the next newer one."""
    first, last = q.num[FIRST], q.num[LAST]
    lists = np.empty(2 * used(q), np.int64)
    marks = np.empty((last - first, 4), np.int64)
    at = 0
    for e in range(first, last):
        own = set_of(q, e)
        newer = set_of(q, e + 1) if e + 1 < last else own[:0]
        plus = _less(rows, own, len(own), newer, len(newer), lists[at:])
        minus = _less(rows, newer, len(newer), own, len(own), lists[at + plus :])
        mark(marks, e - first, at, plus, minus, q.entry[e, OLDEST])
        at += plus + minus
    q.num[LAST] = first
    return append_staged(Queue(lists[:0], q.entry, q.num), lists, marks, last - first, False)


@kernel
def ccsq_fold(rows: UncertainRowsState, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Add panes, see ``_take_panes``."""
    if len(offsets) == 1:
        return _take_panes(rows, q, offsets, gone)
    return _compressed(rows, _take_panes(rows, _restored(rows, q), offsets, gone))


@kernel
def ccsq_read(rows: UncertainRowsState, q: Queue, first: int) -> Ints:
    """Rows that contain the compact set of the panes from ``first`` on, in row order."""
    e = find(q, first)
    return tail_from(rows, q, first) if e == q.num[LAST] else ccsq_set(rows, q, e)
