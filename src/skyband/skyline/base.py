"""What both skyline queries share: dominance over the answer's columns, and merging of shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.runs import Part, Runs
from skyband.data.columns import native_dtype, to_numpy
from skyband.data.order import id_ranks, order_by_value, sortable
from skyband.data.retained_rows import RetainedRows
from skyband.kernels.borrow import frozen
from skyband.kernels.sorting import sort_runs
from skyband.skyline.points import Preferences


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


def united(runs: Runs, output: pa.Schema, prefer: Preferences) -> Runs:
    """One run for each (window, group): the skyline of its partial skylines."""
    runs = runs.united()
    part = skyline_of(runs.parts["rows"], prefer)
    if len(part):
        run = np.repeat(np.arange(len(runs)), part.lengths)
        order = order_by_value([pa.array(run), *(part[f.name] for f in output)])
        part = part.rows(order, part.offsets)
    return runs.with_parts(rows=part)


def skyline_of(part: Part, prefer: Preferences) -> Part:
    """The skyline of each run of rows."""
    return part.rows(*prefer.skylines(part.columns.__getitem__, part.offsets))


# The order of rows in an answer ------------------------------------------------------------------


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
