"""SCSQ, the segmental queue (section 4.3), and its buffer (section 4.4).

An entry is a compact set and its segment: rows of older panes, up to the oldest pane of the next
older entry, that come before the set's lowest row. Together they contain the compact set of any
window that starts there. Neighbouring segments that are small are merged, so that O(log W) of them
remain.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.uncertain.kernels.compact import set_end
from skyband.uncertain.kernels.queue import (
    BEGIN,
    BOUND,
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
    append_staged,
    csq_take,
    drop_old,
    find,
    from_pane,
    mark,
    more_of,
    set_of,
    tail_from,
    update_entries,
    used,
)
from skyband.uncertain.kernels.types import (
    UncertainRowsState,
    before,
    better,
    merged,
    oldest_pane,
    since,
    sort_before,
    sort_list,
    sort_slots,
    without,
)


@jit
def _size_up(q: Queue) -> None:
    """Update H if the largest compact set has changed by a factor of two (footnote 1).

    Segments that were filled under a greater H stay until they are cut or expire.
    """
    num = q.num
    largest = 0
    longest = 0
    for e in range(num[FIRST], num[LAST]):
        largest = max(largest, q.entry[e, SIZE])
        longest = max(longest, q.entry[e, MORE])
    if largest > 2 * num[LARGEST] or 2 * largest < num[LARGEST]:
        num[LARGEST] = largest
    num[BOUND] = max(num[LARGEST], min(num[BOUND], longest))


@jit
def _settle(rows: UncertainRowsState, q: Queue) -> Queue:
    """Merge neighbouring segments with fewer than H rows together (invariant 7)."""
    _size_up(q)
    num = q.num
    first, last, most = num[FIRST], num[LAST], num[LARGEST]
    small = False
    for e in range(first, last - 1):
        small = small or q.entry[e, MORE] + q.entry[e + 1, MORE] < most
    if not small:
        return q
    # From the newest to the oldest: an entry absorbs older ones until it is large enough.
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
        start = at
        oldest = q.entry[e, OLDEST]
        at += len(newest)
        own = more_of(q, e)
        n = len(own)
        for i in range(n):
            segment[i] = own[i]
        e -= 1
        while e >= first and n + q.entry[e, MORE] < most:
            # What the older set has in addition: its rows of its oldest pane.
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
            # Only rows before this set's lowest row can enter a compact set with it.
            n = before(rows, segment, n, stage[at - 1])
            num[MERGED] += 1
            e -= 1
        for i in range(n):
            stage[at + i] = segment[i]
        mark(marks, staged, start, len(newest), n, oldest)
        at += n
        staged += 1
    num[LAST] = first
    q = append_staged(q, stage, marks, staged, True)
    _size_up(q)  # the largest set may have been absorbed
    return q


@jit
def _expire(rows: UncertainRowsState, q: Queue, first: int) -> None:
    """Drop the panes before ``first``; only the oldest segment can have rows of them."""
    drop_old(rows, q, first)
    e = q.num[FIRST]
    if e < q.num[LAST]:
        segment = more_of(q, e)
        q.entry[e, MORE] = without(rows, segment, len(segment), first, segment)


@kernel
def scsq_fold(rows: UncertainRowsState, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Add panes as in CSQ, then merge segments; ``gone`` as there."""
    for i in range(len(offsets)):
        _expire(rows, q, gone[i])
        if i + 1 < len(offsets):
            q = csq_take(rows, q, offsets[i], offsets[i + 1])
        q = _settle(rows, q)
    return q


@kernel
def scsq_read(rows: UncertainRowsState, q: Queue, first: int) -> Ints:
    """Rows that contain the compact set of the panes from ``first`` on, in row order.

    They are the entry's set, its segment, and waiting rows of the buffer before its lowest row.
    """
    num = q.num
    e = find(q, first)
    if e == num[LAST]:
        return tail_from(rows, q, first)
    own, segment = set_of(q, e), more_of(q, e)
    both = np.empty(len(own) + len(segment), np.int64)
    n = merged(rows, own, len(own), segment, len(segment), both)
    n = without(rows, both, n, first, both)
    waiting = sort_before(rows, num[FRESH], num[HIGH], own[-1])
    out = np.empty(n + len(waiting), np.int64)
    return out[: merged(rows, both, n, waiting, len(waiting), out)]


@jit
def _pane_starts(rows: UncertainRowsState, low: int, high: int) -> Ints:
    """The slots in [low, high) at which panes begin, and ``high``."""
    starts = np.empty(high - low + 1, np.int64)
    panes = 0
    for slot in range(low, high):
        if slot == low or rows.pane[slot] != rows.pane[slot - 1]:
            starts[panes] = slot
            panes += 1
    starts[panes] = high
    return starts[: panes + 1]


