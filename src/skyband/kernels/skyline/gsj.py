"""Group skylines of two sides and the skyline of their joined pairs, kept from window to window.

Each side keeps, by join key, the rows that no row of the same key with a no earlier expiry
dominates. A row *sleeps* while an older row of its key dominates it (until the pane SINCE has
expired) and is *awake* after; only pairs of awake rows can be answered. Of those, ``top`` holds the
skyline and ``parked`` those that a pair of ``top`` dominated when they were last looked at, with
the pane up to which that pair, or a better one in its place, is sure to live.
"""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import patient
from skyband.kernels.skyline.dominance import BETTER, EQUAL, WORSE, mixed, relation, sort_keys
from skyband.kernels.skyline.stabsky import ALWAYS

__all__ = ["ASLEEP", "AWAKE", "DEAD", "FIELDS", "FREE", "pairs_fold"]


PANE, SINCE, KEY, NEXT, STATE, SEGMENT, FIELDS = 0, 1, 2, 3, 4, 5, 6
FREE, ASLEEP, AWAKE, FRESH, DEAD = 0, 1, 2, 3, 4
LEFT, RIGHT, UNTIL, BOTH = 0, 1, 2, 3
ROW_COMPARISONS, PAIR_COMPARISONS, PAIRS, REDUNDANT = 0, 1, 2, 3


@patient
@jit
def pairs_fold(
    left_points: Ints,
    left: Ints,
    left_heads: Ints,
    right_points: Ints,
    right: Ints,
    right_heads: Ints,
    top: Ints,
    top_points: Ints,
    tops: int,
    parked: Ints,
    waiting: int,
    new_left: Ints,
    left_offsets: Ints,
    new_right: Ints,
    right_offsets: Ints,
    stamps: Ints,
    window_first: Ints,
    window_end: Ints,
    counts: Ints,
) -> tuple[Ints, Ints, int, Ints, int, Ints, Ints]:
    """Push panes and read windows.

    Rows of the new panes stand in their slots already, with pane, key and segment. Returns ``top``
    with its points and length, ``parked`` with its length, the pairs read, and their offsets.
    """
    found = np.empty((64, 2), np.int64)
    found_offsets = np.zeros(len(window_first) + 1, np.int64)
    left_list, lefts = _listed(left, len(new_left))
    right_list, rights = _listed(right, len(new_right))
    read = 0
    at = 0
    for w in range(len(window_first) + 1):
        last = w == len(window_first)
        while at < len(stamps) and (last or stamps[at] < window_end[w]):
            lefts = _push(
                left_points, left, left_heads, new_left, left_offsets[at], left_offsets[at + 1],
                left_list, lefts, counts,
            )  # fmt: skip
            rights = _push(
                right_points, right, right_heads, new_right, right_offsets[at],
                right_offsets[at + 1], right_list, rights, counts,
            )  # fmt: skip
            at += 1
        if last:
            break
        first = window_first[w]
        _wake(left, left_heads, left_list, lefts, first)
        _wake(right, right_heads, right_list, rights, first)
        tops, waiting, top, top_points, parked = _renew(
            left_points, left, left_heads, left_list[:lefts],
            right_points, right, right_heads, right_list[:rights],
            top, top_points, tops, parked, waiting, first, counts,
        )  # fmt: skip
        lefts = _settle(left, left_list, lefts)
        rights = _settle(right, right_list, rights)
        if read + tops > len(found):
            grown = np.empty((2 * (read + tops), 2), np.int64)
            grown[:read] = found[:read]
            found = grown
        for i in range(tops):
            found[read, 0] = top[i, LEFT]
            found[read, 1] = top[i, RIGHT]
            read += 1
        found_offsets[w + 1] = read
    return top, top_points, tops, parked, waiting, found[:read].copy(), found_offsets


@jit
def _listed(rows: Ints, more: int) -> tuple[Ints, int]:
    """Slots in use (rows of panes still to come are not), with room for more."""
    found = np.empty(len(rows) + more, np.int64)
    size = 0
    for row in range(len(rows)):
        if rows[row, STATE] != FREE:
            found[size] = row
            size += 1
    return found, size


@jit
def _push(
    points: Ints,
    rows: Ints,
    heads: Ints,
    new: Ints,
    first: int,
    last: int,
    listed: Ints,
    size: int,
    counts: Ints,
) -> int:
    """Put the rows of one pane into the lists of their keys, and take out what they outlive."""
    for n in range(first, last):
        row = new[n]
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
def _wake(rows: Ints, heads: Ints, listed: Ints, size: int, first: int) -> None:
    """Let rows before ``first`` expire, and wake those whose last dominator has expired."""
    for n in range(size):
        row = listed[n]
        state = rows[row, STATE]
        if state == DEAD:
            continue
        if rows[row, PANE] < first:
            # The whole list of the key at once: its other expired rows are dead after this.
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
def _settle(rows: Ints, listed: Ints, size: int) -> int:
    """The window has been read: fresh rows are awake, dead ones free; returns how many are left."""
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


