"""Section 3 of the PABF paper: the framework around filter, merges and answers (Algorithm 1).

A pane's rows, already filtered, are compared with the results at once and else only put aside; they
are merged into the buckets when they have become a few times k, or when the results run dry.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.topk.pabf_levels import LOWEST
from skyband.kernels.topk.pabf_merge import (
    ABOVE_FLOOR,
    AT_FLOOR,
    BUCKETS,
    FIRST,
    FLOOR,
    KEY,
    OLDEST,
    PANE,
    RESULTS,
    SLOT,
    TIE,
    USED,
    Candidates,
    local_merge,
    reserve,
)
from skyband.kernels.topk.pabf_tahm import expire, insert, refill

__all__ = ["fold_candidates", "new_candidates", "room_for"]

_ROOM = 32
"""Fresh rows, in multiples of k, that wait for a Local-Merge."""


def room_for(k: int, panes: int) -> int:
    """Fresh rows that may wait where windows have so many panes: never half of a short window's."""
    return k * max(1, min(_ROOM, panes // 2))


def new_candidates(k: int) -> Candidates:
    """An empty state."""
    meta = np.zeros(13, np.int64)
    for name in (FIRST, FLOOR, AT_FLOOR, ABOVE_FLOOR):
        meta[name] = LOWEST
    meta[OLDEST] = np.iinfo(np.int64).max
    return Candidates(
        np.empty((64, 6), np.int64),
        np.zeros(BUCKETS + 1, np.int64),
        np.zeros(BUCKETS, np.int64),
        np.full(BUCKETS, LOWEST),
        np.empty((2 * k, 4), np.int64),
        meta,
    )


@patient
@jit
def fold_candidates(
    state: Candidates,
    k: int,
    room: int,
    width: float,
    whole: int,
    run_pane: Ints,
    run_first: Ints,
    offsets: Ints,
    key: Ints,
    tie: Ints,
    slot: Ints,
    window_first: Ints,
    window_end: Ints,
) -> tuple[Candidates, Ints, Ints]:
    """Push runs and read windows; rows found as columns (key, tie, slot), and windows' offsets.

    ``run_first`` is the oldest pane that any reading after a run can ask for.
    """
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
            expire(state, run_first[at_run])
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
            insert(state, k, key, low, high, width, whole, chosen, spare)
            at_run += 1
        if not reading:
            break
        expire(state, window_first[step])
        best, meta = state.best, state.meta
        if meta[RESULTS] < k and meta[FLOOR] != LOWEST:
            refill(state, k, width, whole)
        count = min(k, meta[RESULTS])
        for i in range(count):
            found[0, filled + i] = best[i, KEY]
            found[1, filled + i] = best[i, TIE]
            found[2, filled + i] = best[i, SLOT]
        filled += count
        cuts[step + 1] = filled
    return state, found[:, :filled], cuts
