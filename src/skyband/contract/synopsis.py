"""The contract that every algorithm keeps, on both engines.

A synopsis is bound to the columns of its source, summarises rows where they are, and folds sealed
panes into answers. The duties, in the order in which an engine calls them:

    columns, output         which input columns are needed, what an answer looks like
    validate, shard         which rows are bad; where a row goes when the work is split
    summarise, combine      rows of a pane -> what can still matter -> one summary a pane
    admit                   a last look at sealed panes, where a row is bad only beside others
    push, seal, partial     take a sealed pane, move on, read a window; ``fold`` does many at once
    finish                  partial answers of all shards -> the answer
    forget                  groups that have no live row
    snapshot, restore       flat arrays
    stats, _check           what is retained and was done; every invariant, for tests

Methods up to ``combine``, and ``finish``, read no state: on Spark they run in other processes than
the one that keeps it. ``docs/how_it_works.md`` says what each means for each family.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.columns import take, to_numpy
from skyband.data.keys import is_key_type
from skyband.data.time_axis import TimeAxis
from skyband.errors import QueryError, SchemaError
from skyband.query.base import RESERVED, Query

__all__ = ["Faults", "Refused", "Rows", "Synopsis", "Windows", "check_names"]

Q = TypeVar("Q", bound=Query)
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """Good rows of one batch of one source, arranged in runs of one (pane, group) each.

    Within a run rows stand in order of arrival. ``index`` leads from that arrangement to the rows
    of ``batch``; None means they stand so already, and no column is copied.
    """

    source: str
    batch: pa.RecordBatch
    pane: Ints
    group: npt.NDArray[np.int32]
    offsets: Ints
    index: Ints | None = None
    times: npt.NDArray[np.int64] | None = None
    """Native event times in batch order, where the query has a time."""
    arrival: Ints | None = None
    """Arrival number of the first row of each run, for count windows."""

    def __len__(self) -> int:
        return int(self.offsets[-1])

    def numpy(self, name: str) -> npt.NDArray[Any]:
        """A fixed-width column in run order."""
        return self._arrange(to_numpy(self.batch.column(name)))

    def arrow(self, name: str) -> pa.Array:
        """A column in run order."""
        column = self.batch.column(name)
        return column if self.index is None else take(column, self.index)

    def take(self, name: str, positions: Ints) -> pa.Array:
        """A column at some positions of the run order."""
        return take(self.batch.column(name), self.rows(positions))

    def rows(self, positions: Ints) -> Ints:
        """Rows of the batch at some positions of the run order."""
        return positions if self.index is None else self.index[positions]

    @cached_property
    def tie(self) -> Ints:
        """What makes one row later than another: arrival number or native time, in run order."""
        if self.arrival is not None:
            lengths = np.diff(self.offsets)
            within = np.arange(len(self), dtype=np.int64) - np.repeat(self.offsets[:-1], lengths)
            return np.asarray(np.repeat(self.arrival, lengths) + within)
        assert self.times is not None
        return self._arrange(self.times)

    @property
    def lengths(self) -> Ints:
        return np.diff(self.offsets)

    def runs(self, parts: Mapping[str, Part], total: npt.NDArray[Any] | None = None) -> Runs:
        """Summaries of these runs; ``total`` is their weight where it is not the number of rows."""
        scalars = {"rows": self.lengths}
        if total is not None:
            scalars["total"] = total
        return Runs(self.pane, self.group, parts, scalars)

    def _arrange(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return values if self.index is None else values[self.index]


@dataclass(frozen=True, eq=False)
class Windows:
    """Windows to read, in order: the panes ``[first, end)`` of each.

    ``group`` is None for time windows, which concern every group; a count window is one group's
    own. ``ranks[group]`` is the place of a group among all, by the values of its key.
    """

    number: Ints
    first: Ints
    end: Ints
    ranks: npt.NDArray[np.int64]
    group: npt.NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.number)

    def slice(self, start: int, stop: int) -> Windows:
        """A stretch of windows."""
        group = None if self.group is None else self.group[start:stop]
        cut = (self.number[start:stop], self.first[start:stop], self.end[start:stop])
        return Windows(*cut, self.ranks, group)


@dataclass
class Refused:
    """Rows that were refused after they had been summarised: what is left of them."""

    rows: pa.Table
    """The query's columns, except the ``by`` columns."""
    reasons: list[str]
    """One per row."""
    group: npt.NDArray[np.int32]
    """The group of each row, by its code."""

    def of_group(self, group: int) -> Refused:
        """The same rows, all of one group."""
        return Refused(self.rows, self.reasons, np.full(len(self.reasons), group, np.int32))

    @staticmethod
    def concat(many: Sequence[Refused]) -> Refused:
        """All of them, in this order."""
        return Refused(
            pa.concat_tables([each.rows for each in many]),
            [reason for each in many for reason in each.reasons],
            np.concatenate([each.group for each in many]),
        )


