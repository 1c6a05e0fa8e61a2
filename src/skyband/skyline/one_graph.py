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

__all__ = ["OneGraph", "Room", "add_rows"]

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
        self.held, self.counts = graph.members, graph.counts
        self.sizes = np.zeros(1, np.int64)
        """How many members each group has: they come one group after the other, oldest first."""
        self.store = store
        self.points_of = points

    def __len__(self) -> int:
        held = len(self.held.slot)
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
            self.held, self.sizes = Members(*(each[kept] for each in members)), sizes

    def _laid_out(self, panes: Runs, many: int) -> tuple[Members, Ints, Ints, Ints]:
        """The members and new rows of each group, where they begin, and the runs by group."""
        turns = np.argsort(panes.group, kind="stable")
        sizes, fresh = np.zeros(many, np.int64), np.zeros(many, np.int64)
        sizes[: len(self.sizes)] = self.sizes
        np.add.at(fresh, panes.group, panes.parts["rows"].lengths)
        starts = offsets_of(sizes + fresh)
        laid = Members(*(np.empty((starts[-1], *each.shape[1:]), np.int64) for each in self.held))
        held = expand(starts[:-1], sizes)
        for each, old in zip(laid, self.held, strict=True):
            each[held] = old
        add_rows(laid, starts, sizes, panes, turns)
        return laid, starts, sizes, turns

    def settle(self) -> None:
        done = self.counts.copy()
        super().settle()
        self.counts = done  # the states that these rows come from have counted them

    def partial(self, asked: Asked, own: Ints, room: Room) -> Runs:
        window, group = np.nonzero(room.lengths[own])
        at, lengths = room.at[own[window], group], room.lengths[own[window], group]
        rows = self.answered(room, at, lengths)
        return Runs(asked.number[own][window], group.astype(np.int32), {"rows": rows})

    def answered(self, room: Room, at: Ints, lengths: Ints) -> Part:
        """The rows at these places of what was read, in the order that answers have."""
        if room.ranks is None:
            room.ranks = ranks_by_value(self.store, room.slots)
        read, offsets = expand(at, lengths), offsets_of(lengths)
        key = frozen(~room.ranks[read])
        order, _ = sort_runs(key, key, frozen(offsets))
        return Part(offsets, self.store.gather(room.slots[read[order]]))

    def rows(self) -> Runs:
        assert self.recent is not None
        groups = np.repeat(np.arange(len(self.sizes), dtype=np.int32), self.sizes)
        order = np.lexsort((groups, self.held.pane))
        pane, group = self.held.pane[order], groups[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (pane[1:] != pane[:-1]) | (group[1:] != group[:-1])
        starts, recent = np.flatnonzero(fresh), self.recent.parts["rows"]
        stamp = np.concatenate([pane[starts], self.recent.stamp])
        offsets = np.concatenate([starts, len(order) + recent.offsets])
        slots = np.concatenate([self.held.slot[order], recent["slot"]])
        part = Part(offsets, self.store.gather(slots))
        return Runs(stamp, np.concatenate([group[starts], self.recent.group]), {"rows": part})

    def forget(self, groups: Codes) -> None:
        gone = np.isin(np.arange(len(self.sizes)), groups)
        kept = np.repeat(~gone, self.sizes)
        self.held = Members(*(each[kept] for each in self.held))
        self.sizes = np.where(gone, 0, self.sizes)

    @property
    def crowded(self) -> bool:
        return len(self.store) > 2 * len(self) + _SPARE

    def compact(self) -> None:
        if not self.crowded:
            return
        settled, slots = len(self.held.slot), [self.held.slot]
        if self.recent is not None:
            part = self.recent.parts["rows"]
            slots.append(part["slot"])
            columns = {**part.columns, "slot": np.arange(settled, settled + len(part))}
            self.recent = self.recent.with_parts(rows=Part(part.offsets, columns))
        self.store.compact(np.concatenate(slots))
        self.held = self.held._replace(slot=np.arange(settled))

    def share(self, place: int) -> dict[str, int | float]:
        counts = zip(OPERATIONS, self.counts.tolist(), strict=True)
        return super().share(place) | dict(counts)

    @property
    def nbytes(self) -> int:
        held = sum(each.nbytes for each in self.held) + self.sizes.nbytes + self.counts.nbytes
        held += self.store.nbytes + self.feed.nbytes
        return held + (0 if self.recent is None else self.recent.nbytes)

    def _check(self) -> None:
        starts = offsets_of(self.sizes)
        assert all(len(each) == starts[-1] for each in self.held)
        for low, high in pairwise(starts.tolist()):
            DominanceGraph.of(Members(*(each[low:high] for each in self.held)))._check()
        rows = self.store.gather(self.held.slot)
        points, segment = self.points_of(Part(np.array([0, starts[-1]]), rows))
        assert np.array_equal(points, self.held.points)
        assert np.array_equal(segment, self.held.segment)
        self.check_recent(self.held.pane)


def add_rows(laid: Members, starts: Ints, sizes: Ints, panes: Runs, turns: Ints) -> None:
    """Write the rows of panes behind the members of their groups; ``turns`` are runs by group."""
    rows = panes.parts["rows"]
    at = expand(starts[:-1] + sizes, np.diff(starts) - sizes)
    order = expand(rows.offsets[turns], rows.lengths[turns])
    laid.points[at], laid.segment[at] = rows["points"][order], rows["segment"][order]
    laid.pane[at] = np.repeat(panes.stamp[turns], rows.lengths[turns])
    laid.since[at] = laid.parent[at] = 0
    laid.slot[at] = rows["slot"][order]
