"""Skyband monitoring with a grid to rescan (Mouratidis et al. 2006).

All live rows stand in a grid of cells over the score, each cell a queue in order of arrival. The
skyband holds the rows at or above the threshold that fewer than k better ones outlive; when it has
come down to fewer than k rows the best k are found anew, cell by cell from the best.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from skyband.kernels.jit import jit
from skyband.kernels.patient import patient

__all__ = ["Monitored", "fold_monitored", "new_monitored"]

Ints = npt.NDArray[np.int64]

KEY, TIE, SLOT, PANE, NEXT = range(5)  # columns of live rows; NEXT is the next row of the cell
DOMINATORS = 4  # column of the skyband in place of NEXT
HEAD, LIVE, BAND, FLOOR_KEY, FLOOR_TIE, LOW, STEP, RESCANS, SCANNED, BUILT = range(10)
CELLS = 1024
_LOWEST = -(1 << 63)


class Monitored(NamedTuple):
    """State of one group: a ring of live rows, the ends of each cell's queue, the skyband."""

    live: Ints
    cells: Ints
    band: Ints
    meta: Ints


def new_monitored(k: int) -> Monitored:
    """An empty state."""
    meta = np.zeros(10, np.int64)
    meta[FLOOR_KEY] = meta[FLOOR_TIE] = _LOWEST
    meta[STEP] = 1
    cells = np.full((CELLS, 2), -1, np.int64)
    return Monitored(np.zeros((64, 5), np.int64), cells, np.zeros((k + 64, 5), np.int64), meta)


@jit
def _cell(meta: Ints, key: int) -> int:
    # The difference of two keys may not fit: compare halves.
    cell: int = (key // 2 - meta[LOW] // 2) // meta[STEP]
    return min(max(cell, 0), CELLS - 1)


@jit
def _link(state: Monitored, at: int) -> None:
    live, cells, _, meta = state
    cell = _cell(meta, live[at, KEY])
    live[at, NEXT] = -1
    if cells[cell, 0] < 0:
        cells[cell, 0] = at
    else:
        live[cells[cell, 1], NEXT] = at
    cells[cell, 1] = at


@jit
def _rebuild(state: Monitored, room: int) -> Monitored:
    """Lay the ring out anew, with cells over the scores that are live now."""
    live, cells, band, meta = state
    n = meta[LIVE]
    fresh = np.zeros((max(room, 64), 5), np.int64)
    for i in range(n):
        fresh[i] = live[(meta[HEAD] + i) % len(live)]
    meta[HEAD] = 0
    meta[BUILT] = 0
    cells[:] = -1
    if n:
        low, high = fresh[:n, KEY].min(), fresh[:n, KEY].max()
        meta[LOW] = low
        meta[STEP] = max((high // 2 - low // 2) // CELLS, 1)
    state = Monitored(fresh, cells, band, meta)
    for i in range(n):
        _link(state, i)
    return state


@jit
def _enter(state: Monitored, k: int, key: int, tie: int, slot: int, pane: int) -> Monitored:
    """A row at or above the threshold joins the skyband."""
    live, cells, band, meta = state
    n = meta[BAND]
    left, right = 0, n
    while left < right:
        middle = (left + right) // 2
        if band[middle, KEY] > key or (band[middle, KEY] == key and band[middle, TIE] >= tie):
            left = middle + 1
        else:
            right = middle
    dominators = 0
    for i in range(left):
        dominators += band[i, PANE] >= pane
    if dominators >= k:
        return state
    kept = left
    for i in range(left, n):
        band[i, DOMINATORS] += 1
        if band[i, DOMINATORS] < k:
            band[kept] = band[i]
            kept += 1
    if kept == len(band):
        grown = np.zeros((2 * kept, 5), np.int64)
        grown[:kept] = band
        band = grown
    for i in range(kept, left, -1):
        band[i] = band[i - 1]
    band[left, KEY] = key
    band[left, TIE] = tie
    band[left, SLOT] = slot
    band[left, PANE] = pane
    band[left, DOMINATORS] = dominators
    meta[BAND] = kept + 1
    return Monitored(live, cells, band, meta)


@jit
def _expire(state: Monitored, first: int) -> None:
    live, cells, band, meta = state
    while meta[LIVE] and live[meta[HEAD], PANE] < first:
        at = meta[HEAD]
        cell = _cell(meta, live[at, KEY])
        cells[cell, 0] = live[at, NEXT]  # queues are in order of arrival: it is the first of its
        meta[HEAD] = (at + 1) % len(live)
        meta[LIVE] -= 1
    kept = 0
    for i in range(meta[BAND]):
        if band[i, PANE] >= first:
            band[kept] = band[i]
            kept += 1
    meta[BAND] = kept


@jit
def _rescan(state: Monitored, k: int) -> Monitored:
    """Find the best k rows anew; they are the skyband above a new threshold."""
    live, cells, _, meta = state
    meta[RESCANS] += 1
    meta[BAND] = 0
    meta[FLOOR_KEY] = meta[FLOOR_TIE] = _LOWEST
    found = np.empty(meta[LIVE], np.int64)
    n = 0
    cell = CELLS - 1
    while cell >= 0 and n < k:
        at = cells[cell, 0]
        while at >= 0:
            found[n] = at
            n += 1
            at = live[at, NEXT]
        cell -= 1
    meta[SCANNED] += n
    # Rows of a pane that tie stand in their order: a stable sort by tie, then by key.
    order = found[:n]
    order = order[np.argsort(-live[order, TIE] - 1, kind="mergesort")]
    order = order[np.argsort(-live[order, KEY] - 1, kind="mergesort")]
    for i in range(min(n, k)):
        at = order[i]
        state = _enter(state, k, live[at, KEY], live[at, TIE], live[at, SLOT], live[at, PANE])
    if n > k:
        last = order[k - 1]
        meta[FLOOR_KEY] = live[last, KEY]
        meta[FLOOR_TIE] = live[last, TIE]
    return state


@patient
@jit
def fold_monitored(
    state: Monitored,
    k: int,
    run_pane: Ints,
    offsets: Ints,
    key: Ints,
    tie: Ints,
    slot: Ints,
    window_first: Ints,
    window_end: Ints,
) -> tuple[Monitored, Ints, Ints]:
    """Push runs and read windows; rows found as (key, tie, slot), offsets."""
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
            if need > len(state.live) or state.meta[BUILT] > 2 * len(state.live):
                state = _rebuild(state, max(2 * need, len(state.live)))
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
        if state.meta[BAND] < min(k, state.meta[LIVE]):
            state = _rescan(state, k)
        for i in range(min(k, state.meta[BAND])):
            found[filled, 0] = state.band[i, KEY]
            found[filled, 1] = state.band[i, TIE]
            found[filled, 2] = state.band[i, SLOT]
            filled += 1
        cuts[step + 1] = filled
    return state, found[:filled], cuts
