"""The k-skyband of scores, with all that tie; or of ids, each with its best row.

The rows of a group are in the order of their panes and, within a pane, the best last. So going
back, each row meets the rows that can replace it in an answer: the newer ones, and the better ones
of its own pane. A row goes when k of them have better scores. If ids are ranked, it goes when k
other ids have better rows, or its own id has one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import jit, piece
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import kth_greatest

KEY, TIE, PANE, SLOT, LAST = range(5)  # LAST: the hash of the id, or how many more rows tie
WIDTH = 5
NEVER = np.iinfo(np.int64).min
_ROOM = 48  # rows that may come before the next look for those that no answer needs


class BandRows(NamedTuple):
    """Runs of panes in the order of their groups, then of their panes, and their rows."""

    stamp: Ints
    group: Codes
    offsets: Ints
    key: Ints
    tie: Ints
    last: Ints
    slot: Ints


class GroupWindows(NamedTuple):
    """Windows in order; those of group g are ``[cuts[g], cuts[g + 1])``, or all if shared."""

    first: Ints
    end: Ints
    cuts: Ints
    shared: bool


@piece
def _copy(source: Ints, at: int, target: Ints, to: int) -> None:
    """Copy one row; a view of it would count references."""
    for column in range(WIDTH):
        target[to, column] = source[at, column]


@piece
def _enter(best: Ints, size: int, k: int, rows: Ints, i: int, ids: bool) -> int:
    """Row i joins the best k so far, unless they make it needless (-1); how many they are now.

    If ids are ranked, equal scores are in the order of times, and each id is there once.
    """
    key, tie = rows[i, KEY], rows[i, TIE]
    if size == k and (
        key < best[k - 1, KEY] or (ids and key == best[k - 1, KEY] and tie <= best[k - 1, TIE])
    ):
        return -1
    at: int = size if size < k else k - 1
    if ids:
        for j in range(size):
            if best[j, LAST] == rows[i, LAST]:
                if best[j, KEY] > key or (best[j, KEY] == key and best[j, TIE] >= tie):
                    return -1
                at = j
                break
    if at == size:
        size += 1
    while at > 0 and (
        best[at - 1, KEY] < key or (ids and best[at - 1, KEY] == key and best[at - 1, TIE] < tie)
    ):
        _copy(best, at - 1, best, at)
        at -= 1
    _copy(rows, i, best, at)
    return size


@jit
def _pruned(rows: Ints, n: int, k: int, ids: bool, first: int, best: Ints) -> int:
    """Drop rows before pane ``first``, and those that no answer needs; how many are left."""
    size, free = 0, n
    for i in range(n - 1, -1, -1):
        if rows[i, PANE] < first:
            continue
        entered = _enter(best, size, k, rows, i, ids)
        if entered < 0:
            continue
        size = entered
        free -= 1
        if free != i:
            _copy(rows, i, rows, free)
    for i in range(free, n):
        _copy(rows, i, rows, i - free)
    return n - free


@jit
def _read_ids(rows: Ints, n: int, k: int, first: int, best: Ints, out: Ints, at: int) -> int:
    """Write the best rows of the best k ids, in order; where they end."""
    size = 0
    for i in range(n - 1, -1, -1):
        if rows[i, PANE] >= first:
            size = max(size, _enter(best, size, k, rows, i, True))
    for i in range(size):
        _copy(best, i, out, at + i)
    return at + size


@jit
def _read_tied(
    rows: Ints, n: int, k: int, most: int, first: int, room: Ints, out: Ints, at: int
) -> int:
    """Write the best k rows, with what ties with the k-th, equal scores in the order of answers.

    At most ``most`` rows are written; the last one that ties says how many more there were.
    """
    live = 0
    for i in range(n):
        room[0, live] = rows[i, KEY]
        live += rows[i, PANE] >= first
    if live == 0:
        return at
    kth = kth_greatest(room[0], room[1], live, min(k, live))
    above = 0
    for i in range(n):
        above += rows[i, PANE] >= first and rows[i, KEY] > kth
    start, tied, more, last = at, most - above, 0, at
    for i in range(n - 1, -1, -1):
        if rows[i, PANE] < first or rows[i, KEY] < kth:
            continue
        if rows[i, KEY] == kth:
            more += rows[i, LAST]
            if tied == 0:
                more += 1
                continue
            tied -= 1
            last = at
        _copy(rows, i, out, at)
        out[at, LAST] = 0
        at += 1
    if at > start:
        out[last, LAST] = more
    return at


@kernel
def fold_bands(
    held: Ints, starts: Ints, groups: int, k: int, most: int, ids: bool, pushed: BandRows,
    due: GroupWindows,
) -> tuple[Ints, Ints, Ints, Ints]:  # fmt: skip
    """Take panes and read windows, group by group.

    ``held`` are the rows of all groups, cut by ``starts``. Returns the same for afterwards; then
    rows of the answers, and for each answer (window, group, rows).
    """
    kept = np.zeros((max(len(held), 16), WIDTH), np.int64)
    ends = np.zeros(groups + 1, np.int64)
    out, answered = np.zeros((64, WIDTH), np.int64), np.zeros((16, 3), np.int64)
    work, best = np.zeros((64, WIDTH), np.int64), np.zeros((k, WIDTH), np.int64)
    room = np.zeros((2, 64), np.int64)
    part = 4 if ids else 1  # to read ids takes longer, so fewer needless rows are left
    run = used = shown = answers = 0
    for g in range(groups):
        n = 0
        if g < len(starts) - 1:
            n = starts[g + 1] - starts[g]
            work = with_room(work, 0, n)
            copy_rows(work, held[starts[g] :], n)
        low, high = 0, len(due.first)
        if not due.shared:
            low, high = due.cuts[g], due.cuts[g + 1]
        first, enough = NEVER, n + n // part + _ROOM
        for w in range(low, high + 1):
            while (
                run < len(pushed.stamp)
                and pushed.group[run] == g
                and (w == high or pushed.stamp[run] < due.end[w])
            ):
                begin, stop = pushed.offsets[run], pushed.offsets[run + 1]
                work = with_room(work, n, n + stop - begin)
                for i in range(stop - 1, begin - 1, -1):
                    work[n, KEY], work[n, TIE] = pushed.key[i], pushed.tie[i]
                    work[n, PANE], work[n, SLOT] = pushed.stamp[run], pushed.slot[i]
                    work[n, LAST] = pushed.last[i]
                    n += 1
                if n > enough:
                    n = _pruned(work, n, k, ids, first, best)
                    enough = n + n // part + _ROOM
                run += 1
            if w == high or n == 0:
                continue
            first = due.first[w]
            out = with_room(out, shown, shown + min(n, most))
            if ids:
                end = _read_ids(work, n, k, first, best, out, shown)
            else:
                if n > room.shape[1]:
                    room = np.zeros((2, 2 * n), np.int64)
                end = _read_tied(work, n, k, most, first, room, out, shown)
            if end > shown:
                answered = with_room(answered, answers, answers + 1)
                answered[answers, 0], answered[answers, 1] = w, g
                answered[answers, 2] = end - shown
                answers += 1
                shown = end
        n = _pruned(work, n, k, ids, first, best)
        kept = with_room(kept, used, used + n)
        copy_rows(kept[used:], work, n)
        used += n
        ends[g + 1] = used
    return kept[:used].copy(), ends, out[:shown].copy(), answered[:answers].copy()
