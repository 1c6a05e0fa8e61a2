"""CSQ, the compact set queue (section 4.1), and CCSQ, the compressed one (section 4.2).

CSQ keeps every distinct compact set of the newest panes. CCSQ keeps the newest set and, for each
older one, how it differs: the first list of an entry has what its set contains and the next newer
one does not (rows of its oldest pane), the second list the opposite. The newest entry's first list
is its set. While panes are added, all sets are restored, so that both take panes alike.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.uncertain.kernels.compact import compact_end
from skyband.uncertain.kernels.queue import (
    BEGIN,
    FIRST,
    LAST,
    MADE,
    OLDEST,
    SIZE,
    TAIL,
    UPDATED,
    Queue,
    append_set,
    append_staged,
    arrived,
    drop_old,
    find,
    from_pane,
    mark,
    more_of,
    set_of,
    tail_from,
    updated,
    used,
)
from skyband.uncertain.kernels.types import (
    KEEP,
    SemanticsCode,
    UncertainRowsState,
    before,
    better,
    oldest_pane,
    sort_slots,
    without,
)


@jit
def newest_set(
    rule: SemanticsCode, rows: UncertainRowsState, q: Queue, high: int
) -> tuple[Ints, int]:
    """The compact set of the newest rows, and its size; the rows then start after its oldest pane.

    Call it until there is none: the rows left may admit another.
    """
    num = q.num
    slots = sort_slots(rows, num[TAIL], high)
    end = compact_end(rule, rows.prob, slots, len(slots), KEEP)
    if end > 0:
        num[MADE] += 1
        num[TAIL] = from_pane(rows, num[TAIL], high, oldest_pane(rows, slots, end) + 1)
    return slots, end


@jit
def update_entries(
    rule: SemanticsCode, rows: UncertainRowsState, q: Queue, fresh: Ints, high: int
) -> Queue:
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
        n = updated(rule, rows, old, len(old), fresh, len(fresh), spare[at:])
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
def csq_take(rule: SemanticsCode, rows: UncertainRowsState, q: Queue, low: int, high: int) -> Queue:
    """Add a pane (algorithm 1)."""
    q = update_entries(rule, rows, q, arrived(q, low, high), high)
    while True:
        slots, n = newest_set(rule, rows, q, high)
        if n < 0:
            return q
        q = append_set(rows, q, slots, n)


@jit
def _take_panes(
    rule: SemanticsCode, rows: UncertainRowsState, q: Queue, offsets: Ints, gone: Ints
) -> Queue:
    """Add panes; those before ``gone[i]`` expire before pane i, the last of them at the end."""
    for i in range(len(offsets) - 1):
        drop_old(rows, q, gone[i])
        q = csq_take(rule, rows, q, offsets[i], offsets[i + 1])
    drop_old(rows, q, gone[-1])
    return q


@kernel
def csq_fold(
    rule: SemanticsCode, rows: UncertainRowsState, q: Queue, offsets: Ints, gone: Ints
) -> Queue:
    """Add panes, see ``_take_panes``."""
    return _take_panes(rule, rows, q, offsets, gone)


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
def ccsq_fold(
    rule: SemanticsCode, rows: UncertainRowsState, q: Queue, offsets: Ints, gone: Ints
) -> Queue:
    """Add panes, see ``_take_panes``."""
    if len(offsets) == 1:
        return _take_panes(rule, rows, q, offsets, gone)
    return _compressed(rows, _take_panes(rule, rows, _restored(rows, q), offsets, gone))


@kernel
def ccsq_read(rows: UncertainRowsState, q: Queue, first: int) -> Ints:
    """Rows that contain the compact set of the panes from ``first`` on, in row order."""
    e = find(q, first)
    return tail_from(rows, q, first) if e == q.num[LAST] else ccsq_set(rows, q, e)
