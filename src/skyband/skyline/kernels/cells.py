"""The rows of one side of a join by cells.

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
