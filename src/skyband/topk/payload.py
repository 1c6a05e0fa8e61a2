"""The columns that answers show of retained rows, stored apart from those that are compared."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.runs import Part
from skyband.data.retained_rows import RetainedRows

_SLACK = 4096
"""How many dropped rows may stay before the columns are compacted."""


class Payload(RetainedRows):
    """One growing column per shown column; a row's slot is its position in them.

    Slots travel with the rows through the kernels.
    """

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
