"""Many panes, windows and groups in one call over the k-skyband; see ``skyband.py``.

Groups are gone through one after the other, each with all its panes and windows, so that its rows
stay in the cache. Where the rows of an answer go is known before: ``count_answers`` adds them up.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.borrow import borrowed, touch
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.topk.kskyband_group import (
    BACK,
    BASE,
    BEST,
    CAP,
    FRONT,
    KEY,
    LARGE,
    LOWEST,
    PANE,
    PICK,
    PICK_KEY,
    REST,
    SLOT,
    TIE,
    TOP,
    Ints32,
    Scratch,
    copy_row,
    enlist,
    expire,
    sweep,
)

Plan = tuple[Ints32, Ints, Ints, Ints]  # groups; where their runs start; runs; first, last window
Runs = tuple[Ints, Ints, Ints, Ints, Ints]  # pane, offsets, key, tie, slot as in Skyband.fold
Answers = tuple[Ints32, Ints, Ints]  # window and group; offsets; slot, key and tie

WIN_FIRST, WIN_END, ROW_AT, RUN_AT = range(4)  # rows of windows; the last two: places of answers
UNIT, RUN, WINDOW, FIRST, USED, GARBAGE, HELD, NEED = range(8)  # the cursor: where a call goes on
NOTHING, ROWS, ROOM_TO_WORK = range(3)  # what a call lacks to go on

_BACK_LIMIT = 32  # times k: rows the back may hold before a sweep
_SOON = (
    4  # units and runs ahead that are brought into the cache; twice as many for what leads there
)
_FEW = 64  # rows of a group up to which it is kept sorted, without a back


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
    rows: Ints, groups: Ints, k: int, plan: Plan, run_pane: Ints, offsets: Ints, windows: Ints
) -> None:
    """Add up, one place ahead, with how many rows and groups each window will be answered."""
    units, starts, index = plan[0], plan[1], plan[2]
    low, high = plan[3][0], plan[3][1]
    win_first, win_end = windows[WIN_FIRST], windows[WIN_END]
    n_rows, n_runs = windows[ROW_AT], windows[RUN_AT]
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


@patient
@jit
def fold_units(
    rows: Ints,
    order: Ints32,
    groups: Ints,
    k: int,
    plan: Plan,
    runs: Runs,
    windows: Ints,
    answers: Answers,
    scratch: Scratch,
    cursor: Ints,
) -> int:
    """Push and answer from the cursor on; return what is lacking to go on from there."""
    rows, order, groups = borrowed(rows), borrowed(order), borrowed(groups)
    units, starts, index = borrowed(plan[0]), borrowed(plan[1]), borrowed(plan[2])
    low, high = borrowed(plan[3][0]), borrowed(plan[3][1])
    run_pane, offsets = borrowed(runs[0]), borrowed(runs[1])
    key, tie, slot = borrowed(runs[2]), borrowed(runs[3]), borrowed(runs[4])
    windows = borrowed(windows)
    win_first, win_end = windows[WIN_FIRST], windows[WIN_END]
    row_at, run_at = windows[ROW_AT], windows[RUN_AT]
    out32, out_offsets, out64 = borrowed(answers[0]), borrowed(answers[1]), borrowed(answers[2])
    scratch32, scratch64 = borrowed(scratch[0]), borrowed(scratch[1])
    kept = borrowed(scratch[2])
    pick, pick_key = scratch32[PICK], scratch64[PICK_KEY]

    used = cursor[USED]
    run = cursor[RUN]
    w = cursor[WINDOW]
    first = cursor[FIRST]
    alone = len(units) == 1  # answers come in order of windows: each goes where the last has ended
    for unit in range(cursor[UNIT], len(units)):
        if unit + 2 * _SOON < len(units):
            touch(groups, units[unit + 2 * _SOON])
            soon = groups[units[unit + _SOON]]
            if soon[LARGE] == 0:
                for i in range(soon[BASE] + soon[FRONT], soon[BASE] + soon[FRONT] + soon[BACK], 2):
                    touch(rows, i)
                touch(order, soon[BASE])
        group = groups[units[unit]]
        last = high[unit]
        stop = starts[unit + 1]
        if run < 0:
            run = starts[unit]
            w = low[unit]
            first = np.int64(LOWEST)
            cursor[HELD] -= group[TOP] + group[FRONT] - group[REST] + group[BACK]
        changed = True  # since the last answer, which stands at `before`
        before = w
        while True:
            pushing = run < stop and (w == last or run_pane[index[run]] < win_end[w])
            if w == last and not pushing:
                break
            base = group[BASE]
            front = group[FRONT]
            back = group[BACK]
            start = offsets[index[run]] if pushing else base
            n = offsets[index[run] + 1] - start if pushing else base - base
            if not pushing:
                first = win_first[w]
            if group[LARGE] == 0 and n > 0:
                if back + n > _FEW:
                    group[LARGE] = 1
                    group[BEST] = back if back < k else k
                elif front >= back and front + back + n > group[CAP]:
                    for i in range(back):  # over what has expired
                        copy_row(rows, base + i, rows, base + front + i)
                        order[base + i] -= front
                    front = base - base
                    group[REST] = front
                    group[FRONT] = front
            size = front + back + n
            cap = group[CAP]
            lacking = NOTHING
            if size >= len(pick):
                lacking = ROOM_TO_WORK
                cursor[NEED] = size
            elif size > cap:
                # At the end of all rows a group can grow in place; elsewhere it moves there.
                cap = size + (size >> 1) + 2
                place = base if base + group[CAP] == used else used
                if place + cap > len(rows):
                    lacking = ROWS
                    cursor[NEED] = place + cap
            if lacking != NOTHING:
                cursor[UNIT] = unit
                cursor[RUN] = run
                cursor[WINDOW] = w
                cursor[FIRST] = first
                cursor[USED] = used
                return lacking
            due = group[LARGE] != 0 and back > 0
            if due and (back < _BACK_LIMIT * k or back < front):
                due = rows[base + front, PANE] < first
            if due:
                sweep(rows, group, first, k, scratch32, scratch64, kept)
                changed = True
                size = group[FRONT] + n

            if pushing:
                if size > group[CAP]:
                    if base + group[CAP] == used:
                        used = base
                    else:
                        cursor[GARBAGE] += group[CAP]
                        for i in range(size - n):
                            copy_row(rows, used + i, rows, base + i)
                            order[used + i] = order[base + i]
                        base = used
                    group[BASE] = base
                    group[CAP] = cap
                    used += cap
                if run + 2 * _SOON < len(index):
                    touch(run_pane, index[run + 2 * _SOON])
                    touch(offsets, index[run + 2 * _SOON])
                    i = offsets[index[run + _SOON]]
                    touch(key, i)
                    touch(tie, i)
                    touch(slot, i)
                pane = run_pane[index[run]]
                run += 1
                at = size - n
                best = group[BEST]
                group[BACK] += n
                if group[LARGE] == 0:
                    for i in range(n):
                        x = base + at + i
                        x_key = key[start + i]
                        x_tie = tie[start + i]
                        rows[x, KEY] = x_key
                        rows[x, TIE] = x_tie
                        rows[x, SLOT] = slot[start + i]
                        rows[x, PANE] = pane
                        j = base + best
                        while j > base:
                            y = base + order[j - 1]
                            if rows[y, KEY] >= x_key and (
                                rows[y, KEY] > x_key or rows[y, TIE] >= x_tie
                            ):
                                break
                            order[j] = order[j - 1]
                            j -= 1
                        order[j] = at + i
                        best += 1
                        changed = changed or j < base + k
                    group[BEST] = best
                    continue
                for i in range(n):
                    rows[base + at + i, KEY] = key[start + i]
                    rows[base + at + i, TIE] = tie[start + i]
                    rows[base + at + i, SLOT] = slot[start + i]
                    rows[base + at + i, PANE] = pane
                worst = np.int64(LOWEST)
                if best == k:
                    worst = rows[base + order[base + best - 1], KEY]
                picked = n - n
                for i in range(n - 1, -1, -1):
                    pick[picked] = at + i
                    pick_key[picked] = key[start + i]
                    picked += key[start + i] >= worst
                if picked > 0:
                    enlist(rows, base, order, base, best, scratch32, scratch64, picked, k)
                    group[BEST] = best + picked if best + picked < k else k
                    changed = True
                continue

            if group[LARGE] != 0:
                changed = expire(rows, group, first, k) or changed
            elif back > 0 and rows[base + front, PANE] < first:
                while back > 0 and rows[base + front, PANE] < first:
                    front += 1
                    back -= 1
                best = base
                for i in range(base, base + group[BEST]):
                    x = order[i]
                    order[best] = x
                    best += x >= front
                group[REST] = front
                group[FRONT] = front
                group[BACK] = back
                group[BEST] = back
                changed = True
            top = group[TOP]
            best = group[BEST]
            if top + best == 0:
                for c in range(TOP, LARGE + 1):
                    group[c] = 0
                at = w
                w = last
                if run < stop:
                    w = first_above(win_end, at, last, run_pane[index[run]])
                if alone:
                    row_at[w] = row_at[at]
                    run_at[w] = run_at[at]
                continue
            at = row_at[w]
            end = at + (k if top + best > k else top + best)
            if changed:
                i = base
                j = base
                top += base
                best += base
                for out in range(at, end):
                    row = i
                    if j < best and (i == top or rows[base + order[j], KEY] >= rows[i, KEY]):
                        row = base + order[j]
                        j += 1
                    else:
                        i += 1
                    out64[0, out] = rows[row, SLOT]
                    out64[1, out] = rows[row, KEY]
                    out64[2, out] = rows[row, TIE]
            else:
                for i in range(end - at):
                    out64[0, at + i] = out64[0, before + i]
                    out64[1, at + i] = out64[1, before + i]
                    out64[2, at + i] = out64[2, before + i]
            before = at
            changed = False
            out32[0, run_at[w]] = w
            out32[1, run_at[w]] = units[unit]
            out_offsets[run_at[w]] = at
            row_at[w] = end
            run_at[w] += 1
            w += 1
            if alone:
                row_at[w] = end
                run_at[w] = run_at[w - 1]
        cursor[HELD] += group[TOP] + group[FRONT] - group[REST] + group[BACK]
        run = -1 - (run - run)  # not the literal -1, which has another type
    cursor[USED] = used
    return NOTHING
