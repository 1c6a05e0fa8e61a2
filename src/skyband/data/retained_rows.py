"""Columns of retained rows, by slot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints, Saved, State
from skyband.data.column_store import ColumnStore
from skyband.data.flat_state import Form, admitted, require
from skyband.data.packing import prefixed, under

_MOST = 1 << 40
"""No store has as many slots."""


class RetainedRows:
    """The columns of retained rows; a row is identified by its slot.

    In a snapshot, column i is saved under ``{label}{i}/``, and the number of slots under
    ``length`` if that is given.
    """

    def __init__(
        self, types: Mapping[str, pa.DataType], label: str = "", length: str | None = None
    ) -> None:
        self.stores = {name: ColumnStore(kind) for name, kind in types.items()}
        self._label, self._length_name = label, length
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def nbytes(self) -> int:
        return sum(store.nbytes for store in self.stores.values())

    def append(self, columns: Mapping[str, Any], rows: int) -> Ints:
        """Add rows; returns their slots."""
        for name, store in self.stores.items() if rows else ():
            store.append(columns[name])
        self._length += rows
        return np.arange(self._length - rows, self._length)

    def put(self, slots: Array, columns: Mapping[str, Any], positions: Array | None = None) -> None:
        """Write rows, or only those at ``positions``, into slots."""
        if len(slots):
            for name, store in self.stores.items():
                store.put(slots, columns[name], positions)
            self._length = max(self._length, int(slots.max()) + 1)

    def gather(self, slots: Array) -> dict[str, pa.Array]:
        """The rows of these slots."""
        return {name: store.gather(slots) for name, store in self.stores.items()}

    def compact(self, slots: Array) -> None:
        """Keep only these slots, renumbered in that order."""
        for store in self.stores.values():
            store.compact(slots)
        self._length = len(slots)

    def state(self) -> State:
        """A copy of everything, as flat arrays."""
        found: State = {}
        if self._length_name is not None:
            found[self._length_name] = np.array([self._length])
        for i, store in enumerate(self.stores.values()):
            found |= prefixed(f"{self._label}{i}/", store.state())
        return found

    def restore(self, arrays: Saved) -> None:
        """Replace everything by what ``state`` returned."""
        for i, store in enumerate(self.stores.values()):
            store.restore(under(arrays, f"{self._label}{i}/"))
        lengths = {len(store) for store in self.stores.values()}
        if self._length_name is not None:
            like = {self._length_name: np.zeros(1, np.int64)}
            own = admitted(arrays, like, {self._length_name: Form(1, 0, _MOST)})
            lengths.add(int(own[self._length_name][0]))
        require(len(lengths) < 2, f"columns of one table have lengths {sorted(lengths)}")
        self._length = max(lengths, default=0)
