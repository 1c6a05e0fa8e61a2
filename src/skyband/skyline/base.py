"""What all skylines share: points, the skylines of runs of them, and the order of answers.

A preferred column becomes a dimension of integers where greater is better. The ``"diff"`` columns
together become one number, the segment: only points of the same segment can dominate each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.checks import Test, number_tests, plain_key
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.columns import native_dtype, output_type, plain, to_numpy
from skyband.data.keys import hash_columns
from skyband.data.order import id_ranks, sortable
from skyband.data.retained_rows import RetainedRows
from skyband.errors import SchemaError
from skyband.kernels.borrow import frozen
from skyband.kernels.patient import patient
from skyband.kernels.sorting import sort_runs
from skyband.skyline.kernels import dominance

Read = Callable[[str], pa.Array]

skyline_runs = patient(dominance.skyline_runs)


class Preferences:
    """The preferred columns of one source, and what is preferred in each."""

    def __init__(self, prefer: Mapping[str, str]) -> None:
        self.ordered = {name: wish for name, wish in prefer.items() if wish != "diff"}
        self.diff = tuple(name for name, wish in prefer.items() if wish == "diff")

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.ordered, *self.diff)

    @property
    def dimensions(self) -> int:
        return len(self.ordered)

    def check_types(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a column whose values cannot be compared as asked."""
        for name, wish in self.ordered.items():
            kind = schema.field(name).type
            if native_dtype(output_type(kind)) is None:
                raise SchemaError(
                    f"preferred column {name!r} has type {kind}, which {wish!r} cannot compare; it "
                    "must be a number or a time (cast decimals and text to float64)"
                )
        for name in self.diff:
            plain_key("preferred", schema, name)

    def points(self, read: Read, rows: int) -> Ints:
        """One point per row."""
        points = np.empty((rows, self.dimensions), np.int64)
        for k, (name, wish) in enumerate(self.ordered.items()):
            points[:, k] = sortable(to_numpy(plain(read(name))), wish == "max")
        return points

    def segments(self, read: Read, rows: int, keys: Sequence[str] = ()) -> Ints:
        """One number per row, from the ``"diff"`` columns and those in ``keys``."""
        names = tuple(dict.fromkeys((*keys, *self.diff)))
        if not names:
            return np.zeros(rows, np.int64)
        return hash_columns([read(name) for name in names]).view(np.int64)

    def skylines(
        self, read: Read, offsets: Ints, keys: Sequence[str] = (), counts: Ints | None = None
    ) -> tuple[Ints, Ints]:
        """Positions of the skyline of each run of rows, and their offsets.

        Rows that differ in a column of ``keys`` do not compete with each other.
        """
        rows = int(offsets[-1])
        if not rows:
            return np.zeros(0, np.int64), offsets
        segment = self.segments(read, rows, keys) if keys or self.diff else None
        return skylines(self.points(read, rows), segment, offsets, counts)


def value_tests(batch: pa.RecordBatch, names: Sequence[str]) -> list[Test]:
    """The tests of preferred columns."""
    return [test for name in names for test in number_tests(batch, "preferred value", name)]


def skylines(
    points: Ints, segment: Ints | None, offsets: Ints, counts: Ints | None = None
) -> tuple[Ints, Ints]:
    """Positions of the skyline of each run, segment by segment, and their offsets."""
    counts = np.zeros(1, np.int64) if counts is None else counts
    if segment is None or not len(segment) or (segment == segment[0]).all():
        return skyline_runs(points, offsets, counts)
    run = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((segment, run))
    ranked, within = segment[order], run[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (ranked[1:] != ranked[:-1]) | (within[1:] != within[:-1])
    starts = np.append(np.flatnonzero(fresh), len(order))
    best, _ = skyline_runs(points[order], starts, counts)
    lengths = np.bincount(within[best], minlength=len(offsets) - 1)
    return order[best], offsets_of(lengths)


def dominators(points: Ints, segment: Ints, row: int) -> Ints:
    """Positions of the rows that dominate a row, by definition; only checks call it."""
    better = (points >= points[row]).all(axis=1) & (points > points[row]).any(axis=1)
    return np.flatnonzero(better & (segment == segment[row]))


# Answers -----------------------------------------------------------------------------------------


def finished(partials: Sequence[Runs], output: pa.Schema, prefer: Preferences) -> Runs:
    """The answer from partial answers: the skyline of several skylines is that of all their rows.

    A partial answer holds the rows of an answer in their order. Shards may split the rows in any
    way, as long as rows that join stay together; the answer is the same.
    """
    runs = Runs.concat(partials)
    if len(partials) > 1:
        runs = united(runs.ordered(), output, prefer)
    part = runs.parts["rows"]
    columns = {f.name: part.columns.get(f.name, pa.nulls(0, f.type)) for f in output}
    return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, columns)})


def united(runs: Runs, output: pa.Schema, prefer: Preferences, counts: Ints | None = None) -> Runs:
    """One run for each (window, group): the skyline of its partial skylines, in order."""
    runs = runs.united()
    part = skyline_of(runs.parts["rows"], prefer, counts)
    if len(part):
        run = np.repeat(np.arange(len(runs)), part.lengths)
        ranks = _value_ranks([part[field.name] for field in output], len(part))
        part = part.rows(np.lexsort((ranks, run)), part.offsets)
    return runs.with_parts(rows=part)


def skyline_of(part: Part, prefer: Preferences, counts: Ints | None = None) -> Part:
    """The skyline of each run of rows; ``counts[0]`` grows by the comparisons."""
    columns = part.columns.__getitem__
    return part.rows(*prefer.skylines(columns, part.offsets, counts=counts))


def row_store(schema: pa.Schema) -> RetainedRows:
    """An empty store for rows with these columns."""
    return RetainedRows({field.name: field.type for field in schema}, length="length")


def _value_ranks(columns: list[pa.Array], rows: int) -> Ints:
    """The rank of each row by its values, left to right, ascending; equal rows share a rank."""
    if not columns or not rows:
        return np.zeros(rows, np.int64)
    numbers = np.stack([_numbers(column) for column in columns])
    order = np.lexsort(numbers[::-1])
    ordered = numbers[:, order]
    ranks = np.zeros(rows, np.int64)
    ranks[order[1:]] = np.cumsum((ordered[:, 1:] != ordered[:, :-1]).any(axis=0))
    return ranks


def _numbers(column: pa.Array) -> Ints:
    """Integers in the order of a column's values, as those are faster to sort than a table."""
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if not column.null_count and native_dtype(column.type) is not None:
        values = to_numpy(column)
        if values.dtype.kind != "f" or not np.isnan(values).any():
            return sortable(values)
    return id_ranks(column)


def ranks_by_value(store: RetainedRows, slots: Ints) -> Ints:
    """The rank of each slot's row among these, by its values; a slot may occur more than once."""
    known = np.zeros(len(store), np.bool_)
    known[slots] = True
    distinct = np.flatnonzero(known)
    ranks = np.empty(len(store), np.int64)
    ranks[distinct] = _value_ranks(list(store.gather(distinct).values()), len(distinct))
    return ranks[slots]


def by_value(store: RetainedRows, slots: Ints, offsets: Ints) -> Ints:
    """The slots of each run in the order of their rows' values."""
    key = frozen(~ranks_by_value(store, slots))
    order, _ = sort_runs(key, key, frozen(offsets))
    return slots[order]
