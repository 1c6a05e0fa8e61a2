"""The guard against more live reports of one object in one stream than the query allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.kernels.fused_guard import guard_keys, judge, live_slots, remember

__all__ = ["Guard", "frozen"]

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Hashes = npt.NDArray[np.uint64]
Table = tuple[Hashes, Codes, Ints]


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A read-only view, as Arrow's buffers are: one kind of array, one compilation."""
    view = array.view()
    view.flags.writeable = False
    return view


class Guard:
    """Remembers the panes of the last m reports of every (object, stream) in the window.

    An algorithm that drops what can never be answered forgets that it was there, so the check needs a
    memory of its own: a hash, a counter and m panes a live pair, and one look-up a report.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self.table = self._empty(8)

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.table)

    def bad(self, hashes: Hashes, stream: Codes, pane: Ints, oldest: Ints) -> npt.NDArray[np.bool_]:
        """Rows (ordered by pane) that are one report too many; nothing is remembered of them."""
        keys = guard_keys(frozen(hashes), frozen(stream))
        return judge(keys, pane, oldest, self.table, self._empty(len(hashes)))

    def take(self, hashes: Hashes, stream: Codes, pane: Ints, oldest: int) -> None:
        """Remember reports; pairs without one of pane ``oldest`` or later may be forgotten."""
        if 2 * (self.used + len(hashes)) > len(self.table[0]):
            # Room for twice what is live, so that this costs little a report.
            wider = self._empty(2 * (self.used + len(hashes)))
            self.used = live_slots(self.table, oldest, wider)
            if 8 * (self.used + len(hashes)) < len(wider[0]):
                narrow = self._empty(2 * (self.used + len(hashes)))
                live_slots(wider, oldest, narrow)
                wider = narrow
            self.table = wider
        self.used += remember(guard_keys(frozen(hashes), frozen(stream)), pane, self.table)

    def _empty(self, keys: int) -> Table:
        slots = 1 << max(2 * keys - 1, 15).bit_length()
        return (
            np.zeros(slots, np.uint64),
            np.full(slots, -1, np.int32),
            np.zeros((slots, self.most), np.int64),
        )

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Flat arrays for a snapshot."""
        used = self.table[1] >= 0
        names = ("keys", "turn", "panes")
        return {name: column[used] for name, column in zip(names, self.table, strict=True)}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Take over a snapshot."""
        found = arrays["keys"].copy(), arrays["turn"].copy(), arrays["panes"].copy()
        self.table = self._empty(len(found[0]))
        lowest = int(np.iinfo(np.int64).min)
        self.used = live_slots(found, lowest, self.table)

    def _check(self) -> None:
        keys, turn, panes = self.table
        assert self.used == int((turn >= 0).sum()) <= len(keys) // 2
        assert len(np.unique(keys[turn >= 0])) == self.used
        assert panes.shape == (len(keys), self.most)
