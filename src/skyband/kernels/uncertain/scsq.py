"""SCSQ, the segmental queue (section 4.3), and its buffer (section 4.4).

An entry is a compact set and its segment: rows of older panes, up to the oldest pane of the next
older entry, that stand before the set's lowest row. The compact set of any window that starts there
lies in the two together. Segments that are small together are merged, so that O(log W) of them
remain.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels.jit import jit
from skyband.kernels.uncertain.compact import compact_end
from skyband.kernels.uncertain.csq import csq_take, update_entries
from skyband.kernels.uncertain.queue import (
    BEGIN,
    FIRST,
    FLUSHED,
    FRESH,
    HIGH,
    LARGEST,
    LAST,
    MADE,
    MERGED,
    MORE,
    OLDEST,
    ROOM,
    SIZE,
    TAIL,
    Queue,
    after_pane,
    append,
    drop_old,
    find,
    more_of,
    set_of,
    tail_from,
    used,
)  # fmt: skip
from skyband.kernels.uncertain.types import (
    KEEP,
    Ints,
    Rows,
    Rule,
    before,
    better,
    grown,
    merged,
    oldest_pane,
    sort_slots,
    without,
)  # fmt: skip

__all__ = ["buffer_fold", "scsq_fold", "scsq_read"]


@jit
def _size_up(q: Queue) -> None:
    """Renew H where the largest compact set has changed by a factor of two (footnote 1)."""
    num = q.num
    largest = 0
    for e in range(num[FIRST], num[LAST]):
        largest = max(largest, q.entry[e, SIZE])
    if largest > 2 * num[LARGEST] or 2 * largest < num[LARGEST]:
        num[LARGEST] = largest


@jit
def _settle(rows: Rows, q: Queue) -> Queue:
    """Merge neighbouring segments with fewer than H rows together (invariant 7)."""
    _size_up(q)
    num = q.num
    first, last, most = num[FIRST], num[LAST], num[LARGEST]
    small = False
    for e in range(first, last - 1):
        small = small or q.entry[e, MORE] + q.entry[e + 1, MORE] < most
    if not small:
        return q
    # From the newest to the oldest: an entry takes in the older ones until enough is together.
    room = used(q) - q.entry[first, BEGIN]
    stage = np.empty(room, np.int64)
    marks = np.empty((last - first, 4), np.int64)
    segment, spare = np.empty(room, np.int64), np.empty(room, np.int64)
    staged = 0
    at = 0
    e = last - 1
    while e >= first:
        newest = set_of(q, e)
        for i in range(len(newest)):
            stage[at + i] = newest[i]
        marks[staged, BEGIN] = at
        marks[staged, SIZE] = len(newest)
        marks[staged, OLDEST] = q.entry[e, OLDEST]
        at += len(newest)
        own = more_of(q, e)
        n = len(own)
        for i in range(n):
            segment[i] = own[i]
        e -= 1
        while e >= first and n + q.entry[e, MORE] < most:
            # The older set beyond what is here: its rows of its oldest pane.
            older = set_of(q, e)
            m = 0
            for i in range(len(older)):
                if rows.pane[older[i]] == q.entry[e, OLDEST]:
                    spare[m] = older[i]
                    m += 1
            both = np.empty(n + m, np.int64)
            n = merged(rows, segment, n, spare, m, both)
            more = more_of(q, e)
            n = merged(rows, both, n, more, len(more), segment)
            # Only what stands before this set's lowest row can enter a compact set with it.
            n = before(rows, segment, n, stage[at - 1])
            num[MERGED] += 1
            e -= 1
        for i in range(n):
            stage[at + i] = segment[i]
        marks[staged, MORE] = n
        at += n
        staged += 1
    num[LAST] = first
    for i in range(staged - 1, -1, -1):
        start = marks[i, BEGIN]
        n = marks[i, SIZE]
        q = append(q, stage[start:], n, stage[start + n :], marks[i, MORE], marks[i, OLDEST])
    return q


@jit
def _expire(rows: Rows, q: Queue, first: int) -> None:
    """Panes before ``first`` are gone; only the oldest segment can have rows of them."""
    drop_old(rows, q, first)
    e = q.num[FIRST]
    if e < q.num[LAST]:
        segment = more_of(q, e)
        q.entry[e, MORE] = without(rows, segment, len(segment), first, segment)


@jit
def scsq_fold(rule: Rule, rows: Rows, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Take panes as in CSQ, then merge segments; ``gone`` as there."""
    for i in range(len(offsets)):
        _expire(rows, q, gone[i])
        if i + 1 < len(offsets):
            q = csq_take(rule, rows, q, offsets[i], offsets[i + 1])
        q = _settle(rows, q)
    return q


