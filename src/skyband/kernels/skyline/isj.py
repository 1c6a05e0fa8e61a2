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


class Index(NamedTuple):
    """Rows in the order of their cells."""

    start: Ints  # where each cell begins
    rows: Ints


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
    left_gone, right_gone = _flags(len(left.cell), left_sky), _flags(len(right.cell), right_sky)
    lefts = _by_cell(left.cell, left_active, len(left.cells))
    rights = _by_cell(right.cell, right_active, len(right.cells))

    # P1 joins the left local skyline with all of the right, P2 the rest of the left with the right
    # local skyline.
    pairs = np.empty((64, 2), np.int64)
    pairs, middle = _join(left, left_sky, right, rights, pairs, 0)
    lefts = _thinned(lefts, left_gone)
    pairs, total = _join(right, right_sky, left, lefts, pairs, middle)
    for n in range(middle, total):
        pairs[n, LEFT], pairs[n, RIGHT] = pairs[n, RIGHT], pairs[n, LEFT]
    counts[JOINED] += total
    results = _take_results(left, right, pairs, middle, total, results, counts)

    rights = _thinned(rights, right_gone)
    before = len(lefts.rows) + len(rights.rows)
    _outsiders(left, lefts, right, rights, results, True, left_gone, counts)
    lefts = _thinned(lefts, left_gone)
    _outsiders(right, rights, left, lefts, results, False, right_gone, counts)
    left_rest, right_rest = _without(left_active, left_gone), _without(right_active, right_gone)
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
    own: Side, sky: Ints, other: Side, others: Index, pairs: Ints, size: int
) -> tuple[Ints, int]:
    """Join a local skyline with rows of the other side.

    Adds (own row, other row) to ``pairs``; returns them and how many they are.
    """
    for a in sky:
        key = own.cells[own.cell[a], KEY]
        first = others.start[other.key_cells[key]]
        last = others.start[other.key_cells[key + 1]]
        pairs = with_room(pairs, size, size + last - first)
        for n in range(first, last):
            pairs[size, 0] = a
            pairs[size, 1] = others.rows[n]
            size += 1
    return pairs, size


@jit
def _by_cell(cell: Ints, active: Ints, cells: int) -> Index:
    """The active rows in the order of their cells."""
    order, start = order_by_code(cell[active], cells)
    return Index(start, active[order])


@jit
def _thinned(index: Index, gone: Mask) -> Index:
    """The rows that are not gone, in the same order."""
    start = np.empty(len(index.start), np.int64)
    rows = np.empty(len(index.rows), np.int64)
    size = 0
    for cell in range(len(start) - 1):
        start[cell] = size
        for n in range(index.start[cell], index.start[cell + 1]):
            if not gone[index.rows[n]]:
                rows[size] = index.rows[n]
                size += 1
    start[len(start) - 1] = size
    return Index(start, rows[:size])


@jit
def _take_results(
    left: Side, right: Side, pairs: Ints, middle: int, total: int, found: Results, counts: Ints
) -> Results:
    """Add the skylines of P1 and of P2, without what an earlier result dominates.

    Pairs that a result dominates go before the others are sorted: what such a pair dominates, the
    result dominates too. They are most of the pairs.
    """
    points = joined(left.points, right.points, pairs, total)
    segment = np.empty(total, np.int64)
    for n in range(total):
        a, b = left.cell[pairs[n, LEFT]], right.cell[pairs[n, RIGHT]]
        segment[n] = mixed(left.cells[a, SEGMENT], right.cells[b, SEGMENT])
    # Pairs of both local skylines are in P1 only, so P2 is compared with P1 too.
    for low, high in ((0, middle), (middle, total)):
        rest = _undominated(found, points, segment, low, high, counts)
        if len(rest) == 0:
            continue
        rest = rest[np.argsort(segment[rest], kind="mergesort")]
        offsets = np.zeros(len(rest) + 1, np.int64)
        runs = 0
        for n in range(1, len(rest)):
            if segment[rest[n]] != segment[rest[n - 1]]:
                runs += 1
                offsets[runs] = n
        offsets[runs + 1] = len(rest)
        kept, _ = skyline_runs(points[rest], offsets[: runs + 2], counts)
        found = _added(found, pairs, points, segment, rest[kept])
    return found


