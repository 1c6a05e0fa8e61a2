"""CSQ, the compact set queue (section 4.1): every distinct compact set of the newest panes."""

from __future__ import annotations

import numpy as np

from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.uncertain.compact import compact_end
from skyband.kernels.uncertain.queue import (
    BEGIN,
    FIRST,
    LAST,
    MADE,
    OLDEST,
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
)  # fmt: skip
from skyband.kernels.uncertain.types import (
    KEEP,
    Ints,
    Rows,
    Rule,
    before,
    better,
    oldest_pane,
    sort_slots,
    without,
)  # fmt: skip

__all__ = ["csq_fold", "csq_read", "csq_take", "newest_set", "update_entries"]


@jit
def newest_set(rule: Rule, rows: Rows, q: Queue, high: int) -> tuple[Ints, int]:
    """The compact set of the newest rows, and how large; they then start after its oldest pane.

    To be asked again until there is none: what is left may admit another.
    """
    num = q.num
    slots = sort_slots(rows, num[TAIL], high)
    end = compact_end(rule, rows.prob, slots, len(slots), KEEP)
    if end > 0:
        num[MADE] += 1
        num[TAIL] = from_pane(rows, num[TAIL], high, oldest_pane(rows, slots, end) + 1)
    return slots, end


@jit
def update_entries(rule: Rule, rows: Rows, q: Queue, fresh: Ints, high: int) -> Queue:
    """Update the compact sets that sorted new rows enter; sets that became equal are made one."""
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
def csq_take(rule: Rule, rows: Rows, q: Queue, low: int, high: int) -> Queue:
    """Take a pane (algorithm 1)."""
    q = update_entries(rule, rows, q, arrived(q, low, high), high)
    while True:
        slots, n = newest_set(rule, rows, q, high)
        if n < 0:
            return q
        q = append_set(rows, q, slots, n)


@patient
@jit
def csq_fold(rule: Rule, rows: Rows, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Take panes; those before ``gone[i]`` expire before pane i, the last of them at the end."""
    for i in range(len(offsets) - 1):
        drop_old(rows, q, gone[i])
        q = csq_take(rule, rows, q, offsets[i], offsets[i + 1])
    drop_old(rows, q, gone[-1])
    return q


@patient
@jit
def csq_read(rows: Rows, q: Queue, first: int) -> Ints:
    """Rows among which is the compact set of the panes from ``first`` on, in row order."""
    e = find(q, first)
    return tail_from(rows, q, first) if e == q.num[LAST] else set_of(q, e).copy()
