"""The contract that every algorithm implements, for both engines.

A synopsis is bound to the columns of its source, summarises rows where they are, and folds sealed
panes into answers. Its methods, in the order in which an engine calls them:

    bind                    learn the columns: ``columns`` names those that are needed,
                            ``check_types`` refuses types, ``start`` builds the empty state,
                            ``output`` names the columns of the answer
    validate, shard         find bad rows; choose the shard of each row when the work is split
    summarise, combine      reduce the rows of a pane to what can still matter; merge such summaries
    fold                    take sealed panes and read each window once its last pane is in
    partial                 the mergeable part of an answer over the current panes
    finish                  turn the partial answers of all shards into the answer
    snapshot, restore       write the state to flat arrays, and read it back; both follow from the
                            attributes that ``saved_arrays`` and ``saved_parts`` name
    saved_runs              check summaries that come from a snapshot
    stats, _check           state size and operation counts; assert every invariant, for tests

The methods up to ``combine``, and ``finish``, do not read the state: on Spark they run in other
processes than the one that holds it. What only some algorithms can do stands in
``capabilities.py``. ``pane_by_pane.py`` has a ready-made ``fold`` for algorithms that take one pane
at a time. ``docs/how_it_works.md`` describes each method for each family.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Saved, State
from skyband.contract.checks import check_names
from skyband.contract.rows import Faults, Rows, Windows
from skyband.contract.runs import Runs, Types
from skyband.data.column_store import check_keepable
from skyband.data.flat_state import Forms, Parts, bytes_of, load, require, save
from skyband.data.time_axis import TimeAxis
from skyband.errors import EngineError, SchemaError
from skyband.query.base import Query

Q = TypeVar("Q", bound=Query)


class Synopsis(ABC, Generic[Q]):
    """The state of one algorithm for one query; the table above lists what it must implement."""

    # What an engine asks before it calls anything; each class declares its own.
    many_groups: bool = False
    """One instance holds all groups; otherwise the engine keeps one instance per group."""
    peeks: bool = True
    """``partial`` can read any window that ends with the last sealed pane and begins in the last
    answered window or later (``Monitor.peek()``)."""
    shortens: bool = False
    """A shorter window can be read from the same state (``Monitor.peek(last=...)``)."""
    parallel: bool = True
    """``summarise`` reads nothing that it changes, so several threads may call it at once."""
    long_chunks: bool = False
    """``summarise`` does less work per row if it gets several windows of rows at once."""
    exact: bool = True
    """The answer always equals the query's definition."""

    # State over sealed panes, from which ``snapshot``, ``restore`` and ``nbytes`` follow.
    saved_arrays: ClassVar[tuple[str, ...]] = ()
    """Attributes that hold an array or an integer, each saved under its own name."""
    saved_forms: ClassVar[Forms] = {}
    """What is known of these arrays; a snapshot in which it is not so is refused."""
    saved_parts: ClassVar[Parts] = ()
    """Attributes that have a state of their own, each with a prefix for its names."""

    bounds_of_saved: tuple[int, int] | None = None
    """While a snapshot is restored: all codes of groups, and all sealed panes, are below these."""

    def __init__(self, query: Q) -> None:
        self.query = query
        self.schemas: dict[str, pa.Schema] = {}
        self.axes: dict[str, TimeAxis] = {}
        self.waits_for: Sequence[str] = ()
        """Sources whose columns must be known before ``start``; one source if none is named."""
        self.ready = False
        """Whether ``start`` was called, because the columns of all sources it needs are known."""

    # Columns ----------------------------------------------------------------------------------

    def bind(self, source: str, schema: pa.Schema) -> pa.Schema:
        """Check a source's columns, then remember the part of its schema that is needed.

        Raises SchemaError before it changes anything. Calls ``start`` once, as soon as the columns
        that the algorithm needs are known.
        """
        needed = self._needed(source, schema)
        time = self.query.time_of(source or None)
        axis = None
        if time is not None:
            axis = TimeAxis(time, needed.field(time).type, self.query.window)
        self.check_types(source, needed)
        self.schemas[source] = needed
        if axis is not None:
            self.axes[source] = axis
        if not self.ready and self.schemas.keys() >= set(self.waits_for):
            self.ready = True
            self.start()
        return needed

    def _needed(self, source: str, schema: pa.Schema) -> pa.Schema:
        names = self.columns(source, schema)
        check_names(source, schema, names)
        answer_names = self.query.reserved
        for name in self.query.shows(names):
            if name in answer_names:
                raise SchemaError(
                    f"input column {name!r} has the name of an answer column; rename it "
                    f"(reserved: {', '.join(answer_names)})"
                )
        known = {*self.query.groups, *self.query.shown(schema.names)}
        for name in self.query.kept:
            if name in known:
                raise SchemaError(
                    f"keep names the column {name!r}, which the answer shows anyway; leave it out"
                )
            check_keepable(name, schema.field(name).type)
        return pa.schema([schema.field(name) for name in names])

    @property
    def schema(self) -> pa.Schema:
        """The needed columns of a query's only source."""
        return self.schemas[""]

    @abstractmethod
    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        """Names of the input columns that the query needs from a source, without repeats."""

    def check_types(self, source: str, schema: pa.Schema) -> None:
        """Raise SchemaError if the query cannot use a column's type; must not change the state."""

    def start(self) -> None:
        """Build the empty state. Called once, when the columns are known."""

    @abstractmethod
    def output(self) -> pa.Schema:
        """The columns of the answer after ``rank``."""

    @property
    def total_type(self) -> pa.DataType:
        """The type of the total of a window: a number of rows, unless they have weights."""
        return pa.int64()

    # Rows -------------------------------------------------------------------------------------

    @abstractmethod
    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        """The bad rows of a batch that has the needed columns; None if there are none."""

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        """The shard of each row; round-robin by default, for algorithms that allow any split."""
        return np.arange(batch.num_rows, dtype=np.int64) % shards

    @abstractmethod
    def summarise(self, rows: Rows) -> Runs:
        """Reduce each run of rows to what can still matter for an answer."""

    @abstractmethod
    def combine(self, runs: Runs) -> Runs:
        """Merge ordered runs, some of which repeat, into one summary per (pane, group)."""

    # Panes ------------------------------------------------------------------------------------

    @abstractmethod
    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        """Take sealed panes (ordered, without repeats); read each window once its last pane is in.

        The stamps of the result are window numbers; the result is None if no window was requested.
        Panes before the first pane of the last window read may expire. Raises before it changes
        anything, except as ``capabilities.RowAdmission`` says.
        """

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        """The mergeable part of the answer over the live panes ``[first, end)``, with any stamps.

        One run per group, or only that of ``group`` if it is given; none for a group without rows.
        Called only if the class declares ``peeks``.
        """
        raise EngineError(f"{type(self).__name__} cannot be read between windows")

    # Answers ----------------------------------------------------------------------------------

    @abstractmethod
    def finish(self, partials: Sequence[Runs]) -> Runs:
        """Final answers from the partials of all shards: one part ``rows`` with output columns.

        There is one run per (window, group), with rows in rank order. An optional scalar ``exact``
        tells whether each run is proven exact; scalars ``bound:<name>`` hold its error bounds.
        """

    @property
    def bounds(self) -> Mapping[str, Any]:
        """The bounds that hold for every answer of this query."""
        return {}

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The state over sealed panes as flat arrays: by default, the attributes declared above."""
        return save(self)

    def restore(self, arrays: Saved) -> None:
        """Restore a snapshot of the same query."""
        load(self, arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the declared state."""
        return bytes_of(self)

    @abstractmethod
    def stats(self) -> dict[str, int | float]:
        """At least ``retained`` and ``state_bytes``, and the paper's operation counts.

        Progress bars call it after every batch, so its cost must not grow with the state.
        """

    def _check(self) -> None:
        """Assert every invariant; only tests call it."""

    # What a snapshot may hold, which may have been forged -----------------------------------

    def _summary_types(self) -> Types:
        """The types of all columns that a summary may have, as that of no rows shows them."""
        found: dict[str, dict[str, Any]] = {}
        none = np.zeros(0, np.int64)
        for source, schema in self.schemas.items():
            batch = pa.RecordBatch.from_pylist([], schema=schema)
            runs = none, none.astype(np.int32), np.zeros(1, np.int64)
            summary = self.summarise(Rows(source, batch, *runs, None, none, none))
            for part, columns in [*summary.types.items(), *self.combine(summary).types.items()]:
                found.setdefault(part, {}).update(columns)
        return found

    def saved_runs(self, runs: Runs, sealed: bool = True) -> Runs:
        """Summaries from a snapshot, if this query may have made them; raises EngineError if not.

        An algorithm whose summaries hold indices checks their range, too.
        """
        if self.bounds_of_saved is not None:
            groups = self.bounds_of_saved[0] if self.query.groups else 1
            require(runs.group.max(initial=-1) < groups, "a group that is not there")
            self._check_sealed(runs.stamp[: len(runs) * sealed])
        return runs.typed(self._summary_types(), whole=not sealed)

    def _check_sealed(self, panes: Ints) -> None:
        """Refuse a state with rows of these panes if they are still to come."""
        check_sealed(panes, self.bounds_of_saved)


def check_sealed(panes: Ints, bounds: tuple[int, int] | None) -> None:
    """Refuse a snapshot whose state has rows of panes that are still to come."""
    if bounds is not None and len(panes):
        known = max(bounds[1], np.iinfo(np.int64).min + 1)
        require(panes.max() < known, "a pane that is not sealed")
