"""What both skyline queries share: dominance over the answer's columns, and merging of shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.runs import Part, Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import native_dtype, to_numpy
from skyband.data.keys import hash_columns
from skyband.data.order import order_by_value, sortable
from skyband.data.retained_rows import RetainedRows
from skyband.kernels.borrow import frozen
from skyband.kernels.sorting import sort_runs
from skyband.query.base import Query
from skyband.skyline.points import Preferences

__all__ = [
    "DominanceSynopsis",
    "by_value",
    "ranks_by_value",
    "row_store",
]

Q = TypeVar("Q", bound=Query)


class DominanceSynopsis(Synopsis[Q]):
    """Finishes answers: the skyline of several skylines is the skyline of all their rows.

    A partial answer holds the rows of an answer in their order. Shards may split the rows in any
    way, as long as rows that join stay together; the answer is the same.
    """

    def __init__(self, query: Q, prefer: dict[str, str]) -> None:
        super().__init__(query)
        # Rows of one group are equal in the group's columns, which thus never affect dominance.
        self.shown_prefer = Preferences({n: w for n, w in prefer.items() if n not in query.groups})

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        if len(partials) > 1:
            runs = self._united(runs.ordered())
        part = runs.parts["rows"]
        columns = {
            field.name: part.columns.get(field.name, pa.nulls(0, field.type))
            for field in self.output()
        }
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, columns)})

    def _united(self, runs: Runs) -> Runs:
        """One run for each (window, group): the skyline of its partial skylines."""
        runs = runs.united()
        part = self.skyline_of(runs.parts["rows"])
        if len(part):
            run = np.repeat(np.arange(len(runs)), part.lengths)
            order = order_by_value([pa.array(run), *(part[f.name] for f in self.output())])
            part = part.rows(order, part.offsets)
        return runs.with_parts(rows=part)

    def skyline_of(self, part: Part) -> Part:
        """The skyline of each run of rows that have the answer's columns."""
        return part.rows(*self.shown_prefer.skylines(part.columns.__getitem__, part.offsets))

    def points_of(self, part: Part) -> tuple[Ints, Ints]:
        """Points and segments of rows that have the answer's columns."""
        read, rows = part.columns.__getitem__, len(part)
        if not rows:
            return np.empty((0, self.shown_prefer.dimensions), np.int64), np.zeros(0, np.int64)
        return self.shown_prefer.points(read, rows), self.shown_prefer.segments(read, rows)


# The order of rows in an answer ------------------------------------------------------------------


def row_store(schema: pa.Schema) -> RetainedRows:
    """An empty store for rows with these columns."""
    return RetainedRows({field.name: field.type for field in schema}, length="length")


def _value_ranks(columns: list[pa.Array], rows: int) -> Ints:
    """The rank of each row by its values, left to right, ascending; equal rows share a rank."""
    if not columns or not rows:
        return np.zeros(rows, np.int64)
    numbers = _numbers(columns)
    if numbers is None:
        order, values = order_by_value(columns), hash_columns(columns).view(np.int64)[None]
    else:
        order, values = np.lexsort(numbers[::-1]), numbers
    ordered = values[:, order]
    ranks = np.zeros(rows, np.int64)
    ranks[order[1:]] = np.cumsum((ordered[:, 1:] != ordered[:, :-1]).any(axis=0))
    return ranks


def _numbers(columns: list[pa.Array]) -> Ints | None:
    """Integers in the order of each column's values; None if a column is not purely numeric.

    Sorting integers is far faster than sorting a table, and a window has few rows.
    """
    found = np.empty((len(columns), len(columns[0])), np.int64)
    for at, column in enumerate(columns):
        if column.null_count or native_dtype(column.type) is None:
            return None
        values = to_numpy(column)
        if values.dtype.kind == "f" and np.isnan(values).any():
            return None
        found[at] = sortable(values)
    return found


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
