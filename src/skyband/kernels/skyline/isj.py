"""One layer of the iterative skyline join.

The rows of a side are in cells: rows of one cell agree in the join key and in all "diff" columns.
Cells are numbered by key, so that those of key k are ``key_cells[k]`` to ``key_cells[k + 1]``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.core.arrange import order_by_code
from skyband.kernels.core.jit import jit
from skyband.kernels.core.patient import kernel
from skyband.kernels.core.room import with_room
from skyband.kernels.skyline.dominance import dominates, joined, mixed, skyline_runs

COMPARISONS, JOINED, PRUNED, LAYERS = 0, 1, 2, 3  # places in ``counts``
KEY, SEGMENT = 0, 1  # columns of ``cells``
_WORSE, _EQUAL, _BETTER = 0, 1, 2
LEFT, RIGHT, BOTH = 0, 1, 2  # columns of results: a row of each side, the segment of both


class Side(NamedTuple):
    """One side of the join: its live rows, and the cells that they are in."""

    points: Ints
    cell: Ints  # of each row
    cells: Ints  # key and segment of each cell
    key_cells: Ints  # where the cells of each key begin


class Results(NamedTuple):
    """The pairs found so far; the arrays may be longer."""

    pairs: Ints
    points: Ints
    size: int


@kernel
def join_layer(
    left: Side, left_active: Ints, left_sky: Ints, right: Side, right_active: Ints, right_sky: Ints,
    results: Results, counts: Ints,
) -> tuple[Ints, Ints, Results]:  # fmt: skip
    """Join both local skylines, keep what no result dominates, prune both sides.

    ``active`` and ``sky`` are positions of rows. Returns the rows left over on both sides and the
    results, which grow.
    """
    counts[LAYERS] += 1
    in_left, in_right = _flags(len(left.cell), left_sky), _flags(len(right.cell), right_sky)

    # P1 joins the left local skyline with all of the right, P2 the rest of the left with the right
    # local skyline.
    pairs = np.empty((64, 2), np.int64)
    none = len(pairs) * 0  # not the literal 0, for which numba would compile the callee once more
    no_rows = _flags(len(right.cell), right_sky[:none])
    pairs, middle = _join(left, left_sky, right, right_active, no_rows, pairs, none)
    pairs, total = _join(right, right_sky, left, left_active, in_left, pairs, middle)
    for n in range(middle, total):
        pairs[n, LEFT], pairs[n, RIGHT] = pairs[n, RIGHT], pairs[n, LEFT]
    counts[JOINED] += total
    results = _take_results(left, right, pairs, middle, total, results, counts)

    left_rest = _without(left_active, in_left)
    right_rest = _without(right_active, in_right)
    before = len(left_rest) + len(right_rest)
    left_rest = _outsiders(left, left_rest, right, right_rest, results, True, counts)
    right_rest = _outsiders(right, right_rest, left, left_rest, results, False, counts)
    counts[PRUNED] += before - len(left_rest) - len(right_rest)
    return left_rest, right_rest, results


@jit
def _flags(n: int, rows: Ints) -> Mask:
    """Which of n rows are in a list."""
    flags = np.zeros(n, np.bool_)
    for row in rows:
        flags[row] = True
    return flags


@jit
def _join(
    own: Side, sky: Ints, other: Side, active: Ints, skipped: Mask, pairs: Ints, size: int
) -> tuple[Ints, int]:
    """Join a local skyline with the active rows of the other side, except those skipped.

    Adds (own row, other row) to ``pairs``; returns them and how many they are.
    """
    start, rows = _by_cell(other.cell, active, len(other.cells))
    for a in sky:
        key = own.cells[own.cell[a], KEY]
        first, last = start[other.key_cells[key]], start[other.key_cells[key + 1]]
        pairs = with_room(pairs, size, size + last - first)
        for n in range(first, last):
            if not skipped[rows[n]]:
                pairs[size, 0] = a
                pairs[size, 1] = rows[n]
                size += 1
    return pairs, size


@jit
def _by_cell(cell: Ints, active: Ints, cells: int) -> tuple[Ints, Ints]:
    """Where each cell starts, and the active rows in order of their cells."""
    order, start = order_by_code(cell[active], cells)
    return start, active[order]


@jit
def _take_results(
    left: Side, right: Side, pairs: Ints, middle: int, total: int, found: Results, counts: Ints
) -> Results:
    """Add the skylines of P1 and of P2, without what an earlier result dominates."""
    results, result_points, size = found
    points = joined(left.points, right.points, pairs, total)
    segment = np.empty(total, np.int64)
    for n in range(total):
        a, b = left.cell[pairs[n, LEFT]], right.cell[pairs[n, RIGHT]]
        segment[n] = mixed(left.cells[a, SEGMENT], right.cells[b, SEGMENT])
    for part in range(2):
        # Pairs of both local skylines are in P1 only, so P2 is compared with P1 too.
        before = size
        low = 0 if part == 0 else middle
        high = middle if part == 0 else total
        if high == low:
            continue
        order = np.argsort(segment[low:high], kind="mergesort") + low
        offsets = np.zeros(high - low + 1, np.int64)
        runs = 0
        for n in range(1, high - low):
            if segment[order[n]] != segment[order[n - 1]]:
                runs += 1
                offsets[runs] = n
        offsets[runs + 1] = high - low
        kept, _ = skyline_runs(points[order], offsets[: runs + 2], counts)
        for n in kept:
            pair = order[n]
            dominated = False
            for g in range(before):
                if results[g, BOTH] == segment[pair]:
                    counts[COMPARISONS] += 1
                    if dominates(result_points, g, points, pair):
                        dominated = True
                        break
            if dominated:
                continue
            results = with_room(results, size, size + 1)
            result_points = with_room(result_points, size, size + 1)
            results[size, LEFT] = pairs[pair, LEFT]
            results[size, RIGHT] = pairs[pair, RIGHT]
            results[size, BOTH] = segment[pair]
            for k in range(points.shape[1]):
                result_points[size, k] = points[pair, k]
            size += 1
    return Results(results, result_points, size)


@jit
def _corners(side: Side, rest: Ints) -> tuple[Ints, Ints]:
    """The best corner of each cell's rows, and how many rows it has."""
    width = side.points.shape[1]
    corner = np.empty((len(side.cells), width), np.int64)
    partners = np.zeros(len(side.cells), np.int64)
    for row in rest:
        c = side.cell[row]
        for k in range(width):
            if partners[c] == 0 or side.points[row, k] > corner[c, k]:
                corner[c, k] = side.points[row, k]
        partners[c] += 1
    return corner, partners


