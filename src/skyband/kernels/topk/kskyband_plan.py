"""What a call over the k-skyband goes through, group by group, and how much it will answer.

See ``kskyband.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.topk.kskyband_best import PANE, Ints, Ints32
from skyband.kernels.topk.kskyband_group import BACK, BASE, FRONT, REST, TOP


class Plan(NamedTuple):
    """The groups that a call goes through, one after the other, each with its runs and windows."""

    groups: Ints32
    starts: Ints  # where in ``runs`` those of each group start; one more than there are groups
    runs: Ints
    low: Ints  # the first window of each group
    high: Ints  # after its last window


class Runs(NamedTuple):
    """The rows that are pushed, as in ``Skyband.fold``."""

    pane: Ints
    offsets: Ints
    key: Ints
    tie: Ints
    slot: Ints


class Windows(NamedTuple):
    """The windows to answer. Of the last two, window w has its places at w, and moves them on."""

    first: Ints
    end: Ints
    row_at: Ints  # where the window's next row is written
    run_at: Ints  # where its next group is written


@patient
@jit
def index_runs(run_group: Ints32, units: Ints32, unit_of: Ints32) -> tuple[Ints32, int, Ints, Ints]:
    """The runs of each group, groups as in ``units`` and then as they come; stable.

    Returns groups, how many they are, where the runs of each start, and the runs.
    """
    n_runs = len(run_group)
    n = len(units)
    groups = np.empty(n + n_runs, np.int32)
    for unit in range(n):
        groups[unit] = units[unit]
        unit_of[units[unit]] = unit
    for run in range(n_runs):
        if unit_of[run_group[run]] < 0:
            groups[n] = run_group[run]
            unit_of[run_group[run]] = n
            n += 1
    starts = np.zeros(n + 2, np.int64)  # at first one place ahead: filling moves them back
    for run in range(n_runs):
        starts[unit_of[run_group[run]] + 2] += 1
    for unit in range(n):
        starts[unit + 2] += starts[unit + 1]
    index = np.empty(n_runs, np.int64)
    for run in range(n_runs):
        unit = unit_of[run_group[run]] + 1
        index[starts[unit]] = run
        starts[unit] += 1
    for unit in range(n):
        unit_of[groups[unit]] = -1
    return groups, n, starts, index


@patient
@jit
def count_answers(
    rows: Ints, groups: Ints, k: int, plan: Plan, run_pane: Ints, offsets: Ints, windows: Windows
) -> None:
    """Add up, one place ahead, with how many rows and groups each window will be answered."""
    units, starts, index, low, high = plan.groups, plan.starts, plan.runs, plan.low, plan.high
    win_first, win_end, n_rows, n_runs = windows.first, windows.end, windows.row_at, windows.run_at
    dropped = np.zeros(len(win_end), np.int64)  # rows held now that the window has lost
    for unit in range(len(units)):
        w = low[unit]
        last = high[unit]
        if w == last:
            continue
        g = units[unit]
        base, top, rest = groups[g, BASE], groups[g, TOP], groups[g, REST]
        held = groups[g, FRONT] + groups[g, BACK]
        # Mostly k rows that are held outlive the last window: look for them, newest first.
        outlive = win_first[last - 1]
        live = 0
        i = held
        while i > 0 and live < k:
            i -= 1
            if i < rest and i >= top:
                i = top
            else:
                live += rows[base + i, PANE] >= outlive
        if live == k:
            for x in range(w + 1, last + 1):
                n_rows[x] += k
                n_runs[x] += 1
            continue

        live = 0
        for i in range(held):
            if i < top or i >= rest:
                dropped[first_above(win_first, w, last, rows[base + i, PANE])] += 1
                live += 1
        come = starts[unit]
        gone = come
        stop = starts[unit + 1]
        while w < last:
            live -= dropped[w]
            dropped[w] = 0
            while come < stop and run_pane[index[come]] < win_end[w]:
                live += offsets[index[come] + 1] - offsets[index[come]]
                come += 1
            while gone < come and run_pane[index[gone]] < win_first[w]:
                live -= offsets[index[gone] + 1] - offsets[index[gone]]
                gone += 1
            if live > 0:
                n_rows[w + 1] += k if live > k else live
                n_runs[w + 1] += 1
                w += 1
            elif come == stop:
                w = last
            else:
                w = first_above(win_end, w, last, run_pane[index[come]])
        dropped[last] = 0


@jit
def first_above(ascending: Ints, low: int, high: int, value: int) -> int:
    """The first place in ``[low, high)`` with more than ``value``, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low
