"""CSQ, the compact set queue (section 4.1): every distinct compact set of the newest panes."""

from __future__ import annotations

import numpy as np

from skyband.kernels.jit import jit
from skyband.kernels.uncertain.compact import compact_end
from skyband.kernels.uncertain.queue import (
    BEGIN, FIRST, LAST, MADE, OLDEST, SIZE, TAIL, UPDATED, Queue, after_pane, append, oldest_pane,
    roomy, set_of, slot_range, updated,
)  # fmt: skip
from skyband.kernels.uncertain.types import KEEP, Ints, Rows, Rule, better, sort_slots

__all__ = ["csq_find", "csq_take", "newest_set"]


@jit
def newest_set(rule: Rule, rows: Rows, q: Queue, high: int) -> tuple[Ints, int]:
    """The compact set of the newest rows, and how large; they then start after its oldest pane.

    To be asked again until there is none: of panes of many rows, what is left may admit another.
    """
    num = q.num
    slots = sort_slots(rows, num[TAIL], high)
    end = compact_end(rule, rows.prob, slots, len(slots), KEEP)
    if end > 0:
        num[MADE] += 1
        num[TAIL] = after_pane(rows, num[TAIL], high, oldest_pane(rows, slots, end))
    return slots, end


@jit
def csq_take(rule: Rule, rows: Rows, q: Queue, low: int, high: int) -> Queue:
    """Take a pane (algorithm 1)."""
    num = q.num
    first, last = num[FIRST], num[LAST]
    e = last
    while e > first and better(rows, low, set_of(q, e - 1)[-1]):
        e -= 1  # a set that no new row enters ends the search: older sets end higher up
    if e < last:
        fresh = slot_range(low, high)
        begin = q.entry[e, BEGIN]
        size = q.entry[last - 1, BEGIN] + q.entry[last - 1, SIZE] - begin
        spare = np.empty(size + (last - e) * len(fresh), np.int64)
        marks = np.empty((last - e, 4), np.int64)
        at = 0
        kept = 0
        for i in range(e, last):
            old = set_of(q, i)
            n = updated(rule, rows, old, len(old), fresh, len(fresh), spare[at:])
            num[UPDATED] += 1
            oldest = oldest_pane(rows, spare[at:], n)
            if kept > 0 and marks[kept - 1, OLDEST] == oldest:
                continue  # the same set as the one before
            marks[kept, BEGIN] = at
            marks[kept, SIZE] = n
            marks[kept, OLDEST] = oldest
            kept += 1
            at += n
        num[LAST] = e
        q = roomy(q, at, kept)
        for i in range(kept):
            n = marks[i, SIZE]
            start = marks[i, BEGIN]
            q = append(q, spare[start:], n, spare, 0, marks[i, OLDEST])
        num[TAIL] = after_pane(rows, num[TAIL], high, marks[kept - 1, OLDEST])
    while True:
        slots, n = newest_set(rule, rows, q, high)
        if n < 0:
            return q
        q = append(q, slots, n, slots, 0, oldest_pane(rows, slots, n))


@jit
def csq_find(rows: Rows, q: Queue, first: int) -> int:
    """The entry of the windows that start with pane ``first``; ``LAST`` where the tail is all."""
    e = q.num[FIRST]
    while e < q.num[LAST] and q.entry[e, OLDEST] < first:
        e += 1
    return e
