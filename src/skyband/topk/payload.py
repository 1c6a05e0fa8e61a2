"""The columns that answers show of retained rows, stored apart from those that are compared.

A row is identified by its *slot*, 64 bits that travel with it through the kernels: an index into
growing columns or, if the only shown column holds numbers or times, the value itself.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints, Saved, State, copied
from skyband.contract.runs import Part
from skyband.data.columns import from_numpy, is_bare, native_dtype, output_type, to_numpy
from skyband.data.retained_rows import RetainedRows

__all__ = ["Payload", "Value", "payload_for"]

_SLACK = 4096
"""How many dropped rows may stay before the columns are compacted."""


def payload_for(types: Mapping[str, pa.DataType], kept: Collection[str] = ()) -> Payload | Value:
    """The cheapest payload for columns of these types; only those in ``kept`` may have nulls."""
    if Value.fits(types) and not kept:
        return Value(*next(iter(types.items())))
    return Payload(types)


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
        return {f"shown:{self.name}": from_numpy(copied(slots, self._bits), self.type)}

    @property
    def _bits(self) -> np.dtype[Any]:
        return np.dtype(f"i{self.dtype.itemsize}")

    def crowded(self, live: int) -> bool:
        """Never: nothing is kept."""
        return False

    def compact(self, live: Ints) -> None:
        """Nothing is kept."""

    def state(self) -> State:
        """Nothing is kept."""
        return {}

    def restore(self, arrays: Saved) -> None:
        """Nothing was kept."""

    def has(self, slots: Ints) -> bool:
        """Whether these are slots of rows: any slot is a valid value."""
        return True

    def _check(self, slots: Ints) -> None:
        """There is nothing to check: any slot is a valid value."""


class Payload(RetainedRows):
    """One growing column per shown column; a row's slot is its position in them."""

    def __init__(self, types: Mapping[str, pa.DataType]) -> None:
        super().__init__({f"shown:{name}": kind for name, kind in types.items()}, length="used")

    def add(self, part: Part) -> Ints:
        """Append the shown columns of a summary; returns the slots of its rows."""
        return self.append(part.columns, len(part))

    def crowded(self, live: int) -> bool:
        """Whether dropped rows outnumber the live ones, of which there are ``live``."""
        return len(self) > 2 * live + _SLACK

    def has(self, slots: Ints) -> bool:
        """Whether these are slots of rows."""
        return not len(slots) or 0 <= slots.min() <= slots.max() < len(self)

    def _check(self, slots: Ints) -> None:
        """Assert that the slots of live rows are distinct, and no more than there are rows."""
        assert len(set(slots.tolist())) == len(slots) <= len(self)