@dataclass
class Faults:
    """Bad rows of a batch, with the first one's reason."""

    mask: Mask
    reasons: list[str] = field(default_factory=list)
    tests: list[tuple[str, str, Mask]] = field(default_factory=list)
    """Which column, what is wrong with it, and the rows for which that is the first problem."""
    refused: Callable[[], Refused] | None = None
    """Makes the rows themselves, where they were refused late and are still wanted."""

    @property
    def count(self) -> int:
        return int(self.mask.sum())

    def joined(self, more: Faults) -> Faults:
        """These faults, and those of ``more`` for rows that had none."""
        fresh = [(name, told, mask & ~self.mask) for name, told, mask in more.tests]
        tests = [*self.tests, *(test for test in fresh if test[2].any())]
        return Faults(self.mask | more.mask, [*self.reasons, *more.reasons], tests)

    def each(self, batch: pa.RecordBatch | pa.Table) -> list[str]:
        """The reason of each bad row of the batch that was judged, in the order of its rows."""
        found: dict[int, str] = {}
        for name, problem, mask in self.tests:
            column = batch.column(name)
            for row in np.flatnonzero(mask).tolist():
                found[row] = f"column {name!r}: {problem} ({shown(column, row)})"
        every = "; ".join(self.reasons)
        return [found.get(row, every) for row in np.flatnonzero(self.mask).tolist()]


