"""Group skylines of two sides and the skyline of their joined pairs, kept from window to window.

Each side keeps, by join key, the rows undominated by any row of the same key that expires as late
or later. A row *sleeps* while an older row of its key dominates it (until the pane SINCE has
expired) and is *awake* afterwards; only pairs of awake rows can be in an answer. Of those, ``top``
holds the skyline. ``parked`` holds pairs that a pair of ``top`` dominated when they were last
checked, with the pane up to which that pair, or a better one, is certain to live.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.arrange import with_room
from skyband.kernels.jit import jit
from skyband.kernels.patient import kernel
from skyband.kernels.sorting import sort_best
from skyband.skyline.kernels.dominance import (
    BETTER,
    EQUAL,
    WORSE,
    codes_of,
    joined,
    mixed,
    relation,
    sort_keys,
)
from skyband.skyline.kernels.stabsky import ALWAYS

# One side of the group skyline join: rows in slots, one list per join key; see ``gsj.py`` --------


# Columns of a side's rows; NEXT is the next row of the same key, -1 for none.
PANE, SINCE, KEY, NEXT, STATE, SEGMENT, FIELDS = 0, 1, 2, 3, 4, 5, 6
# What STATE can be; FRESH is awake, but not yet in any pair.
FREE, ASLEEP, AWAKE, FRESH, DEAD = 0, 1, 2, 3, 4
_MANY = 64  # pairs on both sides, from which on codes pay
# Places in ``counts``.
ROW_COMPARISONS, PAIR_COMPARISONS, PAIRS, REDUNDANT = 0, 1, 2, 3


class GroupSide(NamedTuple):
    """One side of the join: rows in slots."""

    points: Ints
    rows: Ints
    heads: Ints  # the first row of each key; -1 for none


@jit
def listed(rows: Ints, more: int) -> tuple[Ints, int]:
    """Slots in use (rows of panes still to come are not), with room for more."""
    found = np.empty(len(rows) + more, np.int64)
    size = 0
    for row in range(len(rows)):
        if rows[row, STATE] != FREE:
            found[size] = row
            size += 1
    return found, size


@jit
def push(side: GroupSide, new: Ints, listed: Ints, size: int, counts: Ints) -> int:
    """Add the rows of one pane to the lists of their keys; remove the rows that they dominate."""
    points, rows, heads = side
    for row in new:
        listed[size] = row
        size += 1
        key = rows[row, KEY]
        rows[row, SINCE] = ALWAYS
        rows[row, STATE] = ASLEEP
        before = -1
        other = heads[key]
        while other >= 0:
            following = rows[other, NEXT]
            found = EQUAL
            if rows[other, SEGMENT] == rows[row, SEGMENT]:
                counts[ROW_COMPARISONS] += 1
                found = relation(points, row, points, other)
            if found == BETTER:
                rows[other, STATE] = DEAD
                counts[REDUNDANT] += 1
                if before < 0:
                    heads[key] = following
                else:
                    rows[before, NEXT] = following
            else:
                if found == WORSE:
                    rows[row, SINCE] = max(rows[row, SINCE], rows[other, PANE])
                before = other
            other = following
        rows[row, NEXT] = heads[key]
        heads[key] = row
    return size


@jit
def wake(side: GroupSide, listed: Ints, size: int, first: int) -> None:
    """Let rows before ``first`` expire, and wake those whose last dominator has expired."""
    rows, heads = side.rows, side.heads
    for n in range(size):
        row = listed[n]
        state = rows[row, STATE]
        if state == DEAD:
            continue
        if rows[row, PANE] < first:
            # Clear the whole list of the key at once: its other expired rows are dead after this.
            key = rows[row, KEY]
            before = -1
            other = heads[key]
            while other >= 0:
                following = rows[other, NEXT]
                if rows[other, PANE] < first:
                    rows[other, STATE] = DEAD
                    if before < 0:
                        heads[key] = following
                    else:
                        rows[before, NEXT] = following
                else:
                    before = other
                other = following
        elif state == ASLEEP and rows[row, SINCE] < first:
            rows[row, STATE] = FRESH


@jit
def settle(rows: Ints, listed: Ints, size: int) -> int:
    """After a read: fresh rows become awake, dead ones free; returns how many are left."""
    kept = 0
    for n in range(size):
        row = listed[n]
        if rows[row, STATE] == DEAD:
            rows[row, STATE] = FREE
            continue
        if rows[row, STATE] == FRESH:
            rows[row, STATE] = AWAKE
        listed[kept] = row
        kept += 1
    return kept


# Columns of pairs: the row of each side; the pane with which the pair expires (top) or up to which
# it need not be checked (parked); in ``top`` the segment of both rows.
LEFT, RIGHT, UNTIL, BOTH = 0, 1, 2, 3


class NewRows(NamedTuple):
    """New panes: the slots of their rows on each side, pane by pane."""

    left: Ints
    left_offsets: Ints
    right: Ints
    right_offsets: Ints
    stamps: Ints


class Pairs(NamedTuple):
    """The pairs that are kept; the arrays may be longer."""

    top: Ints
    points: Ints  # of the pairs in ``top``
    tops: int
    parked: Ints
    waiting: int  # how many are parked


@kernel
def pairs_fold(
    left: GroupSide, right: GroupSide, pairs: Pairs, fresh: NewRows, window_first: Ints,
    window_end: Ints, counts: Ints,
) -> tuple[Pairs, Ints, Ints]:  # fmt: skip
    """Push panes and read windows.

    Rows of the new panes are in their slots already, with pane, key and segment. Returns the pairs
    to continue with, the pairs read, and their offsets.
    """
    found = np.empty((64, 2), np.int64)
    found_offsets = np.zeros(len(window_first) + 1, np.int64)
    left_list, lefts = listed(left.rows, len(fresh.left))
    right_list, rights = listed(right.rows, len(fresh.right))
    stamps = fresh.stamps
    read = 0
    at = 0
    for w in range(len(window_first) + 1):
        last = w == len(window_first)
        while at < len(stamps) and (last or stamps[at] < window_end[w]):
            new = fresh.left[fresh.left_offsets[at] : fresh.left_offsets[at + 1]]
            lefts = push(left, new, left_list, lefts, counts)
            new = fresh.right[fresh.right_offsets[at] : fresh.right_offsets[at + 1]]
            rights = push(right, new, right_list, rights, counts)
            at += 1
        if last:
            break
        first = window_first[w]
        wake(left, left_list, lefts, first)
        wake(right, right_list, rights, first)
        pairs = _renew(left, left_list[:lefts], right, right_list[:rights], pairs, first, counts)
        lefts = settle(left.rows, left_list, lefts)
        rights = settle(right.rows, right_list, rights)
        tops = pairs.tops
        found = with_room(found, read, read + tops)
        for i in range(tops):
            found[read, 0] = pairs.top[i, LEFT]
            found[read, 1] = pairs.top[i, RIGHT]
            read += 1
        found_offsets[w + 1] = read
    return pairs, found[:read].copy(), found_offsets


@jit
def _renew(
    left: GroupSide, left_list: Ints, right: GroupSide, right_list: Ints, pairs: Pairs, first: int,
    counts: Ints,
) -> Pairs:  # fmt: skip
    """Update the skyline of all pairs of awake rows: only pairs that are new or due are checked."""
    top, top_points, parked = pairs.top, pairs.points, pairs.parked
    tops = _drop_dead(left.rows, right.rows, top, top_points, pairs.tops)
    candidates, size, waiting = _due(left.rows, right.rows, parked, pairs.waiting, first)
    candidates, size = _add_fresh(left, left_list, LEFT, right, True, candidates, size)
    candidates, size = _add_fresh(right, right_list, RIGHT, left, False, candidates, size)
    counts[PAIRS] += size
    if size == 0:
        return Pairs(top, top_points, tops, parked, waiting)
    points = joined(left.points, right.points, candidates, size)
    keys = np.empty(size, np.float64)
    sort_keys(points, 0, size, keys)
    top = with_room(top, tops, tops + size)
    top_points = with_room(top_points, tops, tops + size)
    parked = with_room(parked, waiting, waiting + tops + size)
    order = np.arange(size)
    sort_best(order, np.empty(size, np.int64), keys, keys)
    code, high = np.zeros(tops + size, np.int64), 0
    if size >= _MANY and tops >= _MANY:
        code, high = codes_of(top_points, tops, points)
    own = code[tops:].copy()
    for place in range(size):
        i = order[place]
        a = candidates[i, 0]
        b = candidates[i, 1]
        until = min(left.rows[a, PANE], right.rows[b, PANE])
        segment = mixed(left.rows[a, SEGMENT], right.rows[b, SEGMENT])
        dominated = False
        g = 0
        while g < tops:
            apart = (code[g] | high) - own[i] & high != high
            if top[g, BOTH] != segment or (apart and (own[i] | high) - code[g] & high != high):
                g += 1
                continue
            counts[PAIR_COMPARISONS] += 1
            found = relation(top_points, g, points, i)
            if found == BETTER:
                dominated = True
                if top[g, UNTIL] < until:
                    waiting = _park(parked, waiting, a, b, top[g, UNTIL])
                _promote(top, top_points, g)
                code[g], code[g // 2] = code[g // 2], code[g]
                break
            if found == EQUAL:
                break
            if found == WORSE:
                if until < top[g, UNTIL]:
                    waiting = _park(parked, waiting, top[g, LEFT], top[g, RIGHT], until)
                tops -= 1
                _copy(top, tops, g)
                _copy(top_points, tops, g)
                code[g] = code[tops]
                continue
            g += 1
        if not dominated:
            top[tops, LEFT] = a
            top[tops, RIGHT] = b
            top[tops, UNTIL] = until
            top[tops, BOTH] = segment
            code[tops] = own[i]
            for k in range(points.shape[1]):
                top_points[tops, k] = points[i, k]
            tops += 1
    return Pairs(top, top_points, tops, parked, waiting)


@jit
def _drop_dead(left: Ints, right: Ints, top: Ints, top_points: Ints, tops: int) -> int:
    """Keep the pairs of ``top`` whose rows both live; returns how many."""
    kept = 0
    for i in range(tops):
        if left[top[i, LEFT], STATE] != DEAD and right[top[i, RIGHT], STATE] != DEAD:
            if kept != i:
                _copy(top, i, kept)
                _copy(top_points, i, kept)
            kept += 1
    return kept


@jit
def _due(left: Ints, right: Ints, parked: Ints, waiting: int, first: int) -> tuple[Ints, int, int]:
    """The parked pairs that are due, their number, and how many pairs stay parked."""
    candidates = np.empty((64, 2), np.int64)
    size = 0
    kept = 0
    for i in range(waiting):
        a = parked[i, LEFT]
        b = parked[i, RIGHT]
        # A pair with a dead row has expired, or a better row has replaced it.
        if left[a, STATE] == DEAD or right[b, STATE] == DEAD:
            continue
        if parked[i, UNTIL] < first:
            candidates = with_room(candidates, size, size + 1)
            candidates[size, 0] = a
            candidates[size, 1] = b
            size += 1
        else:
            _copy(parked, i, kept)
            kept += 1
    return candidates, size, kept


@jit
def _add_fresh(
    own: GroupSide, own_list: Ints, at: int, other: GroupSide, both: bool, candidates: Ints,
    size: int,
) -> tuple[Ints, int]:  # fmt: skip
    """Add the pairs of rows that just woke with awake rows of the other side.

    ``at`` is the column of the own rows. With ``both``, the other row may have just woken, too.
    """
    for row in own_list:
        if own.rows[row, STATE] == FRESH:
            partner = other.heads[own.rows[row, KEY]]
            while partner >= 0:
                state = other.rows[partner, STATE]
                if state == AWAKE or (both and state == FRESH):
                    candidates = with_room(candidates, size, size + 1)
                    candidates[size, at], candidates[size, 1 - at] = row, partner
                    size += 1
                partner = other.rows[partner, NEXT]
    return candidates, size


@jit
def _park(parked: Ints, waiting: int, a: int, b: int, until: int) -> int:
    """Park a pair until a pane has expired; returns how many are parked."""
    parked[waiting, LEFT] = a
    parked[waiting, RIGHT] = b
    parked[waiting, UNTIL] = until
    return waiting + 1


@jit
def _promote(top: Ints, top_points: Ints, g: int) -> None:
    """Move a pair that dominates others forward, so that the next ones meet it early."""
    to = g // 2
    if to == g:
        return
    for k in range(top.shape[1]):
        top[g, k], top[to, k] = top[to, k], top[g, k]
    for k in range(top_points.shape[1]):
        top_points[g, k], top_points[to, k] = top_points[to, k], top_points[g, k]


@jit
def _copy(array: Ints, row: int, to: int) -> None:
    for k in range(array.shape[1]):
        array[to, k] = array[row, k]
