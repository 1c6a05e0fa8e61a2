"""A table of the pieces of panes that a state key stores, and of the queries that read them.

Each row has the time at which the pane begins, the slot of its bytes among the state's values, how
many bytes they are, and who reads them, as a place in ``audiences``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from skyband.arrays import Ints, Mask, Saved, State

__all__ = ["Names", "Pieces"]

Names = tuple[str, ...]
_COLUMNS = ("stamp", "slot", "size", "readers")


class Pieces:
    """Pieces of panes, in the order in which they were stored."""

    def __init__(self) -> None:
        self.table: Ints = np.zeros((0, len(_COLUMNS)), np.int64)
        self.audiences: list[Names] = []
        self.next_slot = 0

    @property
    def stamp(self) -> Ints:
        return self.table[:, 0]

    @property
    def size(self) -> Ints:
        return self.table[:, 2]

    def add(self, stamp: int, size: int, names: Names) -> int:
        """Note a piece; returns its slot."""
        if names not in self.audiences:
            self.audiences.append(names)
        slot, self.next_slot = self.next_slot, self.next_slot + 1
        row = np.array([[stamp, slot, size, self.audiences.index(names)]])
        self.table = np.concatenate([self.table, row])
        return slot

    def read_by(self, names: Names) -> Mask:
        """Which pieces are for exactly these queries."""
        if names not in self.audiences:
            return np.zeros(len(self.table), np.bool_)
        return np.asarray(self.table[:, 3] == self.audiences.index(names))

    def read_by_any(self, name: str) -> Mask:
        """Which pieces are for this query, among others."""
        places = [place for place, names in enumerate(self.audiences) if name in names]
        return np.isin(self.table[:, 3], places)

    def share(self, name: str) -> int:
        """A query's share of the bytes; the first of those who read a piece has what is left."""
        total = 0
        for place, names in enumerate(self.audiences):
            if name in names:
                size, many = self.size[self.table[:, 3] == place], len(names)
                rest = size % many if name == names[0] else 0
                total += int((size // many + rest).sum())
        return total

    def by_audience(self, among: Sequence[str]) -> Iterator[tuple[Names, Mask]]:
        """Those who read pieces, if they are all among these; and which pieces those are."""
        for place, names in enumerate(self.audiences):
            if set(names) <= set(among):
                yield names, np.asarray(self.table[:, 3] == place)

    def slots(self, chosen: Mask) -> list[int]:
        return [int(slot) for slot in self.table[chosen, 1]]

    def drop(self, chosen: Mask) -> list[int]:
        """Forget some pieces; returns their slots."""
        slots = self.slots(chosen)
        self.table = self.table[~chosen]
        return slots

    def keep_readers(self, names: Sequence[str]) -> list[int]:
        """Forget all other queries; returns the slots of pieces that no one reads any more."""
        left = [tuple(n for n in audience if n in names) for audience in self.audiences]
        audiences = list(dict.fromkeys(left))
        self.table[:, 3] = [audiences.index(left[place]) for place in self.table[:, 3]]
        self.audiences = audiences
        none = self.read_by(())
        return self.drop(none)

    # State -------------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], State]:
        """Plain values and an array, for the head of a key."""
        return {"audiences": self.audiences, "next_slot": self.next_slot}, {"pieces": self.table}

    @staticmethod
    def restored(header: dict[str, Any], arrays: Saved) -> Pieces:
        """The inverse of ``state``."""
        found = Pieces()
        found.table = arrays["pieces"].reshape(-1, len(_COLUMNS)).copy()
        found.audiences = [tuple(names) for names in header["audiences"]]
        found.next_slot = int(header["next_slot"])
        return found
