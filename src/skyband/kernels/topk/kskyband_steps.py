"""The steps that ``fold_units`` takes with one group; see ``kskyband.py`` for where its rows are.

A group with few rows (LARGE is 0) has only a back, all of it sorted in ``order``. Others have a
front, and ``order`` names the best k of the back.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.core.borrow import touch
from skyband.kernels.core.jit import piece
from skyband.kernels.topk.kskyband_best import KEY, PANE, SLOT, TIE, Scratch, enlist
from skyband.kernels.topk.kskyband_group import (
    BACK,
    BASE,
    BEST,
    CAP,
    FRONT,
    LARGE,
    LOWEST,
    REST,
    TOP,
    copy_row,
    expire,
)
from skyband.kernels.topk.runs import Runs

# Places in the cursor. The first five say where a call continues.
UNIT = 0  # the group in the plan
RUN = 1  # its next run, -1 before the group has begun
WINDOW = 2  # its next window
FIRST = 3  # the first live pane
USED = 4  # after the last row that belongs to a group
GARBAGE = 5  # rows among those that belong to no group any more
HELD = 6  # rows that all groups hold
NEED = 7  # how much is needed of what is lacking

NOTHING, ROWS, ROOM_TO_WORK = range(3)  # what a call lacks to continue

_BACK_LIMIT = 32  # times k: rows the back may hold before a sweep
_SOON = 4  # so many steps ahead, groups and runs are brought into the cache
_FEW = 64  # up to so many rows a group is kept sorted, without a front


class Answers(NamedTuple):
    """What ``fold_units`` writes: pairs of window and group, and their rows."""

    pair: Codes  # window, group
    offsets: Ints  # where the rows of each pair start
    row: Ints  # slot, key, tie


@piece
def touch_groups(rows: Ints, order: Codes, groups: Ints, units: Codes, unit: int) -> None:
    """Bring groups that follow soon into the cache, with the rows of small ones."""
    if unit + 2 * _SOON < len(units):
        touch(groups, units[unit + 2 * _SOON])
        soon = groups[units[unit + _SOON]]
        if soon[LARGE] == 0:
            for i in range(soon[BASE] + soon[FRONT], soon[BASE] + soon[FRONT] + soon[BACK], 2):
                touch(rows, i)
            touch(order, soon[BASE])


@piece
def touch_runs(runs: Runs, index: Ints, run: int) -> None:
    """Bring runs that follow soon into the cache."""
    if run + 2 * _SOON < len(index):
        touch(runs.pane, index[run + 2 * _SOON])
        touch(runs.offsets, index[run + 2 * _SOON])
        i = runs.offsets[index[run + _SOON]]
        touch(runs.key, i)
        touch(runs.tie, i)
        touch(runs.slot, i)


@piece
def held_by(group: Ints) -> int:
    """How many rows a group holds."""
    held: int = group[TOP] + group[FRONT] - group[REST] + group[BACK]
    return held


@piece
def prepare_small(rows: Ints, order: Codes, group: Ints, n: int, k: int) -> None:
    """Before a small group gets n rows: make it large, or move its rows over what has expired."""
    base, front, back = group[BASE], group[FRONT], group[BACK]
    if back + n > _FEW:
        group[LARGE] = 1
        group[BEST] = back if back < k else k
    elif front >= back and front + back + n > group[CAP]:
        for i in range(back):
            copy_row(rows, base + i, rows, base + front + i)
            order[base + i] -= front
        group[REST] = 0
        group[FRONT] = 0


@piece
def roomy(size: int) -> int:
    """The room for a group of so many rows."""
    return size + (size >> 1) + 2


@piece
def lacking(group: Ints, size: int, used: int, n_rows: int, room: int, cursor: Ints) -> int:
    """What is lacking for a group of so many rows; the cursor gets how much is needed."""
    if size >= room:
        cursor[NEED] = size
        return ROOM_TO_WORK
    base, cap = group[BASE], group[CAP]
    if size > cap:
        # The last group can grow in place; another one moves to the end.
        place = base if base + cap == used else used
        if place + roomy(size) > n_rows:
            cursor[NEED] = place + roomy(size)
            return ROWS
    return NOTHING


@piece
def sweep_is_due(rows: Ints, group: Ints, first: int, k: int) -> bool:
    """Whether the back has outgrown the front, or its oldest pane has expired."""
    front, back = group[FRONT], group[BACK]
    due: bool = group[LARGE] != 0 and back > 0
    if due and (back < _BACK_LIMIT * k or back < front):
        due = rows[group[BASE] + front, PANE] < first
    return due


@piece
def make_room(
    rows: Ints, order: Codes, group: Ints, n: int, cap: int, used: int, cursor: Ints
) -> int:
    """Give a group room for ``cap`` rows if n more do not fit; the new end of all rows."""
    base = group[BASE]
    size = group[FRONT] + group[BACK]
    if size + n <= group[CAP]:
        return used
    if base + group[CAP] == used:
        used = base
    else:
        cursor[GARBAGE] += group[CAP]
        for i in range(size):
            copy_row(rows, used + i, rows, base + i)
            order[used + i] = order[base + i]
    group[BASE] = used
    group[CAP] = cap
    return used + cap


@piece
def push_small(
    rows: Ints, order: Codes, group: Ints, runs: Runs, start: int, n: int, pane: int, k: int
) -> bool:
    """Insert n rows of one pane into a small group; whether one is among the best k."""
    base = group[BASE]
    at = group[FRONT] + group[BACK]
    best = group[BEST]
    changed = False
    for i in range(n):
        x = base + at + i
        x_key = runs.key[start + i]
        x_tie = runs.tie[start + i]
        rows[x, KEY] = x_key
        rows[x, TIE] = x_tie
        rows[x, SLOT] = runs.slot[start + i]
        rows[x, PANE] = pane
        j = base + best
        while j > base:
            y = base + order[j - 1]
            if rows[y, KEY] >= x_key and (rows[y, KEY] > x_key or rows[y, TIE] >= x_tie):
                break
            order[j] = order[j - 1]
            j -= 1
        order[j] = at + i
        best += 1
        changed = changed or j < base + k
    group[BEST] = best
    group[BACK] += n
    return changed


@piece
def push_large(
    rows: Ints, order: Codes, group: Ints, runs: Runs, start: int, n: int, pane: int, k: int,
    scratch: Scratch,
) -> bool:  # fmt: skip
    """Append n rows of one pane to the back of a large group; whether its best k changed."""
    base = group[BASE]
    at = group[FRONT] + group[BACK]
    best = group[BEST]
    group[BACK] += n
    key, pick, pick_key = runs.key, scratch.pick, scratch.pick_key
    for i in range(n):
        rows[base + at + i, KEY] = key[start + i]
        rows[base + at + i, TIE] = runs.tie[start + i]
        rows[base + at + i, SLOT] = runs.slot[start + i]
        rows[base + at + i, PANE] = pane
    worst = np.int64(LOWEST)
    if best == k:
        worst = rows[base + order[base + best - 1], KEY]
    picked = n - n
    for i in range(n - 1, -1, -1):
        pick[picked] = at + i
        pick_key[picked] = key[start + i]
        picked += key[start + i] >= worst
    if picked == 0:
        return False
    enlist(rows, base, order, base, best, scratch, picked, k)
    group[BEST] = best + picked if best + picked < k else k
    return True


@piece
def let_go(rows: Ints, order: Codes, group: Ints, first: int, k: int) -> bool:
    """Drop panes before ``first``; whether the group's best rows changed."""
    if group[LARGE] != 0:
        return expire(rows, group, first, k)
    base, front, back = group[BASE], group[FRONT], group[BACK]
    if back == 0 or rows[base + front, PANE] >= first:
        return False
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
    return True