@jit
def scsq_read(rows: Rows, q: Queue, first: int) -> Ints:
    """Rows among which is the compact set of the panes from ``first`` on, in row order.

    The entry's set, its segment, and of the rows that wait in the buffer those before its lowest.
    """
    num = q.num
    e = find(q, first)
    if e == num[LAST]:
        return tail_from(rows, q, first)
    own, segment = set_of(q, e), more_of(q, e)
    both = np.empty(len(own) + len(segment), np.int64)
    n = merged(rows, own, len(own), segment, len(segment), both)
    n = without(rows, both, n, first, both)
    waiting = sort_slots(rows, num[FRESH], num[HIGH])
    m = before(rows, waiting, len(waiting), own[-1])
    out = np.empty(n + m, np.int64)
    return out[: merged(rows, both, n, waiting, m, out)]


@jit
def _since(slots: Ints, start: int) -> Ints:
    """Only the slots from ``start`` on, in the order they have."""
    kept = np.empty(len(slots), np.int64)
    n = 0
    for i in range(len(slots)):
        kept[n] = slots[i]
        n += slots[i] >= start
    return kept[:n]


@jit
def _segments(rule: Rule, rows: Rows, q: Queue, newest: Ints, high: int) -> Queue:
    """Build compact sets and segments over the newest rows, from the newest back (lines 5 and 6).

    ``newest`` are those rows in row order, and perhaps a few older ones.
    The rows after the newest set's oldest pane stay: the paper empties the buffer, but windows
    that start among them will need them.
    """
    num = q.num
    tail = num[TAIL]
    starts = np.empty(high - tail + 1, np.int64)  # slots at which panes begin
    panes = 0
    for slot in range(tail, high):
        if slot == tail or rows.pane[slot] != rows.pane[slot - 1]:
            starts[panes] = slot
            panes += 1
    starts[panes] = high
    # The last pane from which on the newest rows admit a compact set, and that set.
    low, top = -1, panes
    middle = 0
    slots = starts
    n = -1
    while low + 1 < top:
        newer = _since(newest, starts[middle])
        end = compact_end(rule, rows.prob, newer, len(newer), KEEP)
        if end > 0:
            low = middle
            slots = newer
            n = end
        else:
            top = middle
        middle = (low + top) // 2
    if low < 0:
        return q
    num[MADE] += 1
    most = max(num[LARGEST], n)
    stage = np.empty(4 * (high - tail), np.int64)
    marks = np.empty((panes, 4), np.int64)
    segment = np.empty(high - tail, np.int64)
    spare = np.empty(high - tail, np.int64)
    m = 0
    staged = 0
    at = 0
    pane = low
    oldest = oldest_pane(rows, slots, n)
    num[TAIL] = after_pane(rows, tail, high, oldest)
    while True:
        pane -= 1
        count = 0
        if pane >= 0:
            if not better(rows, starts[pane], slots[n - 1]):
                continue
            entering = np.arange(starts[pane], starts[pane + 1])
            count = before(rows, entering, len(entering), slots[n - 1])
            if m + count <= most:
                m = merged(rows, segment, m, entering, count, spare)
                segment, spare = spare, segment
                continue
        # The segment is full, or the rows are at their end: the entry is complete.
        stage = grown(stage, at + n + m)
        for i in range(n):
            stage[at + i] = slots[i]
        marks[staged, BEGIN] = at
        marks[staged, SIZE] = n
        marks[staged, OLDEST] = oldest
        kept = m
        if pane >= 0:
            out = np.empty(n + m + count, np.int64)
            both = merged(rows, slots, n, segment, m, spare)
            both = merged(rows, spare, both, entering, count, out)
            end = compact_end(rule, rows.prob, out, both, KEEP)
            slots = out
            oldest = oldest_pane(rows, out, end if end > 0 else both)
            kept = without(rows, segment, m, oldest + 1, segment)
        for i in range(kept):
            stage[at + n + i] = segment[i]
        marks[staged, MORE] = kept
        at += n + kept
        staged += 1
        if pane < 0:
            break
        n = end if end > 0 else both
        num[MADE] += 1
        m = 0
    for i in range(staged - 1, -1, -1):
        start = marks[i, BEGIN]
        n = marks[i, SIZE]
        q = append(q, stage[start:], n, stage[start + n :], marks[i, MORE], marks[i, OLDEST])
    return q


@jit
def buffer_fold(rule: Rule, rows: Rows, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Take panes into the buffer; empty it when it has kH rows, or as many as admit no set."""
    num = q.num
    for i in range(len(offsets)):
        last = i + 1 == len(offsets)
        high = num[HIGH] if last else offsets[i + 1]
        num[HIGH] = high
        full = not last and high - num[FRESH] >= num[ROOM]
        if full or last:
            _expire(rows, q, gone[i])
        if full:  # algorithm 2
            num[FLUSHED] += 1
            newest = sort_slots(rows, num[TAIL], high)
            q = update_entries(rule, rows, q, _since(newest, num[FRESH]), high)
            q = _segments(rule, rows, q, newest, high)
            num[FRESH] = high
        if full or last:
            q = _settle(rows, q)
        if full:
            num[ROOM] = max(rule.k * num[LARGEST], high - num[TAIL], rule.k)
    return q
