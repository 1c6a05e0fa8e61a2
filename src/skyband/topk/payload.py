"""Columns that retained rows show in an answer, kept apart from what is compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.columns import ColumnStore
from skyband.runs import Part

__all__ = ["Payload"]

Ints = npt.NDArray[np.int64]
_SLACK = 4096
"""Dropped rows that may stay before the columns are compacted."""


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