@jit
def _newest_set(
    rows: UncertainRowsState, starts: Ints, high: int, largest: int
) -> tuple[int, Ints, int]:
    """The last pane such that the rows from there on admit a compact set; its slots and its size.

    Tries a few panes, then twice as many, until there is one; then bisects. The pane is -1 if there
    is none.
    """
    low, top = -1, len(starts) - 1
    size = max(2 * largest, 2 * rows.rule.k)
    middle = top - 1
    slots = starts
    newest = starts
    n = -1
    while low + 1 < top:
        if n < 0:
            middle = top - 1
            while middle > 0 and high - starts[middle] < size:
                middle -= 1
            newest = sort_slots(rows, starts[middle], high)
            size *= 2
        newer = since(newest, starts[middle])
        end = set_end(rows, newer, len(newer))
        if end > 0:
            low = middle
            slots = newer
            n = end
        else:
            top = middle
        if n >= 0:
            middle = (low + top) // 2
    return low, slots, n


@jit
def _segments(rows: UncertainRowsState, q: Queue, high: int) -> Queue:
    """Build compact sets and segments over the newest rows, from the newest back (lines 5 and 6).

    The rows after the newest set's oldest pane stay. The paper empties the buffer, but windows that
    start among these rows will need them.
    """
    num = q.num
    tail = num[TAIL]
    starts = _pane_starts(rows, tail, high)
    pane, slots, n = _newest_set(rows, starts, high, num[LARGEST])
    if pane < 0:
        return q
    num[MADE] += 1
    if n > 2 * num[LARGEST]:
        num[LARGEST] = n
    most = num[LARGEST]
    stage = np.empty(4 * (high - tail), np.int64)
    marks = np.empty((len(starts) - 1, 4), np.int64)
    segment = np.empty(high - tail, np.int64)
    spare = np.empty(high - tail, np.int64)
    m = 0
    staged = 0
    at = 0
    oldest = oldest_pane(rows, slots, n)
    num[TAIL] = from_pane(rows, tail, high, oldest + 1)
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
        # The segment is full, or there are no more rows: the entry is complete.
        stage = with_room(stage, at, at + n + m)
        for i in range(n):
            stage[at + i] = slots[i]
        size, begun = n, oldest
        kept = m
        if pane >= 0:
            out = np.empty(n + m + count, np.int64)
            both = merged(rows, slots, n, segment, m, spare)
            both = merged(rows, spare, both, entering, count, out)
            end = set_end(rows, out, both)
            slots = out
            oldest = oldest_pane(rows, out, end if end > 0 else both)
            kept = without(rows, segment, m, oldest + 1, segment)
        for i in range(kept):
            stage[at + size + i] = segment[i]
        mark(marks, staged, at, size, kept, begun)
        at += size + kept
        staged += 1
        if pane < 0:
            break
        n = end if end > 0 else both
        num[MADE] += 1
        m = 0
    return append_staged(q, stage, marks, staged, True)


@jit
def _compact_set(rows: UncertainRowsState, low: int, high: int, last: int) -> Ints:
    """The compact set of the slots [low, high) before a given one, or all these; in row order."""
    kept = np.empty(high - low, np.int64)
    n = 0
    room = 8 * rows.rule.k + 16
    for slot in range(low, high):
        if better(rows, slot, last):
            kept[n] = slot
            n += 1
            if n == room:
                # The compact sets of parts contain that of the whole: drop the rest at once.
                some = sort_list(rows, kept[:n].copy())
                end = set_end(rows, some, n)
                if end > 0:
                    n = end
                    last = some[end - 1]
                    copy_rows(kept, some, n)
                room = max(room, 2 * n)
    some = sort_list(rows, kept[:n])
    end = set_end(rows, some, n)
    return some[:end] if end > 0 else some


@kernel
def buffer_fold(rows: UncertainRowsState, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Add panes to the buffer; empty it when it has kH rows, or as many as admit no set.

    Panes of one call are added together: no window is read between them.
    """
    num = q.num
    if len(offsets) > 1:
        num[HIGH] = offsets[-1]
    high = num[HIGH]
    _expire(rows, q, gone[-1])
    full = high - num[FRESH] >= num[ROOM]
    if full:  # algorithm 2
        num[FLUSHED] += 1
        if num[FIRST] < num[LAST]:
            lowest = set_of(q, num[LAST] - 1)[-1]
            fresh = _compact_set(rows, num[FRESH], high, lowest)
            if len(fresh) > 0:
                q = update_entries(rows, q, fresh, high)
        q = _segments(rows, q, high)
        num[FRESH] = high
    q = _settle(rows, q)
    if full:
        num[ROOM] = max(rows.rule.k * num[LARGEST], high - num[TAIL], rows.rule.k)
    return q
