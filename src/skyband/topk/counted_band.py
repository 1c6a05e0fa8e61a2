"""One k-skyband of each group for TopK queries over count windows, with progress by group."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Ints, copied, pooled
from skyband.contract.counted_rows import CountedRows, Pushed
from skyband.contract.counted_state import ends_of, turns_of
from skyband.contract.runs import Part, Runs, expand, offsets_of
from skyband.kernels.core.borrow import frozen
from skyband.kernels.topk.one_band import Reads, Turns, count_each, fold_each
from skyband.kernels.topk.runs import Runs as PushedRuns
from skyband.topk.one_band import OneBand

__all__ = ["CountedBand"]


class Room(NamedTuple):
    """The rows that were read of each window: ``lengths`` of them from ``at`` on."""

    at: Ints
    lengths: Ints
    rows: Ints  # slot, key and tie


class CountedBand(CountedRows, OneBand):
    """As ``OneBand``, where each group has sealed its own panes.

    Cost: as there, for the groups that have rows in a batch.
    """

    def room(self, asked: Any) -> Any:
        lengths = np.zeros(len(asked.end), np.int64)
        if self.recent is not None and len(lengths):
            groups = np.unique(asked.group)
            panes = self.recent_of(groups)
            work = expand(self.starts[groups], self.sizes[groups])
            turns = Turns(*turns_of(panes, groups))
            rows = self.held.pane[work], offsets_of(self.sizes[groups]), turns
            pushed = frozen(panes.stamp), frozen(panes.parts["rows"].offsets)
            first, end, most = map(frozen, (asked.first, asked.end, asked.most))
            count_each(*rows, *pushed, ends_of(asked, groups), first, end, most, lengths)
        # One query after the other, so that the rows of each lie together.
        order = np.argsort(asked.place, kind="stable")
        ends, at = np.cumsum(lengths[order]), np.empty_like(lengths)
        at[order] = ends - lengths[order]
        return Room(at, lengths, pooled((3, int(ends[-1]) if len(ends) else 0), np.int64))

    def push_rows(self, pushed: Pushed, which: Ints, room: Room, settle: bool) -> None:
        panes, reading = pushed.panes, pushed.reading
        rows = panes.parts["rows"]
        runs = (panes.stamp, rows.offsets, rows["key"], rows["tie"], rows["slot"])
        most, at = room.lengths[which][:, None], room.at[which][:, None]
        reads = (reading.first, reading.end, reading.end - self.longest, most, at)
        fold_each(
            pushed.laid, pushed.starts, pushed.sizes, PushedRuns(*map(frozen, runs)),
            Turns(*pushed.turns), self.k, Reads(*map(frozen, reads)), pushed.ends, room.rows,
            frozen(pushed.expired),
        )  # fmt: skip

    def partial(self, asked: Any, own: Ints, room: Any) -> Runs:
        lengths = room.lengths[own]
        some = own[lengths > 0]
        offsets = offsets_of(room.lengths[some])
        first = int(room.at[own[0]]) if len(own) else 0
        slot, key, tie = room.rows[:, first : first + int(offsets[-1])]
        columns: dict[str, Any] = {"key": key, "tie": copied(tie)} | self.payload.gather(slot)
        group = asked.group[some].astype(np.int32)
        return Runs(asked.number[some], group, {"rows": Part(offsets, columns)})