@piece
def write_best(rows: Ints, order: Codes, group: Ints, out: Ints, at: int, end: int) -> None:
    """Merge the top of the front with the best of the back into ``out[:, at:end]``."""
    base = group[BASE]
    i = base
    j = base
    top = base + group[TOP]
    best = base + group[BEST]
    for to in range(at, end):
        row = i
        if j < best and (i == top or rows[base + order[j], KEY] >= rows[i, KEY]):
            row = base + order[j]
            j += 1
        else:
            i += 1
        out[0, to] = rows[row, SLOT]
        out[1, to] = rows[row, KEY]
        out[2, to] = rows[row, TIE]


@piece
def write_newer(
    rows: Ints, order: Codes, group: Ints, out: Ints, at: int, most: int, first: int
) -> int:
    """Write the best rows of the panes from ``first`` on; where they end.

    All rows are in the front, or all are in ``order``.
    """
    base, top, rest, front, large = group[BASE], group[TOP], group[REST], group[FRONT], group[LARGE]
    to = at
    x = top - top
    stop = front if large != 0 else group[BEST]
    while x < stop and to < at + most:
        if large != 0 and x == top:
            x = rest
            if x >= stop:
                break
        row = base + x if large != 0 else base + order[base + x]
        if rows[row, PANE] >= first:
            out[0, to] = rows[row, SLOT]
            out[1, to] = rows[row, KEY]
            out[2, to] = rows[row, TIE]
            to += 1
        x += 1
    return to


@piece
def write_again(out: Ints, before: int, at: int, end: int) -> None:
    """Copy the last answer, which begins at ``before``, into ``out[:, at:end]``."""
    for i in range(end - at):
        out[0, at + i] = out[0, before + i]
        out[1, at + i] = out[1, before + i]
        out[2, at + i] = out[2, before + i]
