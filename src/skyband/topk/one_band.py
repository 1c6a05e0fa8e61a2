"""One k-skyband for TopK queries that differ only in k, window and slide.

It is that of the greatest k and the longest window; with groups, each group has its own. A row that
is not in it is followed by k better ones, so it is not among the best k of any shorter window.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints, copied, pooled
from skyband.contract.one_state import Asked, OneState, Reader
from skyband.contract.runs import PaneFeed, Part, Runs, expand, offsets_of
from skyband.kernels.core.borrow import frozen
from skyband.kernels.core.sorting import sort_runs
from skyband.kernels.topk.one_band import Band, Reads, Turns, count_rows, fold_bands
from skyband.kernels.topk.runs import Runs as Pushed
from skyband.topk.payload import Payload, Value

__all__ = ["OneBand"]

_NONE = np.zeros(0, np.int64)
_NO_GROUPS = np.zeros(0, np.int32)


class Room(NamedTuple):
    """The rows that were read of each window and group: ``lengths`` of them from ``at`` on."""

    at: Ints
    lengths: Ints
    rows: Ints  # slot, key and tie


class OneBand(OneState):
    """The rows that are followed by fewer than k better ones of their group, best first.

    Cost: O(k) amortised per row among the best k of its pane, and per answer one step for each row
    that is better than its last one; a copy of the rows per batch of answers. State: as ``skyband``
    for the greatest k, over the longest window; and the best k rows of each pane that not every
    query has sealed.
    """

    def __init__(self, readers: Sequence[Reader], feed: PaneFeed, payload: Payload | Value) -> None:
        super().__init__(readers, feed)
        self.k = max(reader.k for reader in readers)
        self.payload = payload
        self.held = Band(*(np.zeros(0, np.int64) for _ in Band._fields))
        self.sizes = np.zeros(1, np.int64)
        """How many of these rows each group has; they come one group after the other."""

    def __len__(self) -> int:
        """How many rows are kept."""
        return len(self.held.key) + (0 if self.recent is None else len(self.recent.parts["rows"]))

    def enter(self, panes: Runs) -> Runs:
        part = panes.parts["rows"]
        slots = self.payload.add(part)
        key, tie = frozen(part["key"]), frozen(part["tie"])
        order, _ = sort_runs(key, tie, frozen(part.offsets))
        columns = {"key": key[order], "tie": tie[order], "slot": slots[order]}
        return Runs(panes.stamp, panes.group, {"rows": Part(part.offsets, columns)})

    def room(self, asked: Asked) -> Room:
        recent = self.recent
        if recent is None:
            recent = Runs(_NONE, _NO_GROUPS, {"rows": Part(np.zeros(1, np.int64), {})})
        many = max(len(self.sizes), int(recent.group.max(initial=0)) + 1)
        lengths = np.zeros((len(asked.end), many), np.int64)
        held = offsets_of(self._sizes(many))
        pane, offsets = frozen(recent.stamp), frozen(recent.parts["rows"].offsets)
        first, end, most = map(frozen, (asked.first, asked.end, asked.most))
        turns = _turns(recent, many)
        count_rows(self.held.pane, held, turns, pane, offsets, first, end, most, lengths)
        # One query after the other, so that the rows of each lie together.
        order = np.argsort(asked.place, kind="stable")
        ends = np.cumsum(lengths[order])
        at = np.empty_like(lengths)
        at[order] = ends.reshape(lengths.shape) - lengths[order]
        return Room(at, lengths, pooled((3, int(ends[-1]) if len(ends) else 0), np.int64))

    def _sizes(self, many: int) -> Ints:
        """How many rows each of this many groups has."""
        return np.append(self.sizes, np.zeros(many - len(self.sizes), np.int64))

    def run(
        self, panes: Runs, asked: Asked, part: slice, room: Room, expired: int, settle: bool
    ) -> None:
        rows, many = panes.parts["rows"], room.lengths.shape[1]
        sizes, fresh = self._sizes(many), np.zeros(many, np.int64)
        np.add.at(fresh, panes.group, rows.lengths)
        starts = offsets_of(sizes + fresh)
        band = Band(*(np.empty(starts[-1], np.int64) for _ in self.held))
        held = expand(starts[:-1], sizes)
        for each, old in zip(band, self.held, strict=True):
            each[held] = old
        pushed = (panes.stamp, rows.offsets, rows["key"], rows["tie"], rows["slot"])
        end = asked.end[part]
        reads = (asked.first[part], end, end - self.longest, room.lengths[part], room.at[part])
        fold_bands(
            band, starts, sizes, Pushed(*map(frozen, pushed)), _turns(panes, many), self.k,
            Reads(*map(frozen, reads)), room.rows, expired,
        )  # fmt: skip
        if settle:
            kept = expand(starts[:-1], sizes)
            self.held, self.sizes = Band(*(each[kept] for each in band)), sizes

    def partial(self, asked: Asked, own: Ints, room: Room) -> Runs:
        lengths = room.lengths[own]
        window, group = np.nonzero(lengths)
        first, offsets = int(room.at[own[0], 0]), offsets_of(lengths[window, group])
        slot, key, tie = room.rows[:, first : first + int(offsets[-1])]
        columns: dict[str, Any] = {"key": key, "tie": copied(tie)}
        columns |= self.payload.gather(slot)
        number = asked.number[own][window]
        return Runs(number, group.astype(np.int32), {"rows": Part(offsets, columns)})

    def rows(self) -> Runs:
        assert self.recent is not None
        band, recent = self.held, self.recent
        groups = np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes)
        # Stable, so rows that tie in all but their id keep their order.
        order = np.lexsort((groups, band.pane))
        pane, group = band.pane[order], groups[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (pane[1:] != pane[:-1]) | (group[1:] != group[:-1])
        starts = np.flatnonzero(fresh)
        columns = {"key": band.key[order], "tie": band.tie[order], "slot": band.slot[order]}
        part = Part(np.append(starts, len(order)), columns)
        runs = Runs.concat([Runs(pane[starts], group[starts], {"rows": part}), recent])
        part = runs.parts["rows"]
        shown: dict[str, Any] = {"key": part["key"], "tie": part["tie"]}
        shown |= self.payload.gather(part["slot"])
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, shown)})

    def forget(self, groups: Codes) -> None:
        gone = np.isin(np.arange(len(self.sizes)), groups)
        if not self.sizes[gone].any():
            return  # or another query has forgotten them before
        kept = np.repeat(~gone, self.sizes)
        self.held = Band(*(each[kept] for each in self.held))
        self.sizes = np.where(gone, 0, self.sizes)

    @property
    def crowded(self) -> bool:
        return self.payload.crowded(len(self))

    def compact(self) -> None:
        if not self.crowded:
            return
        settled, recent = len(self.held.key), self.recent
        slots = self.held.slot
        if recent is not None:
            slots = np.concatenate([slots, recent.parts["rows"]["slot"]])
        self.payload.compact(slots)
        self.held = self.held._replace(slot=np.arange(settled))
        if recent is not None:
            part = recent.parts["rows"]
            columns = {**part.columns, "slot": np.arange(settled, len(slots))}
            self.recent = recent.with_parts(rows=Part(part.offsets, columns))

    @property
    def nbytes(self) -> int:
        held = sum(each.nbytes for each in self.held) + self.sizes.nbytes + self.payload.nbytes
        return held + self.feed.nbytes + (0 if self.recent is None else self.recent.nbytes)

    def _check(self) -> None:
        starts = offsets_of(self.sizes)
        assert starts[-1] == len(self.held.key)
        for low, high in pairwise(starts.tolist()):
            key, tie, _, pane, counted = (each[low:high] for each in self.held)
            order = np.lexsort((~tie, ~key))
            assert np.array_equal(key, key[order])
            assert np.array_equal(tie, tie[order])
            better = [int((pane[:i] >= pane[i]).sum()) for i in range(len(key))]
            assert counted.tolist() == better
            assert (counted < self.k).all()
        slots = [self.held.slot]
        slots += [] if self.recent is None else [self.recent.parts["rows"]["slot"]]
        self.payload._check(np.concatenate(slots))
        self.check_recent(self.held.pane)


def _turns(runs: Runs, many: int) -> Turns:
    """Runs in order of their groups, of which there are this many."""
    turns = np.argsort(runs.group, kind="stable")
    return Turns(turns, offsets_of(np.bincount(runs.group, minlength=many)))
