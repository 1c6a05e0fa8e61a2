"""Rows of small pushes that wait to be summarised, and how they are read.

A push of a few rows that seals no pane changes no answer yet. Such rows are checked and copied, and
that is all; they are summarised together, as soon as anything reads the open panes:

    push ──► plan of its schema ──► copied rows ──► copied rows ──► ...
                                                                     │ a pane is sealed, or there
                                                                     ▼ are many of them
                                                           place, summarise ──► open panes
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints, Mask
from skyband.contract.checks import QuickTests
from skyband.contract.rows import HeldRows, Rows
from skyband.data.columns import (
    OFFSETS_32,
    OFFSETS_64,
    from_numpy,
    is_bare,
    native_dtype,
    output_type,
    plain,
)
from skyband.data.row_filter import RowFilter
from skyband.data.time_axis import TimeAxis
from skyband.engine.clocks import NEVER
from skyband.engine.taken import Taken, place_rows
from skyband.kernels.core.borrow import frozen

if TYPE_CHECKING:
    from skyband.engine.fold import Fold

__all__ = ["MOST_ROWS", "Plan", "Waiting", "plan_for"]

MOST_ROWS = 4096
"""Rows that may wait."""
_MOST_PUSHES = 512
"""Pushes that may wait: each keeps an array per column of text."""
_BEYOND = int(np.iinfo(np.int64).max)
_HELD = (*OFFSETS_32, *OFFSETS_64, pa.bool_())
"""Types whose arrays are kept as they are. Nobody can have changed them when they are read."""


class Plan:
    """How batches of one schema are read: which columns, as what, and what to check."""

    def __init__(
        self,
        schema: pa.Schema,
        names: list[str],
        tests: QuickTests,
        axis: TimeAxis | None,
        where: RowFilter,
    ) -> None:
        self.where = where
        self.compared = [schema.get_field_index(name) for name in where.values]
        """The columns that decide which rows count."""
        self.names = names
        self.kinds = {name: output_type(schema.field(name).type) for name in names}
        self.read_as = pa.schema(
            [pa.field(name, output_type(schema.field(name).type)) for name in names]
        )
        self.columns = [
            (schema.get_field_index(name), *_stored(kind), kind != output_type(kind), test)
            for name, kind, test in ((n, schema.field(n).type, tests.get(n)) for n in names)
        ]
        self.time = -1 if axis is None else names.index(axis.name)
        self.ticks: Callable[[Array], Ints] | None = None
        """From the values of the time column to ticks; None if they are ticks."""
        if axis is not None and not axis.are_ticks:
            self.ticks = axis.ticks_of_values

    def read(self, data: pa.Table | pa.RecordBatch, rows: int) -> list[Any] | None:
        """The columns: views of fixed-width values, otherwise arrays.

        None if there are nulls or several chunks.
        """
        found: list[Any] = []
        chunked = isinstance(data, pa.Table)
        for index, dtype, width, encoded, _ in self.columns:
            array = data.column(index)
            if chunked:
                if array.num_chunks != 1:
                    return None
                array = array.chunk(0)
            if encoded:
                array = plain(array)
            if array.null_count:
                return None
            if dtype is not None:
                array = np.frombuffer(array.buffers()[1], dtype, rows, array.offset * width)
            found.append(array)
        return found

    def counting(self, data: pa.Table | pa.RecordBatch, rows: int) -> Mask | None:
        """Which rows count; None for all of them."""
        if not self.compared:
            return None
        columns = [data.column(index) for index in self.compared]
        if isinstance(data, pa.Table):
            columns = [each.combine_chunks() for each in columns]
        mask = self.where.inside(columns, rows)
        return None if mask.all() else mask

    def good(self, columns: list[Any]) -> bool:
        """Whether all values pass their tests."""
        for values, (*_, test) in zip(columns, self.columns, strict=True):
            if test is not None and not test(values):
                return False
        return True


def plan_for(
    schema: pa.Schema,
    names: list[str],
    tests: QuickTests,
    axis: TimeAxis | None,
    where: RowFilter,
) -> Plan | None:
    """The plan of a schema; None if some column has a type that is not read this way."""
    kinds = [output_type(schema.field(name).type) for name in names]
    known = all(is_bare(kind) or kind in _HELD for kind in kinds)
    return Plan(schema, names, tests, axis, where) if known else None


def _stored(kind: pa.DataType) -> tuple[np.dtype[Any] | None, int]:
    """The type and width of values that are copied; None for those kept in arrays."""
    kind = output_type(kind)
    dtype = native_dtype(kind) if is_bare(kind) else None
    return dtype, 0 if dtype is None else dtype.itemsize


def _batch_of(
    schema: pa.Schema, stores: list[Array | None], held: list[list[pa.Array]], rows: int
) -> pa.RecordBatch:
    arrays = [
        (pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces))
        if store is None
        else from_numpy(store[:rows], schema.field(i).type)
        for i, (store, pieces) in enumerate(zip(stores, held, strict=True))
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class Waiting:
    """Good rows of open panes, in order of arrival, all of one schema."""

    def __init__(self, source: str, fold: Fold) -> None:
        self.source = source
        self.fold = fold
        self.rows = 0
        self.least = _BEYOND
        """The first pane that they belong to."""
        self._most = NEVER
        """The last pane that they belong to."""
        self._plan: Plan | None = None
        self._first = 0
        """The arrival number of the first of them, for count windows."""
        self._pushes = 0
        self._stores: list[Array | None] = []
        self._held: list[list[pa.Array]] = []

    def add(
        self, plan: Plan, columns: list[Any], rows: int, panes: tuple[int, int], arrival: int
    ) -> None:
        """Copy rows: their first and last pane, and the arrival number of the first row."""
        if plan is not self._plan or self._pushes >= _MOST_PUSHES or self.rows + rows > MOST_ROWS:
            self.settle()
            if plan is not self._plan:
                self._start(plan)
        at = self.rows
        if not at:
            (self.least, self._most), self._first = panes, arrival
        else:
            self.least, self._most = min(self.least, panes[0]), max(self._most, panes[1])
        for store, held, values in zip(self._stores, self._held, columns, strict=True):
            if store is None:
                held.append(values)
            else:
                store[at : at + rows] = values
        self.rows = at + rows
        self._pushes += 1

    def _start(self, plan: Plan) -> None:
        self._plan = plan
        self._stores = [
            None if dtype is None else np.empty(MOST_ROWS, dtype) for _, dtype, *_ in plan.columns
        ]
        self._held = [[] for _ in plan.columns]

    def settle(self) -> None:
        """Summarise the rows and hand them to the open panes."""
        if not self.rows:
            return
        if self.fold.open.fed is not None:
            self.fold.open.fed(self._taken(self._axis))
        runs = self.fold.synopsis.summarise(self._placed())
        self.rows, self._pushes, self.least = 0, 0, _BEYOND
        self._plan = None  # the next rows get stores of their own: a mark may refer to these
        self.fold.take(runs)

    @property
    def _axis(self) -> TimeAxis | None:
        """Where times are read; None for count windows."""
        return None if self.fold.counting else self.fold.synopsis.axes[self.source]

    def _placed(self) -> Rows:
        fold, axis = self.fold, self._axis
        if self.least == self._most and not fold.groups.names:
            return self._one_run(axis)
        placed = place_rows(self._taken(axis), axis, fold.panes, fold.groups, NEVER)
        assert placed.rows is not None
        return placed.rows

    def _taken(self, axis: TimeAxis | None) -> Taken:
        """The rows with their times, or with the arrival number of the first."""
        batch = self._batch()
        if axis is None:
            counts: Any = {"arrival": self._first}
            return Taken(self.source, batch, None, self.rows, None, None, True, **counts)
        ticks = axis.ticks(batch.column(axis.name))
        in_order = bool((ticks[1:] >= ticks[:-1]).all())
        return Taken(self.source, batch, ticks, self.rows, None, None, in_order)

    def _one_run(self, axis: TimeAxis | None) -> Rows:
        """All rows, which belong to one pane and one group."""
        assert self._plan is not None
        values: dict[str, Array] = {}
        for name, store in zip(self._plan.names, self._stores, strict=True):
            if store is not None:
                values[name] = frozen(store[: self.rows])
        runs = np.array([self.least]), np.zeros(1, np.int32), np.array([0, self.rows])
        times = None if axis is None else axis.native_of_values(values[axis.name])
        arrival = np.array([self._first]) if axis is None else None
        make = partial(_batch_of, self._plan.read_as, self._stores, self._held, self.rows)
        return HeldRows(self.source, make, values, self._plan.kinds, runs, times, arrival)

    def _batch(self) -> pa.RecordBatch:
        assert self._plan is not None
        return _batch_of(self._plan.read_as, self._stores, self._held, self.rows)

    # Undoing -----------------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """What ``rewind`` goes back to. Copied rows stay where they are."""
        held = self._held, [len(each) for each in self._held]
        panes = self.least, self._most
        return self.rows, panes, self._plan, self._first, self._pushes, self._stores, *held

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Drop the rows that came after a mark."""
        self.rows, panes, self._plan, self._first, self._pushes, self._stores, *held = mark
        self.least, self._most = panes
        self._held = held[0]
        for each, length in zip(*held, strict=True):
            del each[length:]
