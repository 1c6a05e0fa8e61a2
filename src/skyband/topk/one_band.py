"""One k-skyband for TopK queries that differ only in k, window and slide.

It is that of the greatest k and the longest window. A row that is not in it is followed by k better
ones, so it is not among the best k of any shorter window either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Ints, copied, pooled
from skyband.contract.one_state import Asked, OneState, Reader
from skyband.contract.runs import PaneFeed, Part, Runs, expand, offsets_of, run_starts
from skyband.kernels.core.borrow import frozen
from skyband.kernels.core.sorting import sort_runs
from skyband.kernels.topk.one_band import Band, Reads, fold_band
from skyband.kernels.topk.runs import Runs as Pushed
from skyband.topk.payload import Payload, Value

__all__ = ["OneBand"]


class Room(NamedTuple):
    """The rows that were read of each window: ``lengths`` of them from ``at`` on."""

    most: Ints
    at: Ints
    lengths: Ints
    rows: Ints  # slot, key and tie


class OneBand(OneState):
    """The rows that are followed by fewer than k better ones, best first.

    Cost: O(k) amortised per row among the best k of its pane, and per answer one step for each row
    that is better than its last one. State: as ``skyband`` for the greatest k, over the longest
    window; and the best k rows of each pane that not every query has sealed.
    """

    def __init__(self, readers: Sequence[Reader], feed: PaneFeed, payload: Payload | Value) -> None:
        super().__init__(readers, feed)
        self.k = max(reader.k for reader in readers)
        self.payload = payload
        self.band = Band(*(np.zeros(0, np.int64) for _ in Band._fields))

    def __len__(self) -> int:
        """How many rows are kept."""
        return len(self.band.key) + (0 if self.recent is None else len(self.recent.parts["rows"]))

    def enter(self, panes: Runs) -> Runs:
        part = panes.parts["rows"]
        slots = self.payload.add(part)
        key, tie = frozen(part["key"]), frozen(part["tie"])
        order, _ = sort_runs(key, tie, frozen(part.offsets))
        columns = {"key": key[order], "tie": tie[order], "slot": slots[order]}
        return Runs(panes.stamp, panes.group, {"rows": Part(part.offsets, columns)})

    def room(self, asked: Asked) -> Room:
        # One query after the other, so that the rows of each lie together.
        most, order = np.minimum(asked.most, len(self)), np.argsort(asked.place, kind="stable")
        ends = np.cumsum(most[order])
        at = np.empty(len(order), np.int64)
        at[order] = ends - most[order]
        rows = pooled((3, int(ends[-1]) if len(ends) else 0), np.int64)
        return Room(most, at, np.zeros(len(order), np.int64), rows)

    def run(
        self, panes: Runs, asked: Asked, part: slice, room: Room, expired: int, settle: bool
    ) -> None:
        rows, size = panes.parts["rows"], len(self.band.key)
        more = np.empty(len(rows), np.int64)
        band = Band(*(np.concatenate([each, more]) for each in self.band))
        pushed = (panes.stamp, rows.offsets, rows["key"], rows["tie"], rows["slot"])
        end = asked.end[part]
        reads = (asked.first[part], end, end - self.longest, room.most[part], room.at[part])
        size = fold_band(
            band, size, Pushed(*map(frozen, pushed)), self.k, Reads(*map(frozen, reads)),
            room.rows, room.lengths[part], expired,
        )  # fmt: skip
        if settle:
            self.band = Band(*(each[:size].copy() for each in band))

    def partial(self, asked: Asked, own: Ints, room: Room) -> Runs:
        own = own[room.lengths[own] > 0]
        at, lengths = room.at[own], room.lengths[own]
        total = int(lengths.sum())
        if total and at[-1] + lengths[-1] - at[0] == total:  # without gaps
            slot, key, tie = room.rows[:, at[0] : at[0] + total]
        else:
            slot, key, tie = room.rows[:, expand(at, lengths)]
        columns: dict[str, Any] = {"key": key, "tie": copied(tie)}
        columns |= self.payload.gather(slot)
        group = np.zeros(len(own), np.int32)
        return Runs(asked.number[own], group, {"rows": Part(offsets_of(lengths), columns)})

    def rows(self) -> Runs:
        assert self.recent is not None
        band, recent = self.band, self.recent
        # Stable, so rows that tie in all but their id keep their order.
        order = np.argsort(band.pane, kind="stable")
        starts = run_starts(band.pane[order])
        columns = {"key": band.key[order], "tie": band.tie[order], "slot": band.slot[order]}
        part = Part(np.append(starts, len(order)), columns)
        group = np.zeros(len(starts), np.int32)
        runs = Runs.concat([Runs(band.pane[order][starts], group, {"rows": part}), recent])
        part = runs.parts["rows"]
        shown: dict[str, Any] = {"key": part["key"], "tie": part["tie"]}
        shown |= self.payload.gather(part["slot"])
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, shown)})

    def compact(self) -> None:
        if not self.payload.crowded(len(self)):
            return
        settled, recent = len(self.band.key), self.recent
        slots = self.band.slot
        if recent is not None:
            slots = np.concatenate([slots, recent.parts["rows"]["slot"]])
        self.payload.compact(slots)
        self.band = self.band._replace(slot=np.arange(settled))
        if recent is not None:
            part = recent.parts["rows"]
            columns = {**part.columns, "slot": np.arange(settled, len(slots))}
            self.recent = recent.with_parts(rows=Part(part.offsets, columns))

    @property
    def nbytes(self) -> int:
        held = sum(each.nbytes for each in self.band) + self.payload.nbytes
        return held + self.feed.nbytes + (0 if self.recent is None else self.recent.nbytes)

    def _check(self) -> None:
        key, tie, slot, pane, counted = self.band
        order = np.lexsort((~tie, ~key))
        assert np.array_equal(key, key[order])
        assert np.array_equal(tie, tie[order])
        better = [int((pane[:i] >= pane[i]).sum()) for i in range(len(key))]
        assert counted.tolist() == better
        assert (counted < self.k).all()
        slots = [slot] if self.recent is None else [slot, self.recent.parts["rows"]["slot"]]
        self.payload._check(np.concatenate(slots))
        if self.recent is not None and len(self.recent):
            assert (np.diff(self.recent.stamp) > 0).all()
            assert self.recent.stamp[0] > pane.max(initial=np.iinfo(np.int64).min)
