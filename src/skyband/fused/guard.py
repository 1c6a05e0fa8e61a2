"""The guard against more live reports of one object in one stream than the query allows."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Hashes, Ints, Mask, Saved, State
from skyband.kernels.core.borrow import frozen
from skyband.kernels.fused.guard import guard_keys, live_slots, remember

__all__ = ["Guard"]

Table = tuple[Hashes, Codes, Ints]


class Guard:
    """Remembers the panes of the last m reports of every (object, stream) in the window.

    An algorithm that drops reports which can never be answered also forgets that they existed, so
    the check keeps its own memory: a hash, a counter and m panes per live pair, with one look-up
    per report.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.used = 0
        self.table = self._empty(8)
        self._ahead: tuple[Hashes, int, Table] | None = None
        """The hashes of rows just found valid, and the table's state with those rows added."""

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.table)

    def bad(self, hashes: Hashes, stream: Codes, pane: Ints, oldest: Ints) -> Mask:
        """Which rows (ordered by pane) are one report too many; the table stays unchanged.

        ``oldest`` is the first pane that some window covers together with the row's own.
        """
        table = self.table[0].copy(), self.table[1].copy(), self.table[2].copy()
        bad, used, table = self._noted(hashes, stream, pane, oldest, self.used, table)
        self._ahead = None if bad.any() else (hashes, used, table)
        return bad

    def admit(self, hashes: Hashes, stream: Codes, pane: Ints, oldest: Ints) -> None:
        """Remember reports that ``bad`` has let pass."""
        if self._ahead is not None and self._ahead[0] is hashes:
            _, self.used, self.table = self._ahead
        else:
            noted = self._noted(hashes, stream, pane, oldest, self.used, self.table)
            _, self.used, self.table = noted
        self._ahead = None

    def _noted(
        self, hashes: Hashes, stream: Codes, pane: Ints, oldest: Ints, used: int, table: Table
    ) -> tuple[Mask, int, Table]:
        keys = guard_keys(frozen(hashes), frozen(stream))
        bad = np.zeros(len(keys), np.bool_)
        at = 0
        while at < len(keys):
            room = len(table[0]) // 2 - used
            if room < min(len(keys) - at, len(table[0]) // 8):
                used, table = self._wider(used, table, int(oldest[at]))
                room = len(table[0]) // 2 - used
            upto = min(at + room, len(keys))
            used += remember(keys, pane, oldest, table, bad, at, upto)
            at = upto
        return bad, used, table

    def _wider(self, used: int, table: Table, oldest: int) -> tuple[int, Table]:
        """A table of the pairs that still have a report in pane ``oldest`` or later.

        Between a sixteenth and a quarter of it is in use, so that it need not be rebuilt soon.
        """
        slots = len(table[0])
        wider = self._empty(slots // 2)
        live = live_slots(table, oldest, wider)
        if not slots // 16 <= live + 16 <= slots // 4:
            return live, self._moved(wider, live)
        return live, wider

    def _moved(self, table: Table, live: int) -> Table:
        target = self._empty(2 * live + 64)
        live_slots(table, int(np.iinfo(np.int64).min), target)
        return target

    def _empty(self, keys: int) -> Table:
        slots = 1 << max(2 * keys - 1, 127).bit_length()
        return (
            np.zeros(slots, np.uint64),
            np.zeros(slots if self.most > 1 else 1, np.int32),
            np.zeros((slots, self.most), np.int64),
        )

    def state(self) -> State:
        """Flat arrays for a snapshot, sorted: the order in the table depends on its history."""
        names = ("keys", "turn", "panes")
        keys, turn, panes = self.table
        used = np.flatnonzero(keys)
        used = used[np.argsort(keys[used])]
        turn = turn if self.most > 1 else np.zeros(len(keys), np.int32)
        return dict(zip(names, (keys[used], turn[used], panes[used]), strict=True))

    def restore(self, arrays: Saved) -> None:
        """Restore the state from a snapshot."""
        found = arrays["keys"].copy(), arrays["turn"].copy(), arrays["panes"].copy()
        self.table = self._empty(len(found[0]))
        self.used = live_slots(found, int(np.iinfo(np.int64).min), self.table)
        self._ahead = None

    def _check(self) -> None:
        keys, turn, panes = self.table
        assert self.used == int((keys > 0).sum()) <= len(keys) // 2
        assert len(np.unique(keys[keys > 0])) == self.used
        assert ((turn >= 0) & (turn < self.most)).all()
        assert panes.shape == (len(keys), self.most)