@jit
def _renew(
    left_points: Ints,
    left: Ints,
    left_heads: Ints,
    left_list: Ints,
    right_points: Ints,
    right: Ints,
    right_heads: Ints,
    right_list: Ints,
    top: Ints,
    top_points: Ints,
    tops: int,
    parked: Ints,
    waiting: int,
    first: int,
    counts: Ints,
) -> tuple[int, int, Ints, Ints, Ints]:
    """The skyline of all pairs of awake rows: look only at pairs that are new or due."""
    kept = 0
    for i in range(tops):
        if left[top[i, LEFT], STATE] != DEAD and right[top[i, RIGHT], STATE] != DEAD:
            if kept != i:
                _copy(top, i, kept)
                _copy(top_points, i, kept)
            kept += 1
    tops = kept

    candidates = np.empty((64, 2), np.int64)
    size = 0
    kept = 0
    for i in range(waiting):
        a = parked[i, LEFT]
        b = parked[i, RIGHT]
        # A pair with a dead row has expired, or a better row now stands in its place.
        if left[a, STATE] == DEAD or right[b, STATE] == DEAD:
            continue
        if parked[i, UNTIL] < first:
            candidates = _room(candidates, size)
            candidates[size, 0] = a
            candidates[size, 1] = b
            size += 1
        else:
            _copy(parked, i, kept)
            kept += 1
    waiting = kept
    for a in left_list:
        if left[a, STATE] == FRESH:
            b = right_heads[left[a, KEY]]
            while b >= 0:
                if right[b, STATE] == AWAKE or right[b, STATE] == FRESH:
                    candidates = _room(candidates, size)
                    candidates[size, 0] = a
                    candidates[size, 1] = b
                    size += 1
                b = right[b, NEXT]
    for b in right_list:
        if right[b, STATE] == FRESH:
            a = left_heads[right[b, KEY]]
            while a >= 0:
                if left[a, STATE] == AWAKE:
                    candidates = _room(candidates, size)
                    candidates[size, 0] = a
                    candidates[size, 1] = b
                    size += 1
                a = left[a, NEXT]
    counts[PAIRS] += size
    if size == 0:
        return tops, waiting, top, top_points, parked

    split = left_points.shape[1]
    points = np.empty((size, split + right_points.shape[1]), np.int64)
    for i in range(size):
        for k in range(split):
            points[i, k] = left_points[candidates[i, 0], k]
        for k in range(right_points.shape[1]):
            points[i, split + k] = right_points[candidates[i, 1], k]
    keys = np.empty(size, np.float64)
    sort_keys(points, 0, size, keys)
    order = np.argsort(-keys)
    if tops + size > len(top):
        top = _grown(top, tops + size)
        top_points = _grown(top_points, tops + size)
    if waiting + tops + size > len(parked):
        parked = _grown(parked, waiting + tops + size)
    for n in range(size):
        i = order[n]
        a = candidates[i, 0]
        b = candidates[i, 1]
        until = min(left[a, PANE], right[b, PANE])
        segment = mixed(left[a, SEGMENT], right[b, SEGMENT])
        dominated = False
        g = 0
        while g < tops:
            if top[g, BOTH] != segment:
                g += 1
                continue
            counts[PAIR_COMPARISONS] += 1
            found = relation(top_points, g, points, i)
            if found == BETTER:
                dominated = True
                if top[g, UNTIL] < until:
                    parked[waiting, LEFT] = a
                    parked[waiting, RIGHT] = b
                    parked[waiting, UNTIL] = top[g, UNTIL]
                    waiting += 1
                _promote(top, top_points, g)
                break
            if found == EQUAL:
                break
            if found == WORSE:
                if until < top[g, UNTIL]:
                    parked[waiting, LEFT] = top[g, LEFT]
                    parked[waiting, RIGHT] = top[g, RIGHT]
                    parked[waiting, UNTIL] = until
                    waiting += 1
                tops -= 1
                _copy(top, tops, g)
                _copy(top_points, tops, g)
                continue
            g += 1
        if not dominated:
            top[tops, LEFT] = a
            top[tops, RIGHT] = b
            top[tops, UNTIL] = until
            top[tops, BOTH] = segment
            for k in range(points.shape[1]):
                top_points[tops, k] = points[i, k]
            tops += 1
    return tops, waiting, top, top_points, parked


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


@jit
def _room(pairs: Ints, size: int) -> Ints:
    return pairs if size < len(pairs) else _grown(pairs, size + 1)


@jit
def _grown(array: Ints, needed: int) -> Ints:
    grown = np.empty((max(needed, 2 * len(array)), array.shape[1]), np.int64)
    grown[: len(array)] = array
    return grown
