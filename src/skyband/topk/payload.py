"""Columns that retained rows show in an answer, kept apart from what is compared.

A row is known by its *slot*, 64 bits that travel with it through kernels: a place in growing
columns or, where the only shown column is of numbers or times, the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.contract.runs import Part
from skyband.data.column_store import ColumnStore
from skyband.data.columns import is_bare, native_dtype, output_type, to_numpy

__all__ = ["Payload", "Value", "payload_for"]

Ints = npt.NDArray[np.int64]
_SLACK = 4096
"""Dropped rows that may stay before the columns are compacted."""


def payload_for(types: Mapping[str, pa.DataType]) -> Payload | Value:
    """The cheapest that can hold columns of these types, all without nulls."""
    return Value(*next(iter(types.items()))) if Value.fits(types) else Payload(types)


class Value:
    """The only shown column is of at most 64 bits: a row's slot is its value, nothing is kept."""

    nbytes = 0

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self.name = name
        self.type = output_type(kind)
        dtype = native_dtype(kind)
        assert dtype is not None
        self.dtype = dtype

    @staticmethod
    def fits(types: Mapping[str, pa.DataType]) -> bool:
        """Whether there is one column, of plain numbers or times."""
        return len(types) == 1 and is_bare(next(iter(types.values())))

    def add(self, part: Part) -> Ints:
        """The values of a summary's rows, as slots."""
        return to_numpy(part[f"shown:{self.name}"]).view(self._bits).astype(np.int64)

    def gather(self, slots: Ints) -> dict[str, pa.Array]:
        """The shown column of these rows, under the name that a summary gives it."""
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
        """Any slot is a value."""


class Payload:
    """One growing column for each shown one; a row is known by its slot."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        self.types = dict(types)
        self.stores = {name: ColumnStore(kind) for name, kind in self.types.items()}
        self.used = 0

    @property
    def nbytes(self) -> int:
        return sum(store.nbytes for store in self.stores.values())

    def add(self, part: Part) -> Ints:
        """Take the shown columns of a summary; returns the rows' slots."""
        for name, store in self.stores.items():
            store.append(part[f"shown:{name}"])
        slots = np.arange(self.used, self.used + len(part))
        self.used += len(part)
        return slots

    def gather(self, slots: Ints) -> dict[str, pa.Array]:
        """The shown columns of these rows, under the names that a summary gives them."""
        return {f"shown:{name}": store.gather(slots) for name, store in self.stores.items()}

    def crowded(self, live: int) -> bool:
        """Whether dropped rows have come to outnumber this many live ones."""
        return self.used > 2 * live + _SLACK

    def compact(self, live: Ints) -> None:
        """Keep only these rows; the i-th of them has slot i from now on."""
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
        """Take over a snapshot."""
        self.used = int(arrays["used"][0])
        for i, (name, kind) in enumerate(self.types.items()):
            mine = {n.partition("/")[2]: a for n, a in arrays.items() if n.startswith(f"{i}/")}
            self.stores[name] = ColumnStore.from_state(kind, mine)

    def _check(self, slots: Ints) -> None:
        """Assert that the slots of live rows are places, each of one row."""
        assert len(set(slots.tolist())) == len(slots) <= self.used
