"""What a layer of the iterative skyline join starts with: rows by cells, and local skylines.

The rows of a side are in cells: rows of one cell agree in the join key and in all "diff" columns.
Cells are numbered by key, so that those of key k are ``key_cells[k]`` to ``key_cells[k + 1]``. The
local skylines of all layers above the first are kept from window to window, in flat arrays.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.arrange import order_by_code, with_room
from skyband.kernels.jit import jit
from skyband.kernels.sorting import sort_best
from skyband.skyline.kernels.dominance import (
    BETTER,
    EQUAL,
    WORSE,
    dominates,
    relation,
    skyline_runs,
    sort_keys,
)

# The rows of a side by cells ----------------------------------------------------------------------

KEY, SEGMENT = 0, 1  # columns of ``cells``


class CellSide(NamedTuple):
    """One side of the join: its live rows, and the cells that they are in."""

    points: Ints
    cell: Ints  # of each row
    cells: Ints  # key and segment of each cell
    key_cells: Ints  # where the cells of each key begin
    segment: Ints  # of each row; below ``segments`` if there are several
    segments: int


class Index(NamedTuple):
    """The rows that are still in play, cell by cell, in the order of their positions."""

    start: Ints  # where each cell begins
    end: Ints  # and ends; there may be a gap before the next one
    rows: Ints
    used: Ints  # the cells that have rows, ascending


@jit
def by_cell(side: CellSide, active: Ints) -> Index:
    """The active rows of a side, cell by cell."""
    order, starts = order_by_code(side.cell[active], len(side.cells))
    used = np.empty(len(side.cells), np.int64)
    cells = 0
    for c in range(len(side.cells)):
        if starts[c] < starts[c + 1]:
            used[cells] = c
            cells += 1
    return Index(starts[:-1].copy(), starts[1:].copy(), active[order], used[:cells])


@jit
def thinned(index: Index, gone: Mask) -> Index:
    """The index without the rows that are gone; changes it in place."""
    cells = 0
    for n in range(len(index.used)):
        c = index.used[n]
        size = index.start[c]
        for at in range(index.start[c], index.end[c]):
            row = index.rows[at]
            if not gone[row]:
                index.rows[size] = row
                size += 1
        index.end[c] = size
        if size > index.start[c]:
            index.used[cells] = c
            cells += 1
    return Index(index.start, index.end, index.rows, index.used[:cells])


@jit
def corners(side: CellSide, rest: Index) -> Ints:
    """The best corner of each used cell's rows."""
    width = side.points.shape[1]
    corner = np.empty((len(side.cells), width), np.int64)
    for c in rest.used:
        for n in range(rest.start[c], rest.end[c]):
            row = rest.rows[n]
            for k in range(width):
                if n == rest.start[c] or side.points[row, k] > corner[c, k]:
                    corner[c, k] = side.points[row, k]
    return corner


# Local skylines of the iterative skyline join, kept from window to window ------------------------


COMPARISONS = 0  # place in ``counts``


@jit
def _sort_out(
    here: Mask, known: Ints, parents: Ints, numbers: Ints, expired: int, fresh: Ints, sky: Ints
) -> tuple[Ints, int]:
    """The places of active rows that have lost their parent, and how many rows are on the skyline.

    Of the others, those without a parent are written to ``sky``, the parents of the rest to
    ``fresh``.
    """
    ask = np.empty(len(numbers), np.int64)
    count = 0
    on_sky = 0
    i = 0
    for n in range(len(numbers)):
        while i < len(known) and known[i] < numbers[n]:
            i += 1
        if i == len(known) or known[i] != numbers[n]:
            ask[count] = n
            count += 1
        elif parents[i] < 0:
            sky[on_sky] = n
            on_sky += 1
        elif parents[i] >= expired and here[parents[i] - expired]:
            fresh[n] = parents[i]
        else:
            ask[count] = n
            count += 1
    return ask[:count], on_sky


@jit
def _park_under_best(
    points: Ints, segment: Ints, rows: Ints, expired: int, ask: Ints, fresh: Ints, counts: Ints
) -> Ints:
    """Park those rows of ``ask`` that the best of them dominates; the others, best first.

    The best dominates most of the others, which need no sort then. ``rows`` are their positions.
    """
    many = len(ask)
    mine = points[rows]
    keys = np.empty(many, np.float64)
    sort_keys(mine, 0, many, keys)
    best = int(np.argmax(keys))
    top = rows[best]
    near = np.empty(many, np.int64)
    left = 0
    for place in range(many):
        counts[COMPARISONS] += 1
        if segment[rows[place]] == segment[top] and dominates(mine, best, mine, place):
            fresh[ask[place]] = top + expired
        else:
            near[left] = place
            left += 1
    near = near[:left]
    sort_best(near, np.empty(left, np.int64), keys, keys)
    return ask[near]


