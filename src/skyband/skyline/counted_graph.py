"""One dominance graph of each group for Skyline queries over count windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Ints
from skyband.contract.counted_rows import CountedRows, Pushed
from skyband.contract.runs import Runs, offsets_of
from skyband.kernels.core.borrow import frozen
from skyband.kernels.skyline.stabsky import Reads, stab_fold_each
from skyband.skyline.one_graph import OneGraph, Room, add_rows

__all__ = ["CountedGraph"]


class CountedGraph(CountedRows, OneGraph):
    """As ``OneGraph``, where each group has sealed its own panes.

    Cost: as there, for the groups that have rows in a batch.
    """

    def room(self, asked: Any) -> Room:
        many = len(asked.end)
        return Room(np.zeros(many, np.int64), np.zeros(many, np.int64), np.zeros(0, np.int64))

    def push_rows(self, pushed: Pushed, which: Ints, room: Room, settle: bool) -> None:
        laid, starts, sizes, panes, turns, reading, ends, expired = pushed
        add_rows(laid, starts, sizes, panes, turns.run)
        rows, lengths = panes.parts["rows"].lengths[turns.run], np.zeros(len(which), np.int64)
        cuts, stamps = frozen(offsets_of(rows)), frozen(panes.stamp[turns.run])
        reads = reading.first, reading.end, reading.end - self.longest
        slots = stab_fold_each(
            laid, starts, sizes, frozen(turns.ends), cuts, stamps, Reads(*map(frozen, reads)),
            frozen(ends), frozen(expired), self.counts if settle else self.counts.copy(), lengths,
        )  # fmt: skip
        # Slots come in the order of these windows.
        room.at[which], room.lengths[which] = len(room.slots) + offsets_of(lengths)[:-1], lengths
        room.slots = np.concatenate([room.slots, slots]) if len(room.slots) else slots

    def partial(self, asked: Any, own: Ints, room: Room) -> Runs:
        some = own[room.lengths[own] > 0]
        rows = self.answered(room, room.at[some], room.lengths[some])
        return Runs(asked.number[some], asked.group[some].astype(np.int32), {"rows": rows})
