"""Intake: turns a batch of any kind into good rows.

columns of the source ──► times ──► rows that ``where`` wants ──► "price * volume" ──► validate
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Mask
from skyband.contract.capabilities import QuickValidation
from skyband.contract.checks import QuickTests, check_names
from skyband.contract.checks import faults as faults_of
from skyband.contract.rows import Faults
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import (
    as_table,
    chunks_of,
    is_bare,
    mask_of,
    one_batch_of,
    output_type,
    to_numpy,
)
from skyband.data.computed import ComputedColumn
from skyband.data.memo import once, sharing
from skyband.data.order import is_sorted
from skyband.data.row_filter import RowFilter
from skyband.data.time_forms import TimeForm
from skyband.engine.placement import ReadBatch
from skyband.errors import DataError, QueryError, SchemaError, did_you_mean
from skyband.query.base import Query
from skyband.query.expressions import Call, columns_of, parse

# The times that an engine's clock can hold, and what a job takes of its rows ---------------------


_NEVER = 2**63 - 1
ValueTest = tuple[str, Callable[[Any], Mask | None]]
"""What is wrong with a value, and a function that finds such values in a column."""


@dataclass(frozen=True)
class TimeLimits:
    """The ticks that an engine's clock can hold, and what to say of those outside."""

    least: int
    most: int
    too_early: str = "the time is out of range"
    too_late: str = "the time is out of range"
    latest: int = _NEVER
    """The ticks up to which a time is not too far ahead of the clock on the wall."""
    ahead: str = ""
    """How far that is, as people write it."""

    def within(self, other: TimeLimits) -> TimeLimits:
        """The intersection of both limits, with the messages of this one."""
        return replace(self, least=max(self.least, other.least), most=min(self.most, other.most))

    @property
    def greatest(self) -> int:
        """The greatest tick of a good row."""
        return min(self.most, self.latest)

    def holds(self, least: int, most: int) -> bool:
        """Whether all ticks from ``least`` to ``most`` are within the limits."""
        return self.least <= least and most <= self.greatest

    def faults(self, name: str, batch: pa.RecordBatch, ticks: Ints, timed: Mask) -> Faults | None:
        """The rows whose time is outside; ``timed`` tells which rows have a time at all."""
        early, late = timed & (ticks < self.least), timed & (ticks > self.most)
        ahead = timed & (ticks > self.latest)
        too_far = f"the time is more than {self.ahead} ahead of this machine's clock"
        tests = [(name, self.too_early, early), (name, self.too_late, late), (name, too_far, ahead)]
        return faults_of(batch, tests)


@dataclass(frozen=True)
class RowLimits:
    """What a job takes of its rows; any other row is bad."""

    ahead: int | None = None
    """How many microseconds a time may be ahead of the clock; None for any."""
    told: str = ""
    """The same as people write it."""
    values: tuple[ValueTest, ...] = ()
    """Tests of the values that answers show, for sinks that cannot hold all of them."""


# Rows that count, and computed columns -----------------------------------------------------------


Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)
_LONG = 100
"""Letters of an expression that a message shows."""


