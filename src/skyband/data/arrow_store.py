"""Retained values of any Arrow type, nested types too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Saved, State, grown
from skyband.data.column_store import ColumnStore
from skyband.data.columns import Positions, output_type, plain
from skyband.data.flat_state import require
from skyband.data.ipc import column_from, column_to_array
from skyband.errors import SchemaError

__all__ = ["ArrowStore", "check_keepable", "store_for"]

_MOST_PIECES = 32
_MUCH = 1024  # overwritten rows that may always stay


def store_for(kind: pa.DataType) -> ColumnStore | ArrowStore:
    """A store for values of any type; plain types take the cheaper one."""
    return ColumnStore(kind) if ColumnStore.holds(kind) else ArrowStore(kind)


def check_keepable(name: str, kind: pa.DataType) -> None:
    """Raise SchemaError if Arrow cannot select, join and write values of this type."""
    storage = output_type(kind)
    try:
        some = plain(pa.nulls(1, storage))
        taken = some.take(pa.array([0]))
        column_from(column_to_array(pa.concat_arrays([some, taken])))
    except (pa.ArrowException, NotImplementedError) as problem:
        raise SchemaError(
            f"column {name!r} has type {kind}, which Arrow cannot copy row by row ({problem}); "
            "cast it, or leave it out of keep"
        ) from problem


class ArrowStore:
    """A growable column of one Arrow type, with the interface of `ColumnStore`.

    Values are kept as Arrow arrays, to which rows are only appended; each slot has the place of its
    value. Appending takes time proportional to the values, amortised; reading also joins what was
    appended since the last read. Overwritten values stay until they outnumber the others.

    >>> store = ArrowStore(pa.list_(pa.int64()))
    >>> store.append(pa.array([[1], None, [2, 3]]))
    >>> store.put(np.array([0, 4]), pa.array([[7], [8]]))
    >>> store.gather(np.array([4, 0, 1, 3])).to_pylist()
    [[8], [7], None, None]
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.type = output_type(kind)
        self._pieces: list[pa.Array] = []
        self._used = 0
        self._place = np.zeros(0, np.int64)
        """The place of each slot's value in the joined pieces; -1 if it has none."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        """Bytes of the values and places."""
        return self._place.nbytes + sum(int(piece.nbytes) for piece in self._pieces)

    def append(self, arr: Any, positions: Positions | None = None) -> None:
        """Add the rows of `arr`, or only those at `positions`, at the end."""
        count = len(arr) if positions is None else len(positions)
        self._write(np.arange(self._length, self._length + count), arr, positions)

    def put(self, slots: Positions, arr: Any, positions: Positions | None = None) -> None:
        """Write rows into slots; if a slot is given twice, the last row wins."""
        self._write(np.asarray(slots, np.int64), arr, positions)

    def _write(self, slots: Ints, arr: Any, positions: Positions | None) -> None:
        if output_type(arr.type) != self.type:
            raise SchemaError(
                f"the column had type {self.type} so far and now has {output_type(arr.type)}; "
                f"cast it to {self.type}"
            )
        if not len(slots):
            return
        values = plain(arr) if positions is None else plain(arr).take(pa.array(positions))
        length = max(self._length, int(slots.max()) + 1)
        self._place = grown(self._place, length, fill=-1)
        self._place[slots] = self._used + np.arange(len(values))
        self._pieces.append(values)
        self._used += len(values)
        self._length = length
        if self._used > 2 * length + _MUCH:
            self.compact(np.arange(length))
        elif len(self._pieces) > _MOST_PIECES:
            self._joined()

    def _joined(self) -> pa.Array:
        if len(self._pieces) > 1:
            self._pieces = [pa.concat_arrays(self._pieces)]
        return self._pieces[0] if self._pieces else plain(pa.nulls(0, self.type))

    def _read(self, indices: Positions) -> pa.Array:
        places = self._place[: self._length].take(indices)
        return self._joined().take(pa.array(places, mask=places < 0))

    def gather(self, indices: Positions) -> pa.Array:
        """The values of the slots `indices`, in that order; null for slots without a value."""
        found = self._read(indices)
        is_extension = isinstance(self.type, pa.BaseExtensionType)
        return self.type.wrap_array(found) if is_extension else found

    def compact(self, indices: Positions) -> None:
        """Keep only the slots `indices`, renumbered in that order, and free memory."""
        self._pieces = [self._read(indices)]
        self._used = self._length = len(indices)
        self._place = np.arange(self._length)

    def state(self) -> State:
        """A copy of everything, as a flat array."""
        return {"arrow": column_to_array(self._read(np.arange(self._length)))}

    def restore(self, state: Saved) -> None:
        """Replace everything by what `state()` of a store of the same type returned."""
        values = column_from(np.array(state["arrow"]))
        own = plain(pa.nulls(0, self.type))
        require(values.type == own.type, f"a column of {own.type} has type {values.type}")
        self._pieces, self._used, self._length = [values], len(values), len(values)
        self._place = np.arange(self._length)
