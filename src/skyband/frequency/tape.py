"""Columns of a queue of rows."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Array, Saved, State


class Tape:
    """Columns that grow at the end and shrink at the front, both in O(1) amortised."""

    def __init__(self, columns: Saved) -> None:
        self._columns = {name: np.array(column) for name, column in columns.items()}
        self._low = 0
        self._high = len(next(iter(self._columns.values())))

    def __len__(self) -> int:
        return self._high - self._low

    def __getitem__(self, name: str) -> Array:
        return self._columns[name][self._low : self._high]

    def append(self, **columns: Array) -> None:
        """Add rows at the end."""
        count = len(next(iter(columns.values())))
        room = len(next(iter(self._columns.values())))
        if self._high + count > room:
            live = len(self)
            size = max(room, 2 * (live + count))
            for name, column in self._columns.items():
                moved = np.zeros((size, *column.shape[1:]), column.dtype)
                moved[:live] = column[self._low : self._high]
                self._columns[name] = moved
            self._low, self._high = 0, live
        for name, column in columns.items():
            self._columns[name][self._high : self._high + count] = column
        self._high += count

    def drop(self, count: int) -> None:
        """Remove rows at the front."""
        self._low += count

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns.values())

    def state(self) -> State:
        """A copy of the rows, as flat arrays; the constructor takes them back."""
        return {name: self[name].copy() for name in self._columns}
