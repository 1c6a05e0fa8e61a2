"""The order of rows in an answer."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.data.columns import native_dtype, to_numpy
from skyband.data.keys import hash_columns
from skyband.data.order import order_by_value, sortable
from skyband.data.retained_rows import RetainedRows
from skyband.kernels.core.borrow import frozen
from skyband.kernels.core.sorting import sort_runs

__all__ = ["by_value", "ranks_by_value", "row_store"]


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
    if 4 * len(slots) < len(store):
        distinct, inverse = np.unique(slots, return_inverse=True)
    else:  # no sorting: there is a number for every slot
        known = np.zeros(len(store), np.bool_)
        known[slots] = True
        distinct = np.flatnonzero(known)
        number = np.empty(len(store), np.int64)
        number[distinct] = np.arange(len(distinct))
        inverse = number[slots]
    columns = list(store.gather(distinct).values())
    return _value_ranks(columns, len(distinct))[inverse]


def by_value(store: RetainedRows, slots: Ints, offsets: Ints) -> Ints:
    """The slots of each run in the order of their rows' values."""
    key = frozen(~ranks_by_value(store, slots))
    order, _ = sort_runs(key, key, frozen(offsets))
    return slots[order]
