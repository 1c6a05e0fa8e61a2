"""Many panes, windows and groups in one call over the k-skyband; see ``kskyband.py``.

Groups are processed one after the other, each with all its panes and windows, so that its rows stay
in the cache. ``count_answers`` finds out beforehand where the rows of each answer go.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.core.arrange import order_by_code
from skyband.kernels.core.borrow import borrowed
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel, kernel_of
from skyband.kernels.topk.kskyband_best import PANE, Scratch, borrowed_scratch
from skyband.kernels.topk.kskyband_group import (
    BACK,
    BASE,
    BEST,
    FRONT,
    LARGE,
    LOWEST,
    REST,
    TOP,
    sweep,
)
from skyband.kernels.topk.kskyband_steps import (
    FIRST,
    HELD,
    NOTHING,
    RUN,
    UNIT,
    USED,
    WINDOW,
    Answers,
    held_by,
    lacking,
    let_go,
    make_room,
    prepare_small,
    push_large,
    push_small,
    roomy,
    sweep_is_due,
    touch_groups,
    touch_runs,
    write_again,
    write_best,
    write_newer,
)
from skyband.kernels.topk.runs import Runs


class Plan(NamedTuple):
    """The groups that a call processes, one after the other, each with its runs and windows."""

    groups: Codes
    starts: Ints  # where in ``runs`` those of each group start; one more than there are groups
    runs: Ints
    low: Ints  # the first window of each group
    high: Ints  # after its last window


class Windows(NamedTuple):
    """The windows to answer, in order of their ends; the last two move on as answers are written.

    Windows that end together may begin in different panes, and show different numbers of rows.
    """

    first: Ints
    end: Ints
    oldest: Ints  # panes before this one are in no window that ends there
    most: Ints  # how many rows of a group it shows
    row_at: Ints  # where the window's next row is written
    run_at: Ints  # where its next group is written


@kernel
def index_runs(run_group: Codes, units: Codes, unit_of: Codes) -> tuple[Codes, int, Ints, Ints]:
    """The runs of each group, in their order: first the groups in ``units``, then the others.

    Returns the groups, their number, where the runs of each start, and the runs.
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
    index, starts = order_by_code(unit_of[run_group], n)
    for unit in range(n):
        unit_of[groups[unit]] = -1
    return groups, n, starts, index


def _counting(*args: Any) -> int:
    _rows, _groups, _k, plan, run_pane, _offsets, _windows = args
    return len(plan.groups) + len(run_pane)


