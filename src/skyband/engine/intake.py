"""From a batch of any kind to good rows arranged in runs of one (pane, group) each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.contract.runs import expand
from skyband.contract.synopsis import Faults, Rows, Synopsis, check_names
from skyband.contract.synopsis import faults as faults_of
from skyband.data.columns import decoded, output_type
from skyband.engine.clocks import CountClock
from skyband.engine.groups import GroupTable
from skyband.errors import DataError, SchemaError
from skyband.kernels.core.arrange import arrival_numbers, counting_order, split_by_code
from skyband.kernels.core.scan import is_sorted
from skyband.query.base import Query
from skyband.window import TimeWindow

__all__ = ["Intake", "Taken", "TimeLimits", "as_table"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


def as_table(data: Any) -> pa.Table:
    """A table from anything with the Arrow PyCapsule interface, without copying."""
    if isinstance(data, pa.Table):
        return decoded(data)
    if isinstance(data, pa.RecordBatch):
        return decoded(pa.Table.from_batches([data]))
    problem = ""
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            return decoded(pa.table(data))
        except (pa.ArrowException, TypeError) as error:
            problem = f" ({error})"
    raise SchemaError(
        "a batch must speak Arrow (pyarrow, pandas, polars, DuckDB, ...), "
        f"and be a table, not {type(data).__name__}{problem}"
    )


@dataclass(frozen=True, eq=False)
class Taken:
    """Good rows of a batch, before panes and groups: nothing has been changed by reading them."""

    source: str
    batch: pa.RecordBatch
    ticks: Ints | None
    rows_in: int
    faults: Faults | None
    greatest: int | None
    in_order: bool
    """Whether times never fall."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Rows with their panes; what was left out is counted."""

    rows: Rows | None
    late: int
    unused: int
    latest_needed: int
    """How far behind the watermark the latest of the late rows was."""


@dataclass(frozen=True)
class TimeLimits:
    """The ticks that an engine's clock can hold, and what is wrong with those outside."""

    least: int
    most: int
    too_early: str = "the time is out of range"
    too_late: str = "the time is out of range"

    def within(self, other: TimeLimits) -> TimeLimits:
        """The limits that keep to both; where they differ, those of this one say why."""
        return replace(self, least=max(self.least, other.least), most=min(self.most, other.most))

    def holds(self, least: int, most: int) -> bool:
        """Whether these ticks and all between them can be held."""
        return self.least <= least and most <= self.most

    def faults(self, name: str, batch: pa.RecordBatch, ticks: Ints, timed: Mask) -> Faults | None:
        """The rows with a time outside; ``timed`` says which rows have a time at all."""
        early, late = timed & (ticks < self.least), timed & (ticks > self.most)
        return faults_of(batch, [(name, self.too_early, early), (name, self.too_late, late)])


