"""The rows of live panes, oldest first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Ints, Saved
from skyband.data.flat_state import FlatState, Form, Forms, require
from skyband.skyline.base import row_store

_SPARE = 1024
"""Up to this many slots may be unused before the store is compacted."""


class LiveRows(FlatState):
    """The rows of live panes, oldest first; row i is in slot ``gone + i`` of the store."""

    by_row: ClassVar[tuple[str, ...]] = ("points", "segment", "pane")
    """Arrays with one entry per row."""
    saved_arrays: ClassVar[tuple[str, ...]] = ("points", "segment", "pane", "gone")
    saved_forms: ClassVar[Forms] = {
        **dict.fromkeys(by_row, Form("rows")),
        "pane": Form("rows", ascends=True),
        "gone": Form(1, 0, 1 << 62),
    }
    saved_parts = (("rows/", "store"),)

    def __init__(self, schema: pa.Schema, dimensions: int) -> None:
        self.store = row_store(schema)
        self.points: Ints = np.empty((0, dimensions), np.int64)
        self.segment: Ints = np.zeros(0, np.int64)
        self.pane: Ints = np.zeros(0, np.int64)
        self.gone = 0

    def __len__(self) -> int:
        return len(self.pane)

    def append(self, columns: Mapping[str, pa.Array], *arrays: Array) -> None:
        """Add rows: the columns of the store, and the arrays that ``by_row`` names."""
        if not len(arrays[-1]):
            return
        self.store.append(columns, len(arrays[-1]))
        for name, fresh in zip(self.by_row, arrays, strict=True):
            setattr(self, name, np.concatenate([getattr(self, name), fresh]))

    def expire(self, first: int) -> int:
        """Drop the rows of panes before ``first``; returns how many."""
        gone = int(np.searchsorted(self.pane, first))
        if gone:
            for name in self.by_row:
                setattr(self, name, getattr(self, name)[gone:])
            self.gone += gone
            if self.gone > len(self) + _SPARE:
                self.store.compact(np.arange(self.gone, len(self.store)))
                self.gone = 0
        return gone

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        require(len(self.store) == self.gone + len(self), "rows without columns")

    def _check(self) -> None:
        assert all(len(getattr(self, name)) == len(self) for name in self.by_row)
        assert (np.diff(self.pane) >= 0).all()
        assert len(self.store) == self.gone + len(self)


class JoinRows(LiveRows):
    """The live rows of one side of a join.

    ``expired + i`` numbers rows from the very first one, so it identifies a row permanently.
    """

    by_row = ("key", *LiveRows.by_row)
    saved_arrays = (*by_row, "gone", "expired")
    saved_forms: ClassVar[Forms] = {
        **LiveRows.saved_forms,
        "key": Form("rows"),
        "expired": Form(1, 0, 1 << 62),
    }

    def __init__(self, schema: pa.Schema, dimensions: int) -> None:
        super().__init__(schema, dimensions)
        self.key: Ints = np.zeros(0, np.int64)
        self.expired = 0
        """Rows that have expired since the beginning."""

    def expire(self, first: int) -> int:
        gone = super().expire(first)
        self.expired += gone
        return gone