class Synopsis(ABC, Generic[Q]):
    """One algorithm's answer to one query: see the module's table of duties."""

    many_groups: ClassVar[bool] = False
    """Whether one instance holds all groups; else the engine keeps an instance a group."""
    peeks: ClassVar[bool] = True
    """Whether ``partial`` reads any window that ends with the last sealed pane and begins in the
    last window answered or later (``Monitor.peek()``)."""
    shortens: ClassVar[bool] = False
    """Whether a shorter window can be read from the same state (``Monitor.peek(last=...)``)."""
    exact: ClassVar[bool] = True
    """Whether the answer is the definition's own."""
    fallible: bool = False
    """Whether ``fold`` calls a function of the user's, which may raise when half is done."""
    most_rows: int = 1 << 22
    """Rows that a batch had better have at most. A batch costs Python some hundred microseconds."""
    max_panes: ClassVar[int | None] = None
    """The most panes a window may have, where state grows with them."""

    def __init__(self, query: Q) -> None:
        self.query = query
        self.schemas: dict[str, pa.Schema] = {}
        self.axes: dict[str, TimeAxis] = {}
        panes = query.window.panes.per_window
        if self.max_panes is not None and panes > self.max_panes:
            raise QueryError(
                f"the window has {panes:,} panes and {type(self).__name__} keeps something for "
                f"each, at most {self.max_panes:,}; use a longer slide or another algorithm"
            )

    # Columns ----------------------------------------------------------------------------------

    def bind(self, source: str, schema: pa.Schema) -> pa.Schema:
        """Remember a source's schema; returns the part of it that is needed."""
        names = self.columns(source, schema)
        check_names(source, schema, names)
        answer_names = (*RESERVED, *self.query.extra_columns)
        for name in self.shown(source, schema):
            if name in answer_names:
                raise SchemaError(
                    f"input column {name!r} has the name of an answer column; rename it "
                    f"(reserved: {', '.join(answer_names)})"
                )
        needed = pa.schema([schema.field(name) for name in names])
        self.schemas[source] = needed
        time = self.query.time_of(source or None)
        if time is not None:
            self.axes[source] = TimeAxis(time, needed.field(time).type, self.query.window)
        self.check_types(source, needed)
        return needed

    @abstractmethod
    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        """Names of the input columns that the query needs of a source, each once."""

    def shown(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        """Input columns that an answer shows under their own names."""
        return self.columns(source, schema)

    def check_types(self, source: str, schema: pa.Schema) -> None:
        """Raise SchemaError for a column of a type that the query cannot use."""

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
        """A last look at panes about to be pushed, where a row is bad only beside live ones.

        May read the state, must not change it. Faults name rows in the order of the runs.
        """
        return runs, None

    @abstractmethod
    def push(self, panes: Runs) -> None:
        """Take sealed panes (ordered, none repeated) that are newer than all before them."""

    @abstractmethod
    def seal(self, first: int, end: int) -> None:
        """Panes before ``end`` are complete, the empty ones too; those before ``first`` expire."""

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        """The mergeable piece of the answer over the live panes ``[first, end)``; stamp is free.

        One run a group (of ``group`` alone where given), none for a group without rows. Only a
        synopsis that ``peeks``, or that goes pane by pane, is asked for it.
        """
        raise NotImplementedError

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        """Push panes and read windows, each when its last pane is in; stamps are window numbers.

        None where no window is asked for. Raises before it changes anything. This is the plain
        way, pane by pane, for synopses of one group; fast ones override it.
        """
        found: list[Runs] = []
        at = 0
        for number, first, end in zip(windows.number, windows.first, windows.end, strict=True):
            upto = int(np.searchsorted(panes.stamp, end))
            if upto > at:
                self.push(panes.slice(at, upto))
                at = upto
            self.seal(int(first), int(end))
            piece = self.partial(int(first), int(end))
            found.append(piece.stamped(np.full(len(piece), number)))
        if at < len(panes):
            self.push(panes.slice(at, len(panes)))
        return Runs.concat(found) if found else None

    # Answers ----------------------------------------------------------------------------------

    @abstractmethod
    def finish(self, partials: Sequence[Runs]) -> Runs:
        """Final answers from the partials of all shards: one part ``rows`` with output columns.

        Runs are per (window, group), rows in rank order; a scalar ``exact`` may say of each run
        whether it is proven exact, scalars ``bound:<name>`` what it promises.
        """

    def answers(self, panes: Runs, windows: Windows) -> Runs | None:
        """``fold`` and ``finish`` in one, for an engine that has the only shard.

        A synopsis that knows its answers need not make them again from partials.
        """
        partial = self.fold(panes, windows)
        return None if partial is None else self.finish([partial])

    def bounds(self) -> Mapping[str, Any]:
        """What every answer of this query promises."""
        return {}

    # State ------------------------------------------------------------------------------------

    def forget(self, groups: npt.NDArray[np.int32]) -> None:
        """Drop groups without live rows; their codes may come again for other groups."""

    @abstractmethod
    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        """The state over sealed panes as flat arrays."""

    @abstractmethod
    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
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


# Checks that families share ----------------------------------------------------------------------


def check_names(source: str, schema: pa.Schema, names: Sequence[str]) -> None:
    """Raise SchemaError where a schema does not have each of these columns once."""
    for name in names:
        if schema.get_field_index(name) < 0:
            there = ", ".join(schema.names) or "none"
            twice = len(schema.get_all_field_indices(name)) > 1
            problem = "is there twice" if twice else "is missing"
            where = f" of source {source!r}" if source else ""
            raise SchemaError(f"column {name!r}{where} {problem}; the columns are: {there}")


def numeric(role: str, schema: pa.Schema, name: str) -> None:
    """A column that can be a score, a weight or a value."""
    kind = schema.field(name).type
    known = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not known or pa.types.is_float16(kind):
        raise SchemaError(
            f"{role} column {name!r} has type {kind}; it must be an integer or a float "
            "(cast decimals and text to float64)"
        )


def plain_key(role: str, schema: pa.Schema, name: str | None) -> None:
    """A column whose values can be told apart by their hash; None is no column."""
    if name is not None and not is_key_type(kind := schema.field(name).type):
        raise SchemaError(f"{role} column {name!r} has type {kind}; use a plain column")


def faults(batch: pa.RecordBatch, tests: Sequence[tuple[str, str, Any]]) -> Faults | None:
    """Bad rows by tests of (column, what is wrong, mask or None); masks may be lazily None."""
    found: Faults | None = None
    for name, problem, mask in tests:
        if mask is None:
            continue
        if found is None:
            found = Faults(np.zeros(batch.num_rows, np.bool_))
        fresh = mask & ~found.mask
        if fresh.any():
            row = int(np.flatnonzero(fresh)[0])
            value = shown(batch.column(name), row)
            more = int(fresh.sum()) - 1
            others = f" (and {more:,} more like it)" if more else ""
            found.reasons.append(f"column {name!r}, row {row}: {problem} ({value}){others}")
            found.tests.append((name, problem, fresh))
        found.mask |= mask
    return found if found is not None and found.mask.any() else None


def shown(column: Any, row: int) -> str:
    """One value as a message shows it; Python has no name for some times."""
    try:
        return repr(column[row].as_py())
    except (ValueError, OverflowError):
        return str(column.cast(pa.int64())[row])


def null_mask(column: pa.Array) -> Mask | None:
    """Where a column is null; None where it never is."""
    if column.null_count == 0:
        return None
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False))


def nan_mask(column: pa.Array) -> Mask | None:
    """Where a float column is NaN; None where it never is."""
    if not pa.types.is_floating(column.type) or len(column) == 0:
        return None
    values = to_numpy(column)
    # The maximum is NaN if anything is, and is found at the speed of memory.
    if column.null_count == 0 and not np.isnan(values.max()):
        return None
    mask = np.isnan(values)
    return mask if mask.any() else None


def empty_runs(parts: Mapping[str, Mapping[str, npt.DTypeLike]]) -> Runs:
    """Runs of nothing, with numpy columns of these types."""
    none = np.zeros(0, np.int64)
    made = {
        name: Part(offsets_of(none), {c: np.zeros(0, d) for c, d in columns.items()})
        for name, columns in parts.items()
    }
    return Runs(none, none.astype(np.int32), made, {"rows": none})
