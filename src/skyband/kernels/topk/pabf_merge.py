"""Section 5 of the PABF paper: candidates in buckets, Local-Merge and Global-Merge.

    rows    | bucket 2 (old)       | bucket 1     | bucket 0 | fresh rows | free
            cut[3]=0               cut[2]         cut[1]     cut[0]       USED

Bucket j holds about e^(j+1) k rows, all newer than those of bucket j + 1. Rows are sorted by
level, highest first; a *node* is the stretch of one level, its members newest pane first and best
first within a pane. That is the order ``before``. The rows before a row that are as new or newer
are its dominators: any of them can stand for it as long as it lives. Each row has their number, and
is dropped when it has k of them.

Levels are scores cut into fixed steps a little narrower than epsilon. Two rows of one level differ
by less than epsilon, so one may stand for the other; a level never moves, whatever arrives later.
Steps are a thousandth narrower than epsilon, which covers the rounding of the division for
quotients below 2^40; beyond them, and at infinity, every score is a level of its own. Integers are
divided as integers, exactly. Keys are sortable integers (``skyband.data.order``), greater is
better, so queries for the smallest scores need no code of their own.

Dominators increase from the first member of a node to the last, so a node loses its tail, and the
count of each member says when (the paper keeps one count per node, which deletes too much).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.room import with_room

LOWEST = -(1 << 63)
_LOW_BITS = 0x7FFF_FFFF_FFFF_FFFF
_INFINITY = 0x7FF0_0000_0000_0000
_FAR = float(1 << 40)
_OWN = 1 << 50

KEY, TIE, SLOT, PANE, LEVEL, DOMINATORS = range(6)
(
    USED, FIRST, RESULTS, OLDEST, FLOOR, AT_FLOOR, ABOVE_FLOOR,
    LOCAL_MERGES, GLOBAL_MERGES, MERGED, REFILLS, REFILLED, INSERTED,
) = range(13)  # fmt: skip
BUCKETS = 24  # the last would hold e^24 k rows
GROWTH = 2.718281828459045  # the minimum of phi log_phi(x), formula (4), is at e for every x


class Candidates(NamedTuple):
    """All state of one group: see the drawing; ``best`` is described in ``pabf.py``."""

    rows: Ints
    cut: Ints
    head: Ints  # the first row of each bucket that may be live
    newest: Ints  # the newest pane of each bucket
    best: Ints
    meta: Ints


@jit
def level_of(key: Any, width: float, whole: int) -> Any:
    """The level of a key; ``whole`` is the step of integer scores, ``width`` (and 0) of others."""
    if whole > 0:
        return key // whole
    bits = np.int64(key ^ ((key >> 63) & _LOW_BITS))
    place = bits.view(np.float64) / width
    if -_FAR < place < _FAR:
        return np.int64(math.floor(place))
    size = _OWN + (bits & _LOW_BITS)
    return size if key >= 0 else -size


@jit
def least_key(level: int, width: float, whole: int) -> Any:
    """The least key whose level is at least this one, the one after all keys if none has it."""
    if whole > 0:
        low, high = np.int64(LOWEST), np.int64(_LOW_BITS)
    else:
        low, high = np.int64(~_INFINITY), np.int64(_INFINITY)
    if level_of(low, width, whole) >= level:
        return low
    if level_of(high, width, whole) < level:
        return high + (high < _LOW_BITS)
    while high - 1 != low:
        middle = (low & high) + ((low ^ high) >> 1)  # their mean, without overflow
        if level_of(middle, width, whole) >= level:
            high = middle
        else:
            low = middle
    return high


@jit
def before(rows: Ints, a: int, b: int) -> bool:
    """Whether row a comes before row b: higher level, then newer pane, then better row."""
    if rows[a, LEVEL] != rows[b, LEVEL]:
        return bool(rows[a, LEVEL] > rows[b, LEVEL])
    if rows[a, PANE] != rows[b, PANE]:
        return bool(rows[a, PANE] > rows[b, PANE])
    return bool(rows[a, KEY] > rows[b, KEY])


@jit
def _copy(source: Ints, at: int, target: Ints, to: int) -> None:
    for column in range(6):  # numba takes long to compile the assignment of a row
        target[to, column] = source[at, column]


@jit
def reserve(state: Candidates, more: int) -> Candidates:
    """The state with room for so many more fresh rows."""
    rows = with_room(state.rows, state.meta[USED], state.meta[USED] + more)
    return Candidates(rows, state.cut, state.head, state.newest, state.best, state.meta)


@jit
def local_merge(state: Candidates, k: int, width: float, whole: int) -> None:
    """Bring the fresh rows of one or more panes into bucket 0, and on while a bucket is full."""
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
    """Drop the oldest bucket if all of it has expired."""
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
    """The fresh rows with fewer than k dominators, sorted, with their counts.

    From the newest pane to the oldest, a heap holds the k rows that come first, the last of them on
    top, so it rejects most rows with one comparison. A row that a better one of an older pane
    pushes out has fewer than k dominators, and such rows come out sorted, the last one first; a row
    that one of its own pane pushes out has k.
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
    """Whether a row comes after the one at a place, or equals it; compared without branches."""
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
    """Put a row in the place of the top of the heap, which is the last row in order."""
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
    """Merge newer rows with the older ``rows[low:high]``, without dominated and expired ones.

    An older row is dominated by every newer row of at least its level; the merge adds the number of
    those so far. A row dropped earlier makes no difference: k others count in its place.
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