@jit
def _undominated(
    found: Results, points: Ints, segment: Ints, low: int, high: int, counts: Ints
) -> Ints:
    """The pairs from ``low`` to ``high`` that no result dominates."""
    rest = np.empty(high - low, np.int64)
    size = 0
    last = 0  # the result that dominated last, which is often the one to dominate the next pair
    for pair in range(low, high):
        dominated = False
        for n in range(found.size):
            g = last if n == 0 else n - 1 if n <= last else n
            if found.pairs[g, BOTH] == segment[pair]:
                counts[COMPARISONS] += 1
                if dominates(found.points, g, points, pair):
                    dominated = True
                    last = g
                    break
        if not dominated:
            rest[size] = pair
            size += 1
    return rest[:size]


@jit
def _added(found: Results, pairs: Ints, points: Ints, segment: Ints, chosen: Ints) -> Results:
    """The results and some more pairs."""
    size = found.size
    listed = with_room(found.pairs, size, size + len(chosen))
    listed_points = with_room(found.points, size, size + len(chosen))
    for pair in chosen:
        listed[size, LEFT] = pairs[pair, LEFT]
        listed[size, RIGHT] = pairs[pair, RIGHT]
        listed[size, BOTH] = segment[pair]
        for k in range(points.shape[1]):
            listed_points[size, k] = points[pair, k]
        size += 1
    return Results(listed, listed_points, size)


@jit
def _corners(side: Side, rest: Index) -> Ints:
    """The best corner of each cell's rows."""
    width = side.points.shape[1]
    corner = np.empty((len(side.cells), width), np.int64)
    for c in range(len(side.cells)):
        for n in range(rest.start[c], rest.start[c + 1]):
            row = rest.rows[n]
            for k in range(width):
                if n == rest.start[c] or side.points[row, k] > corner[c, k]:
                    corner[c, k] = side.points[row, k]
    return corner


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
    own: Side, rest: Index, other: Side, other_rest: Index, results: Results, is_left: bool,
    gone: Mask, counts: Ints,
) -> None:  # fmt: skip
    """Mark the rows that cannot be part of a result any more.

    A row is pruned if it has no partner left, or if a result would dominate it even when joined
    with the best corner of its partners, cell by cell.
    """
    corner = _corners(other, other_rest)
    own_shift = 0 if is_left else other.points.shape[1]
    other_shift = own.points.shape[1] if is_left else 0
    near = np.empty(results.size, np.int64)
    strict = np.empty(results.size, np.bool_)
    for row in rest.rows:
        gone[row] = True
    for cell in range(len(own.cells)):
        if rest.start[cell] == rest.start[cell + 1]:
            continue
        key = own.cells[cell, KEY]
        for c in range(other.key_cells[key], other.key_cells[key + 1]):
            if other_rest.start[c] == other_rest.start[c + 1]:
                continue
            one, two = own.cells[cell, SEGMENT], other.cells[c, SEGMENT]
            segment = mixed(one, two) if is_left else mixed(two, one)
            # Few results are near the corner, and they are the same for all rows of a cell.
            found = _near(results, segment, corner, c, other_shift, near, strict, counts)
            for n in range(rest.start[cell], rest.start[cell + 1]):
                row = rest.rows[n]
                if not gone[row]:
                    continue
                gone[row] = False
                for i in range(found):
                    counts[COMPARISONS] += 1
                    how = _compared(results.points, near[i], own_shift, own.points, row)
                    if how == _BETTER or (how == _EQUAL and strict[i]):
                        gone[row] = True
                        break


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
