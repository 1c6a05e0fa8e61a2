"""Placement: assigns rows to runs of one (pane, group) each, by their times or arrivals.

If rows are in ascending order of time or arrival, each pane is a stretch of the batch, and rows are
moved only within a pane, if there are groups. Other rows are sorted by pane and group.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from skyband.arrays import Codes, Ints
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import expand, run_starts
from skyband.data.columns import to_arrow
from skyband.data.group_table import GroupTable
from skyband.data.order import is_sorted
from skyband.data.time_axis import TimeAxis
from skyband.kernels.arrange import counting_order, split_by_code
from skyband.panes import Panes

_NONE = np.zeros(0, np.int64)
NEVER = int(np.iinfo(np.int64).min)
"""A pane before all others."""


@dataclass(frozen=True, eq=False)
class ReadBatch:
    """The good rows of a batch, before they are placed in panes and groups.

    Reading them changes no state.
    """

    source: str
    batch: pa.RecordBatch
    ticks: Ints | None
    rows_in: int
    faults: Faults | None
    greatest: int | None
    """The greatest time that can be read, of bad rows and of rows left out, too."""
    in_order: bool
    """Whether times never decrease."""
    filtered: int = 0
    """Rows that ``where`` leaves out."""
    counting: Ints | None = None
    """The rows of the chunk that it does not leave out; None for all."""
    start: int = 0
    """How many rows of the push come before this chunk."""

    def numbers(self, rows: Ints) -> Ints:
        """The row numbers, in the table that was pushed, of these rows of the batch."""
        good = np.arange(self.rows_in) if self.counting is None else self.counting
        if self.faults is not None:
            good = good[~self.faults.mask[good]]
        return self.start + good[rows]


@dataclass(frozen=True, eq=False)
class Placement:
    """Rows with their panes, and those left out."""

    rows: Rows | None
    late: Ints = field(default_factory=lambda: _NONE)
    """Which rows of the batch are late."""
    unused: int = 0


def place_rows(
    read: ReadBatch, axis: TimeAxis | None, panes: Panes, groups: GroupTable, sealed: int
) -> Placement:
    """Rows by their times; panes before ``sealed`` are late."""
    if read.ticks is None or axis is None:
        return Placement(None)
    times = axis.native(read.batch.column(axis.name))
    if read.in_order:
        return place_stretches(read, read.ticks, times, panes, groups, sealed)
    return place_by_sorting(read, read.ticks, times, panes, groups, sealed=sealed)


def place_stretches(
    read: ReadBatch,
    positions: Ints | range,
    times: Ints | None,
    panes: Panes,
    groups: GroupTable,
    sealed: int = NEVER,
) -> Placement:
    """Place rows that are in order: each pane is a stretch of the batch.

    Without times, positions are the numbers of arrivals.
    """
    pane, starts, lengths = _stretches(positions, panes)
    used = panes.used(pane)
    late = used & (pane < sealed)
    left_out = expand(starts[late], lengths[late]), int(lengths[~used].sum())
    keep = used & ~late
    pane, starts, lengths = pane[keep], starts[keep], lengths[keep]
    if not len(pane):
        return Placement(None, *left_out)
    batch, rows = read.batch, int(lengths.sum())
    first = int(starts[0])
    arrival = positions[0] + starts if times is None else None
    if rows == int(starts[-1] + lengths[-1]) - first:
        batch = batch.slice(first, rows)
        times = None if times is None else times[first : first + rows]
    else:
        kept = expand(starts, lengths)
        batch = batch.take(to_arrow(kept))
        times = None if times is None else times[kept]
    offsets = np.append(0, np.cumsum(lengths))
    group, index = np.zeros(len(pane), np.int32), None
    if groups.names:
        codes = codes_of(batch, groups)
        index, within, group, offsets = split_by_code(offsets, codes, groups.bound)
        pane = pane[within]
    return Placement(
        Rows(read.source, batch, pane, group, offsets, index, times, arrival), *left_out
    )


def _stretches(positions: Ints | range, panes: Panes) -> tuple[Ints, Ints, Ints]:
    """The panes that have rows, ascending; where each begins in the batch; how many rows it has."""
    low, high = int(panes.pane_of(positions[0])), int(panes.pane_of(positions[-1]))
    if low == high:
        return np.array([low]), np.array([0]), np.array([len(positions)])
    if isinstance(positions, range):
        pane = np.arange(low, high + 1, dtype=np.int64)
        starts = np.clip(panes.pane_start(pane) - positions.start, 0, len(positions))
    elif high - low < len(positions) // 8:
        pane = np.arange(low, high + 1, dtype=np.int64)
        starts = np.searchsorted(positions, panes.pane_start(pane))
    else:
        by_row = panes.pane_of(positions)
        starts = run_starts(by_row)
        pane = by_row[starts]
    lengths = np.diff(np.append(starts, len(positions)))
    some = lengths > 0
    return (pane, starts, lengths) if some.all() else (pane[some], starts[some], lengths[some])


def place_by_sorting(
    read: ReadBatch,
    positions: Ints,
    times: Ints | None,
    panes: Panes,
    groups: GroupTable,
    codes: Codes | None = None,
    sealed: int = NEVER,
) -> Placement:
    """Place rows in any order; ``codes`` are their groups, if they are known."""
    batch, pane = read.batch, panes.pane_of(positions)
    used = panes.used(pane)
    late = used & (pane < sealed)
    left_out = np.flatnonzero(late), int((~used).sum())
    keep = used & ~late
    if not keep.all():
        kept = np.flatnonzero(keep)
        batch, pane, positions = batch.take(to_arrow(kept)), pane[kept], positions[kept]
        times = None if times is None else times[kept]
        codes = None if codes is None else codes[kept]
    if not batch.num_rows:
        return Placement(None, *left_out)
    if codes is None:
        codes = codes_of(batch, groups)
    index, starts = _arranged(pane, codes, groups.bound)
    first = starts if index is None else index[starts]
    offsets = np.append(starts, len(pane))
    arrival = positions[first] if times is None else None
    runs = pane[first], codes[first], offsets, index, times, arrival
    return Placement(Rows(read.source, batch, *runs), *left_out)


def codes_of(batch: pa.RecordBatch, groups: GroupTable) -> Codes:
    """The group of each row."""
    if not groups.names:
        return np.zeros(batch.num_rows, np.int32)
    return groups.encode([batch.column(name) for name in groups.names])


def _arranged(pane: Ints, codes: Codes, bound: int) -> tuple[Ints | None, Ints]:
    """A stable order by pane and group (None if rows are in it), and where each run begins."""
    low = int(pane.min())
    cells = (int(pane.max()) - low + 1) * bound
    cell = (pane - low) * bound + codes
    if is_sorted(cell):
        return None, run_starts(cell)
    few = cells <= 4 * len(cell) + 1024
    index = counting_order(cell, cells)[0] if few else np.argsort(cell, kind="stable")
    return index, run_starts(cell[index])
