"""Predicted result sets for the coming windows (Yang et al. 2011), one sorted list for all.

Each row of the list has the first and last window whose predicted top k contains it. For each
coming window, ``low`` is the place of the last row of its predicted set and ``size`` the number of
its rows. A new row enters every window from the first whose last row it beats to the last in which
it is live; from each full one it pushes the last row out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.select import PaneRows, place_of

KEY, TIE, SLOT, START, END = range(5)
LENGTH, NEXT_WINDOW, KNOWN_WINDOW, INSERTED, UPDATES = range(5)


class MinTopKState(NamedTuple):
    """State of one group: the list (best first), windows by number modulo their count, counters."""

    rows: Ints
    low: Ints
    size: Ints
    meta: Ints


def new_predicted(windows: int) -> MinTopKState:
    """An empty state for rows that live in at most so many windows."""
    meta = np.zeros(5, np.int64)
    meta[NEXT_WINDOW] = meta[KNOWN_WINDOW] = np.iinfo(np.int64).min
    return MinTopKState(
        np.zeros((64, 5), np.int64), np.zeros(windows, np.int64), np.zeros(windows, np.int64), meta
    )


@jit
def _drop_expired(state: MinTopKState, window: int) -> None:
    """Forget rows that no window from this one on predicts."""
    rows, low, size, meta = state
    n = meta[LENGTH]
    moved = np.empty(n, np.int64)
    kept = 0
    for i in range(n):
        moved[i] = kept
        if rows[i, START] <= rows[i, END] and rows[i, END] >= window:
            copy_rows(rows[kept], rows[i], rows.shape[1])
            kept += 1
    meta[LENGTH] = kept
    for w in range(max(window, meta[NEXT_WINDOW]), meta[KNOWN_WINDOW] + 1):
        at = w % len(low)
        if size[at] > 0:
            low[at] = moved[low[at]]
            if low[at] >= kept:  # never, unless a snapshot was forged
                size[at] = 0


@jit
def _insert(
    state: MinTopKState, k: int, key: int, tie: int, slot: int, start: int, end: int
) -> None:
    rows, low, size, meta = state
    # Later windows predict from fewer rows, so their last rows are no better: bisect.
    first, last = start, end + 1
    while first < last:
        w = (first + last) // 2
        at = w % len(low)
        beaten = size[at] < k
        if not beaten:
            lowest = low[at]
            beaten = rows[lowest, KEY] < key or (
                rows[lowest, KEY] == key and rows[lowest, TIE] < tie
            )
        if beaten:
            last = w
        else:
            first = w + 1
    if first > end:
        return
    meta[INSERTED] += 1
    n = meta[LENGTH]
    left = place_of(rows, n, key, tie)
    for i in range(n, left, -1):
        rows[i] = rows[i - 1]
    rows[left, KEY] = key
    rows[left, TIE] = tie
    rows[left, SLOT] = slot
    rows[left, START] = first
    rows[left, END] = end
    meta[LENGTH] = n + 1
    for w in range(first, end + 1):  # the last rows of earlier windows are better: none has moved
        at = w % len(low)
        meta[UPDATES] += 1
        out = low[at] + (low[at] >= left)
        if size[at] < k:
            low[at] = left if size[at] == 0 else max(out, left)
            size[at] += 1
            continue
        rows[out, START] = w + 1
        place = out - 1
        while place > left and (rows[place, START] > w or rows[place, END] < w):
            place -= 1  # at the latest the new row, which this window predicts
        low[at] = place


@kernel
def fold_predicted(
    state: MinTopKState, k: int, runs: PaneRows, run_first: Ints, run_last: Ints, window: Ints,
    window_end: Ints,
) -> tuple[MinTopKState, Ints, Ints]:  # fmt: skip
    """Push runs, each with its first and last window, and read windows; rows found, offsets."""
    run_pane = runs.pane
    found = np.empty((len(window) * k, 3), np.int64)
    cuts = np.zeros(len(window) + 1, np.int64)
    at_run, filled = 0, 0
    for step in range(len(window) + 1):
        reading = step < len(window)
        while at_run < len(run_pane) and (not reading or run_pane[at_run] < window_end[step]):
            state = _push_run(state, k, runs, at_run, run_first[at_run], run_last[at_run])
            at_run += 1
        if not reading:
            break
        w = window[step]
        rows, meta = state.rows, state.meta
        shown = 0
        for i in range(meta[LENGTH]):
            if rows[i, START] <= w <= rows[i, END]:
                for column in range(3):  # key, tie, slot
                    found[filled, column] = rows[i, column]
                filled += 1
                shown += 1
                if shown == k:
                    break
        cuts[step + 1] = filled
        if w + 1 > meta[NEXT_WINDOW]:
            meta[NEXT_WINDOW] = w + 1
            _drop_expired(state, w + 1)
    return state, found[:filled], cuts


@jit
def _push_run(
    state: MinTopKState, k: int, runs: PaneRows, run: int, first: int, last: int
) -> MinTopKState:
    meta = state.meta
    # Windows that ended before this pane have been read, or had nothing to read.
    start = max(first, meta[NEXT_WINDOW])
    meta[NEXT_WINDOW] = start
    for w in range(max(meta[KNOWN_WINDOW] + 1, start), last + 1):
        state.size[w % len(state.size)] = 0
    meta[KNOWN_WINDOW] = max(meta[KNOWN_WINDOW], last)
    low_row, high_row = runs.offsets[run], runs.offsets[run + 1]
    if meta[LENGTH] + high_row - low_row > len(state.rows):
        _drop_expired(state, start)
    rows = with_room(state.rows, meta[LENGTH], meta[LENGTH] + high_row - low_row)
    state = MinTopKState(rows, state.low, state.size, meta)
    for i in range(low_row, high_row):
        _insert(state, k, runs.key[i], runs.tie[i], runs.slot[i], start, last)
    return state
