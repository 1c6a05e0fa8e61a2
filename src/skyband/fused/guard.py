"""The guard against more live reports of one object in one stream than the query allows."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Codes, Hashes, Ints, Mask, Saved, State
from skyband.data.flat_state import Form, admitted
from skyband.kernels.core.borrow import frozen
from skyband.kernels.fused.guard import guard_keys, live_slots, remember

__all__ = ["Guard"]

Table = tuple[Hashes, Codes, Ints]


def _fill(table: Table) -> int:
    """How many pairs a table may hold: three quarters of its slots, so that probes stay short."""
    return 3 * len(table[0]) // 4


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
            room = _fill(table) - used
            if room < max(min(len(keys) - at, len(table[0]) // 32), 1):
                used, table = self._renewed(table, int(oldest[at]))
                room = _fill(table) - used
            upto = min(at + room, len(keys))
            used += remember(keys, pane, oldest, table, bad, at, upto)
            at = upto
        return bad, used, table

    def _renewed(self, table: Table, oldest: int) -> tuple[int, Table]:
        """A table of the pairs that still have a report in pane ``oldest`` or later.

        It has room for a quarter more, so that it need not be rebuilt soon.
        """
        live = self._live(table, oldest)
        wider = self._empty(live + live // 4 + 64)
        return live_slots(table, oldest, wider), wider

    def _live(self, table: Table, oldest: int) -> int:
        keys, turn, panes = table
        last = panes[:, 0]
        if self.most > 1:
            last = panes[np.arange(len(keys)), (turn + self.most - 1) % self.most]
        return int(((keys > 0) & (last >= oldest)).sum())

    def _empty(self, keys: int) -> Table:
        slots = max(-(-4 * keys // 3), 8) + 1
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
        like = {"keys": self.table[0], "turn": self.table[1], "panes": self.table[2]}
        forms = {"keys": Form("keys", 1), "turn": Form("keys", 0, self.most), "panes": Form("keys")}
        keys, turn, panes = admitted(arrays, like, forms).values()
        self.table = self._empty(len(keys))
        self.used = live_slots((keys, turn, panes), int(np.iinfo(np.int64).min), self.table)
        self._ahead = None

    def _check(self) -> None:
        keys, turn, panes = self.table
        assert self.used == int((keys > 0).sum()) <= _fill(self.table)
        assert len(np.unique(keys[keys > 0])) == self.used
        assert ((turn >= 0) & (turn < self.most)).all()
        assert panes.shape == (len(keys), self.most)
