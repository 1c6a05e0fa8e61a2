"""Rows of small pushes that wait to be summarised.

A push of a few rows that seals no pane changes no answer yet. Such rows are checked and copied, and
that is all; they are summarised together, as soon as anything reads the open panes:

    push ──► plan of its schema ──► copied rows ──► copied rows ──► ...
                                                                     │ a pane is sealed, or there
                                                                     ▼ are many of them
                                                           place, summarise ──► open panes

Any other push takes the general way of ``Session.pushing``: bad rows, nulls, late rows, groups of
count windows, computed columns, many rows, rows that end a window. Answers are the same on both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints, Mask
from skyband.contract.checks import QuickTests
from skyband.contract.rows import Rows
from skyband.data.columns import (
    OFFSETS_32,
    OFFSETS_64,
    from_numpy,
    is_bare,
    native_dtype,
    output_type,
    plain,
)
from skyband.data.order import is_sorted
from skyband.data.row_filter import RowFilter
from skyband.data.time_axis import TimeAxis
from skyband.engine.clock import ClockPreview
from skyband.engine.open_panes import SURELY_FITS
from skyband.engine.placement import ReadBatch
from skyband.errors import SchemaError

if TYPE_CHECKING:
    from skyband.engine.session import Session

_ONLY = ""
_MOST_ROWS_OF_A_PUSH = 1024
_MOST_ROWS = 4096
"""Rows that may wait."""
_MOST_PUSHES = 512
"""Pushes that may wait: each keeps an array per column of text."""
_BEYOND = int(np.iinfo(np.int64).max)
_KEPT_AS_ARRAYS = (*OFFSETS_32, *OFFSETS_64, pa.bool_())
"""Types whose arrays are kept as they are. Nobody can have changed them when they are read."""


class ReadPlan:
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
        self.compared = [schema.get_field_index(name) for name in where.columns]
        """The columns that decide which rows count."""
        self.read_as = pa.schema([(name, output_type(schema.field(name).type)) for name in names])
        self.columns = [
            (schema.get_field_index(name), *_stored(kind), kind != output_type(kind), test)
            for name, kind, test in ((n, schema.field(n).type, tests.get(n)) for n in names)
        ]
        self.time = -1 if axis is None else names.index(axis.name)
        self.ticks_of: Callable[[Array], Ints] | None = None
        """From the values of the time column to ticks; None if they are ticks."""
        if axis is not None and not axis.are_ticks:
            self.ticks_of = axis.ticks

    def read(self, data: pa.Table | pa.RecordBatch, rows: int) -> list[Any] | None:
        """The columns: views of fixed-width values, otherwise arrays.

        None if there are nulls or several chunks.
        """
        columns: list[Any] = []
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
            columns.append(array)
        return columns

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

    def ticks(self, columns: list[Any]) -> Ints | None:
        """The times of rows; None for count windows."""
        if self.time < 0:
            return None
        values: Ints = columns[self.time]
        return values if self.ticks_of is None else self.ticks_of(values)


def _stored(kind: pa.DataType) -> tuple[np.dtype[Any] | None, int]:
    """The type and width of values that are copied; None for those kept in arrays."""
    kind = output_type(kind)
    dtype = native_dtype(kind) if is_bare(kind) else None
    return dtype, 0 if dtype is None else dtype.itemsize


def row_buffer_for(session: Session) -> RowBuffer | None:
    """The buffer of a session that has a fold; None if its query cannot have one."""
    fold, intake = session.fold, session.intake
    assert fold is not None
    if session.several or session.idle is not None or _ONLY not in intake.bound:
        return None
    tests = intake.value_tests(_ONLY)
    made = intake.filters[_ONLY].computed or intake.filters[_ONLY].form
    if made or tests is None or not fold.clock.foresees:
        return None
    return RowBuffer(session)


class RowBuffer:
    """Good rows of open panes, of one source and schema, in order of arrival."""

    def __init__(self, session: Session) -> None:
        assert session.fold is not None
        self.session = session
        self.fold = session.fold
        self.fold.open.waiting = self
        self.rows = 0
        self.least = _BEYOND
        """The first pane that they belong to."""
        self.plans_made = self.pushes_kept = 0
        self._plan: ReadPlan | None = None
        """How the rows that wait were read."""
        self._first = 0
        """The arrival number of the first of them, for count windows."""
        self._pushes = 0
        self._stores: list[Array | None] = []
        self._held: list[list[pa.Array]] = []
        # The push that was looked at last.
        self._schema: pa.Schema | None = None
        self._new_plan: ReadPlan | None = None
        self._columns: list[Any] = []
        self._counting = 0
        self._glimpse: ClockPreview | None = None

    # Pushes ------------------------------------------------------------------------------------

    def fits(self, data: Any) -> bool:
        """Whether the rows of a batch can wait, since nothing ends with them. Changes nothing."""
        rows: int = data.num_rows
        if not 0 < rows <= _MOST_ROWS_OF_A_PUSH or self.fold.open.blank is None:
            return False
        if self.fold.totals.bound > SURELY_FITS:
            return False
        if self._schema is None or not data.schema.equals(self._schema):
            self._plan_for(data.schema)
        plan = self._new_plan
        columns = None if plan is None else plan.read(data, rows)
        if plan is None or columns is None:
            return False
        mask, self._counting, self._columns = plan.counting(data, rows), rows, columns
        ticks = plan.ticks(columns)
        kept = None
        if mask is not None:
            self._counting, chosen = int(mask.sum()), pa.array(mask)
            self._columns = [
                c[mask] if isinstance(c, np.ndarray) else c.filter(chosen) for c in columns
            ]
            kept = None if ticks is None else ticks[mask]
        if self._counting and not plan.good(self._columns):
            return False
        if self.session.intake.unfit(_ONLY, data) is not None:
            return False
        limits, clock = self.session.intake.limits, self.fold.clock
        if ticks is not None and limits is not None and not limits.holds(ticks.min(), ticks.max()):
            return False
        glimpse = self._glimpse = clock.glimpse(ticks, kept, self._counting)
        if glimpse is None:
            return False
        return not clock.passes(glimpse.target, min(self.fold.open.least, glimpse.first))

    def _plan_for(self, schema: pa.Schema) -> None:
        session = self.session
        self._schema = self._new_plan = None
        try:
            session.bind(_ONLY, schema)
        except SchemaError:
            return  # the general way says so
        tests = session.intake.value_tests(_ONLY)
        assert tests is not None
        names = session.synopsis.schemas[_ONLY].names
        kinds = [output_type(schema.field(name).type) for name in names]
        if all(is_bare(kind) or kind in _KEPT_AS_ARRAYS for kind in kinds):
            axis, where = session.synopsis.axes.get(_ONLY), session.intake.filters[_ONLY].filter
            self._new_plan = ReadPlan(schema, names, tests, axis, where)
        self._schema = schema
        self.plans_made += 1

    def keep(self, rows: int) -> None:
        """Take the rows of the batch that fits, which has so many in all."""
        assert self._glimpse is not None
        counts = self.session.rows
        counts["rows_in"] += rows
        counts["rows_filtered"] += rows - self._counting
        arrival = self.fold.clock.accept(self._glimpse)
        if self._counting:
            self._add(self._glimpse, arrival)
        self.pushes_kept += 1

    def _add(self, glimpse: ClockPreview, arrival: int) -> None:
        plan, rows = self._new_plan, self._counting
        assert plan is not None
        if plan is not self._plan or self._pushes >= _MOST_PUSHES or self.rows + rows > _MOST_ROWS:
            self.settle()
            if plan is not self._plan:
                self._start(plan)
        at = self.rows
        if not at:
            self._first = arrival
        self.least = min(self.least, glimpse.first)
        for store, held, values in zip(self._stores, self._held, self._columns, strict=True):
            if store is None:
                held.append(values)
            else:
                store[at : at + rows] = values
        self.rows = at + rows
        self._pushes += 1

    def _start(self, plan: ReadPlan) -> None:
        self._plan = plan
        self._stores = [
            None if dtype is None else np.empty(_MOST_ROWS, dtype) for _, dtype, *_ in plan.columns
        ]
        self._held = [[] for _ in plan.columns]

    # Summaries ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """Summarise the rows and hand them to the open panes."""
        if not self.rows:
            return
        runs = self.fold.synopsis.summarise(self._placed())
        self.rows, self._pushes, self.least = 0, 0, _BEYOND
        self._plan = None  # the next rows get stores of their own: a mark may refer to these
        self.fold.take(runs)

    def _placed(self) -> Rows:
        assert self._plan is not None
        fold, axis, schema = self.fold, self.fold.synopsis.axes.get(_ONLY), self._plan.read_as
        arrays = [
            pa.concat_arrays(pieces) if store is None else from_numpy(store[: self.rows], kind)
            for store, pieces, kind in zip(self._stores, self._held, schema.types, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        ticks = None if axis is None else axis.ticks(batch.column(axis.name))
        in_order = ticks is None or is_sorted(ticks)
        read = ReadBatch(_ONLY, batch, ticks, self.rows, None, None, in_order)
        rows = fold.clock.place_accepted(read, axis, fold.groups, self._first)
        assert rows is not None
        return rows

    # Undoing -----------------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """What ``rewind`` goes back to. Copied rows stay where they are."""
        held = self._held, [len(each) for each in self._held]
        waiting = self.rows, self.least, self._plan, self._first, self._pushes, self._stores
        return *waiting, *held

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Drop the rows that came after a mark."""
        self.rows, self.least, self._plan, self._first, self._pushes, self._stores, *held = mark
        self._held = held[0]
        for each, length in zip(*held, strict=True):
            del each[length:]
