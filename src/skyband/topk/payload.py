"""The columns that answers show of retained rows, stored apart from those that are compared.

A row is identified by its *slot*, 64 bits that travel with it through the kernels: an index into
growing columns or, if the only shown column holds numbers or times, the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.runs import Part
from skyband.data.column_store import ColumnStore
from skyband.data.columns import is_bare, native_dtype, output_type, to_numpy

__all__ = ["Payload", "Value", "payload_for"]

_SLACK = 4096
"""How many dropped rows may stay before the columns are compacted."""


def payload_for(types: Mapping[str, pa.DataType]) -> Payload | Value:
    """The cheapest payload for columns of these types, which have no nulls."""
    return Value(*next(iter(types.items()))) if Value.fits(types) else Payload(types)


class Value:
    """For a single shown column of at most 64 bits: the slot is the value, and nothing is kept."""

    nbytes = 0

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name = name
        self.type = output_type(kind)
        dtype = native_dtype(kind)
        assert dtype is not None
        self.dtype = dtype

    @staticmethod
    def fits(types: Mapping[str, pa.DataType]) -> bool:
        """Whether there is exactly one column, and it holds plain numbers or times."""
        return len(types) == 1 and is_bare(next(iter(types.values())))

    def add(self, part: Part) -> Ints:
        """The values of a summary's rows, as slots."""
        return to_numpy(part[f"shown:{self.name}"]).view(self._bits).astype(np.int64)

    def gather(self, slots: Ints) -> dict[str, pa.Array]:
        """The shown column of these rows, under its name in summaries."""
        buffer = pa.py_buffer(slots.astype(self._bits))
        return {f"shown:{self.name}": pa.Array.from_buffers(self.type, len(slots), [None, buffer])}

    @property
    def _bits(self) -> np.dtype[Any]:
        return np.dtype(f"i{self.dtype.itemsize}")

    def crowded(self, live: int) -> bool:
        """Never: nothing is kept."""
        return False

    def compact(self, live: Ints) -> None:
        """Nothing is kept."""

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Nothing is kept."""
        return {}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Nothing was kept."""

    def _check(self, slots: Ints) -> None:
        """There is nothing to check: any slot is a valid value."""


class Payload:
    """One growing column per shown column; a row's slot is its position in them."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self.types = dict(types)
        self.stores = {name: ColumnStore(kind) for name, kind in self.types.items()}
        self.used = 0

    @property
    def nbytes(self) -> int:
        return sum(store.nbytes for store in self.stores.values())

    def add(self, part: Part) -> Ints:
        """Append the shown columns of a summary; returns the slots of its rows."""
        for name, store in self.stores.items():
            store.append(part[f"shown:{name}"])
        slots = np.arange(self.used, self.used + len(part))
        self.used += len(part)
        return slots

    def gather(self, slots: Ints) -> dict[str, pa.Array]:
        """The shown columns of these rows, under their names in summaries."""
        return {f"shown:{name}": store.gather(slots) for name, store in self.stores.items()}

    def crowded(self, live: int) -> bool:
        """Whether dropped rows outnumber the live ones, of which there are ``live``."""
        return self.used > 2 * live + _SLACK

    def compact(self, live: Ints) -> None:
        """Keep only these rows; the i-th of them gets slot i."""
        for store in self.stores.values():
            store.compact(live)
        self.used = len(live)

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Flat arrays for a snapshot."""
        found = {"used": np.array([self.used])}
        for i, store in enumerate(self.stores.values()):
            found |= {f"{i}/{name}": values for name, values in store.state().items()}
        return found

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore from a snapshot."""
        self.used = int(arrays["used"][0])
        for i, (name, kind) in enumerate(self.types.items()):
            mine = {n.partition("/")[2]: a for n, a in arrays.items() if n.startswith(f"{i}/")}
            self.stores[name] = ColumnStore.from_state(kind, mine)

    def _check(self, slots: Ints) -> None:
        """Assert that the slots of live rows are distinct, and no more than there are rows."""
        assert len(set(slots.tolist())) == len(slots) <= self.used