@kernel_of(work=_counting)
def count_answers(
    rows: Ints, groups: Ints, k: int, plan: Plan, run_pane: Ints, offsets: Ints, windows: Windows
) -> None:
    """Count the rows and groups in the answer of each window, one place ahead."""
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
        # Mostly, k of the rows held outlive the last window: look for them, newest first.
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
    """The first place in ``[low, high)`` with a value above ``value``, or ``high``."""
    while low < high:
        middle = (low + high) >> 1
        if ascending[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low


def _folding(*args: Any) -> int:
    _rows, _order, _groups, _k, _plan, runs, windows, answers, _scratch, _cursor = args
    return len(runs.key) + len(windows.end) + int(answers.row.shape[1])


# Over 80 lines: one loop over all that happens to a group. Each step is a function, inlined.
@kernel_of(work=_folding)
def fold_units(
    rows: Ints, order: Codes, groups: Ints, k: int, plan: Plan, runs: Runs, windows: Windows,
    answers: Answers, scratch: Scratch, cursor: Ints,
) -> int:  # fmt: skip
    """Push and answer, starting at the cursor; returns what is lacking to continue."""
    # A borrowed array costs nothing to pass on; see borrow.py.
    rows, order, groups = borrowed(rows), borrowed(order), borrowed(groups)
    units, starts, index = borrowed(plan.groups), borrowed(plan.starts), borrowed(plan.runs)
    low, high = borrowed(plan.low), borrowed(plan.high)
    run_pane, offsets = borrowed(runs.pane), borrowed(runs.offsets)
    runs = Runs(run_pane, offsets, borrowed(runs.key), borrowed(runs.tie), borrowed(runs.slot))
    win_first, win_end = borrowed(windows.first), borrowed(windows.end)
    win_oldest, win_most = borrowed(windows.oldest), borrowed(windows.most)
    row_at, run_at = borrowed(windows.row_at), borrowed(windows.run_at)
    pair, pair_start, out = (
        borrowed(answers.pair),
        borrowed(answers.offsets),
        borrowed(answers.row),
    )
    scratch = borrowed_scratch(scratch)

    used, run, w, first = cursor[USED], cursor[RUN], cursor[WINDOW], cursor[FIRST]
    alone = len(units) == 1  # answers come in order of windows, each where the last one ended
    for unit in range(cursor[UNIT], len(units)):
        touch_groups(rows, order, groups, units, unit)
        group = groups[units[unit]]
        last, stop = high[unit], starts[unit + 1]
        if run < 0:
            run, w, first = starts[unit], low[unit], np.int64(LOWEST)
            cursor[HELD] -= held_by(group)
        changed = True  # since the last answer, which begins at `before`
        before = w
        while True:
            pushing = run < stop and (w == last or run_pane[index[run]] < win_end[w])
            if w == last and not pushing:
                break
            start = offsets[index[run]] if pushing else run
            n = offsets[index[run] + 1] - start if pushing else run - run
            if not pushing:
                first = win_oldest[w]
            if group[LARGE] == 0 and n > 0:
                prepare_small(rows, order, group, n, k)
            size = group[FRONT] + group[BACK] + n
            lack = lacking(group, size, used, len(rows), len(scratch.pick), cursor)
            if lack != NOTHING:
                cursor[UNIT], cursor[RUN], cursor[WINDOW] = unit, run, w
                cursor[FIRST], cursor[USED] = first, used
                return lack
            if sweep_is_due(rows, group, first, k):
                sweep(rows, group, first, k, scratch)
                changed = True
            if pushing:
                used = make_room(rows, order, group, n, roomy(size), used, cursor)
                touch_runs(runs, index, run)
                pane = run_pane[index[run]]
                run += 1
                if group[LARGE] == 0:
                    new = push_small(rows, order, group, runs, start, n, pane, k)
                else:
                    new = push_large(rows, order, group, runs, start, n, pane, k, scratch)
                changed = changed or new
                continue

            changed = let_go(rows, order, group, first, k) or changed
            found = group[TOP] + group[BEST]
            if found == 0:  # nothing to answer with until the next run
                for column in range(TOP, LARGE + 1):
                    group[column] = 0
                at = w
                w = last if run == stop else first_above(win_end, at, last, run_pane[index[run]])
                if alone:
                    row_at[w], run_at[w] = row_at[at], run_at[at]
                continue
            at, most = row_at[w], win_most[w]
            end = at + (most if found > most else found)
            if win_first[w] > first:
                if group[LARGE] != 0 and group[BACK] > 0:
                    sweep(rows, group, first, k, scratch)
                end = write_newer(rows, order, group, out, at, most, win_first[w])
            elif most < k:
                write_best(rows, order, group, out, at, end)
            elif changed:
                write_best(rows, order, group, out, at, end)
                before, changed = at, False
            else:
                write_again(out, before, at, end)
                before = at
            if end > at:
                pair[0, run_at[w]], pair[1, run_at[w]] = w, units[unit]
                pair_start[run_at[w]] = at
                row_at[w] = end
                run_at[w] += 1
            w += 1
            if alone:
                row_at[w], run_at[w] = end, run_at[w - 1]
        cursor[HELD] += held_by(group)
        run = -1
    cursor[USED] = used
    return NOTHING
