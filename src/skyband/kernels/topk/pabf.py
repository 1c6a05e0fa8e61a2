"""The framework of PABF (section 3 of the paper, Algorithm 1) and its answers (section 6).

The rows of a pane, already filtered, are compared with the results at once and otherwise put aside.
They are merged into the buckets when they have become a few times k, or when the results run dry.

``best`` holds the results: between k and 2k live rows, best first. Every live row that is not among
them has at most the level FLOOR, and they have at least that level, so the first k of them have the
levels of the true first k. New rows above the floor are merged in; where there are more than 2k,
the last ones go and the floor rises to their level. Expiry leaves gaps; when fewer than k rows are
left, the 2k rows that come first in the buckets are taken again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.sorting import sort_best
from skyband.kernels.topk.pabf_merge import (
    ABOVE_FLOOR,
    AT_FLOOR,
    BUCKETS,
    FIRST,
    FLOOR,
    INSERTED,
    KEY,
    LEVEL,
    LOWEST,
    OLDEST,
    PANE,
    REFILLED,
    REFILLS,
    RESULTS,
    SLOT,
    TIE,
    USED,
    Candidates,
    before,
    least_key,
    level_of,
    local_merge,
    reserve,
)
from skyband.kernels.topk.runs import Runs

_ROOM = 32
"""Fresh rows, in multiples of k, that wait for a Local-Merge."""


def room_for(k: int, panes: int) -> int:
    """Fresh rows that may wait, for windows of so many panes: less than half of a short window."""
    return k * max(1, min(_ROOM, panes // 2))


def new_candidates(k: int) -> Candidates:
    """An empty state."""
    meta = np.zeros(13, np.int64)
    for name in (FIRST, FLOOR, AT_FLOOR, ABOVE_FLOOR):
        meta[name] = LOWEST
    meta[OLDEST] = np.iinfo(np.int64).max
    return Candidates(
        np.empty((64, 6), np.int64), np.zeros(BUCKETS + 1, np.int64), np.zeros(BUCKETS, np.int64),
        np.full(BUCKETS, LOWEST), np.empty((2 * k, 4), np.int64), meta,
    )  # fmt: skip


@kernel
def fold_candidates(
    state: Candidates, k: int, room: int, width: float, whole: int, runs: Runs, run_first: Ints,
    window_first: Ints, window_end: Ints,
) -> tuple[Candidates, Ints, Ints]:  # fmt: skip
    """Push runs and read windows; rows found as columns (key, tie, slot), and offsets.

    ``run_first`` is the oldest pane that any reading after a run can ask for.
    """
    run_pane, offsets, key, tie, slot = runs
    longest = 0
    for run in range(len(run_pane)):
        longest = max(longest, offsets[run + 1] - offsets[run])
    chosen, spare = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    shown = min(k, state.meta[USED] + state.meta[RESULTS] + len(key))
    found = np.empty((3, len(window_end) * shown), np.int64)
    cuts = np.zeros(len(window_end) + 1, np.int64)
    at_run, filled = 0, 0
    for step in range(len(window_end) + 1):
        reading = step < len(window_end)
        while at_run < len(run_pane) and (not reading or run_pane[at_run] < window_end[step]):
            low, high = offsets[at_run], offsets[at_run + 1]
            _expire(state, run_first[at_run])
            if state.meta[USED] - state.cut[0] + high - low > room:
                local_merge(state, k, width, whole)
            state = reserve(state, high - low)
            rows, meta = state.rows, state.meta
            start = meta[USED]
            for i in range(low, high):
                at = start + i - low
                rows[at, KEY] = key[i]
                rows[at, TIE] = tie[i]
                rows[at, SLOT] = slot[i]
                rows[at, PANE] = run_pane[at_run]
            meta[USED] = start + high - low
            _insert(state, k, key, low, high, width, whole, chosen, spare)
            at_run += 1
        if not reading:
            break
        _expire(state, window_first[step])
        best, meta = state.best, state.meta
        if meta[RESULTS] < k and meta[FLOOR] != LOWEST:
            _refill(state, k, width, whole)
        count = min(k, meta[RESULTS])
        for i in range(count):
            found[0, filled + i] = best[i, KEY]
            found[1, filled + i] = best[i, TIE]
            found[2, filled + i] = best[i, SLOT]
        filled += count
        cuts[step + 1] = filled
    return state, found[:, :filled], cuts


@jit
def _expire(state: Candidates, first: int) -> None:
    """Drop the panes before ``first``."""
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
def _insert(
    state: Candidates, k: int, key: Ints, low: int, high: int, width: float, whole: int,
    chosen: Ints, spare: Ints,
) -> None:  # fmt: skip
    """Add what the results need of the last fresh rows, whose keys are ``key[low:high]``."""
    rows, best, meta = state.rows, state.best, state.meta
    size = meta[RESULTS]
    # Rows of the floor's own level fill gaps, but never push anything out.
    bound = meta[AT_FLOOR] if size < k + k // 2 else meta[ABOVE_FLOOR]
    start = meta[USED] - (high - low)
    count = 0
    for i in range(high - 1, low - 1, -1):  # later rows first: ties are in this order
        if key[i] >= bound:
            chosen[count] = start + i - low
            count += 1
    if count == 0:
        return
    sort_best(chosen[:count], spare[:count], rows[:, KEY], rows[:, TIE])
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
def _refill(state: Candidates, k: int, width: float, whole: int) -> None:
    """Replace the results by the 2k live rows that come first in all buckets."""
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
    sort_best(chosen[:count], spare[:count], rows[:, KEY], rows[:, TIE])
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
    """The rows that come first in all buckets, and whether there are more."""
    rows, cut, head, meta = state.rows, state.cut, state.head, state.meta
    first = meta[FIRST]
    deep = BUCKETS
    while deep > 0 and cut[deep - 1] == cut[deep]:
        deep -= 1
    for j in range(deep):  # never look again at what has expired at a bucket's head
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
