"""The rows of one side of a join by cells, and how this index moves on from window to window.

The rows of a side are in cells: rows of one cell agree in the join key and in all "diff" columns.
Cells are numbered by key, so that those of key k are ``key_cells[k]`` to ``key_cells[k + 1]``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints, Mask
from skyband.kernels.arrange import order_by_code
from skyband.kernels.jit import jit

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


class LiveCells(NamedTuple):
    """All live rows, cell by cell, kept between windows: numbers of rows, not positions.

    Rows expire from the front of their cells. New ones are added behind, where a cell has room.
    """

    start: Ints
    end: Ints
    limit: Ints  # where a cell's room ends
    rows: Ints
    covered: int  # the number of the first row that is not in it yet


@jit
def moved_on(kept: LiveCells, cell: Ints, cells: int, expired: int, rebuilds: Ints) -> LiveCells:
    """The index of all live rows, from that of an earlier window.

    ``expired`` is the number of the first live row. The index is built anew if there are more cells
    than before, or if a cell has no room left.
    """
    covered = max(kept.covered - expired, 0)
    if len(kept.start) != cells or covered == 0:
        return _built(cell, cells, expired, rebuilds)
    for c in range(len(kept.start)):
        while kept.start[c] < kept.end[c] and kept.rows[kept.start[c]] < expired:
            kept.start[c] += 1
    for row in range(covered, len(cell)):
        c = cell[row]
        if kept.end[c] == kept.limit[c]:
            return _built(cell, cells, expired, rebuilds)
        kept.rows[kept.end[c]] = row + expired
        kept.end[c] += 1
    return LiveCells(kept.start, kept.end, kept.limit, kept.rows, expired + len(cell))


@jit
def _built(cell: Ints, cells: int, expired: int, rebuilds: Ints) -> LiveCells:
    """The index of all live rows, with room for as many again in each cell."""
    rebuilds[0] += 1
    order, offsets = order_by_code(cell, cells)
    start = np.empty(cells, np.int64)
    end = np.empty(cells, np.int64)
    limit = np.empty(cells, np.int64)
    room = 0
    for c in range(cells):
        size = offsets[c + 1] - offsets[c]
        start[c] = room
        end[c] = room + size
        room += 2 * size + 4
        limit[c] = room
    rows = np.zeros(room, np.int64)
    for c in range(cells):
        for n in range(offsets[c], offsets[c + 1]):
            rows[start[c] + n - offsets[c]] = order[n] + expired
    return LiveCells(start, end, limit, rows, expired + len(cell))


@jit
def rows_from(kept: LiveCells, expired: int, low: int, size: int) -> Index:
    """The rows from position ``low`` on, at most ``size``, as positions."""
    start = np.empty(len(kept.start), np.int64)
    end = np.empty(len(kept.start), np.int64)
    rows = np.empty(size, np.int64)
    used = np.empty(len(kept.start), np.int64)
    found = 0
    cells = 0
    for c in range(len(kept.start)):
        start[c] = found
        for n in range(kept.start[c], kept.end[c]):
            row = kept.rows[n] - expired
            if row >= low:
                rows[found] = row
                found += 1
        end[c] = found
        if found > start[c]:
            used[cells] = c
            cells += 1
    return Index(start, end, rows, used[:cells])


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
