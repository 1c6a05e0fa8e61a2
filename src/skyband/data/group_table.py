"""Groups: dense codes for the values of the ``by`` columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Codes, Ints
from skyband.data.column_store import ColumnStore
from skyband.data.keys import KeyIndex, hash_columns
from skyband.data.order import order_by_value
from skyband.data.packing import under

__all__ = ["GroupTable"]


class GroupTable:
    """Group keys and their codes. The code of a group without live rows is freed and reused."""

    def __init__(self, names: Sequence[str], schema: pa.Schema) -> None:
        self.names = tuple(names)
        self.index = KeyIndex()
        self.stores = [ColumnStore(schema.field(name).type) for name in self.names]
        self._ranks: Ints | None = None

    def __len__(self) -> int:
        return len(self.index) if self.names else 1

    @property
    def bound(self) -> int:
        """All codes are below this."""
        return self.index.bound if self.names else 1

    @property
    def nbytes(self) -> int:
        return self.index.nbytes + sum(store.nbytes for store in self.stores)

    def encode(self, columns: Sequence[pa.Array]) -> Codes:
        """The code of each row's group; new groups are added."""
        codes, fresh_rows, fresh_codes = self.index.encode(hash_columns(columns))
        if len(fresh_rows):
            self._ranks = None
            for store, column in zip(self.stores, columns, strict=True):
                store.put(fresh_codes, column, fresh_rows)
        return codes

    @property
    def ranks(self) -> Ints:
        """``ranks[code]`` is the position of a group when all groups are sorted by key."""
        if not self.names:
            return np.zeros(1, np.int64)
        if self._ranks is None:
            live = self.live
            order = order_by_value([store.gather(live) for store in self.stores])
            self._ranks = np.zeros(self.bound, np.int64)
            self._ranks[live[order]] = np.arange(len(live))
        return self._ranks

    @property
    def live(self) -> Ints:
        """Codes in use, ascending."""
        return self.index.codes() if self.names else np.zeros(1, np.int64)

    def gather(self, codes: npt.NDArray[Any]) -> list[pa.Array]:
        """The key columns of these codes."""
        return [store.gather(codes) for store in self.stores]

    def release(self, codes: Codes) -> None:
        """Free these codes for reuse."""
        self.index.release(codes)
        self._ranks = None

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Flat arrays for a snapshot."""
        arrays = {f"index/{name}": value for name, value in self.index.state().items()}
        for i, store in enumerate(self.stores):
            arrays |= {f"key{i}/{name}": value for name, value in store.state().items()}
        return arrays

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a snapshot."""
        self.index = KeyIndex.from_state(under(arrays, "index/"))
        self.stores = [
            ColumnStore.from_state(store.type, under(arrays, f"key{i}/"))
            for i, store in enumerate(self.stores)
        ]
        self._ranks = None
