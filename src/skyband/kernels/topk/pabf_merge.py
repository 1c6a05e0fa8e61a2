"""Section 5 of the PABF paper: candidates in buckets, Local-Merge and Global-Merge.

    rows    | bucket 2 (old)       | bucket 1     | bucket 0 | fresh rows | free
            cut[3]=0               cut[2]         cut[1]     cut[0]       USED

Bucket j holds about e^(j+1) k rows, all newer than those of bucket j + 1. Rows stand by level,
highest first; a *node* is the stretch of one level, its members newest pane first and best first
within a pane. That is the order ``before``. Each row has the number of rows before it, as new or
newer: its dominators, any of which can stand for it for as long as it lives. It goes when it has k
of them.

Members of a node are ever more dominated from first to last, so what a node loses is its tail, and
each member's own count says when (the paper keeps one count a node, which deletes too much).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.topk.pabf_levels import level_of

__all__ = ["BUCKETS", "Candidates", "before", "local_merge", "reserve"]


KEY, TIE, SLOT, PANE, LEVEL, DOMINATORS = range(6)
(
    USED, FIRST, RESULTS, OLDEST, FLOOR, AT_FLOOR, ABOVE_FLOOR,
    LOCAL_MERGES, GLOBAL_MERGES, MERGED, REFILLS, REFILLED, INSERTED,
) = range(13)  # fmt: skip
BUCKETS = 24  # the last would hold e^24 k rows
GROWTH = 2.718281828459045  # the minimum of phi log_phi(x), formula (4), is at e for every x


class Candidates(NamedTuple):
    """All state of one group: see the drawing; ``best`` is what ``pabf_tahm`` keeps."""

    rows: Ints
    cut: Ints
    head: Ints  # the first row of each bucket that may be live
    newest: Ints  # the newest pane of each bucket
    best: Ints
    meta: Ints


@jit
def before(rows: Ints, a: int, b: int) -> bool:
    """Whether row a stands before row b: higher level, then newer pane, then better row."""
    if rows[a, LEVEL] != rows[b, LEVEL]:
        return bool(rows[a, LEVEL] > rows[b, LEVEL])
    if rows[a, PANE] != rows[b, PANE]:
        return bool(rows[a, PANE] > rows[b, PANE])
    return bool(rows[a, KEY] > rows[b, KEY])


@jit
def _copy(source: Ints, at: int, target: Ints, to: int) -> None:
    for column in range(6):  # numba takes long over the assignment of a row
        target[to, column] = source[at, column]


@jit
def reserve(state: Candidates, more: int) -> Candidates:
    """The same state with room for so many fresh rows."""
    used = state.meta[USED]
    if used + more <= len(state.rows):
        return state
    grown = np.empty((2 * (used + more), 6), np.int64)
    grown[:used] = state.rows[:used]
    return Candidates(grown, state.cut, state.head, state.newest, state.best, state.meta)


@jit
def local_merge(state: Candidates, k: int, width: float, whole: int) -> None:
    """Bring the fresh rows of one or several panes into bucket 0, and on while a bucket is full."""
    rows, cut, meta = state.rows, state.cut, state.meta
    if meta[USED] == cut[0]:
        return
    _drop_oldest(state)
    fresh = _sweep(rows, cut[0], meta[USED], k, width, whole)
    newest = rows[meta[USED] - 1, PANE]
    meta[LOCAL_MERGES] += 1
    into = 0
    room = GROWTH * k
    while True:
        if state.head[into] < cut[into]:
            fresh = _merge(fresh, rows, state.head[into], cut[into], meta[FIRST], k)
            meta[MERGED] += len(fresh)
        if len(fresh) <= room or into == BUCKETS - 1:
            break
        cut[into] = cut[into + 1]  # the bucket is full: it is emptied into the next
        state.head[into] = cut[into]
        into += 1
        room *= GROWTH
        meta[GLOBAL_MERGES] += 1
    base = cut[into + 1]
    end = base + len(fresh)
    for i in range(len(fresh)):
        _copy(fresh, i, rows, base + i)
    for j in range(into + 1):
        cut[j] = end
        state.head[j] = end
    state.head[into] = base
    state.newest[into] = newest
    meta[USED] = end


@jit
def _drop_oldest(state: Candidates) -> None:
    """Drop the oldest bucket if nothing in it lives."""
    rows, cut, meta = state.rows, state.cut, state.meta
    j = BUCKETS - 1
    while j >= 0 and cut[j] == cut[j + 1]:
        j -= 1
    if j < 0 or state.newest[j] >= meta[FIRST]:
        return
    gone = cut[j]
    for i in range(gone, meta[USED]):
        _copy(rows, i, rows, i - gone)
    for i in range(j + 1):
        state.head[i] = max(state.head[i] - gone, 0)
        cut[i] -= gone
    meta[USED] -= gone


@jit
def _sweep(rows: Ints, start: int, end: int, k: int, width: float, whole: int) -> Ints:
    """Of fresh rows those with fewer than k dominators, in order, with their counts.

    From the newest pane to the oldest, a heap holds the k rows that stand first, the last of them
    on top: it turns most rows away at one comparison. What a better row of an older pane pushes out
    has too few dominators and comes out in order, the last one first; what one of its own pane
    pushes out has k.
    """
    kept = np.empty(end - start, np.int64)
    age = np.empty(end - start, np.int64)
    heap = np.empty((k, 4), np.int64)  # level, pane, key, row
    size, count, panes = 0, 0, 0
    pane = rows[end - 1, PANE]
    for at in range(end - 1, start - 1, -1):
        key = rows[at, KEY]
        if rows[at, PANE] != pane:
            pane = rows[at, PANE]
            panes += 1
        if size == k and key < heap[0, 2]:
            continue
        level = level_of(key, width, whole)
        rows[at, LEVEL] = level
        age[at - start] = panes
        if size < k:
            place = size
            size += 1
            while place > 0 and _after(heap, (place - 1) >> 1, level, pane, key):
                for column in range(4):
                    heap[place, column] = heap[(place - 1) >> 1, column]
                place = (place - 1) >> 1
            _set(heap, place, level, pane, key, at)
        elif not _after(heap, 0, level, pane, key):
            if heap[0, 1] != pane:
                kept[count] = heap[0, 3]
                count += 1
            _sink(heap, size, level, pane, key, at)
    while size > 0:
        kept[count] = heap[0, 3]
        count += 1
        size -= 1
        last = size
        _sink(heap, size, heap[last, 0], heap[last, 1], heap[last, 2], heap[last, 3])
    # Dominators: rows before this one that are as new. A Fenwick tree counts them by age.
    tree = np.zeros(panes + 2, np.int64)
    sorted_rows = np.empty((count, 6), np.int64)
    for i in range(count):
        source = kept[count - 1 - i]
        _copy(rows, source, sorted_rows, i)
        at = age[source - start] + 1
        found = 0
        node = at
        while node > 0:
            found += tree[node]
            node &= node - 1
        sorted_rows[i, DOMINATORS] = found
        while at < len(tree):
            tree[at] += 1
            at += at & -at
    return sorted_rows


@jit
def _after(heap: Ints, place: int, level: int, pane: int, key: int) -> Any:
    """Whether a row comes after that at a place, or its equal; compared without branches."""
    one, two, three = heap[place, 0], heap[place, 1], heap[place, 2]
    return (one > level) | ((one == level) & ((two > pane) | ((two == pane) & (three >= key))))


@jit
def _set(heap: Ints, place: int, level: int, pane: int, key: int, row: int) -> None:
    heap[place, 0] = level
    heap[place, 1] = pane
    heap[place, 2] = key
    heap[place, 3] = row


@jit
def _sink(heap: Ints, size: int, level: int, pane: int, key: int, row: int) -> None:
    """Put a row in the place of the top of the heap, where the last row in order stands."""
    place = 0
    child = 1
    while child < size:
        if child + 1 < size:
            child += _after(heap, child, heap[child + 1, 0], heap[child + 1, 1], heap[child + 1, 2])
        if _after(heap, child, level, pane, key):
            break
        for column in range(4):
            heap[place, column] = heap[child, column]
        place = child
        child = 2 * place + 1
    _set(heap, place, level, pane, key, row)


@jit
def _merge(newer: Ints, rows: Ints, low: int, high: int, first: int, k: int) -> Ints:
    """Newer rows and the older ``rows[low:high]`` in one order, without the dominated and expired.

    Every newer row of at least its level dominates an older one; their number so far is all that
    the merge has to add. A row that was dropped before is not missed: k others count in its place.
    """
    merged = np.empty((len(newer) + high - low, 6), np.int64)
    count, taken, old = 0, 0, low
    dominating = 0
    while taken < len(newer) or (old < high and dominating < k):
        if taken < len(newer) and (
            old == high or dominating >= k or newer[taken, LEVEL] >= rows[old, LEVEL]
        ):
            if newer[taken, PANE] >= first:
                _copy(newer, taken, merged, count)
                count += 1
                dominating += 1
            taken += 1
            continue
        if rows[old, DOMINATORS] + dominating < k and rows[old, PANE] >= first:
            _copy(rows, old, merged, count)
            merged[count, DOMINATORS] += dominating
            count += 1
        old += 1
    return merged[:count]
