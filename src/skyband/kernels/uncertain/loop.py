"""Many panes and many windows in one call, for every compact set queue."""

from __future__ import annotations

import numpy as np

from skyband.kernels.jit import jit
from skyband.kernels.uncertain.compact import answer, compact_end
from skyband.kernels.uncertain.csq import csq_find, csq_take
from skyband.kernels.uncertain.queue import (
    ALGORITHM, CSQ, FIRST, FRESH, HEAD, HEAD_OLDEST, HIGH, LAST, OPEN, REBUILT, STALE, TAIL,
    Queue, after_pane, push_head, set_head, set_of, without,
)  # fmt: skip
from skyband.kernels.uncertain.types import KEEP, Floats, Ints, Rows, Rule, grown, sort_slots

__all__ = ["fold_queue", "read_queue"]


@jit
def _take(rule: Rule, rows: Rows, q: Queue, low: int, high: int) -> Queue:
    q.num[HIGH] = high
    q = push_head(rule, rows, q, low, high)
    return csq_take(rule, rows, q, low, high)


@jit
def _rebuilt(rule: Rule, rows: Rows, q: Queue, first: int) -> tuple[Ints, int, int]:
    """The compact set of the panes from ``first`` on, its size, whether it is open instead."""
    num = q.num
    e = csq_find(rows, q, first)
    if e == num[LAST]:
        low = after_pane(rows, num[TAIL], num[HIGH], first - 1)
        slots = sort_slots(rows, low, num[HIGH])
    else:
        slots = set_of(q, e).copy()
    end = compact_end(rule, rows.prob, slots, len(slots), KEEP)
    if end > 0:
        return slots, end, 0
    return slots, len(slots), 1 if e == num[LAST] else 0


@jit
def _expire(rule: Rule, rows: Rows, q: Queue, first: int) -> Queue:
    num = q.num
    num[FIRST] = csq_find(rows, q, first)
    num[TAIL] = after_pane(rows, num[TAIL], num[HIGH], first - 1)
    num[FRESH] = max(num[FRESH], num[TAIL])
    if num[HEAD] == 0 or num[HEAD_OLDEST] >= first:
        return q
    if num[OPEN] == 1:
        left = np.empty(num[HEAD], np.int64)
        n = without(rows, q.head, num[HEAD], first, left)
        return set_head(rows, q, left, n, 1)
    num[REBUILT] += 1
    slots, n, is_open = _rebuilt(rule, rows, q, first)
    return set_head(rows, q, slots, n, is_open)


@jit
def fold_queue(
    rule: Rule,
    rows: Rows,
    q: Queue,
    stamp: Ints,
    offsets: Ints,
    first: Ints,
    end: Ints,
    final: bool,
) -> tuple[Queue, Ints, Floats, Ints]:
    """Take panes and read windows, each when its last pane is in.

    Pane i holds the slots [offsets[i], offsets[i + 1]). Of every window come the answer's slots with
    their chances or, unless ``final``, its compact set; and where each window's slots end.
    """
    found = np.empty(max(64, len(first) * rule.k), np.int64)
    chance = np.empty(len(found) if final else 0)
    ends = np.zeros(len(first) + 1, np.int64)
    shown = np.empty(0, np.int64)
    chances = np.empty(0)
    count = 0
    at = 0
    pane = 0
    q.num[STALE] = 1
    for w in range(len(first)):
        while pane < len(stamp) and stamp[pane] < end[w]:
            q = _take(rule, rows, q, offsets[pane], offsets[pane + 1])
            pane += 1
        q = _expire(rule, rows, q, first[w])
        if q.num[STALE] == 1:
            q.num[STALE] = 0
            n = q.num[HEAD]
            if not final:
                shown = q.head
                count = n
            else:
                if max(n, rule.k) > len(shown):
                    shown = np.empty(2 * max(n, rule.k), np.int64)
                    chances = np.empty(len(shown))
                count = answer(rule, rows.prob, q.head, n, shown, chances)
        if at + count > len(found):
            found = grown(found, at + count)
            if final:
                more = np.empty(len(found))
                more[: len(chance)] = chance
                chance = more
        for j in range(count):
            found[at + j] = shown[j]
            if final:
                chance[at + j] = chances[j]
        at += count
        ends[w + 1] = at
    while pane < len(stamp):
        q = _take(rule, rows, q, offsets[pane], offsets[pane + 1])
        pane += 1
    return q, found[:at], chance[:at] if final else chance, ends


@jit
def expire_queue(rule: Rule, rows: Rows, q: Queue, first: int) -> Queue:
    """Panes before ``first`` are gone."""
    return _expire(rule, rows, q, first)


@jit
def read_queue(rule: Rule, rows: Rows, q: Queue, first: int) -> Ints:
    """The compact set of the live panes from ``first`` on."""
    slots, n, _ = _rebuilt(rule, rows, q, first)
    return slots[:n]
