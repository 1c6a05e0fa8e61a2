"""Many panes, windows and groups in one call over the k-skyband; see ``kskyband.py``.

Groups are gone through one after the other, each with all its panes and windows, so that its rows
stay in the cache. Where the rows of an answer go is known before: ``count_answers`` adds them up.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.borrow import borrowed
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.topk.kskyband_best import Ints32, Scratch, borrowed_scratch
from skyband.kernels.topk.kskyband_group import BACK, BEST, FRONT, LARGE, LOWEST, TOP, sweep
from skyband.kernels.topk.kskyband_plan import Plan, Runs, Windows, first_above
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
)


# Over 80 lines: one loop over what a group goes through. Each step is a function, inlined.
@patient
@jit
def fold_units(
    rows: Ints,
    order: Ints32,
    groups: Ints,
    k: int,
    plan: Plan,
    runs: Runs,
    windows: Windows,
    answers: Answers,
    scratch: Scratch,
    cursor: Ints,
) -> int:
    """Push and answer from the cursor on; return what is lacking to go on from there."""
    # A borrowed array costs nothing to hand on; see borrow.py.
    rows, order, groups = borrowed(rows), borrowed(order), borrowed(groups)
    units, starts, index = borrowed(plan.groups), borrowed(plan.starts), borrowed(plan.runs)
    low, high = borrowed(plan.low), borrowed(plan.high)
    run_pane, offsets = borrowed(runs.pane), borrowed(runs.offsets)
    runs = Runs(run_pane, offsets, borrowed(runs.key), borrowed(runs.tie), borrowed(runs.slot))
    win_first, win_end = borrowed(windows.first), borrowed(windows.end)
    row_at, run_at = borrowed(windows.row_at), borrowed(windows.run_at)
    pair, pair_start, out = (
        borrowed(answers.pair),
        borrowed(answers.offsets),
        borrowed(answers.row),
    )
    scratch = borrowed_scratch(scratch)

    used, run, w, first = cursor[USED], cursor[RUN], cursor[WINDOW], cursor[FIRST]
    alone = len(units) == 1  # answers come in order of windows: each goes where the last has ended
    for unit in range(cursor[UNIT], len(units)):
        touch_groups(rows, order, groups, units, unit)
        group = groups[units[unit]]
        last, stop = high[unit], starts[unit + 1]
        if run < 0:
            run, w, first = starts[unit], low[unit], np.int64(LOWEST)
            cursor[HELD] -= held_by(group)
        changed = True  # since the last answer, which stands at `before`
        before = w
        while True:
            pushing = run < stop and (w == last or run_pane[index[run]] < win_end[w])
            if w == last and not pushing:
                break
            start = offsets[index[run]] if pushing else run
            n = offsets[index[run] + 1] - start if pushing else run - run
            if not pushing:
                first = win_first[w]
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
            at = row_at[w]
            end = at + (k if found > k else found)
            if changed:
                write_best(rows, order, group, out, at, end)
            else:
                write_again(out, before, at, end)
            before, changed = at, False
            pair[0, run_at[w]], pair[1, run_at[w]] = w, units[unit]
            pair_start[run_at[w]] = at
            row_at[w] = end
            run_at[w] += 1
            w += 1
            if alone:
                row_at[w], run_at[w] = end, run_at[w - 1]
        cursor[HELD] += held_by(group)
        run = -1 - (run - run)  # not the literal -1, which has another type
    cursor[USED] = used
    return NOTHING
