"""One dominance graph for Skyline queries that differ only in window and slide.

It is that of the longest window; with groups, each group has its own. Each row knows the first
panes of all windows whose skyline has it (``graph.py``), so every shorter window that ends with the
newest pane is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.contract.one_state import Asked, OneState, Reader
from skyband.contract.runs import PaneFeed, Part, Runs, expand, offsets_of
from skyband.data.retained_rows import RetainedRows
from skyband.kernels.core.borrow import frozen
from skyband.kernels.core.sorting import sort_runs
from skyband.kernels.skyline.stabsky import Members, Reads, stab_fold_groups
from skyband.skyline.graph import OPERATIONS, DominanceGraph
from skyband.skyline.rows import ranks_by_value

__all__ = ["OneGraph"]

_SPARE = 1024
"""Up to this many slots may be unused before the store is compacted."""
Points = Callable[[Part], tuple[Ints, Ints]]


@dataclass
class Room:
    """The slots that were read of each window and group: ``lengths`` of them from ``at`` on."""

    at: Ints
    lengths: Ints
    slots: Ints
    ranks: Ints | None = None
    """The rank of each slot's row by its values, which orders the rows of an answer."""


class OneGraph(OneState):
    """The rows that no row of their group and their own or a newer pane dominates.

    Cost and state are those of ``stabsky`` for the longest window; and the skyline of each pane
    that not every query has sealed.
    """

    def __init__(
        self, readers: Sequence[Reader], feed: PaneFeed, graph: DominanceGraph,
        store: RetainedRows, points: Points,
    ) -> None:  # fmt: skip
        super().__init__(readers, feed)
        self.members, self.counts = graph.members, graph.counts
        self.sizes = np.zeros(1, np.int64)
        """How many members each group has: they come one group after the other, oldest first."""
        self.store = store
        self.points_of = points

    def __len__(self) -> int:
        held = len(self.members.slot)
        return held + (0 if self.recent is None else len(self.recent.parts["rows"]))

    def enter(self, panes: Runs) -> Runs:
        part = panes.parts["rows"]
        points, segment = self.points_of(part)
        slots = self.store.append(part.columns, len(part))
        columns = {"points": points, "segment": segment, "slot": slots}
        return Runs(panes.stamp, panes.group, {"rows": Part(part.offsets, columns)})

    def room(self, asked: Asked) -> Room:
        newest = -1 if self.recent is None else int(self.recent.group.max(initial=-1))
        shape = len(asked.end), max(len(self.sizes), newest + 1)
        return Room(np.zeros(shape, np.int64), np.zeros(shape, np.int64), np.zeros(0, np.int64))

    def run(
        self, panes: Runs, asked: Asked, part: slice, room: Room, expired: int, settle: bool
    ) -> None:
        many, lengths = room.lengths.shape[1], room.lengths[part]
        members, starts, sizes, turns = self._laid_out(panes, many)
        rows = panes.parts["rows"].lengths[turns]
        ends = offsets_of(np.bincount(panes.group, minlength=many))
        ends, offsets, stamps = map(frozen, (ends, offsets_of(rows), panes.stamp[turns]))
        end = asked.end[part]
        reads = Reads(*map(frozen, (asked.first[part], end, end - self.longest)))
        counts = self.counts if settle else self.counts.copy()
        slots = stab_fold_groups(
            members, starts, sizes, ends, offsets, stamps, reads, expired, counts, lengths
        )
        # Slots come group by group, and those of each group window by window.
        at = offsets_of(lengths.T.ravel())[:-1].reshape(many, -1).T
        room.at[part] = len(room.slots) + at
        room.slots = np.concatenate([room.slots, slots]) if len(room.slots) else slots
        if settle:
            kept = expand(starts[:-1], sizes)
            self.members, self.sizes = Members(*(each[kept] for each in members)), sizes

    def _laid_out(self, panes: Runs, many: int) -> tuple[Members, Ints, Ints, Ints]:
        """The members and new rows of each group, where they begin, and the runs by group."""
        rows, turns = panes.parts["rows"], np.argsort(panes.group, kind="stable")
        sizes, fresh = np.zeros(many, np.int64), np.zeros(many, np.int64)
        sizes[: len(self.sizes)] = self.sizes
        np.add.at(fresh, panes.group, rows.lengths)
        starts = offsets_of(sizes + fresh)
        old, new = expand(starts[:-1], sizes), expand(starts[:-1] + sizes, fresh)
        order = expand(rows.offsets[turns], rows.lengths[turns])
        pane = np.repeat(panes.stamp, rows.lengths)
        blank = np.zeros(len(pane), np.int64)
        added = Members(rows["points"], rows["segment"], pane, blank, blank, rows["slot"])
        laid = Members(*(np.empty((starts[-1], *each.shape[1:]), np.int64) for each in added))
        for each, held, more in zip(laid, self.members, added, strict=True):
            each[old], each[new] = held, more[order]
        return laid, starts, sizes, turns

    def settle(self) -> None:
        done = self.counts.copy()
        super().settle()
        self.counts = done  # the states that these rows come from have counted them

    def partial(self, asked: Asked, own: Ints, room: Room) -> Runs:
        if room.ranks is None:
            room.ranks = ranks_by_value(self.store, room.slots)
        window, group = np.nonzero(room.lengths[own])
        lengths = room.lengths[own[window], group]
        read, offsets = expand(room.at[own[window], group], lengths), offsets_of(lengths)
        key = frozen(~room.ranks[read])
        order, _ = sort_runs(key, key, frozen(offsets))
        part = Part(offsets, self.store.gather(room.slots[read[order]]))
        return Runs(asked.number[own][window], group.astype(np.int32), {"rows": part})

    def rows(self) -> Runs:
        assert self.recent is not None
        groups = np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes)
        order = np.lexsort((groups, self.members.pane))
        pane, group = self.members.pane[order], groups[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (pane[1:] != pane[:-1]) | (group[1:] != group[:-1])
        starts, recent = np.flatnonzero(fresh), self.recent.parts["rows"]
        stamp = np.concatenate([pane[starts], self.recent.stamp])
        offsets = np.concatenate([starts, len(order) + recent.offsets])
        slots = np.concatenate([self.members.slot[order], recent["slot"]])
        part = Part(offsets, self.store.gather(slots))
        return Runs(stamp, np.concatenate([group[starts], self.recent.group]), {"rows": part})

    def forget(self, groups: Codes) -> None:
        gone = np.isin(np.arange(len(self.sizes)), groups)
        kept = np.repeat(~gone, self.sizes)
        self.members = Members(*(each[kept] for each in self.members))
        self.sizes = np.where(gone, 0, self.sizes)

    def compact(self) -> None:
        if len(self.store) <= 2 * len(self) + _SPARE:
            return
        settled, slots = len(self.members.slot), [self.members.slot]
        if self.recent is not None:
            part = self.recent.parts["rows"]
            slots.append(part["slot"])
            columns = {**part.columns, "slot": np.arange(settled, settled + len(part))}
            self.recent = self.recent.with_parts(rows=Part(part.offsets, columns))
        self.store.compact(np.concatenate(slots))
        self.members = self.members._replace(slot=np.arange(settled))

    def share(self, place: int) -> dict[str, int | float]:
        counts = zip(OPERATIONS, self.counts.tolist(), strict=True)
        return super().share(place) | dict(counts)

    @property
    def nbytes(self) -> int:
        held = sum(each.nbytes for each in self.members) + self.sizes.nbytes + self.counts.nbytes
        held += self.store.nbytes + self.feed.nbytes
        return held + (0 if self.recent is None else self.recent.nbytes)

    def _check(self) -> None:
        starts = offsets_of(self.sizes)
        assert all(len(each) == starts[-1] for each in self.members)
        for low, high in pairwise(starts.tolist()):
            DominanceGraph.of(Members(*(each[low:high] for each in self.members)))._check()
        rows = self.store.gather(self.members.slot)
        points, segment = self.points_of(Part(np.array([0, starts[-1]]), rows))
        assert np.array_equal(points, self.members.points)
        assert np.array_equal(segment, self.members.segment)
        if self.recent is not None and len(self.recent):
            assert not self.recent.ordered().repeats.any()
            assert (np.diff(self.recent.stamp) >= 0).all()
            assert self.recent.stamp[0] > self.members.pane.max(initial=np.iinfo(np.int64).min)