class SourceFilter:
    """The filter and the computed columns of one source."""

    def __init__(self, query: Query, source: str, schema: pa.Schema) -> None:
        """Raises SchemaError for columns that are missing or cannot be used as asked."""
        # With several sources, each one is filtered by the columns that it has.
        self.form = TimeForm.of_query(query)
        """How times are written; None if they need not be converted."""
        self.time = query.time_of(source or None)
        schema = self.timed_schema(schema)
        there = set(schema.names)
        wanted = [c for c in query.conditions if not source or there.issuperset(columns_of(c))]
        self.filtering = tuple(dict.fromkeys(name for c in wanted for name in columns_of(c)))
        if wanted:
            check_names(source, schema, self.filtering)
        self.filter = RowFilter(wanted, schema, str(query.where))
        self.computed = _computed(query, schema)

    def wide(self, schema: pa.Schema) -> pa.Schema:
        """The source's columns and the computed ones."""
        schema = self.timed_schema(schema)
        return pa.schema([*schema, *(pa.field(each.text, each.type) for each in self.computed)])

    def timed_schema(self, schema: pa.Schema) -> pa.Schema:
        """The source's columns, with times that are written in some form as timestamps."""
        at = schema.get_field_index(self.time) if self.form and self.time else -1
        if self.form is None or at < 0:
            return schema
        kind = self.form.type_of(schema.names[at], schema.field(at).type)
        return schema.set(at, schema.field(at).with_type(kind))

    def timed(self, rows: Rows) -> Rows:
        """The rows, with times that are written in some form as timestamps."""
        if self.form is None or self.time is None:
            return rows
        times = self.form.read(self.time, rows.column(self.time))
        return rows.set_column(rows.schema.get_field_index(self.time), self.time, times)

    def unread(self, rows: pa.RecordBatch, timed: pa.RecordBatch) -> Faults | None:
        """The rows whose times could not be read."""
        if self.form is None or self.time is None:
            return None
        before, after = rows.column(self.time), timed.column(self.time)
        if after.null_count == before.null_count:
            return None
        lost = mask_of(before.is_valid()) & mask_of(after.is_null())
        return faults_of(rows, [(self.time, self.form.problem, lost)])

    def inputs(self, needed: Iterable[str]) -> tuple[str, ...]:
        """The columns of the source that these columns of ``wide`` are, or are computed from."""
        made = {each.text: each.columns for each in self.computed}
        names = [name for name in needed if name not in made]
        names += [name for columns in made.values() for name in columns]
        return tuple(dict.fromkeys(names))

    def widened(self, rows: Rows) -> Rows:
        """The rows with the computed columns."""
        for each in self.computed:
            rows = rows.append_column(each.text, each.of(rows.column))
        return rows


def check_somewhere(
    query: Query, source: str, known: Mapping[str, pa.Schema], absent: Collection[str]
) -> None:
    """Raise SchemaError if no source has a column of ``where``; ``absent`` ones send nothing."""
    if set(query.sources) - set(known) - set(absent) - {source}:
        return  # a source that is still to come may have the column
    there = dict.fromkeys(name for schema in known.values() for name in schema.names)
    for condition in query.conditions:
        names = columns_of(condition)
        for name in names:
            if name not in there:
                raise SchemaError(
                    f"where: no source has a column {name!r}; their columns are: {', '.join(there)}"
                    f"{did_you_mean(name, there)}"
                )
        if not any(set(schema.names).issuperset(names) for schema in known.values()):
            raise SchemaError(
                f"where: no source has all columns of the condition on {', '.join(names)}; compare "
                "columns of one source, and join conditions with 'and'"
            )


def _computed(query: Query, schema: pa.Schema) -> list[ComputedColumn]:
    """The columns to compute: texts of the query that name no column."""
    found = []
    for text in dict.fromkeys(query.expressions):
        if text in schema.names:
            continue
        try:
            node = parse(text)
        except QueryError as problem:
            if query.needs_mapping:
                continue  # the other source may have a column of this name
            there = ", ".join(schema.names) or "none"
            shown = text if len(text) <= _LONG else f"{text[:_LONG]}..."
            raise SchemaError(
                f"column {shown!r} is missing, and it is not an expression either: {problem}; "
                f"the columns are: {there}{did_you_mean(text, schema.names)}"
            ) from None
        columns = columns_of(node)
        elsewhere = query.needs_mapping and set(columns) - set(schema.names)
        if isinstance(node, Call) and columns and not elsewhere:
            found.append(ComputedColumn(text, node, schema))
        # Otherwise, the algorithm that needs the column says that it is missing.
    return found


