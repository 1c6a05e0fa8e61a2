"""The contract that every algorithm keeps, on both engines.

A synopsis is bound to the columns of its source, summarises rows where they are, and folds sealed
panes into answers. Its duties, in the order in which an engine calls them:

    columns, output, start  the input columns it needs; the answer's columns; columns are known
    validate, shard         which rows are bad; where a row goes when the work is split
    summarise, combine      rows of a pane -> what can still matter -> one summary per pane
    admit                   a final check for rows that are invalid only alongside live rows
    fold                    take sealed panes, read windows, each when its last pane is in
    partial                 the mergeable piece of an answer over the panes as they are now
    finish                  partial answers of all shards -> the answer
    forget                  drop groups that have no live row
    snapshot, restore       the state as flat arrays
    stats, _check           what is retained and was done; every invariant, for tests

Methods up to ``combine``, and ``finish``, read no state: on Spark they run in other processes than
the one that keeps it. ``pane_by_pane.py`` has a ready ``fold`` for algorithms that take one pane
after the other. ``docs/how_it_works.md`` says what each duty means for each family.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.contract.checks import check_names
from skyband.contract.rows import Faults, Rows, Windows
from skyband.contract.runs import Runs
from skyband.data.time_axis import TimeAxis
from skyband.errors import EngineError, SchemaError
from skyband.query.base import RESERVED, Query

__all__ = ["Synopsis"]

Q = TypeVar("Q", bound=Query)
Ints = npt.NDArray[np.int64]
State = Mapping[str, npt.NDArray[Any]]


class Synopsis(ABC, Generic[Q]):
    """One algorithm's answer to one query: see the module's table of duties."""

    # Capabilities: what only some algorithms can do, declared by the class.
    many_groups: bool = False
    """One instance holds all groups; otherwise the engine keeps one instance per group."""
    peeks: bool = True
    """``partial`` reads any window that ends with the last sealed pane and begins in the last
    window answered or later (``Monitor.peek()``)."""
    shortens: bool = False
    """A shorter window can be read from the same state (``Monitor.peek(last=...)``)."""
    admits: bool = False
    """``admit`` may find bad rows in sealed panes, so it must see all of them before a fold."""
    finishes: bool = False
    """``fold`` with ``final=True`` gives finished answers at less cost than ``finish``."""
    exact: bool = True
    """The answer is always the definition's own."""

    def __init__(self, query: Q) -> None:
        self.query = query
        self.schemas: dict[str, pa.Schema] = {}
        self.axes: dict[str, TimeAxis] = {}
        self.ready = False
        """Whether ``start`` was called: the columns of every source it waits for are known."""

    # Columns ----------------------------------------------------------------------------------

    def bind(self, source: str, schema: pa.Schema) -> pa.Schema:
        """Check a source's columns, then remember the part of its schema that is needed.

        Raises SchemaError before anything is changed. Calls ``start`` once, as soon as the columns
        that the algorithm waits for are known.
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
        if not self.ready and self.knows_enough:
            self.ready = True
            self.start()
        return needed

    def _needed(self, source: str, schema: pa.Schema) -> pa.Schema:
        names = self.columns(source, schema)
        check_names(source, schema, names)
        answer_names = (*RESERVED, *self.query.extra_columns)
        for name in self.shown(source, schema):
            if name in answer_names:
                raise SchemaError(
                    f"input column {name!r} has the name of an answer column; rename it "
                    f"(reserved: {', '.join(answer_names)})"
                )
        return pa.schema([schema.field(name) for name in names])

    @abstractmethod
    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        """Names of the input columns that the query needs of a source, each once."""

    def shown(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        """Input columns that an answer shows under their own names."""
        return self.columns(source, schema)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        """Raise SchemaError for a column of a type that the query cannot use; store nothing."""

    @property
    def knows_enough(self) -> bool:
        """Whether ``start`` can be called: by default after the first source."""
        return True

    def start(self) -> None:
        """Build the empty state: the columns are known now. Called once."""

    @abstractmethod
    def output(self) -> pa.Schema:
        """The answer's columns after ``rank``."""

    # Rows -------------------------------------------------------------------------------------

    @abstractmethod
    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        """Bad rows of a batch of needed columns; None where all are good."""

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        """The shard of each row. By default any split will do: rows are dealt out in turn."""
        return np.arange(batch.num_rows, dtype=np.int64) % shards

    @abstractmethod
    def summarise(self, rows: Rows) -> Runs:
        """What can still matter of each run of rows."""

    @abstractmethod
    def combine(self, runs: Runs) -> Runs:
        """One summary for each (pane, group) of ordered runs among which some repeat."""

    # Panes ------------------------------------------------------------------------------------

    def admit(self, runs: Runs) -> tuple[Runs, Faults | None]:
        """A final check of sealed panes, for rows that are invalid only alongside live rows.

        May read the state, must not change it. Faults name rows in the order of the runs. Called
        only where ``admits`` is declared.
        """
        return runs, None

    @abstractmethod
    def fold(self, panes: Runs, windows: Windows, final: bool = False) -> Runs | None:
        """Take sealed panes (ordered, none repeated) and read windows, each when its last is in.

        The stamps of the result are window numbers; None where no window is asked for. Panes before
        the first pane of the last window read may expire. Raises before it changes anything, unless
        ``savepoint`` gives a way back. ``final`` is passed only where ``finishes`` is declared: the
        result is then that of ``finish``.
        """

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        """The mergeable piece of the answer over the live panes ``[first, end)``; stamp is free.

        One run per group (of ``group`` alone where given), none for a group without rows. Asked
        only of an algorithm that ``peeks``.
        """
        raise EngineError(f"{type(self).__name__} cannot be read between windows")

    # Answers ----------------------------------------------------------------------------------

    @abstractmethod
    def finish(self, partials: Sequence[Runs]) -> Runs:
        """Final answers from the partials of all shards: one part ``rows`` with output columns.

        Runs are per (window, group), rows in rank order. A scalar ``exact`` may say of each run
        whether it is proven exact; scalars ``bound:<name>`` say what it promises.
        """

    def bounds(self) -> Mapping[str, Any]:
        """What every answer of this query promises."""
        return {}

    # State ------------------------------------------------------------------------------------

    def forget(self, groups: npt.NDArray[np.int32]) -> None:
        """Drop groups without live rows; their codes may come again for other groups."""

    def savepoint(self) -> State | None:
        """A copy of the state, if ``fold`` may raise halfway; None (the default) if it cannot."""
        return None

    @abstractmethod
    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """The state over sealed panes as flat arrays."""

    @abstractmethod
    def restore(self, arrays: State) -> None:
        """Take over a snapshot of the same query."""

    @abstractmethod
    def stats(self) -> dict[str, int | float]:
        """At least ``retained`` and ``state_bytes``; the paper's operation counts.

        Progress bars read it after every batch: its cost must not grow with the state.
        """

    def tallies(self) -> Mapping[str, npt.NDArray[np.int64]]:
        """Those of the counts in ``stats`` that ``summarise`` keeps, as views of one number each.

        Where each group has a synopsis of its own, one more summarises the rows of all groups.
        """
        return {}

    def _check(self) -> None:
        """Assert every invariant; only tests call it."""
