"""One side of the group skyline join: rows in slots, one list per join key; see ``gsj.py``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.kernels.core.jit import jit
from skyband.kernels.skyline.dominance import BETTER, EQUAL, WORSE, relation
from skyband.kernels.skyline.stabsky import ALWAYS

# Columns of a side's rows; NEXT is the next row of the same key, -1 for none.
PANE, SINCE, KEY, NEXT, STATE, SEGMENT, FIELDS = 0, 1, 2, 3, 4, 5, 6
# What STATE can be; FRESH is awake, but not yet in any pair.
FREE, ASLEEP, AWAKE, FRESH, DEAD = 0, 1, 2, 3, 4
# Places in ``counts``.
ROW_COMPARISONS, PAIR_COMPARISONS, PAIRS, REDUNDANT = 0, 1, 2, 3


class Side(NamedTuple):
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
def push(side: Side, new: Ints, listed: Ints, size: int, counts: Ints) -> int:
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
def wake(side: Side, listed: Ints, size: int, first: int) -> None:
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
