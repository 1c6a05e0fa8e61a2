"""The k-skyband of ids: rows that can still be the best row of one of the k best ids.

The rows of a group are sorted, best first. A row goes when a later, better row of its own id
arrives, or when k other ids have later, better rows. So of one id, better rows are older: a row is
its id's best as soon as all better ones have expired, the newest of which is in pane ``SHADE``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.borrow import copy_rows
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel

KEY, TIE, HASH, PANE, SLOT, COUNT, SHADE = range(7)
WIDTH = 7
NEVER = np.iinfo(np.int64).min


class NewIds(NamedTuple):
    """Runs of panes in the order of their groups, then of their panes, and their rows."""

    stamp: Ints
    group: Codes
    offsets: Ints
    key: Ints
    tie: Ints
    hash: Ints
    slot: Ints


class GroupWindows(NamedTuple):
    """Windows in order; those of group g are ``[cuts[g], cuts[g + 1])``, or all if shared."""

    first: Ints
    end: Ints
    cuts: Ints
    shared: bool


@jit
def _insert(rows: Ints, n: int, k: int, first: int, row: Ints) -> int:
    """Take the row of a newer pane than all others, or of the newest; returns how many there are.

    Rows before pane ``first`` have expired and are dropped on the way.
    """
    shade, better, at = NEVER, 0, 0
    while at < n and (
        rows[at, KEY] > row[KEY] or (rows[at, KEY] == row[KEY] and rows[at, TIE] >= row[TIE])
    ):
        if rows[at, HASH] == row[HASH]:
            shade = max(shade, rows[at, PANE])
        elif rows[at, PANE] >= row[PANE]:
            better += 1
            if better >= k:
                return n
        at += 1
    row[COUNT], row[SHADE] = better, shade
    # Rows from ``at`` on are worse: they move by one, or close the gap of those that go.
    held = row.copy()
    kept = at
    for i in range(at, n):
        moved = rows[i].copy()
        goes = moved[PANE] < first
        if moved[HASH] == row[HASH]:
            shade = max(shade, moved[PANE])
            goes = True
        elif shade < moved[PANE]:
            moved[COUNT] += 1
            goes = goes or moved[COUNT] >= k
        if not goes:
            copy_rows(rows[kept], held, WIDTH)
            held = moved
            kept += 1
    copy_rows(rows[kept], held, WIDTH)
    return kept + 1


@jit
def _expire(rows: Ints, n: int, first: int) -> int:
    kept = 0
    for i in range(n):
        if rows[i, PANE] >= first:
            if kept < i:
                copy_rows(rows[kept], rows[i], WIDTH)
            kept += 1
    return kept


@kernel
def fold_distinct(
    held: Ints, starts: Ints, groups: int, k: int, pushed: NewIds, due: GroupWindows
) -> tuple[Ints, Ints, Ints, Ints]:
    """Take panes and read windows, group by group.

    ``held`` are the rows of all groups, cut by ``starts``. Returns the same for afterwards; then
    rows of the answers (key, tie, slot), and for each answer (window, group, rows).
    """
    kept = np.zeros((max(len(held), 16), WIDTH), np.int64)
    ends = np.zeros(groups + 1, np.int64)
    out, answered = np.zeros((64, 3), np.int64), np.zeros((16, 3), np.int64)
    work, row = np.zeros((64, WIDTH), np.int64), np.zeros(WIDTH, np.int64)
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
        first = NEVER
        for w in range(low, high + 1):
            while (
                run < len(pushed.stamp)
                and pushed.group[run] == g
                and (w == high or pushed.stamp[run] < due.end[w])
            ):
                for i in range(pushed.offsets[run], pushed.offsets[run + 1]):
                    row[KEY], row[TIE] = pushed.key[i], pushed.tie[i]
                    row[HASH], row[SLOT] = pushed.hash[i], pushed.slot[i]
                    row[PANE] = pushed.stamp[run]
                    work = with_room(work, n, n + 2)
                    n = _insert(work, n, k, first, row)
                run += 1
            if w == high or n == 0:
                continue
            first = due.first[w]
            count, expired = 0, False
            out = with_room(out, shown, shown + min(n, k))
            for i in range(n):
                if work[i, PANE] < first:
                    expired = True
                elif work[i, SHADE] < first:
                    out[shown + count, 0], out[shown + count, 1] = work[i, KEY], work[i, TIE]
                    out[shown + count, 2] = work[i, SLOT]
                    count += 1
                    if count == k:
                        break
            if count > 0:
                answered = with_room(answered, answers, answers + 1)
                answered[answers, 0], answered[answers, 1], answered[answers, 2] = w, g, count
                answers += 1
                shown += count
            if expired or w == high - 1:
                n = _expire(work, n, first)
        kept = with_room(kept, used, used + n)
        copy_rows(kept[used:], work, n)
        used += n
        ends[g + 1] = used
    return kept[:used].copy(), ends, out[:shown].copy(), answered[:answers].copy()
