"""The k-skyband of scores: rows that no k better scores follow, with all that tie with them.

The rows of a group are in the order of their panes and, within a pane, the best last. So going
back, rows with equal scores come in the order of answers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import kth_greatest
from skyband.topk.kernels.distinct import GroupWindows

KEY, TIE, PANE, SLOT, MORE = range(5)
WIDTH = 5
_ROOM = 64  # rows that may come before the next look for those that no answer needs


class TiedRows(NamedTuple):
    """Runs of panes in the order of their groups, then of their panes, and their rows."""

    stamp: Ints
    group: Codes
    offsets: Ints
    key: Ints
    tie: Ints
    more: Ints
    slot: Ints


@jit
def _pruned(rows: Ints, n: int, k: int, first: int, best: Ints) -> int:
    """Drop rows before pane ``first``, and rows that are followed by k with better scores.

    Returns how many are left. ``best`` is room for k scores, which are kept in order.
    """
    size, free = 0, n
    for i in range(n - 1, -1, -1):
        key = rows[i, KEY]
        if rows[i, PANE] < first or (size == k and key < best[k - 1]):
            continue
        free -= 1
        if free != i:
            copy_rows(rows[free], rows[i], WIDTH)
        if size < k or key > best[k - 1]:
            at = size if size < k else k - 1
            while at > 0 and best[at - 1] < key:
                best[at] = best[at - 1]
                at -= 1
            best[at] = key
            size = min(size + 1, k)
    for i in range(free, n):
        copy_rows(rows[i - free], rows[i], WIDTH)
    return n - free


@jit
def _read(rows: Ints, n: int, k: int, most: int, first: int, room: Ints, out: Ints, at: int) -> int:
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
            more += rows[i, MORE]
            if tied == 0:
                more += 1
                continue
            tied -= 1
            last = at
        copy_rows(out[at], rows[i], WIDTH)
        out[at, MORE] = 0
        at += 1
    if at > start:
        out[last, MORE] = more
    return at


@kernel
def fold_tied(
    held: Ints, starts: Ints, groups: int, k: int, most: int, pushed: TiedRows, asked: GroupWindows
) -> tuple[Ints, Ints, Ints, Ints]:
    """Take panes and read windows, group by group.

    ``held`` are the rows of all groups, cut by ``starts``. Returns the same for afterwards; then
    rows of the answers, and for each answer (window, group, rows).
    """
    kept = np.zeros((max(len(held), 16), WIDTH), np.int64)
    ends = np.zeros(groups + 1, np.int64)
    out, told = np.zeros((64, WIDTH), np.int64), np.zeros((16, 3), np.int64)
    work, best = np.zeros((64, WIDTH), np.int64), np.zeros(k, np.int64)
    room = np.zeros((2, 64), np.int64)
    run = used = shown = answers = 0
    for g in range(groups):
        n = 0
        if g < len(starts) - 1:
            n = starts[g + 1] - starts[g]
            work = with_room(work, 0, n)
            copy_rows(work, held[starts[g] :], n)
        low, high = 0, len(asked.first)
        if not asked.shared:
            low, high = asked.cuts[g], asked.cuts[g + 1]
        first, enough = np.iinfo(np.int64).min, 2 * n + _ROOM
        for w in range(low, high + 1):
            while (
                run < len(pushed.stamp)
                and pushed.group[run] == g
                and (w == high or pushed.stamp[run] < asked.end[w])
            ):
                begin, stop = pushed.offsets[run], pushed.offsets[run + 1]
                work = with_room(work, n, n + stop - begin)
                for i in range(stop - 1, begin - 1, -1):
                    work[n, KEY], work[n, TIE] = pushed.key[i], pushed.tie[i]
                    work[n, PANE], work[n, SLOT] = pushed.stamp[run], pushed.slot[i]
                    work[n, MORE] = pushed.more[i]
                    n += 1
                if n > enough:
                    n = _pruned(work, n, k, first, best)
                    enough = 2 * n + _ROOM
                run += 1
            if w == high or n == 0:
                continue
            first = asked.first[w]
            if n > room.shape[1]:
                room = np.zeros((2, 2 * n), np.int64)
            out = with_room(out, shown, shown + min(n, most))
            end = _read(work, n, k, most, first, room, out, shown)
            if end > shown:
                told = with_room(told, answers, answers + 1)
                told[answers, 0], told[answers, 1], told[answers, 2] = w, g, end - shown
                answers += 1
                shown = end
        n = _pruned(work, n, k, first, best)
        kept = with_room(kept, used, used + n)
        copy_rows(kept[used:], work, n)
        used += n
        ends[g + 1] = used
    return kept[:used].copy(), ends, out[:shown].copy(), told[:answers].copy()