@jit
def local_update(
    points: Ints, segment: Ints, known: Ints, parents: Ints, active: Ints, expired: int,
    counts: Ints,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    """Move on from the known rows to the active ones, which may differ in any way.

    ``active`` are positions; ``known`` and ``parents`` are numbers, positions plus ``expired``. All
    ascend. A row without a parent (-1) is on the skyline, every other one is parked under a row
    that dominates it. Returns numbers and parents of the active rows, and those on the skyline.
    """
    here = np.zeros(len(points), np.bool_)
    for row in active:
        here[row] = True
    numbers = active + expired
    fresh = np.full(len(active), -1, np.int64)
    sky = np.empty(len(active), np.int64)
    ask, on_sky = _sort_out(here, known, parents, numbers, expired, fresh, sky)
    if len(ask):
        ask = _park_under_best(points, segment, active[ask], expired, ask, fresh, counts)
    for n in ask:
        row = active[n]
        g = 0
        while g < on_sky:
            other = active[sky[g]]
            if segment[other] != segment[row]:
                g += 1
                continue
            counts[COMPARISONS] += 1
            found = relation(points, other, points, row)
            if found == BETTER:
                fresh[n] = other + expired
                # Move rows that dominate forward, so that the next rows are compared with them
                # early.
                ahead = g // 2
                sky[g], sky[ahead] = sky[ahead], sky[g]
                break
            if found == EQUAL:
                g = on_sky
            elif found == WORSE:
                fresh[sky[g]] = row + expired
                on_sky -= 1
                sky[g] = sky[on_sky]
            else:
                g += 1
        if fresh[n] < 0:
            sky[on_sky] = n
            on_sky += 1
    return numbers, fresh, active[sky[:on_sky]]


GRAPH, SHARED, RECOMPUTED = 0, 1, 2  # places in ``shares``
_PAYS = 0.5
"""Sharing pays if at least this share of the rows was already in the previous window."""


class Fabric(NamedTuple):
    """Entries: the rows of layer 2 on the left, then on the right, then of layer 3 on the left.

    And so on. The arrays may be longer.
    """

    known: Ints  # numbers of rows, ascending in each entry
    parents: Ints  # the number of each row's parent, -1 on the skyline
    offsets: Ints  # where each entry begins
    linked: Mask  # whether an entry has parents; if not, only its rows are known
    entries: int


class Sharing(NamedTuple):
    """Which layers may be shared with the previous window."""

    stop: int  # the first layer that is recomputed
    choose: bool  # whether to stop earlier, where sharing does not pay
    few: int  # with fewer rows than this it does not


@jit
def unshared() -> Fabric:
    """A fabric without entries."""
    none = np.zeros(0, np.int64)
    return Fabric(none, none, np.zeros(1, np.int64), np.zeros(0, np.bool_), 0)


@jit
def local_sky(
    side: CellSide, active: Ints, expired: int, layer: int, at: int, before: Fabric, made: Fabric,
    sharing: Sharing, stop: int, counts: Ints, shares: Ints,
) -> tuple[Ints, Fabric, int]:  # fmt: skip
    """The local skyline of a side's active rows, positions ascending, in one layer.

    ``before`` is the previous window's fabric and ``made`` this one's, which grows. Returns also
    that and the first layer that is recomputed.
    """
    entry = 2 * (layer - 2) + at
    if layer >= stop:
        shares[RECOMPUTED] += 1
        return recomputed(side, active, counts), made, stop
    known = before.known[:0]
    parents = known
    linked = False
    if entry < before.entries:
        low, high = before.offsets[entry], before.offsets[entry + 1]
        known, linked = before.known[low:high], before.linked[entry]
        parents = before.parents[low:high]
    numbers = active + expired
    if sharing.choose:
        few = len(active) < sharing.few
        if few or _common(numbers, known) < _PAYS * len(numbers):
            noted = numbers[:0] if few else numbers
            shares[RECOMPUTED] += 1
            made = _with_entry(made, noted, noted, False)
            return recomputed(side, active, counts), made, layer
    if not linked:
        known, parents = known[:0], parents[:0]
    shares[SHARED if linked else RECOMPUTED] += 1
    numbers, parents, sky = local_update(
        side.points, side.segment, known, parents, active, expired, counts
    )
    return sky, _with_entry(made, numbers, parents, True), stop


@jit
def recomputed(side: CellSide, active: Ints, counts: Ints) -> Ints:
    """The local skyline of some rows, segment by segment, by sorting and filtering."""
    rows = active
    offsets = np.zeros(2, np.int64)
    offsets[1] = len(active)
    if side.segments > 1:
        order, offsets = order_by_code(side.segment[active], side.segments)
        rows = active[order]
    kept, _ = skyline_runs(side.points[rows], offsets, counts)
    return rows[kept]


@jit
def _common(a: Ints, b: Ints) -> int:
    """How many numbers two ascending lists have in common."""
    found = 0
    j = 0
    for i in range(len(a)):
        while j < len(b) and b[j] < a[i]:
            j += 1
        found += j < len(b) and b[j] == a[i]
    return found


@jit
def _with_entry(made: Fabric, numbers: Ints, parents: Ints, linked: bool) -> Fabric:
    """The fabric with one entry more."""
    at, size = made.entries, made.offsets[made.entries]
    known = with_room(made.known, size, size + len(numbers))
    above = with_room(made.parents, size, size + len(numbers))
    for n in range(len(numbers)):
        known[size + n], above[size + n] = numbers[n], parents[n]
    offsets = with_room(made.offsets, at + 1, at + 2)
    offsets[at + 1] = size + len(numbers)
    flags = with_room(made.linked, at, at + 1)
    flags[at] = linked
    return Fabric(known, above, offsets, flags, at + 1)