class Intake:
    """Reads batches for one query."""

    def __init__(self, query: Query, synopsis: Synopsis[Any]) -> None:
        self.query = query
        self.panes = query.window.panes
        self.synopsis = synopsis
        self.bound: dict[str, pa.Schema] = {}
        self.untyped: dict[str, pa.Schema] = {}
        """Columns of sources that have shown no row and no types yet."""
        self.in_order = False
        """Whether all that comes is known to be in order of time."""
        self.limits: TimeLimits | None = None
        """Times that the engine can hold; rows outside are bad. None for count windows."""
        if isinstance(query.window, TimeWindow):
            self.limits = TimeLimits(*query.window.reach)

    def bind(self, source: str, schema: pa.Schema) -> None:
        """Check the columns of a source; the first schema it shows is the one it keeps."""
        if source not in self.bound:
            self.bound[source] = self.synopsis.bind(source, schema)
            for name in self.query.groups:
                if schema.get_field_index(name) < 0:
                    there = ", ".join(schema.names)
                    raise SchemaError(f"by column {name!r} is missing; the columns are: {there}")
            return
        for field in self.bound[source]:
            at = schema.get_field_index(field.name)
            if at < 0:
                there = ", ".join(schema.names)
                raise SchemaError(
                    f"column {field.name!r} was there in earlier batches and is missing now; "
                    f"the columns are: {there}"
                )
            now = schema.field(at).type
            if now != field.type and output_type(now) != output_type(field.type):
                raise SchemaError(
                    f"column {field.name!r} had type {field.type} in earlier batches and has {now} "
                    "now; cast it so that all batches agree"
                )

    def says_nothing(self, source: str, table: pa.Table) -> bool:
        """Whether a batch has no rows and lacks types, so that only its names can be checked.

        An empty CSV file is like that, and so is an empty DataFrame with a column of objects.
        """
        if table.num_rows:
            return False
        names = self.synopsis.columns(source, table.schema)
        check_names(source, table.schema, names)
        if not any(pa.types.is_null(table.schema.field(name).type) for name in names):
            return False
        self.untyped[source] = table.schema
        return True

    def take(self, source: str, data: Any) -> Taken:
        """The good rows of a batch; bad ones are told apart, not yet counted or refused."""
        table = as_table(data)
        try:
            self.bind(source, table.schema)
        except SchemaError:
            self.bound.pop(source, None) if source not in self.synopsis.schemas else None
            raise
        batch = _one_batch(table.select(self.bound[source].names))
        return self._judged(source, batch, self.in_order)

    def _judged(self, source: str, batch: pa.RecordBatch, sorted_before: bool) -> Taken:
        """The good rows and their times; the bad rows; how far the source has come.

        The mark belongs to the source: every row whose time can be read moves it, bad ones too.
        """
        rows_in = batch.num_rows
        faults = self.synopsis.validate(source, batch) if rows_in else None
        axis = self.synopsis.axes.get(source)
        if axis is None or self.limits is None or not rows_in:
            return Taken(source, _without(batch, faults), None, rows_in, faults, None, False)
        ticks, timed = axis.ticks_of(batch.column(axis.name))
        in_order = timed is None and (sorted_before or is_sorted(ticks))
        known = ticks if timed is None else ticks[timed]
        if not len(known):
            return Taken(source, _without(batch, faults), None, rows_in, faults, None, False)
        ends = (known[0], known[-1]) if in_order else (known.min(), known.max())
        greatest = int(ends[1])
        if not self.limits.holds(*ends):
            timed = np.ones(len(ticks), np.bool_) if timed is None else timed
            outside = self.limits.faults(axis.name, batch, ticks, timed)
            assert outside is not None
            faults = outside if faults is None else faults.joined(outside)
            inside = ticks[timed & ~outside.mask]
            if not len(inside):
                return Taken(source, _without(batch, faults), None, rows_in, faults, None, False)
            greatest = int(inside.max())
        if faults is not None:
            ticks, batch = ticks[~faults.mask], _without(batch, faults)
            in_order = in_order or is_sorted(ticks)
        left = ticks if len(ticks) else None
        return Taken(source, batch, left, rows_in, faults, greatest, in_order)

    def refuse_bad(self, table: pa.Table) -> None:
        """Raise DataError if a table has bad rows."""
        ((source, schema),) = self.bound.items()
        batch = _one_batch(table.select(schema.names))
        faults = self._judged(source, batch, sorted_before=False).faults
        if faults is not None:
            refuse(faults)

    def place(self, taken: Taken, groups: GroupTable, sealed: int) -> Placed:
        """Rows of a time window by pane and group, without the late and the unused ones."""
        ticks, batch = taken.ticks, taken.batch
        if ticks is None:
            return Placed(None, 0, 0, 0)
        times = self._times(taken)
        if taken.in_order:
            return self._place_sorted(taken, groups, ticks, times, sealed)
        pane = self.panes.pane_of(ticks)
        used = self.panes.used(pane)
        late = used & (pane < sealed)
        keep = used & ~late
        behind = int(ticks[late].min()) if late.any() else 0
        counts = int(late.sum()), int((~used).sum())
        if not keep.all():
            kept = np.flatnonzero(keep)
            batch, pane = batch.take(pa.array(kept)), pane[kept]
            times = None if times is None else times[kept]
        if not batch.num_rows:
            return Placed(None, *counts, behind)
        codes = self._codes(batch, groups)
        rows = _arranged(taken.source, batch, pane, codes, groups.bound, times)
        return Placed(rows, *counts, behind)

    def place_counted(
        self, taken: Taken, groups: GroupTable, clock: CountClock
    ) -> tuple[Rows | None, Ints, Ints, int]:
        """Rows of count windows; the groups that got some, their counts before, rows unused."""
        batch = taken.batch
        if not batch.num_rows:
            none = np.zeros(0, np.int64)
            return None, none, none, 0
        if groups.names:
            codes = self._codes(batch, groups)
            clock.reserve(groups.bound)
            before = clock.counts.copy()
            arrival = arrival_numbers(codes, clock.counts)
            touched = np.flatnonzero(clock.counts != before)
        else:
            before = clock.counts.copy()
            first = int(before[0])
            clock.counts[0] += batch.num_rows
            touched = np.zeros(1, np.int64)
            if not self.panes.gaps:
                rows = self._count_runs(taken, first)
                return rows, touched, before[touched], 0
            codes = np.zeros(batch.num_rows, np.int32)
            arrival = np.arange(first, first + batch.num_rows)
        pane = self.panes.pane_of(arrival)
        used = self.panes.used(pane)
        unused = int((~used).sum())
        if unused:
            kept = np.flatnonzero(used)
            batch, pane, codes = batch.take(pa.array(kept)), pane[kept], codes[kept]
            arrival = arrival[kept]
        if not batch.num_rows:
            return None, touched, before[touched], unused
        rows = _arranged(taken.source, batch, pane, codes, groups.bound, None)
        starts = rows.offsets[:-1]
        firsts = arrival[starts if rows.index is None else rows.index[starts]]
        rows = Rows(
            rows.source, batch, rows.pane, rows.group, rows.offsets, rows.index, None, firsts
        )
        return rows, touched, before[touched], unused

    def _count_runs(self, taken: Taken, first: int) -> Rows:
        """Runs of an ungrouped count window: panes are stretches of the batch."""
        end = first + taken.batch.num_rows
        low, high = self.panes.pane_of(first), self.panes.pane_of(end - 1)
        pane = np.arange(low, high + 1, dtype=np.int64)
        starts = np.maximum(self.panes.pane_start(pane), first)
        offsets = np.append(starts, end) - first
        group = np.zeros(len(pane), np.int32)
        return Rows(taken.source, taken.batch, pane, group, offsets, None, None, starts)

    def _place_sorted(
        self, taken: Taken, groups: GroupTable, ticks: Ints, times: Ints | None, sealed: int
    ) -> Placed:
        """Panes of sorted times are stretches of the batch: nothing is moved but within them."""
        low, high = int(self.panes.pane_of(ticks[0])), int(self.panes.pane_of(ticks[-1]))
        if high - low < len(ticks) // 8:
            pane = np.arange(low, high + 1, dtype=np.int64)
            starts = np.searchsorted(ticks, self.panes.pane_start(pane))
        else:
            by_row = self.panes.pane_of(ticks)
            changed = np.ones(len(ticks), np.bool_)
            changed[1:] = by_row[1:] != by_row[:-1]
            starts = np.flatnonzero(changed)
            pane = by_row[starts]
        lengths = np.diff(np.append(starts, len(ticks)))
        used = self.panes.used(pane) & (lengths > 0)
        late = used & (pane < sealed)
        counts = int(lengths[late].sum()), int(lengths[~self.panes.used(pane)].sum())
        behind = int(ticks[0]) if counts[0] else 0
        keep = used & ~late
        pane, starts, lengths = pane[keep], starts[keep], lengths[keep]
        if not len(pane):
            return Placed(None, *counts, behind)
        batch = taken.batch
        whole = int(lengths.sum())
        if whole == int(starts[-1] + lengths[-1] - starts[0]):
            batch = batch.slice(int(starts[0]), whole)
            times = None if times is None else times[starts[0] : starts[0] + whole]
        else:
            kept = expand(starts, lengths)
            batch = batch.take(pa.array(kept))
            times = None if times is None else times[kept]
        offsets = np.append(0, np.cumsum(lengths))
        group, index = np.zeros(len(pane), np.int32), None
        if groups.names:
            codes = self._codes(batch, groups)
            index, within, group, offsets = split_by_code(offsets, codes, groups.bound)
            pane = pane[within]
        rows = Rows(taken.source, batch, pane, group, offsets, index, times)
        return Placed(rows, *counts, behind)

    def _times(self, taken: Taken) -> Ints | None:
        axis = self.synopsis.axes.get(taken.source)
        return None if axis is None else axis.native(taken.batch.column(axis.name))

    def _codes(self, batch: pa.RecordBatch, groups: GroupTable) -> Codes:
        if not groups.names:
            return np.zeros(batch.num_rows, np.int32)
        return groups.encode([batch.column(name) for name in groups.names])


