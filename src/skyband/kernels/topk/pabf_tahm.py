"""Section 6 of the PABF paper: answers from materialised results, refilled by merging the buckets.

``best`` holds between k and 2k live rows, best first, and beside them FLOOR: every live row that is
not among them has at most that level, and they have at least it. So the first k of them have the
levels of the true first k. New rows above the floor are merged in; where there are more than 2k,
the last go and the floor rises to them. Expiry leaves gaps; when fewer than k are left, the 2k rows
that stand first in the buckets are taken anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.topk.pabf_levels import LOWEST, least_key, level_of
from skyband.kernels.topk.pabf_merge import (
    ABOVE_FLOOR,
    AT_FLOOR,
    BUCKETS,
    FIRST,
    FLOOR,
    INSERTED,
    KEY,
    LEVEL,
    OLDEST,
    PANE,
    REFILLED,
    REFILLS,
    RESULTS,
    TIE,
    USED,
    Candidates,
    before,
    local_merge,
)

__all__ = ["expire", "insert", "refill"]

_CHUNK = 8


@jit
def expire(state: Candidates, first: int) -> None:
    """Panes before ``first`` are over."""
    best, meta = state.best, state.meta
    if first <= meta[FIRST]:
        return
    meta[FIRST] = first
    if meta[OLDEST] >= first:
        return
    kept = 0
    oldest = np.int64(0x7FFF_FFFF_FFFF_FFFF)
    for i in range(meta[RESULTS]):
        if best[i, PANE] >= first:
            oldest = min(oldest, best[i, PANE])
            if kept < i:
                _copy(best, i, best, kept)
            kept += 1
    meta[RESULTS] = kept
    meta[OLDEST] = oldest


@jit
def insert(
    state: Candidates,
    k: int,
    key: Ints,
    low: int,
    high: int,
    width: float,
    whole: int,
    chosen: Ints,
    spare: Ints,
) -> None:
    """Take what the results want of the last fresh rows, whose keys are ``key[low:high]``."""
    rows, best, meta = state.rows, state.best, state.meta
    size = meta[RESULTS]
    # Rows of the floor's own level fill gaps, but never push anything out.
    bound = meta[AT_FLOOR] if size < k + k // 2 else meta[ABOVE_FLOOR]
    start = meta[USED] - (high - low)
    count = 0
    for i in range(high - 1, low - 1, -1):  # later rows first, as ties want them
        if key[i] >= bound:
            chosen[count] = start + i - low
            count += 1
    if count == 0:
        return
    _sort(rows, chosen, spare, count)
    meta[INSERTED] += count
    meta[OLDEST] = min(meta[OLDEST], rows[start, PANE])
    # Merge from the back: a row is moved once, and none before the first new one.
    limit = 2 * k
    lost = np.int64(LOWEST)
    old, new = size - 1, count - 1
    place = size + count - 1
    meta[RESULTS] = min(place + 1, limit)
    while new >= 0:
        row = chosen[new]
        keep_old = old >= 0 and (
            best[old, KEY] < rows[row, KEY]
            or (best[old, KEY] == rows[row, KEY] and best[old, TIE] < rows[row, TIE])
        )
        if place >= limit:
            lost = best[old, KEY] if keep_old else rows[row, KEY]
        elif keep_old:
            _copy(best, old, best, place)
        else:
            _copy(rows, row, best, place)
        if keep_old:
            old -= 1
        else:
            new -= 1
        place -= 1
    if size + count > limit:
        _raise_floor(state, level_of(lost, width, whole), width, whole)


@jit
def _raise_floor(state: Candidates, level: Any, width: float, whole: int) -> None:
    meta = state.meta
    if level == meta[FLOOR]:
        return
    meta[FLOOR] = level
    meta[AT_FLOOR] = least_key(level, width, whole)
    meta[ABOVE_FLOOR] = least_key(level + 1, width, whole)


@jit
def refill(state: Candidates, k: int, width: float, whole: int) -> None:
    """Take the results anew: the 2k live rows that stand first in all buckets."""
    rows, cut, best, meta = state.rows, state.cut, state.best, state.meta
    meta[REFILLS] += 1
    chosen, spare = np.empty(2 * k, np.int64), np.empty(2 * k, np.int64)
    while True:
        count, more = _first_of_buckets(state, 2 * k, chosen)
        if meta[USED] == cut[0]:
            break
        # Fresh rows matter only if one of them can have a higher level than the last row taken.
        if count == 2 * k:
            top = np.int64(LOWEST)
            for at in range(cut[0], meta[USED]):
                top = max(top, rows[at, KEY])
            if level_of(top, width, whole) <= rows[chosen[count - 1], LEVEL]:
                more = True
                break
        local_merge(state, k, width, whole)
    floor = rows[chosen[count - 1], LEVEL] if more else np.int64(LOWEST)
    _sort(rows, chosen, spare, count)
    oldest = np.int64(0x7FFF_FFFF_FFFF_FFFF)
    for i in range(count):
        _copy(rows, chosen[i], best, i)
        oldest = min(oldest, best[i, PANE])
    meta[RESULTS] = count
    meta[REFILLED] += count
    meta[OLDEST] = oldest
    if more:
        _raise_floor(state, floor, width, whole)
    else:
        meta[FLOOR] = meta[AT_FLOOR] = meta[ABOVE_FLOOR] = LOWEST


@jit
def _first_of_buckets(state: Candidates, limit: int, chosen: Ints) -> tuple[int, bool]:
    """The rows that stand first in all buckets, and whether there are more."""
    rows, cut, head, meta = state.rows, state.cut, state.head, state.meta
    first = meta[FIRST]
    deep = BUCKETS
    while deep > 0 and cut[deep - 1] == cut[deep]:
        deep -= 1
    for j in range(deep):  # what has expired at a bucket's head is never looked at again
        while head[j] < cut[j] and rows[head[j], PANE] < first:
            head[j] += 1
    at = head[:deep].copy()
    count = 0
    while True:
        pick = -1
        for j in range(deep):
            while at[j] < cut[j] and rows[at[j], PANE] < first:
                at[j] += 1
            if at[j] < cut[j] and (pick < 0 or before(rows, at[j], at[pick])):
                pick = j
        if pick < 0 or count == limit:
            return count, pick >= 0
        chosen[count] = at[pick]
        at[pick] += 1
        count += 1


@jit
def _copy(source: Ints, at: int, target: Ints, to: int) -> None:
    for column in range(4):  # key, tie, slot, pane
        target[to, column] = source[at, column]


@jit
def _better(rows: Ints, a: int, b: int) -> bool:
    if rows[a, KEY] != rows[b, KEY]:
        return bool(rows[a, KEY] > rows[b, KEY])
    return bool(rows[a, TIE] > rows[b, TIE])


@jit
def _sort(rows: Ints, index: Ints, spare: Ints, n: int) -> None:
    """Sort row numbers, best first: insertion in chunks, then merges; stable."""
    for low in range(0, n, _CHUNK):
        for i in range(low + 1, min(low + _CHUNK, n)):
            row = index[i]
            j = i
            while j > low and _better(rows, row, index[j - 1]):
                index[j] = index[j - 1]
                j -= 1
            index[j] = row
    width = _CHUNK
    while width < n:
        for low in range(0, n, 2 * width):
            middle, high = min(low + width, n), min(low + 2 * width, n)
            a, b = low, middle
            for i in range(low, high):
                if a < middle and (b == high or not _better(rows, index[b], index[a])):
                    spare[i] = index[a]
                    a += 1
                else:
                    spare[i] = index[b]
                    b += 1
        index[:n] = spare[:n]
        width *= 2
