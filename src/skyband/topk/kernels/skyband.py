"""The k-skyband of every group over sliding windows: exact top-k, any order of scores.

A row can still be in an answer only while its pane and newer ones hold fewer than k better rows.
The rows of a group are kept in two parts:

    rows    | top ...gap... | rest            | back                    | free |
            0     TOP     REST             FRONT                  FRONT+BACK  CAP

*Front* (top and rest) is what the last sweep retained, best first. The top-k of any suffix of its
panes is its first k rows of those panes, so ``top`` holds the first k live ones, and as panes
expire it is refilled from ``rest``; each row moves at most once. *Back* has all rows pushed since
the sweep, in order of arrival; ``order`` names its best k, best first. An answer merges both lists.

A sweep makes one front of both parts. It goes through the back from the newest pane to the oldest,
and the k-th best row so far rejects most rows with one comparison. What a pane pushes out of the
best k is worse than all that is left, so the retained rows come out sorted. They are merged with
the old front, whose rows stay while fewer than k better ones are as new. A sweep is due when the
back has outgrown the front, or when its oldest pane expires. This costs amortised O(log k) per row
for any scores, even for falling ones, of which the whole window is retained.

Each group has a stretch of one array, so a snapshot is a copy. One call takes many panes and
windows and goes through them group by group, so that a group's rows stay in the cache.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from skyband.arrays import Codes, Ints, Mask, pooled
from skyband.contract.runs import expand, offsets_of
from skyband.kernels.arrange import order_by_code
from skyband.kernels.borrow import borrowed, copy_rows, frozen
from skyband.kernels.jit import jit, piece
from skyband.kernels.patient import kernel, kernel_of
from skyband.kernels.select import PaneRows

KEY, TIE, SLOT, PANE = range(4)  # columns of rows
_FEW_PICKED = 12  # so few rows are sorted by insertion


class Scratch(NamedTuple):
    """Room to work on one group. Positions of rows count from the first of the group."""

    pick: Codes  # positions of rows that may enter a list of the best
    pick_key: Ints  # their keys
    best: Codes  # positions of the best k so far
    retained: Codes  # positions of the rows that a sweep retains of the back
    panes: Ints  # a heap of panes
    kept: Ints  # the rows that a sweep keeps


def make_scratch(n: int, k: int) -> Scratch:
    """Room to sweep a group of n rows."""
    places, longs = np.empty((3, n + 1), np.int32), np.empty((2, n + k), np.int64)
    return Scratch(places[0], longs[0], places[1], places[2], longs[1], np.empty((n, 4), np.int64))


@piece
def borrowed_scratch(s: Scratch) -> Scratch:
    """The same arrays without owners; see ``borrow.py``."""
    return Scratch(
        borrowed(s.pick), borrowed(s.pick_key), borrowed(s.best), borrowed(s.retained),
        borrowed(s.panes), borrowed(s.kept),
    )  # fmt: skip


@piece
def _is_sorted(rows: Ints, base: int, pick: Codes, pick_key: Ints, picked: int) -> bool:
    """Whether picked rows are sorted, best first.

    Rows come latest first, and the later of two equal keys mostly has the greater tie, so constant
    and falling keys are already sorted.
    """
    i = 1
    while i < picked and (
        pick_key[i - 1] > pick_key[i]
        or (
            pick_key[i - 1] == pick_key[i]
            and rows[base + pick[i - 1], TIE] > rows[base + pick[i], TIE]
        )
    ):
        i += 1
    return i >= picked


@piece
def _shell_sort(rows: Ints, base: int, pick: Codes, pick_key: Ints, picked: int, gap: int) -> None:
    """Sort picked rows best first; a gap of 1 is an insertion sort, for rows almost sorted."""
    while gap > 0:
        gap = 1 if 1 < gap < 4 else gap * 4 // 9 if gap > 1 else 1
        for i in range(gap, picked):
            x = pick[i]
            x_key = pick_key[i]
            j = i
            while j >= gap and pick_key[j - gap] <= x_key:
                y = pick[j - gap]
                if pick_key[j - gap] == x_key:
                    x_tie = rows[base + x, TIE]
                    y_tie = rows[base + y, TIE]
                    if y_tie > x_tie or (y_tie == x_tie and y < x):
                        break
                pick[j] = y
                pick_key[j] = pick_key[j - gap]
                j -= gap
            pick[j] = x
            pick_key[j] = x_key
        if gap == 1:
            gap = 0


@piece
def enlist(
    rows: Ints, base: int, best: Codes, start: int, n: int, scratch: Scratch, picked: int, k: int
) -> int:
    """Sort picked rows of one pane, merge the best k into the n of ``best``; the new length."""
    pick, pick_key = scratch.pick, scratch.pick_key
    gap = 1
    if picked > _FEW_PICKED and not _is_sorted(rows, base, pick, pick_key, picked):
        gap = picked
    _shell_sort(rows, base, pick, pick_key, picked, gap)
    if picked > k:
        picked = k
    # Merge from the end, so that only rows that move are touched. Rows of different panes never
    # tie: the newer one is better, and it comes later in the back.
    i = start + n - 1
    j = picked - 1
    out = start + n + picked
    while j >= 0:
        out -= 1
        x_key = pick_key[j]
        y_key = rows[base + best[i], KEY] if i >= start else x_key
        if i >= start and (x_key > y_key or (x_key == y_key and pick[j] > best[i])):
            best[out] = best[i]
            i -= 1
        else:
            best[out] = pick[j]
            j -= 1
    return n + picked


# Columns of groups: where a group's rows are; see above.
BASE = 0  # its first row among all rows; the next four count from there
CAP = 1  # its room
TOP = 2  # after the best k live rows of the front
REST = 3  # the rows of the front that wait to enter the top
FRONT = 4  # after the front
BACK = 5  # how many rows the back has
BEST = 6  # how many of them are in ``order``
LOWEST = -(1 << 63)


@piece
def copy_row(target: Ints, to: int, source: Ints, at: int) -> None:
    """Copy one row: all of it is read before it is written, so that it moves as one vector."""
    key, tie, slot, pane = source[at, KEY], source[at, TIE], source[at, SLOT], source[at, PANE]
    target[to, KEY] = key
    target[to, TIE] = tie
    target[to, SLOT] = slot
    target[to, PANE] = pane


@piece
def expire(rows: Ints, group: Ints, first: int, k: int) -> None:
    """Drop panes before ``first`` and refill the top from the rest."""
    base = group[BASE]
    top = base
    stop = base + group[TOP]
    while top < stop and rows[top, PANE] >= first:
        top += 1
    rest = base + group[REST]
    front = base + group[FRONT]
    if top == stop and (rest == front or group[TOP] == k):
        return
    for i in range(top + 1, stop):
        if rows[i, PANE] >= first:
            copy_row(rows, top, rows, i)
            top += 1
    while top < base + k and rest < front:
        if rows[rest, PANE] >= first:
            copy_row(rows, top, rows, rest)
            top += 1
        rest += 1
    group[TOP] = top - base
    group[REST] = rest - base


@piece
def _keep_newest(heap: Ints, n: int, k: int, pane: int) -> int:
    """Add a pane to the heap of the k newest, the oldest of them on top; the new size."""
    if n < k:
        i = n
        while i > 0 and heap[(i - 1) >> 1] > pane:
            heap[i] = heap[(i - 1) >> 1]
            i = (i - 1) >> 1
        heap[i] = pane
        return n + 1
    i = 0
    child = 1
    while child < k:
        if child + 1 < k and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= pane:
            break
        heap[i] = heap[child]
        i = child
        child = 2 * i + 1
    heap[i] = pane
    return k


@piece
def _retain_back(rows: Ints, group: Ints, first: int, k: int, scratch: Scratch) -> int:
    """The rows of the back that can still be answered, best first at the end of ``retained``.

    Returns where they begin. Goes from the newest pane to the oldest: what leaves the best k is
    worse than all that is left and all that follows, so retained rows are written from the end.
    """
    base, front = group[BASE], group[FRONT]
    stop = front + group[BACK]
    pick, pick_key, best, retained = (
        scratch.pick, scratch.pick_key, scratch.best, scratch.retained
    )  # fmt: skip
    low = front
    while low < stop and rows[base + low, PANE] < first:
        low += 1
    end: int = stop
    none = end - end
    n = none
    i = stop
    while i > low:
        pane = rows[base + i - 1, PANE]
        j = i - 1
        while j > low and rows[base + j - 1, PANE] == pane:
            j -= 1
        worst = np.int64(LOWEST)
        if n == k:
            worst = rows[base + best[n - 1], KEY]
        picked = none
        for x in range(i - 1, j - 1, -1):
            pick[picked] = x
            pick_key[picked] = rows[base + x, KEY]
            picked += n < k or rows[base + x, KEY] > worst
        if picked > 0:
            n = enlist(rows, base, best, none, n, scratch, picked, k)
            while n > k:
                n -= 1
                if best[n] >= i:  # not of this pane itself
                    end -= 1
                    retained[end] = best[n]
        i = j
    while n > 0:
        n -= 1
        end -= 1
        retained[end] = best[n]
    return end


@piece
def _merge_front(rows: Ints, group: Ints, first: int, k: int, scratch: Scratch, at: int) -> int:
    """Merge the front with the retained rows from ``at`` on into ``kept``; how many there are.

    The front is older than all of those. Its rows stay while fewer than k better ones are as new,
    that is, while their pane is newer than the k-th newest pane of the rows before them.
    """
    base, top, rest, front = group[BASE], group[TOP], group[REST], group[FRONT]
    stop = front + group[BACK]
    retained, panes, kept = scratch.retained, scratch.panes, scratch.kept
    kth = np.int64(LOWEST)  # the k-th newest pane of the rows so far, on top of a heap
    none = front - front
    size = none
    m: int = none
    i = none
    while True:
        if i == top:
            i = rest
        if i >= front:
            break
        row = base + i
        if rows[row, PANE] < first or rows[row, PANE] <= kth:
            i += 1
            continue
        if at < stop and rows[base + retained[at], KEY] >= rows[row, KEY]:
            row = base + retained[at]
            at += 1
        else:
            i += 1
        copy_row(kept, m, rows, row)
        m += 1
        size = _keep_newest(panes, size, k, rows[row, PANE])
        if size == k:
            kth = panes[0]
    while at < stop:
        copy_row(kept, m, rows, base + retained[at])
        m += 1
        at += 1
    return m


@jit
def sweep(rows: Ints, group: Ints, first: int, k: int, scratch: Scratch) -> None:
    """Make one front of both parts, from the rows that can still be in an answer."""
    at = _retain_back(rows, group, first, k, scratch)
    m = _merge_front(rows, group, first, k, scratch, at)
    base, kept = group[BASE], scratch.kept
    for i in range(m):
        copy_row(rows, base + i, kept, i)
    group[TOP] = m if m < k else k
    group[REST] = group[TOP]
    group[FRONT] = m
    group[BACK] = 0
    group[BEST] = 0


@kernel
def compact(rows: Ints, order: Codes, groups: Ints, sequence: Ints, to: Ints, names: Codes) -> int:
    """Move all rows and their order to ``to`` and ``names``, without gaps and garbage; how many.

    ``groups`` is updated. If the arrays are the same, ``sequence`` lists the groups by their first
    rows, so that nothing is overwritten before it has been moved.
    """
    used = 0
    for x in range(len(sequence)):
        group = groups[sequence[x]]
        base, top, rest = group[BASE], group[TOP], group[REST]
        group[BASE] = used
        for i in range(group[FRONT] + group[BACK]):
            if i < top or i >= rest:
                copy_row(to, used, rows, base + i)
                used += 1
        for i in range(group[BEST]):
            names[group[BASE] + i] = order[base + i] - (rest - top)
        group[REST] = top
        group[FRONT] -= rest - top
        group[CAP] = used - group[BASE]
    return used


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
_SPARE = 16  # rows that may be dropped before room is given back


class AnswerRows(NamedTuple):
    """What ``fold_units`` writes: pairs of window and group, and their rows.

    Each window has a stretch of both, with room for all that it may show.
    """

    pair: Codes  # window, group, how many rows
    row: Ints  # slot, key, tie


@piece
def held_by(group: Ints) -> int:
    """How many rows a group holds."""
    held: int = group[TOP] + group[FRONT] - group[REST] + group[BACK]
    return held


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
    """Whether the back has outgrown the front, or its oldest pane has expired.

    Also if what was dropped takes more room than what is left.
    """
    front, back = group[FRONT], group[BACK]
    due: bool = back > 0
    if due and (back < _BACK_LIMIT * k or back < front):
        due = rows[group[BASE] + front, PANE] < first
        due |= group[TOP] == 0 and front > 2 * back + _SPARE
    return due


@piece
def drop_oldest(rows: Ints, order: Codes, group: Ints, first: int) -> None:
    """If a group has only a back, and all of it in ``order``, what has expired can just go."""
    base, front, back = group[BASE], group[FRONT], group[BACK]
    if group[TOP] > 0 or group[BEST] < back or back == 0 or rows[base + front, PANE] >= first:
        return
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
def push_rows(
    rows: Ints, order: Codes, group: Ints, runs: PaneRows, start: int, n: int, pane: int, k: int,
    scratch: Scratch,
) -> None:  # fmt: skip
    """Append n rows of one pane to the back of a group."""
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
    if picked > 0:
        enlist(rows, base, order, base, best, scratch, picked, k)
        group[BEST] = best + picked if best + picked < k else k


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
def write_newer(rows: Ints, group: Ints, out: Ints, at: int, most: int, first: int) -> int:
    """Write the best rows of the panes from ``first`` on, all of them in the front; the end."""
    base, top, rest, front = group[BASE], group[TOP], group[REST], group[FRONT]
    to = at
    x = top - top
    while x < front and to < at + most:
        if x == top:
            x = rest
            if x >= front:
                break
        row = base + x
        if rows[row, PANE] >= first:
            out[0, to] = rows[row, SLOT]
            out[1, to] = rows[row, KEY]
            out[2, to] = rows[row, TIE]
            to += 1
        x += 1
    return to


class GroupTurns(NamedTuple):
    """The groups that a call processes, one after the other, each with its runs and windows."""

    groups: Codes
    starts: Ints  # where in ``runs`` those of each group start; one more than there are groups
    runs: Ints
    low: Ints  # the first window of each group
    high: Ints  # after its last window


class WindowReads(NamedTuple):
    """The windows to answer, in order of their ends; ``row_at`` and ``run_at`` move on meanwhile.

    Windows that end together may begin in different panes, and show different numbers of rows.
    """

    first: Ints
    end: Ints
    oldest: Ints  # panes before this one are in no window that ends there
    most: Ints  # how many rows of a group it shows
    row_at: Ints  # where the window's next row is written
    run_at: Ints  # where its next group is written
    row_from: Ints  # where its first row is
    run_from: Ints  # where its first group is


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


@jit
def close_gaps(written: Any, starts: Ints, ends: Ints) -> None:
    """Move what was written for each window to the end of what was for the one before it."""
    at = 0
    for w in range(len(starts)):
        size = ends[w] - starts[w]
        if at != starts[w] and size > 0:
            for column in range(3):
                copy_rows(written[column, at:], written[column, starts[w] :], size)
        at += size


def _folding(*args: Any) -> int:
    _rows, _order, _groups, _k, _plan, runs, windows, answers, _scratch, _cursor = args
    return len(runs.key) + len(windows.end) + int(answers.row.shape[1])


# One loop over all that happens to a group. Each step is a function, inlined.
@kernel_of(work=_folding)
def fold_units(
    rows: Ints, order: Codes, groups: Ints, k: int, plan: GroupTurns, runs: PaneRows,
    windows: WindowReads, answers: AnswerRows, scratch: Scratch, cursor: Ints,
) -> int:  # fmt: skip
    """Push and answer, starting at the cursor; returns what is lacking to continue."""
    # A borrowed array costs nothing to pass on; see borrow.py.
    rows, order, groups = borrowed(rows), borrowed(order), borrowed(groups)
    units, starts, index = borrowed(plan.groups), borrowed(plan.starts), borrowed(plan.runs)
    low, high = borrowed(plan.low), borrowed(plan.high)
    run_pane, offsets = borrowed(runs.pane), borrowed(runs.offsets)
    runs = PaneRows(run_pane, offsets, borrowed(runs.key), borrowed(runs.tie), borrowed(runs.slot))
    win_first, win_end = borrowed(windows.first), borrowed(windows.end)
    win_oldest, win_most = borrowed(windows.oldest), borrowed(windows.most)
    row_at, run_at = borrowed(windows.row_at), borrowed(windows.run_at)
    pair, out = borrowed(answers.pair), borrowed(answers.row)
    scratch = borrowed_scratch(scratch)

    row_from, run_from = borrowed(windows.row_from), borrowed(windows.run_from)
    used, run, w, first = cursor[USED], cursor[RUN], cursor[WINDOW], cursor[FIRST]
    alone = len(units) == 1  # answers come in order of windows, each where the last one ended
    for unit in range(cursor[UNIT], len(units)):
        group = groups[units[unit]]
        last, stop = high[unit], starts[unit + 1]
        if run < 0:
            run, w, first = starts[unit], low[unit], np.int64(LOWEST)
            cursor[HELD] -= held_by(group)
        while True:
            pushing = run < stop and (w == last or run_pane[index[run]] < win_end[w])
            if w == last and not pushing:
                break
            start = offsets[index[run]] if pushing else run
            n = offsets[index[run] + 1] - start if pushing else run - run
            if not pushing:
                first = win_oldest[w]
                expire(rows, group, first, k)
                drop_oldest(rows, order, group, first)
            size = group[FRONT] + group[BACK] + n
            lack = lacking(group, size, used, len(rows), len(scratch.pick), cursor)
            if lack != NOTHING:
                cursor[UNIT], cursor[RUN], cursor[WINDOW] = unit, run, w
                cursor[FIRST], cursor[USED] = first, used
                return lack
            if sweep_is_due(rows, group, first, k):
                sweep(rows, group, first, k, scratch)
            if pushing:
                used = make_room(rows, order, group, n, roomy(size), used, cursor)
                pane = run_pane[index[run]]
                run += 1
                push_rows(rows, order, group, runs, start, n, pane, k, scratch)
                continue

            found = group[TOP] + group[BEST]
            if found == 0:  # nothing to answer with until the next run
                for column in range(TOP, BEST + 1):
                    group[column] = 0
                at, done = row_at[w], run_at[w]
                w = last if run == stop else first_above(win_end, w, last, run_pane[index[run]])
                if alone and w < last:
                    row_from[w], run_from[w], row_at[w], run_at[w] = at, done, at, done
                continue
            at, most = row_at[w], win_most[w]
            end = at + (most if found > most else found)
            if win_first[w] > first:
                if group[BACK] > 0:
                    sweep(rows, group, first, k, scratch)
                end = write_newer(rows, group, out, at, most, win_first[w])
            else:
                write_best(rows, order, group, out, at, end)
            if end > at:
                pair[0, run_at[w]], pair[1, run_at[w]] = w, units[unit]
                pair[2, run_at[w]] = end - at
                row_at[w] = end
                run_at[w] += 1
            w += 1
            if alone and w < last:
                row_from[w] = row_at[w] = row_at[w - 1]
                run_from[w] = run_at[w] = run_at[w - 1]
        cursor[HELD] += held_by(group)
        run = -1
    cursor[USED] = used
    close_gaps(pair, run_from, run_at)
    close_gaps(out, row_from, row_at)
    return NOTHING


_MANY = 64  # after so many groups, estimate what the others will need
_MOST_ROOM = 8  # times the rows that are held: with more, room is given back


class Tops(NamedTuple):
    """The best rows of some (window, group) pairs, best first; only pairs with rows."""

    window: Codes  # position in the list of windows
    group: Codes
    offsets: Ints  # one more than there are pairs
    slot: Ints
    key: Ints
    tie: Ints

    def of(self, mine: Mask) -> Tops:
        """Some of the pairs, and their rows."""
        if mine.all():
            return self
        lengths = np.diff(self.offsets)[mine]
        rows, cuts = expand(self.offsets[:-1][mine], lengths), offsets_of(lengths)
        columns = (self.slot[rows], self.key[rows], self.tie[rows])
        return Tops(self.window[mine], self.group[mine], cuts, *columns)


class Skyband:
    """What can still be among the best k rows of a window, for many groups.

    Rows come with a ``key`` (greater is better), a ``tie`` (greater is better, and greater in a
    newer pane), a ``pane`` number and the caller's ``slot``. Rows of one (pane, group) that equal
    in key and tie keep their order.

    >>> band = Skyband(k=2)
    >>> one = np.zeros(3, np.int32)
    >>> keys = np.array([5, 9, 7, 6])
    >>> runs = (np.arange(3), one, np.array([0, 2, 3, 4]), keys, np.arange(4), np.arange(4))
    >>> tops = band.fold(*runs, np.array([0, 1]), np.array([2, 3]), one[:1])
    >>> tops.window, tops.offsets, tops.key
    (array([0, 1], dtype=int32), array([0, 2, 4]), array([9, 7, 7, 6]))
    """

    __slots__ = ("_held", "_scratch", "_unit_of", "garbage", "groups", "k", "order", "rows", "used")

    def __init__(self, k: int) -> None:
        self.k = k
        self.rows: Ints = np.empty((0, 4), np.int64)
        self.order: Codes = np.empty(0, np.int32)
        self.groups: Ints = np.zeros((0, 7), np.int64)
        self.used = 0  # rows[:used] belong to groups, except the garbage among them
        self.garbage = 0
        self._held = 0
        self._unit_of: Codes = np.empty(0, np.int32)  # -1 everywhere between calls
        self._scratch = make_scratch(64, k)

    def fold(
        self, run_pane: Ints, run_group: Codes, offsets: Ints, key: Ints, tie: Ints, slot: Ints,
        win_first: Ints, win_end: Ints, groups: Codes, own: bool = False,
        oldest: Ints | None = None, most: Ints | int | None = None,
    ) -> Tops:  # fmt: skip
        """Push runs and answer windows, each once all runs before its end are pushed.

        Runs are in the order of their panes. Window i covers the panes ``[win_first[i],
        win_end[i])`` and shows ``most[i]`` rows of a group, k by default. Ends ascend, and first
        panes too, or else ``oldest[i]``, before which no window begins that ends as late. Answers
        are sorted by window and then as in ``groups``, which must name every group that is to be
        answered; without windows it is ignored.

        If groups have their ``own`` panes and windows, ``groups`` are those of the windows, which
        are sorted by group (in any order of groups). Answers come in the order of the windows.
        """
        n, runs = len(win_end), PaneRows(*map(frozen, (run_pane, offsets, key, tie, slot)))
        if own:
            low = np.flatnonzero(np.diff(groups, prepend=np.int32(-1)))
            plan = self._plan(run_group, groups[low], low, np.append(low[1:], n)[: len(low)])
        else:
            plan = self._plan(run_group, groups if n else groups[:0], 0, n)
        pairs, live = np.ones(n, np.int64), np.full(n, self._held + len(runs.key))
        if not own and len(plan.groups) > 1:
            pushed = runs.offsets[np.searchsorted(runs.pane, [win_first, win_end])]
            live = self._held + pushed[1] - pushed[0]
            pairs = np.minimum(len(groups), live)
        windows = WindowReads(*np.zeros((8, n), np.int64))
        windows.first[:], windows.end[:] = win_first, win_end
        windows.oldest[:] = win_first if oldest is None else oldest
        windows.most[:] = self.k if most is None else most
        # Each window has room for what it may show at most: so many pairs, and rows.
        pair_at, row_at = offsets_of(pairs), offsets_of(np.minimum(pairs * windows.most, live))
        windows.run_at[:], windows.row_at[:] = pair_at[:-1], row_at[:-1]
        windows.run_from[:], windows.row_from[:] = pair_at[:-1], row_at[:-1]
        answers = AnswerRows(
            np.empty((3, pair_at[-1]), np.int32), pooled((3, int(row_at[-1])), np.int64)
        )
        self._work(plan, runs, windows, answers)
        n_pairs = int((windows.run_at - windows.run_from).sum())
        n_rows = int((windows.row_at - windows.row_from).sum())
        window, group, lengths = answers.pair[:, :n_pairs]
        slot, key, tie = answers.row[:, :n_rows]
        return Tops(window, group, offsets_of(lengths), slot, key, tie)

    def read(self, first: int, end: int, group_order: Codes) -> Tops:
        """The top-k of the panes ``[first, end)``; nothing changes.

        ``first`` may lie anywhere in the live window (n-of-N); ``end`` is after the newest pane.
        """
        none = np.empty(0, np.int64)
        window = (np.array([first], np.int64), np.array([end], np.int64))
        offsets = np.zeros(1, np.int64)
        return self.copy().fold(
            none, np.empty(0, np.int32), offsets, none, none, none, *window, group_order
        )

    def _plan(
        self, run_group: Codes, units: Codes, low: Ints | int, high: Ints | int
    ) -> GroupTurns:
        """The groups in ``units`` with their windows, then the others that have runs."""
        highest = max(int(run_group.max(initial=-1)), int(units.max(initial=-1)))
        self._reserve_groups(max(highest, 0) + 1)
        if highest > 0:
            order, n_units, starts, index = index_runs(
                frozen(run_group), frozen(units), self._unit_of
            )
        else:
            order, n_units = np.zeros(1, np.int32), 1
            starts, index = np.array([0, len(run_group)]), np.arange(len(run_group))
        bounds = np.zeros((2, n_units), np.int64)  # groups that are not in units get no windows
        bounds[0, : len(units)], bounds[1, : len(units)] = low, high
        return GroupTurns(order[:n_units], starts, index, *bounds)

    def _work(
        self, plan: GroupTurns, runs: PaneRows, windows: WindowReads, answers: AnswerRows
    ) -> None:
        """Go through the plan; whenever room is lacking, make more."""
        cursor = np.array([0, -1, 0, LOWEST, self.used, self.garbage, self._held, 0], np.int64)
        before = self.used
        while True:
            lacking = fold_units(
                self.rows, self.order, self.groups, self.k, plan, runs, windows, answers,
                self._scratch, cursor,
            )  # fmt: skip
            self.used, self.garbage = int(cursor[USED]), int(cursor[GARBAGE])
            if lacking == NOTHING:
                break
            need = int(cursor[NEED])
            if lacking == ROWS:
                # Groups are alike: each of the others will need about what those so far did.
                done, more = int(cursor[UNIT]), need - before
                likely = before + more * len(plan.groups) // done if done >= _MANY else 0
                self._reserve_rows(max(need + need // 2, likely + likely // 8))
            else:
                self._scratch = make_scratch(2 * need, self.k)
        self._held = int(cursor[HELD])
        if 2 * self.garbage > self.used:
            self._compact()

    def _reserve_groups(self, n: int) -> None:
        have = len(self.groups)
        if n > have:
            room = max(n, have + have // 2)
            groups = np.zeros((room, 7), np.int64)
            groups[:have] = self.groups
            self.groups = groups
            self._unit_of = np.full(room, -1, np.int32)

    def _reserve_rows(self, n: int) -> None:
        rows, order = pooled((n, 4), np.int64), pooled(n, np.int32)
        rows[: self.used], order[: self.used] = self.rows[: self.used], self.order[: self.used]
        self.rows, self.order = rows, order

    def _compact(self) -> None:
        """Close all gaps. The room stays, unless it is much more than what is held."""
        rows, order = self.rows, self.order
        if len(rows) > _MOST_ROOM * self._held:
            rows, order = np.empty((self._held, 4), np.int64), np.empty(self._held, np.int32)
        sequence = np.argsort(self.groups[:, BASE], kind="stable")
        self.used = compact(self.rows, self.order, self.groups, sequence, rows, order)
        self.rows, self.order, self.garbage = rows, order, 0

    def forget(self, groups: NDArray[np.integer]) -> None:
        """Drop all rows of some groups; their numbers may be used again."""
        groups = groups[groups < len(self.groups)]  # others have never had a row
        self._held -= int(self.lengths[groups].sum())
        self.garbage += int(self.groups[groups, CAP].sum())
        self.groups[groups] = 0
        if 2 * self.garbage > self.used:
            self._compact()

    @property
    def lengths(self) -> Ints:
        """How many rows each group holds."""
        groups = self.groups
        held: Ints = groups[:, TOP] + groups[:, FRONT] - groups[:, REST] + groups[:, BACK]
        return held

    @property
    def retained(self) -> int:
        """How many rows are held: those that can still be answered, and some to be swept out."""
        return self._held

    @property
    def nbytes(self) -> int:
        """Bytes of the state."""
        arrays = (self.rows, self.order, self.groups, self._unit_of, *self._scratch)
        return sum(array.nbytes for array in arrays)

    def slots(self) -> Ints:
        """The slots of all rows that are held, in no particular order."""
        slots: Ints = self.rows[self._positions(), SLOT]
        return slots

    def renumber(self, slots: Ints) -> None:
        """Give the held rows new slots, in the order of ``slots()``."""
        self.rows[self._positions(), SLOT] = slots

    def copy(self) -> Self:
        """An independent copy, without free room."""
        other = type(self)(self.k)
        other.groups = self.groups.copy()
        other._held = self._held  # noqa: SLF001 - of the same class
        other._unit_of = np.full(len(self.groups), -1, np.int32)  # noqa: SLF001 - same
        n, sequence = self._held, np.arange(len(self.groups))
        other.used, other.rows, other.order = n, np.empty((n, 4), np.int64), np.zeros(n, np.int32)
        compact(self.rows, self.order, other.groups, sequence, other.rows, other.order)
        return other

    def arrays(self) -> dict[str, Ints | Codes]:
        """All of the state except k; the groups in order, so that equal states look alike."""
        held = self.copy()
        return {"rows": held.rows, "order": held.order, "groups": held.groups}

    @classmethod
    def from_arrays(cls, k: int, rows: Ints, order: Codes, groups: Ints) -> Self:
        """The inverse of ``arrays``, which are copied."""
        band = cls(k)
        band.rows, band.order, band.groups = rows.copy(), order.copy(), groups.copy()
        band.used = len(rows)
        band._held = int(band.lengths.sum())
        band._unit_of = np.full(len(groups), -1, np.int32)
        return band

    def _positions(self) -> Ints:
        """Where the held rows are: the top of each group, and all between gap and free room."""
        base, top, rest = self.groups[:, BASE], self.groups[:, TOP], self.groups[:, REST]
        starts = np.stack((base, base + rest), axis=1).ravel()
        lengths = np.stack((top, self.lengths - top), axis=1).ravel()
        ends = np.cumsum(lengths)
        positions: Ints = np.arange(self._held) + np.repeat(starts - (ends - lengths), lengths)
        return positions

    def _check(self, first: int = LOWEST, swept: bool = False) -> None:
        """Assert every invariant; with ``swept``, also that nothing could be dropped."""
        assert (self._unit_of == -1).all()
        assert self._held == self.lengths.sum()
        assert sorted(set(self._positions().tolist())) == sorted(self._positions().tolist())
        assert int(self.groups[:, CAP].sum()) + self.garbage == self.used <= len(self.rows)
        for base, cap, top, rest, front, back, best in self.groups.tolist():
            assert 0 <= top <= rest <= front <= front + back <= cap
            assert top <= self.k
            assert best == min(self.k, back)
            held = [tuple(row) for row in self.rows[base : base + front + back].tolist()]
            ahead, behind = held[:top] + held[rest:front], held[front:]
            by_order = sorted(ahead, key=lambda row: (-row[KEY], -row[TIE]))
            assert [row[:2] for row in ahead] == [row[:2] for row in by_order]
            assert top == self.k or rest == front or swept is False
            panes = [row[PANE] for row in behind]
            assert panes == sorted(panes)
            order = self.order[base : base + best].tolist()
            named = [held[i] for i in order]
            wanted = sorted(range(back), key=lambda i: (-behind[i][KEY], -behind[i][TIE], i))
            assert order == [front + i for i in wanted[:best]], (named, behind)
            if ahead and behind:
                assert max(row[PANE] for row in ahead) < panes[0]
            if swept:
                assert back == 0
                for i, row in enumerate(ahead):
                    assert row[PANE] >= first
                    assert sum(other[PANE] >= row[PANE] for other in ahead[:i]) < self.k