def _without(batch: pa.RecordBatch, faults: Faults | None) -> pa.RecordBatch:
    return batch if faults is None else batch.filter(pa.array(~faults.mask))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    batches = table.to_batches()
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=table.schema)
    return table.combine_chunks().to_batches()[0] if table.num_rows else batches[0]


def _arranged(
    source: str, batch: pa.RecordBatch, pane: Ints, codes: Codes, bound: int, times: Ints | None
) -> Rows:
    """Rows in runs, sorted by pane and group, stable."""
    low = int(pane.min())
    cells = (int(pane.max()) - low + 1) * bound
    cell = (pane - low) * bound + codes
    if is_sorted(cell):
        index, ranked = None, cell
    elif cells <= 4 * len(cell) + 1024:
        index, _ = counting_order(cell, cells)
        ranked = cell[index]
    else:
        index = np.argsort(cell, kind="stable")
        ranked = cell[index]
    changed = np.ones(len(ranked), np.bool_)
    changed[1:] = ranked[1:] != ranked[:-1]
    starts = np.flatnonzero(changed)
    first = starts if index is None else index[starts]
    offsets = np.append(starts, len(ranked))
    return Rows(source, batch, pane[first], codes[first], offsets, index, times)


def refuse(faults: Faults) -> None:
    """Raise DataError for bad rows."""
    detail = "; ".join(faults.reasons)
    raise DataError(
        f"{faults.count:,} bad row{'s' if faults.count != 1 else ''}: {detail}. "
        "Nothing of this batch was applied; mend the rows, or pass on_bad='skip' to leave them out"
    )
