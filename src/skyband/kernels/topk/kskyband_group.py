"""A group's rows in the k-skyband, and what is done to it; see ``kskyband.py``."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.core.jit import jit, piece
from skyband.kernels.core.patient import kernel
from skyband.kernels.topk.kskyband_best import (
    KEY,
    PANE,
    SLOT,
    TIE,
    Scratch,
    enlist,
)

# Columns of groups: where a group's rows are, see ``kskyband.py``.
BASE = 0  # its first row among all rows; the next four count from there
CAP = 1  # its room
TOP = 2  # after the best k live rows of the front
REST = 3  # the rows of the front that wait to enter the top
FRONT = 4  # after the front
BACK = 5  # how many rows the back has
BEST = 6  # how many of them are in ``order``
LARGE = 7  # whether it has a front, or had one
LOWEST = -(1 << 63)


@piece
def copy_row(target: Ints, to: int, source: Ints, at: int) -> None:
    """Copy one row: all of it is read before it is written, so that it moves as one vector."""
    key, tie, slot, pane = source[at, KEY], source[at, TIE], source[at, SLOT], source[at, PANE]
    target[to, KEY] = key
    target[to, TIE] = tie
    target[to, SLOT] = slot
    target[to, PANE] = pane


@piece
def expire(rows: Ints, group: Ints, first: int, k: int) -> bool:
    """Drop panes before ``first`` and refill the top from the rest; whether the top changed."""
    base = group[BASE]
    top = base
    stop = base + group[TOP]
    while top < stop and rows[top, PANE] >= first:
        top += 1
    rest = base + group[REST]
    front = base + group[FRONT]
    if top == stop and (rest == front or group[TOP] == k):
        return False
    for i in range(top + 1, stop):
        if rows[i, PANE] >= first:
            copy_row(rows, top, rows, i)
            top += 1
    while top < base + k and rest < front:
        if rows[rest, PANE] >= first:
            copy_row(rows, top, rows, rest)
            top += 1
        rest += 1
    group[TOP] = top - base
    group[REST] = rest - base
    return True


@piece
def _keep_newest(heap: Ints, n: int, k: int, pane: int) -> int:
    """Add a pane to the heap of the k newest, the oldest of them on top; the new size."""
    if n < k:
        i = n
        while i > 0 and heap[(i - 1) >> 1] > pane:
            heap[i] = heap[(i - 1) >> 1]
            i = (i - 1) >> 1
        heap[i] = pane
        return n + 1
    i = 0
    child = 1
    while child < k:
        if child + 1 < k and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= pane:
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = pane
    return k


@piece
def _retain_back(rows: Ints, group: Ints, first: int, k: int, scratch: Scratch) -> int:
    """The rows of the back that can still be answered, best first at the end of ``retained``.

    Returns where they begin. Goes from the newest pane to the oldest: what leaves the best k is
    worse than all that is left and all that follows, so retained rows are written from the end.
    """
    base, front = group[BASE], group[FRONT]
    stop = front + group[BACK]
    pick, pick_key, best, retained = (
        scratch.pick, scratch.pick_key, scratch.best, scratch.retained
    )  # fmt: skip
    low = front
    while low < stop and rows[base + low, PANE] < first:
        low += 1
    end: int = stop
    none = end - end
    n = none
    i = stop
    while i > low:
        pane = rows[base + i - 1, PANE]
        j = i - 1
        while j > low and rows[base + j - 1, PANE] == pane:
            j -= 1
        worst = np.int64(LOWEST)
        if n == k:
            worst = rows[base + best[n - 1], KEY]
        picked = none
        for x in range(i - 1, j - 1, -1):
            pick[picked] = x
            pick_key[picked] = rows[base + x, KEY]
            picked += n < k or rows[base + x, KEY] > worst
        if picked > 0:
            n = enlist(rows, base, best, none, n, scratch, picked, k)
            while n > k:
                n -= 1
                if best[n] >= i:  # not of this pane itself
                    end -= 1
                    retained[end] = best[n]
        i = j
    while n > 0:
        n -= 1
        end -= 1
        retained[end] = best[n]
    return end


@piece
def _live_panes(rows: Ints, group: Ints, first: int) -> tuple[int, int, int]:
    """The number of live rows in the front, their oldest pane, and their newest."""
    base, top, rest, front = group[BASE], group[TOP], group[REST], group[FRONT]
    oldest = first
    newest = first
    live = front - front
    for i in range(front):
        if i < top or i >= rest:
            pane = rows[base + i, PANE]
            if pane >= first:
                oldest = pane if live == 0 or pane < oldest else oldest
                newest = pane if live == 0 or pane > newest else newest
                live += 1
    return live, oldest, newest


@piece
def _merge_front(rows: Ints, group: Ints, first: int, k: int, scratch: Scratch, at: int) -> int:
    """Merge the front with the retained rows from ``at`` on into ``kept``; how many there are.

    The front is older than all of those. Its rows stay while fewer than k better ones are as new,
    that is, while their pane is newer than the k-th newest pane of the rows before them.
    """
    base, top, rest, front = group[BASE], group[TOP], group[REST], group[FRONT]
    stop = front + group[BACK]
    retained, panes, kept = scratch.retained, scratch.panes, scratch.kept
    live, oldest, newest = _live_panes(rows, group, first)
    counting = live > 0 and newest - oldest < live
    if counting:
        for i in range(newest - oldest + 1):
            panes[i] = 0
    kth = oldest - 1 if live > 0 else oldest
    none = front - front
    above = none  # rows in panes above the k-th newest; or the size of the heap
    m: int = none
    i = none
    while live > 0 and kth < newest:
        if i == top:
            i = rest
        if i >= front:
            break
        if rows[base + i, PANE] < first:
            i += 1
            continue
        row = base + i
        if at < stop and rows[base + retained[at], KEY] >= rows[row, KEY]:
            row = base + retained[at]
            at += 1
        else:
            i += 1
            if rows[row, PANE] <= kth:
                continue
        copy_row(kept, m, rows, row)
        m += 1
        pane = rows[row, PANE]
        if counting:
            if pane <= newest:
                panes[pane - oldest] += 1
            above += 1
            while above >= k and kth < newest:
                kth += 1
                above -= panes[kth - oldest]
        else:
            above = _keep_newest(panes, above, k, pane)
            if above == k:
                kth = panes[0]
    while at < stop:
        copy_row(kept, m, rows, base + retained[at])
        m += 1
        at += 1
    return m


@jit
def sweep(rows: Ints, group: Ints, first: int, k: int, scratch: Scratch) -> None:
    """Make one front of both parts, from the rows that can still be in an answer."""
    at = _retain_back(rows, group, first, k, scratch)
    m = _merge_front(rows, group, first, k, scratch, at)
    base, kept = group[BASE], scratch.kept
    for i in range(m):
        copy_row(rows, base + i, kept, i)
    group[TOP] = m if m < k else k
    group[REST] = group[TOP]
    group[FRONT] = m
    group[BACK] = 0
    group[BEST] = 0
    group[LARGE] = 1


@kernel
def sweep_all(rows: Ints, groups: Ints, first: int, k: int, scratch: Scratch) -> None:
    """Sweep every group."""
    for g in range(len(groups)):
        if groups[g, FRONT] + groups[g, BACK] > 0:
            sweep(rows, groups[g], first, k, scratch)


@kernel
def compact(rows: Ints, order: Codes, groups: Ints, sequence: Ints, to: Ints, names: Codes) -> int:
    """Move all rows and their order to ``to`` and ``names``, without gaps and garbage; how many.

    ``groups`` is updated. If the arrays are the same, ``sequence`` lists the groups by their first
    rows, so that nothing is overwritten before it has been moved.
    """
    used = 0
    for x in range(len(sequence)):
        group = groups[sequence[x]]
        base, top, rest = group[BASE], group[TOP], group[REST]
        group[BASE] = used
        for i in range(group[FRONT] + group[BACK]):
            if i < top or i >= rest:
                copy_row(to, used, rows, base + i)
                used += 1
        for i in range(group[BEST]):
            names[group[BASE] + i] = order[base + i] - (rest - top)
        group[REST] = top
        group[FRONT] -= rest - top
        group[CAP] = used - group[BASE]
    return used
