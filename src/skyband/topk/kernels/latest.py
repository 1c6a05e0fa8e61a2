"""The best k of the latest rows of ids, for many panes and windows in one call.

A row is live from its pane on, until its id has a later row or its pane has left the window. The
best few live rows of a group are kept as a sorted list: all that reach a *bar*. If so many of them
go that fewer than k are left, the list is rebuilt from all live rows, with room for a few times
k of them, so that this is rarely needed.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import borrowed
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import kth_greatest, sort_best
from skyband.topk.kernels.distinct import GroupWindows

_LOWEST = np.iinfo(np.int64).min


@jit
def _insert(best: Ints, m: int, key: Ints, tie: Ints, row: int) -> int:
    a, b = key[row], tie[row]
    at = m
    while at > 0 and (key[best[at - 1]] < a or (key[best[at - 1]] == a and tie[best[at - 1]] < b)):
        best[at] = best[at - 1]
        at -= 1
    best[at] = row
    return m + 1


@jit
def _remove(best: Ints, m: int, key: Ints, tie: Ints, row: int) -> int:
    """Remove a row if it is in the list."""
    a, b = key[row], tie[row]
    low, high = 0, m
    while low < high:  # the first that is not better
        middle = (low + high) // 2
        other = best[middle]
        if key[other] > a or (key[other] == a and tie[other] > b):
            low = middle + 1
        else:
            high = middle
    while low < m and best[low] != row and key[best[low]] == a and tie[best[low]] == b:
        low += 1
    if low == m or best[low] != row:
        return m
    for i in range(low, m - 1):
        best[i] = best[i + 1]
    return m - 1


@jit
def _cut(best: Ints, m: int, key: Ints, tie: Ints, few: int) -> int:
    """How many rows of the list are among the best few or equal the last of those."""
    if m <= few:
        return m
    last = best[few - 1]
    while few < m and key[best[few]] == key[last] and tie[best[few]] == tie[last]:
        few += 1
    return few


@jit
def _made_again(
    best: Ints, live: Mask, low: int, high: int, count: int, key: Ints, few: int, scratch: Ints
) -> int:
    """List the live rows with the best few keys, unsorted."""
    least = np.int64(_LOWEST)
    if count > few:
        values = scratch[0]
        n = 0
        for row in range(low, high):
            if live[row]:
                values[n] = key[row]
                n += 1
        least = kth_greatest(values, scratch[1], n, few)
    m = 0
    for row in range(low, high):
        if live[row] and key[row] >= least:
            best[m] = row
            m += 1
    return m


@kernel
def fold_latest(
    key: Ints, tie: Ints, pane: Ints, earlier: Ints, starts: Ints, k: int, due: GroupWindows
) -> tuple[Ints, Ints, Ints]:
    """Take the rows of each group in the order of panes, and read windows on the way.

    ``earlier`` is the row that a row replaces, or -1; the rows of group g are ``[starts[g],
    starts[g + 1])``. Returns the rows of answers, best first, with all that equal the k-th; for
    each answer (window, group, rows); and some scratch.
    """
    key, tie, pane = borrowed(key), borrowed(tie), borrowed(pane)
    earlier, starts = borrowed(earlier), borrowed(starts)
    few = 4 * k + 16
    scratch = np.empty((3, len(key) + 1), np.int64)
    best, spare = scratch[2], scratch[1]
    live = np.zeros(len(key), np.bool_)
    out, answered = np.zeros(64, np.int64), np.zeros((16, 3), np.int64)
    shown = answers = 0
    for g in range(len(starts) - 1):
        tail = head = starts[g]
        count = m = 0
        bar_key, bar_tie = np.int64(_LOWEST), np.int64(_LOWEST)
        low, high = 0, len(due.first)
        if not due.shared:
            low, high = due.cuts[g], due.cuts[g + 1]
        for w in range(low, high):
            while head < starts[g + 1] and pane[head] < due.end[w]:
                old = earlier[head]
                if old >= 0 and live[old]:
                    live[old] = False
                    count -= 1
                    m = _remove(best, m, key, tie, old)
                live[head] = True
                count += 1
                if key[head] > bar_key or (key[head] == bar_key and tie[head] >= bar_tie):
                    m = _insert(best, m, key, tie, head)
                    if m > 2 * few:
                        m = _cut(best, m, key, tie, few)
                        bar_key, bar_tie = key[best[m - 1]], tie[best[m - 1]]
                head += 1
            while tail < head and pane[tail] < due.first[w]:
                if live[tail]:
                    live[tail] = False
                    count -= 1
                    m = _remove(best, m, key, tie, tail)
                tail += 1
            if count == 0:
                continue
            if m < k and m < count:
                m = _made_again(best, live, tail, head, count, key, few, scratch)
                sort_best(best[:m], spare[:m], key, tie)
                m = _cut(best, m, key, tie, few)
                bar_key, bar_tie = np.int64(_LOWEST), np.int64(_LOWEST)
                if m < count:
                    bar_key, bar_tie = key[best[m - 1]], tie[best[m - 1]]
            n = _cut(best, m, key, tie, k)
            out = with_room(out, shown, shown + n)
            for i in range(n):
                out[shown + i] = best[i]
            shown += n
            answered = with_room(answered, answers, answers + 1)
            answered[answers, 0], answered[answers, 1], answered[answers, 2] = w, g, n
            answers += 1
    return out[:shown].copy(), answered[:answers].copy(), scratch
