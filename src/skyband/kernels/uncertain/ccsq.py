"""CCSQ, the compressed queue (section 4.2): the newest compact set, of older ones the change.

An entry's first list is what its set has beyond that of the next newer entry (rows of its oldest
pane), its second list what the newer one has beyond it. The newest entry's first list is its set.
"""

from __future__ import annotations

import numpy as np

from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.uncertain.csq import newest_set
from skyband.kernels.uncertain.queue import (
    BEGIN,
    FIRST,
    LAST,
    OLDEST,
    TAIL,
    UPDATED,
    Queue,
    append,
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
from skyband.kernels.uncertain.types import Ints, Rows, Rule, better, grown, oldest_pane

__all__ = ["ccsq_fold", "ccsq_read", "ccsq_set"]


@jit
def _less(rows: Rows, a: Ints, n: int, b: Ints, m: int, out: Ints) -> int:
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
def _older(rows: Rows, q: Queue, e: int, newer: Ints, n: int, out: Ints) -> int:
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
def ccsq_set(rows: Rows, q: Queue, e: int) -> Ints:
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
def _update(rule: Rule, rows: Rows, q: Queue, fresh: Ints, high: int) -> Queue:
    num = q.num
    first, last = num[FIRST], num[LAST]
    if first == last or not better(rows, fresh[0], set_of(q, last - 1)[-1]):
        return q
    room = used(q) - q.entry[first, BEGIN] + len(fresh)
    old, older = np.empty(room, np.int64), np.empty(room, np.int64)
    now, then = np.empty(room, np.int64), np.empty(room, np.int64)
    # Changed entries from the newest to the oldest, to be appended in the other direction.
    stage = np.empty(4 * room, np.int64)
    marks = np.empty((last - first, 4), np.int64)
    newest = set_of(q, last - 1)
    n_old = len(newest)
    for i in range(n_old):
        old[i] = newest[i]
    n_now = updated(rule, rows, old, n_old, fresh, len(fresh), now)
    num[UPDATED] += 1
    for i in range(n_now):
        stage[i] = now[i]
    staged = 0
    at = 0
    none = at  # not the literal, for which numba would compile the callee once more
    mark(marks, staged, at, n_now, none, oldest_pane(rows, now, n_now))
    staged += 1
    at += n_now
    e = last - 1
    entered = True
    while entered and e > first:
        e -= 1
        n_older = _older(rows, q, e, old, n_old, older)
        entered = better(rows, fresh[0], older[n_older - 1])
        if entered:
            n_then = updated(rule, rows, older, n_older, fresh, len(fresh), then)
            num[UPDATED] += 1
        else:
            n_then = n_older
            for i in range(n_older):
                then[i] = older[i]
        oldest = oldest_pane(rows, then, n_then)
        if oldest != marks[staged - 1, OLDEST]:
            stage = grown(stage, at + n_then + n_now)
            plus = _less(rows, then, n_then, now, n_now, stage[at:])
            minus = _less(rows, now, n_now, then, n_then, stage[at + plus :])
            mark(marks, staged, at, plus, minus, oldest)
            staged += 1
            at += plus + minus
            now, then = then, now
            n_now = n_then
        old, older = older, old
        n_old = n_older
    num[LAST] = e
    q = append_staged(q, stage, marks, staged, True)
    num[TAIL] = from_pane(rows, num[TAIL], high, marks[0, OLDEST] + 1)
    return q


@jit
def _take(rule: Rule, rows: Rows, q: Queue, low: int, high: int) -> Queue:
    num = q.num
    q = _update(rule, rows, q, arrived(q, low, high), high)
    while True:
        slots, n = newest_set(rule, rows, q, high)
        if n < 0:
            return q
        last = num[LAST] - 1
        if last >= num[FIRST]:
            newest = set_of(q, last)
            plus = np.empty(len(newest), np.int64)
            minus = np.empty(n, np.int64)
            n_plus = _less(rows, newest, len(newest), slots, n, plus)
            n_minus = _less(rows, slots, n, newest, len(newest), minus)
            num[LAST] = last
            q = append(q, plus, n_plus, minus, n_minus, q.entry[last, OLDEST])
        q = append_set(rows, q, slots, n)


@patient
@jit
def ccsq_fold(rule: Rule, rows: Rows, q: Queue, offsets: Ints, gone: Ints) -> Queue:
    """Take panes; those before ``gone[i]`` expire before pane i, the last of them at the end."""
    for i in range(len(offsets) - 1):
        drop_old(rows, q, gone[i])
        q = _take(rule, rows, q, offsets[i], offsets[i + 1])
    drop_old(rows, q, gone[-1])
    return q


@patient
@jit
def ccsq_read(rows: Rows, q: Queue, first: int) -> Ints:
    """Rows among which is the compact set of the panes from ``first`` on, in row order."""
    e = find(q, first)
    return tail_from(rows, q, first) if e == q.num[LAST] else ccsq_set(rows, q, e)
