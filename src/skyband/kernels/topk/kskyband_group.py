"""A group's rows in the k-skyband, and what is done to one group at a time; see ``skyband.py``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient

Ints32 = NDArray[np.int32]
Scratch = tuple[Ints32, Ints, Ints]  # see the rows of the first two below; rows that are kept

KEY, TIE, SLOT, PANE = range(4)  # columns of rows
BASE, CAP, TOP, REST, FRONT, BACK, BEST, LARGE = range(8)  # columns of groups
LOWEST = -(1 << 63)
PICK, SPARE, BUCKETS, LIST, RETAINED = range(5)  # scratch: positions of rows; counts of buckets
PICK_KEY, SPARE_KEY, PANES = range(3)  # scratch: keys; panes or how many rows are in them
_FULL = 12  # keys in a bucket from which they are not spread evenly


def make_scratch(n: int, k: int) -> Scratch:
    """Room to sweep a group of n rows."""
    return (
        np.empty((5, n + 1), np.int32),
        np.empty((3, n + k), np.int64),
        np.empty((n, 4), np.int64),
    )


@jit
def copy_row(target: Ints, to: int, source: Ints, at: int) -> None:
    """One row, read as a whole before it is written, so that it moves as one vector."""
    key, tie, slot, pane = source[at, KEY], source[at, TIE], source[at, SLOT], source[at, PANE]
    target[to, KEY] = key
    target[to, TIE] = tie
    target[to, SLOT] = slot
    target[to, PANE] = pane


@jit
def enlist(
    rows: Ints,
    base: int,
    best: Ints32,
    start: int,
    n: int,
    scratch32: Ints32,
    scratch64: Ints,
    picked: int,
    k: int,
) -> int:
    """Sort picked rows of one pane, merge the best k into the n of ``best``; the new length."""
    pick, spare, buckets = scratch32[PICK], scratch32[SPARE], scratch32[BUCKETS]
    pick_key, spare_key = scratch64[PICK_KEY], scratch64[SPARE_KEY]
    # Rows come latest first, and the later of two equal keys mostly has the greater tie: constant
    # and falling keys are in order already.
    i = 1
    while i < picked and (
        pick_key[i - 1] > pick_key[i]
        or (
            pick_key[i - 1] == pick_key[i]
            and rows[base + pick[i - 1], TIE] > rows[base + pick[i], TIE]
        )
    ):
        i += 1
    gap = 1
    if i < picked and picked > _FULL:
        # Keys spread evenly, as most are, go to buckets first: hardly any then stands out of order.
        least = pick_key[0]
        most = least
        for i in range(picked):
            least = pick_key[i] if pick_key[i] < least else least
            most = pick_key[i] if pick_key[i] > most else most
            buckets[i + 1] = 0
        buckets[0] = 0
        span = float(most) - float(least)
        scale = (picked - 1) / span if span > 0.0 else 0.0
        for i in range(picked):
            buckets[int((float(most) - float(pick_key[i])) * scale) + 1] += 1
        fullest = 0
        for i in range(picked):
            fullest = buckets[i + 1] if buckets[i + 1] > fullest else fullest
            buckets[i + 1] += buckets[i]
        if fullest > _FULL:
            gap = picked
        else:
            for i in range(picked):
                bucket = int((float(most) - float(pick_key[i])) * scale)
                spare[buckets[bucket]] = pick[i]
                spare_key[buckets[bucket]] = pick_key[i]
                buckets[bucket] += 1
            for i in range(picked):
                pick[i] = spare[i]
                pick_key[i] = spare_key[i]
    # Insertion sort, or Shell's where the buckets were of no use.
    while gap > 0:
        gap = 1 if 1 < gap < 4 else gap * 4 // 9 if gap > 1 else 1
        for i in range(gap, picked):
            x = pick[i]
            x_key = pick_key[i]
            j = i
            while j >= gap and pick_key[j - gap] <= x_key:
                y = pick[j - gap]
                if pick_key[j - gap] == x_key:
                    x_tie = rows[base + x, TIE]
                    y_tie = rows[base + y, TIE]
                    if y_tie > x_tie or (y_tie == x_tie and y < x):
                        break
                pick[j] = y
                pick_key[j] = pick_key[j - gap]
                j -= gap
            pick[j] = x
            pick_key[j] = x_key
        if gap == 1:
            gap = 0
    if picked > k:
        picked = k
    # Merge from the end, so that only what moves is touched. Rows of different panes never tie:
    # the newer one is better, and stands later in the back.
    i = start + n - 1
    j = picked - 1
    out = start + n + picked
    while j >= 0:
        out -= 1
        x_key = pick_key[j]
        y_key = rows[base + best[i], KEY] if i >= start else x_key
        if i >= start and (x_key > y_key or (x_key == y_key and pick[j] > best[i])):
            best[out] = best[i]
            i -= 1
        else:
            best[out] = pick[j]
            j -= 1
    return n + picked


@jit
def expire(rows: Ints, group: Ints, first: int, k: int) -> bool:
    """Let go of panes before ``first`` and refill the top from the rest; whether it changed."""
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


@jit
def sweep(
    rows: Ints,
    group: Ints,
    first: int,
    k: int,
    scratch32: Ints32,
    scratch64: Ints,
    kept: Ints,
) -> None:
    """Make one front of front and back, of the rows that can still be answered."""
    base, top, rest, front = group[BASE], group[TOP], group[REST], group[FRONT]
    stop = front + group[BACK]
    pick, best, retained = scratch32[PICK], scratch32[LIST], scratch32[RETAINED]
    pick_key, panes = scratch64[PICK_KEY], scratch64[PANES]

    # The back, newest pane first. What leaves the best k is worse than all that is left and than
    # what comes, so the retained rows are written from the end.
    low = front
    while low < stop and rows[base + low, PANE] < first:
        low += 1
    end = stop
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
            n = enlist(rows, base, best, none, n, scratch32, scratch64, picked, k)
            while n > k:
                n -= 1
                if best[n] >= i:  # not of this very pane
                    end -= 1
                    retained[end] = best[n]
        i = j
    while n > 0:
        n -= 1
        end -= 1
        retained[end] = best[n]

    # The front is older than all of that. Its rows stay while fewer than k better ones are as new:
    # while their pane is above the k-th newest pane of the rows that stand before.
    oldest = first
    newest = first
    live = none
    for i in range(front):
        if i < top or i >= rest:
            pane = rows[base + i, PANE]
            if pane >= first:
                oldest = pane if live == 0 or pane < oldest else oldest
                newest = pane if live == 0 or pane > newest else newest
                live += 1
    counting = live > 0 and newest - oldest < live
    if counting:
        for i in range(newest - oldest + 1):
            panes[i] = 0
    kth = oldest - 1 if live > 0 else oldest
    above = none  # rows in panes above the k-th newest; or, in a heap, the newest so many panes
    m = none
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
        if end < stop and rows[base + retained[end], KEY] >= rows[row, KEY]:
            row = base + retained[end]
            end += 1
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
    while end < stop:
        row = base + retained[end]
        copy_row(kept, m, rows, row)
        m += 1
        end += 1
    for i in range(m):
        copy_row(rows, base + i, kept, i)
    group[TOP] = m if m < k else k
    group[REST] = group[TOP]
    group[FRONT] = m
    group[BACK] = 0
    group[BEST] = 0
    group[LARGE] = 1


@jit
def _keep_newest(heap: Ints, n: int, k: int, pane: int) -> int:
    """Take a pane into the heap of the k newest, the oldest of them on top; the new size."""
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


@patient
@jit
def sweep_all(rows: Ints, groups: Ints, first: int, k: int, scratch: Scratch) -> None:
    """Sweep every group."""
    scratch32, scratch64, kept = scratch
    for g in range(len(groups)):
        if groups[g, FRONT] + groups[g, BACK] > 0:
            sweep(rows, groups[g], first, k, scratch32, scratch64, kept)


@patient
@jit
def compact(rows: Ints, order: Ints32, groups: Ints) -> tuple[Ints, Ints32, int]:
    """The rows without gaps and garbage; ``groups`` is brought in line."""
    used = 0
    for g in range(len(groups)):
        group = groups[g]
        used += group[TOP] + group[FRONT] - group[REST] + group[BACK]
    new_rows = np.empty((used, 4), np.int64)
    new_order = np.empty(used, np.int32)
    used = 0
    for g in range(len(groups)):
        group = groups[g]
        base, top, rest = group[BASE], group[TOP], group[REST]
        group[BASE] = used
        for i in range(group[FRONT] + group[BACK]):
            if i < top or i >= rest:
                copy_row(new_rows, used, rows, base + i)
                used += 1
        for i in range(group[BEST]):
            new_order[group[BASE] + i] = order[base + i] - (rest - top)
        group[REST] = top
        group[FRONT] -= rest - top
        group[CAP] = used - group[BASE]
    return new_rows, new_order, used