@jit
def _near(
    results: Results, segment: int, corner: Ints, c: int, shift: int, near: Ints, strict: Mask,
    counts: Ints,
) -> int:  # fmt: skip
    """List the results that are no worse than a corner, and which are better; how many there are.

    ``shift`` is where the corner's dimensions begin among those of a result.
    """
    found = 0
    for g in range(results.size):
        if results.pairs[g, BOTH] == segment:
            counts[COMPARISONS] += 1
            how = _compared(results.points, g, shift, corner, c)
            if how != _WORSE:
                near[found], strict[found] = g, how == _BETTER
                found += 1
    return found


@jit
def _outsiders(
    own: Side, rest: Ints, other: Side, other_rest: Ints, results: Results, is_left: bool,
    counts: Ints,
) -> Ints:  # fmt: skip
    """Rows that may still be part of a result.

    A row is pruned if it has no partner left, or if a result would dominate it even when joined
    with the best corner of its partners, cell by cell.
    """
    corner, partners = _corners(other, other_rest)
    own_shift = 0 if is_left else other.points.shape[1]
    other_shift = own.points.shape[1] if is_left else 0
    start, rows = _by_cell(own.cell, rest, len(own.cells))
    gone = np.ones(len(own.cell), np.bool_)
    near = np.empty(results.size, np.int64)
    strict = np.empty(results.size, np.bool_)
    for cell in range(len(own.cells)):
        if start[cell] == start[cell + 1]:
            continue
        key = own.cells[cell, KEY]
        for c in range(other.key_cells[key], other.key_cells[key + 1]):
            if partners[c] == 0:
                continue
            one, two = own.cells[cell, SEGMENT], other.cells[c, SEGMENT]
            segment = mixed(one, two) if is_left else mixed(two, one)
            # Few results are near the corner, and they are the same for all rows of a cell.
            found = _near(results, segment, corner, c, other_shift, near, strict, counts)
            for n in range(start[cell], start[cell + 1]):
                row = rows[n]
                if not gone[row]:
                    continue
                gone[row] = False
                for i in range(found):
                    counts[COMPARISONS] += 1
                    how = _compared(results.points, near[i], own_shift, own.points, row)
                    if how == _BETTER or (how == _EQUAL and strict[i]):
                        gone[row] = True
                        break
    return _without(rest, gone)


@jit
def _compared(results: Ints, g: int, shift: int, points: Ints, row: int) -> int:
    """Whether a result is worse than a row in one of its dimensions, else better, or equal."""
    how = _EQUAL
    for k in range(points.shape[1]):
        x = results[g, shift + k]
        if x < points[row, k]:
            return _WORSE
        if x > points[row, k]:
            how = _BETTER
    return how


@jit
def _without(rows: Ints, gone: Mask) -> Ints:
    kept = np.empty(len(rows), np.int64)
    size = 0
    for row in rows:
        if not gone[row]:
            kept[size] = row
            size += 1
    return kept[:size].copy()
