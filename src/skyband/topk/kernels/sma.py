"""Skyband monitoring with a grid to rescan (Mouratidis et al. 2006).

All live rows are in a grid of cells over the score; each cell is a queue in order of arrival. The
threshold is the k-th best row of the last computation. The band holds the rows at or above the
threshold that fewer than k better ones outlive. When a window is read and the band has fewer than k
rows, the best k are computed again, cell by cell from the best, and set a new threshold. The same
happens when the window has grown by a quarter: the threshold of a window that was still filling is
too low for a full one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Floats, Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.select import PaneRows, place_of
from skyband.kernels.sorting import sort_best

KEY, TIE, SLOT, PANE, NEXT = range(5)  # columns of live rows; NEXT is the next row of the cell
DOMINATORS = 4  # column of the skyband in place of NEXT
HEAD, LIVE, BAND, FLOOR_KEY, FLOOR_TIE, LOW, FLOATS, RESCANS, SCANNED, BUILT, COMPUTED = range(11)
# FLOOR is the threshold, LOW the key where the cells begin, FLOATS whether keys are those of
# doubles; BUILT counts the rows added since the cells were laid out, COMPUTED those that were live
# at the last computation.
CELLS = 1024
_LOWEST = -(1 << 63)
_HIGHEST = (1 << 63) - 1


class SmaState(NamedTuple):
    """State of one group: a ring of live rows, the ends of each cell's queue, the band."""

    live: Ints
    cells: Ints
    band: Ints
    meta: Ints
    step: Floats
    """The width of a cell, of half the score."""


def new_monitored(k: int) -> SmaState:
    """An empty state; until the first computation no row enters the band."""
    meta = np.zeros(11, np.int64)
    meta[FLOOR_KEY] = meta[FLOOR_TIE] = _HIGHEST
    live, cells = np.zeros((64, 5), np.int64), np.full((CELLS, 2), -1, np.int64)
    return SmaState(live, cells, np.zeros((k + 64, 5), np.int64), meta, np.ones(1))


@jit
def _score(key: int) -> float:
    """The double whose sortable key this is."""
    bits = key ^ ((key >> 63) & _HIGHEST)
    score: float = np.int64(bits).view(np.float64)
    return score


