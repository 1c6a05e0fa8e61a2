"""Retained rows by slot, and the order of rows in an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Ints
from skyband.data.column_store import ColumnStore
from skyband.data.columns import native_dtype, to_numpy
from skyband.data.keys import hash_columns
from skyband.data.order import order_by_value, sortable
from skyband.data.packing import under

__all__ = ["RowStore", "ranks_by_value", "value_ranks"]

Arrays = dict[str, npt.NDArray[Any]]


class RowStore:
    """Columns of retained rows; a row is identified by its slot."""

    def __init__(self, schema: pa.Schema) -> None:
        self.stores = {field.name: ColumnStore(field.type) for field in schema}
        self.length = 0

    def __len__(self) -> int:
        return self.length

    @property
    def nbytes(self) -> int:
        return sum(store.nbytes for store in self.stores.values())

    def append(self, columns: Mapping[str, pa.Array], rows: int) -> Ints:
        """Add rows; returns their slots."""
        for name, store in self.stores.items():
            store.append(columns[name])
        self.length += rows
        return np.arange(self.length - rows, self.length)

    def put(self, slots: Ints, columns: Mapping[str, pa.Array]) -> None:
        """Write rows into slots."""
        if len(slots):
            for name, store in self.stores.items():
                store.put(slots, columns[name])
            self.length = max(self.length, int(slots.max()) + 1)

    def gather(self, slots: Ints) -> dict[str, pa.Array]:
        """The rows of these slots."""
        return {name: store.gather(slots) for name, store in self.stores.items()}

    def compact(self, slots: Ints) -> None:
        """Keep only these slots, renumbered in that order."""
        for store in self.stores.values():
            store.compact(slots)
        self.length = len(slots)

    def state(self) -> Arrays:
        """Flat arrays for a snapshot."""
        found: Arrays = {"length": np.array([self.length])}
        for i, store in enumerate(self.stores.values()):
            found |= {f"{i}/{name}": value for name, value in store.state().items()}
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore the state from a snapshot."""
        self.length = int(arrays["length"][0])
        for i, (column, store) in enumerate(self.stores.items()):
            self.stores[column] = ColumnStore.from_state(store.type, under(arrays, f"{i}/"))


def value_ranks(columns: list[pa.Array], rows: int) -> Ints:
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


def ranks_by_value(store: RowStore, slots: Ints) -> Ints:
    """The rank of each slot's row among these, by its values; a slot may occur more than once."""
    distinct, inverse = np.unique(slots, return_inverse=True)
    columns = list(store.gather(distinct).values())
    return value_ranks(columns, len(distinct))[inverse]