class Intake:
    """Reads batches for one query."""

    def __init__(self, query: Query, synopsis: Synopsis[Any]) -> None:
        self.query = query
        self.synopsis = synopsis
        self.bound: dict[str, pa.Schema] = {}
        self._last: dict[str, pa.Schema] = {}
        """The last schema of each source that was found to match."""
        self._tests: dict[str, QuickTests | None] = {}
        self.filters: dict[str, SourceFilter] = {}
        """The filter and the computed columns of each bound source."""
        self.absent: set[str] = set()
        """Sources that will send nothing at all."""
        self.untyped: dict[str, pa.Schema] = {}
        """Columns of sources that have sent only empty batches without types so far."""
        reach = query.window.reach
        self.limits = None if reach is None else TimeLimits(*reach)
        """The times that the engine can hold; rows outside are bad. None if times do not matter."""
        self.values: tuple[ValueTest, ...] = ()
        """Tests of values that answers show."""

    def limit(self, limits: RowLimits, clock: float) -> None:
        """Take only such rows of a job; ``clock`` is now, in seconds since 1970.

        Nobody knows what integer times count, so these may be any.
        """
        self.values = limits.values
        if limits.ahead is None or self.limits is None or self.query.window.integer:
            return
        latest = int(clock * 1e6) + limits.ahead
        self.limits = replace(self.limits, latest=latest, ahead=limits.told)

    def unfit(self, source: str, batch: pa.RecordBatch | pa.Table) -> Faults | None:
        """The rows with values that the job's sinks cannot hold."""
        if not self.values or not batch.num_rows:
            return None
        names = self.query.shows(self.synopsis.columns(source, batch.schema))
        tests = [(n, why, test(batch.column(n))) for n in names for why, test in self.values]
        return faults_of(batch, tests)

    def bind(self, source: str, schema: pa.Schema) -> None:
        """Check the columns of a source. Later batches must match its first schema."""
        if schema == self._last.get(source):
            return
        self._bind(source, schema)
        self._last[source] = schema

    def _bind(self, source: str, schema: pa.Schema) -> None:
        if source not in self.bound:
            for name in self.query.groups:
                if schema.get_field_index(name) < 0:
                    there = ", ".join(schema.names)
                    meant = did_you_mean(name, schema.names)
                    raise SchemaError(
                        f"by column {name!r} is missing; the columns are: {there}{meant}"
                    )
            source_filter = self._filter_of(source, schema)
            needed = self.synopsis.bind(source, source_filter.wide(schema))
            names = (*source_filter.inputs(needed.names), *source_filter.filtering)
            self.bound[source] = pa.schema([schema.field(name) for name in dict.fromkeys(names)])
            self.filters[source] = source_filter
            self._tests[source] = self.value_tests(source)
            return
        for field in self.bound[source]:
            at = schema.get_field_index(field.name)
            if at < 0:
                there = ", ".join(schema.names)
                raise SchemaError(
                    f"column {field.name!r} was present in earlier batches and is missing now; "
                    f"the columns are: {there}"
                )
            now = schema.field(at).type
            if now != field.type and output_type(now) != output_type(field.type):
                raise SchemaError(
                    f"column {field.name!r} had type {field.type} in earlier batches and has {now} "
                    "now; cast it so that all batches agree"
                )

    def value_tests(self, source: str) -> QuickTests | None:
        """What shows that the values of a few rows are good; None if nothing does."""
        synopsis = self.synopsis
        return synopsis.quick_tests(source) if isinstance(synopsis, QuickValidation) else None

    def _filter_of(self, source: str, schema: pa.Schema) -> SourceFilter:
        if source:
            known = {**self.bound, source: schema}
            check_somewhere(self.query, source, known, self.absent)
        return SourceFilter(self.query, source, schema)

    def end(self, source: str) -> None:
        """A source sends nothing more; raises SchemaError if no source has a ``where`` column."""
        if source not in self.bound:
            check_somewhere(self.query, source, self.bound, self.absent)
            self.absent.add(source)

    def needed(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        """The columns of a source that the query needs, whether they are there or not."""
        source_filter = self._filter_of(source, schema)
        names = self.synopsis.columns(source, source_filter.wide(schema))
        return (*self.query.groups, *source_filter.inputs(names), *source_filter.filtering)

    def _says_nothing(self, source: str, table: pa.Table) -> bool:
        """Whether a batch has no rows and lacks types, so that only its names can be checked.

        Examples are an empty CSV file and an empty DataFrame with an object column.
        """
        if table.num_rows:
            return False
        names = self.needed(source, table.schema)
        check_names(source, table.schema, names)
        if not any(pa.types.is_null(table.schema.field(name).type) for name in names):
            return False
        self.untyped[source] = table.schema
        return True

    def read(self, source: str, table: pa.Table, in_order: bool) -> list[ReadBatch]:
        """Like ``take``, chunk by chunk; empty if the batch has no rows and its columns no types.

        Large chunks are not joined, since that would copy them, but cut; see ``chunks_of``.
        """
        if self._says_nothing(source, table):
            return []
        self.bind(source, table.schema)
        chunks = chunks_of(table.select(self.bound[source].names), self.synopsis.long_chunks)
        pieces = [self._judged(source, batch, in_order) for batch in chunks]
        starts = accumulate((each.rows_in for each in pieces[:-1]), initial=0)
        return [replace(p, start=at) if at else p for p, at in zip(pieces, starts, strict=True)]

    def take(self, source: str, data: Any, in_order: bool = False) -> ReadBatch:
        """The good rows of a batch, and its bad rows, which are not counted or refused yet.

        ``in_order`` means that times are known to ascend.
        """
        table = as_table(data)
        self.bind(source, table.schema)
        batch = one_batch_of(table.select(self.bound[source].names))
        return self._judged(source, batch, in_order)

    def _judged(self, source: str, batch: pa.RecordBatch, sorted_before: bool) -> ReadBatch:
        """The good rows and their times, the bad rows, and the greatest time of the batch.

        The greatest time moves the source's mark, so it includes every row whose time can be read,
        even bad rows.
        """
        own = self.filters[source]
        timed = own.timed(batch)
        unread = own.unread(batch, timed)
        if own.filtering and batch.num_rows:
            return self._filtered(source, timed, sorted_before, unread)
        return self._checked(source, own.widened(timed), sorted_before, unread)

    def widened(self, source: str, rows: Rows) -> Rows:
        """Rows of a bound source with the columns that are computed from them."""
        return self.filters[source].widened(rows)

    def _filtered(
        self, source: str, batch: pa.RecordBatch, sorted_before: bool, unread: Faults | None
    ) -> ReadBatch:
        """Like ``_judged``, without the rows that do not count.

        These are no part of the stream, bad or not, but they move the source's mark. A time that
        cannot be read makes a row bad in any case.
        """
        own = self.filters[source]
        kept = own.filter.mask(batch)
        greatest: int | None = None
        axis = self.synopsis.axes.get(source)
        if axis is not None:
            ticks, timed = axis.ticks_of(batch.column(axis.name))
            readable = np.ones(len(ticks), np.bool_) if timed is None else timed
            if self.limits is not None:
                readable = readable & (ticks >= self.limits.least)
                readable &= ticks <= self.limits.greatest
            if readable.any():
                greatest = int(ticks[readable].max())
            kept |= ~readable
        rows = np.flatnonzero(kept)
        needed = self.synopsis.schemas[source].names
        counting = batch.select(own.inputs(needed))  # without what only the filter reads
        counting = counting if len(rows) == len(kept) else counting.filter(pa.array(kept))
        read = self._checked(source, own.widened(counting).select(needed), sorted_before)
        faults = read.faults
        if faults is not None and len(rows) < len(kept):
            batch = own.widened(batch)
            faults = faults_of(batch, [(n, why, _spread(m, kept)) for n, why, m in faults.tests])
        faults = _with_unread(batch, unread, faults)
        if self.limits is None:
            greatest = None
        counts: dict[str, Any] = {"rows_in": len(kept), "filtered": len(kept) - len(rows)}
        return replace(read, faults=faults, greatest=greatest, counting=rows, **counts)

    def _checked(
        self, source: str, batch: pa.RecordBatch, sorted_before: bool, unread: Faults | None = None
    ) -> ReadBatch:
        rows_in, axis = batch.num_rows, self.synopsis.axes.get(source)
        faults = None
        if rows_in and not self._all_good(source, batch):
            faults = self.synopsis.validate(source, batch)
        faults = _with_unread(batch, unread, _joined(faults, self.unfit(source, batch)))
        if axis is None or self.limits is None or not rows_in:
            return ReadBatch(source, _without(batch, faults), None, rows_in, faults, None, False)
        column, greatest = batch.column(axis.name), None
        ticks, timed = axis.ticks_of(column)
        in_order = timed is None and (
            sorted_before or once("in order", column, lambda: is_sorted(ticks))
        )
        known = ticks if timed is None else ticks[timed]
        if len(known):
            low, high = (known[0], known[-1]) if in_order else (known.min(), known.max())
            if not self.limits.holds(low, high):
                timed = np.ones(len(ticks), np.bool_) if timed is None else timed
                outside = self.limits.faults(axis.name, batch, ticks, timed)
                assert outside is not None
                faults = _joined(faults, outside)
                known = ticks[timed & ~outside.mask]
                high = known.max() if len(known) else None
            greatest = None if high is None else int(high)
        if faults is not None:
            ticks, batch = ticks[~faults.mask], _without(batch, faults)
            in_order = in_order or is_sorted(ticks)
        left = ticks if len(ticks) else None
        return ReadBatch(source, batch, left, rows_in, faults, greatest, in_order)

    def _all_good(self, source: str, batch: pa.RecordBatch) -> bool:
        """Whether quick passes without masks show that there are no bad rows.

        Queries of a board share the masks instead.
        """
        tests = self._tests[source]
        if tests is None or sharing() or any(column.null_count for column in batch.columns):
            return False
        columns = ((batch.column(name), test) for name, test in tests.items())
        return all(is_bare(column.type) and test(to_numpy(column)) for column, test in columns)

    def refuse_bad(self, source: str, table: pa.Table) -> None:
        """Raise DataError if a table has bad rows."""
        faults = self.take(source, table).faults
        if faults is not None:
            refuse(faults)


def _joined(faults: Faults | None, more: Faults | None) -> Faults | None:
    """Both faults; of rows that have both, the first."""
    return faults.joined(more) if faults is not None and more is not None else faults or more


def _with_unread(
    batch: pa.RecordBatch, unread: Faults | None, faults: Faults | None
) -> Faults | None:
    """The faults of a batch, of which those of times that could not be read come first."""
    if unread is None or faults is None:
        return unread or faults
    tests = [(name, why, mask & ~unread.mask) for name, why, mask in faults.tests]
    return _joined(unread, faults_of(batch, tests))


def _spread(mask: Mask, kept: Mask) -> Mask:
    """A mask over the kept rows as one over all rows."""
    whole = np.zeros(len(kept), np.bool_)
    whole[kept] = mask
    return whole


def _without(batch: pa.RecordBatch, faults: Faults | None) -> pa.RecordBatch:
    return batch if faults is None else batch.filter(pa.array(~faults.mask))


def refuse(faults: Faults) -> None:
    """Raise DataError for bad rows."""
    detail = "; ".join(faults.reasons)
    raise DataError(
        f"{faults.count:,} bad row{'s' if faults.count != 1 else ''}: {detail}. "
        "No row of this batch was applied; fix the rows, or pass on_bad='skip' to leave them out"
    )