@jit
def _distance(meta: Ints, key: int) -> float:
    """Half of how far a score is above the first cell; the whole of it may not fit its type."""
    if meta[FLOATS]:
        return _score(key) / 2 - _score(meta[LOW]) / 2
    return float(key // 2 - meta[LOW] // 2)


@jit
def cell_of(state: SmaState, key: int) -> int:
    """The cell of a row with this key."""
    cell = _distance(state.meta, key) / state.step[0]
    if cell >= CELLS:
        return CELLS - 1
    return int(cell) if cell > 0 else 0


@jit
def _link(state: SmaState, at: int) -> None:
    live, cells = state.live, state.cells
    cell = cell_of(state, live[at, KEY])
    live[at, NEXT] = -1
    if cells[cell, 0] < 0:
        cells[cell, 0] = at
    else:
        live[cells[cell, 1], NEXT] = at
    cells[cell, 1] = at


@jit
def rebuild(state: SmaState, room: int) -> SmaState:
    """Lay out the ring again, with cells of one width over the finite scores that are live now."""
    live, cells, band, meta, step = state
    n = meta[LIVE]
    fresh = np.zeros((max(room, 64), 5), np.int64)
    low, high = _HIGHEST, _LOWEST
    for i in range(n):
        fresh[i] = live[(meta[HEAD] + i) % len(live)]
        key = fresh[i, KEY]
        if not meta[FLOATS] or np.isfinite(_score(key)):
            low, high = min(low, key), max(high, key)
    meta[HEAD] = 0
    meta[BUILT] = 0
    meta[LOW] = low if low <= high else 0
    width = _distance(meta, high) / CELLS if low < high else 0.0
    step[0] = width if width > 0 else 1.0
    cells[:] = -1
    state = SmaState(fresh, cells, band, meta, step)
    for i in range(n):
        _link(state, i)
    return state


@jit
def _enter(state: SmaState, k: int, key: int, tie: int, slot: int, pane: int) -> SmaState:
    """A row at or above the threshold joins the band, unless k better ones outlive it."""
    band, meta = state.band, state.meta
    n = meta[BAND]
    left = place_of(band, n, key, tie)
    dominators = 0
    for i in range(left):
        dominators += band[i, PANE] >= pane
    if dominators >= k:
        return state
    kept = left
    for i in range(left, n):
        band[i, DOMINATORS] += 1
        if band[i, DOMINATORS] < k:
            copy_rows(band[kept], band[i], band.shape[1])
            kept += 1
    band = with_room(band, kept, kept + 1)
    for i in range(kept, left, -1):
        copy_rows(band[i], band[i - 1], band.shape[1])
    band[left, KEY] = key
    band[left, TIE] = tie
    band[left, SLOT] = slot
    band[left, PANE] = pane
    band[left, DOMINATORS] = dominators
    meta[BAND] = kept + 1
    return SmaState(state.live, state.cells, band, meta, state.step)


@jit
def _expire(state: SmaState, first: int) -> None:
    live, cells, band, meta, _ = state
    while meta[LIVE] and live[meta[HEAD], PANE] < first:
        at = meta[HEAD]
        cell = cell_of(state, live[at, KEY])
        cells[cell, 0] = live[at, NEXT]  # it is the first: queues are in order of arrival
        meta[HEAD] = (at + 1) % len(live)
        meta[LIVE] -= 1
    kept = 0
    for i in range(meta[BAND]):
        if band[i, PANE] >= first:
            copy_rows(band[kept], band[i], band.shape[1])
            kept += 1
    meta[BAND] = kept


@jit
def _stale(state: SmaState, k: int) -> bool:
    """Whether a window that is read now needs a computation from the grid.

    It does if the band has too few rows, if there is no threshold although k rows are live, or if
    the threshold is that of a window with far fewer rows.
    """
    meta = state.meta
    live = meta[LIVE]
    dry = meta[BAND] < min(k, live)
    open_ended = meta[FLOOR_KEY] == _LOWEST and meta[FLOOR_TIE] == _LOWEST
    stale: bool = dry or (open_ended and live >= k) or 4 * live > 5 * meta[COMPUTED]
    return stale


@jit
def _rescan(state: SmaState, k: int) -> SmaState:
    """Compute the best k rows from the grid: they become the band, the k-th the new threshold.

    If fewer than k rows are live, all of them are in the band, and so is every new row.
    """
    live, cells, meta = state.live, state.cells, state.meta
    meta[RESCANS] += 1
    meta[COMPUTED] = meta[LIVE]
    meta[BAND] = 0
    meta[FLOOR_KEY] = meta[FLOOR_TIE] = _LOWEST
    found = np.empty(meta[LIVE], np.int64)
    n = 0
    cell = CELLS - 1
    while cell >= 0 and n < k:
        at = cells[cell, 0]
        while at >= 0 and n < len(found):
            found[n] = at
            n += 1
            at = live[at, NEXT]
        cell -= 1
    meta[SCANNED] += n
    # Rows of a pane that tie keep their order.
    order = found[:n]
    sort_best(order, np.empty(n, np.int64), live[:, KEY], live[:, TIE])
    for i in range(min(n, k)):
        at = order[i]
        state = _enter(state, k, live[at, KEY], live[at, TIE], live[at, SLOT], live[at, PANE])
    if n >= k:
        last = order[k - 1]
        meta[FLOOR_KEY] = live[last, KEY]
        meta[FLOOR_TIE] = live[last, TIE]
    return state


@kernel
def fold_monitored(
    state: SmaState, k: int, runs: PaneRows, window_first: Ints, window_end: Ints
) -> tuple[SmaState, Ints, Ints]:
    """Push runs and read windows; rows found as (key, tie, slot), offsets."""
    run_pane, offsets, key, tie, slot = runs
    found = np.empty((len(window_end) * k, 3), np.int64)
    cuts = np.zeros(len(window_end) + 1, np.int64)
    at_run, filled = 0, 0
    for step in range(len(window_end) + 1):
        reading = step < len(window_end)
        while at_run < len(run_pane) and (not reading or run_pane[at_run] < window_end[step]):
            if reading:
                _expire(state, window_first[step])
            pane = run_pane[at_run]
            rows = offsets[at_run + 1] - offsets[at_run]
            need = state.meta[LIVE] + rows
            if need > len(state.live) or state.meta[BUILT] > need:
                state = rebuild(state, 2 * need)
            state.meta[BUILT] += rows
            for i in range(offsets[at_run], offsets[at_run + 1]):
                at = (state.meta[HEAD] + state.meta[LIVE]) % len(state.live)
                state.live[at, KEY] = key[i]
                state.live[at, TIE] = tie[i]
                state.live[at, SLOT] = slot[i]
                state.live[at, PANE] = pane
                _link(state, at)
                state.meta[LIVE] += 1
                floor = state.meta[FLOOR_KEY]
                if key[i] > floor or (key[i] == floor and tie[i] >= state.meta[FLOOR_TIE]):
                    state = _enter(state, k, key[i], tie[i], slot[i], pane)
            at_run += 1
        if not reading:
            break
        _expire(state, window_first[step])
        if _stale(state, k):
            state = _rescan(state, k)
        for i in range(min(k, state.meta[BAND])):
            for column in range(3):  # key, tie, slot
                found[filled, column] = state.band[i, column]
            filled += 1
        cuts[step + 1] = filled
    return state, found[:filled], cuts
