"""One dominance graph for Skyline queries that differ only in window and slide.

It is that of the longest window. Each row knows the first panes of all windows whose skyline has
it (``graph.py``), so every shorter window that ends with the newest pane is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from skyband.arrays import Ints
from skyband.contract.one_state import Asked, OneState, Reader
from skyband.contract.runs import PaneFeed, Part, Runs, expand, offsets_of, run_starts
from skyband.data.retained_rows import RetainedRows
from skyband.skyline.graph import DominanceGraph

__all__ = ["OneGraph"]

_SPARE = 1024
"""Up to this many slots may be unused before the store is compacted."""
_BEYOND = int(np.iinfo(np.int64).max)
Points = Callable[[Part], tuple[Ints, Ints]]
Answer = Callable[[RetainedRows, Ints, Ints, Ints], Runs]


class Room(NamedTuple):
    """The slots that were read, one window after the other, and how many of each."""

    slots: list[Ints]
    lengths: Ints


class OneGraph(OneState):
    """The rows that no row of their own or a newer pane dominates, with their intervals.

    Cost and state are those of ``stabsky`` for the longest window; and the skyline of each pane
    that not every query has sealed.
    """

    def __init__(
        self, readers: Sequence[Reader], feed: PaneFeed, graph: DominanceGraph,
        store: RetainedRows, points: Points, answer: Answer,
    ) -> None:  # fmt: skip
        super().__init__(readers, feed)
        self.graph, self.store = graph, store
        self.points_of, self.answer = points, answer

    def __len__(self) -> int:
        return len(self.graph) + (0 if self.recent is None else len(self.recent.parts["rows"]))

    def enter(self, panes: Runs) -> Runs:
        part = panes.parts["rows"]
        points, segment = self.points_of(part)
        slots = self.store.append(part.columns, len(part))
        columns = {"points": points, "segment": segment, "slot": slots}
        return Runs(panes.stamp, panes.group, {"rows": Part(part.offsets, columns)})

    def room(self, asked: Asked) -> Room:
        return Room([], np.zeros(len(asked.end), np.int64))

    def run(
        self, panes: Runs, asked: Asked, part: slice, room: Room, expired: int, settle: bool
    ) -> None:
        rows, graph = panes.parts["rows"], self.graph if settle else self.graph.copy()
        # The last window has no rows; all panes are in when it is read, and it lets old ones go.
        first, end = np.append(asked.first[part], _BEYOND), np.append(asked.end[part], _BEYOND)
        gone = np.append(end[:-1] - self.longest, expired)
        pushed = (rows["points"], rows["segment"], rows["slot"], rows.offsets, panes.stamp)
        slots, ends = graph.fold(*pushed, first, end, gone)
        room.slots.append(slots)
        room.lengths[part] = np.diff(ends[:-1])

    def partial(self, asked: Asked, own: Ints, room: Room) -> Runs:
        slots = np.concatenate([np.zeros(0, np.int64), *room.slots])
        starts, lengths = offsets_of(room.lengths)[own], room.lengths[own]
        chosen = slots[expand(starts, lengths)]
        return self.answer(self.store, chosen, offsets_of(lengths), asked.number[own])

    def rows(self) -> Runs:
        assert self.recent is not None
        pane, recent = self.graph.pane, self.recent.parts["rows"]
        starts = run_starts(pane)
        stamp = np.concatenate([pane[starts], self.recent.stamp])
        offsets = np.concatenate([starts, len(pane) + recent.offsets])
        slots = np.concatenate([self.graph.slot, recent["slot"]])
        part = Part(offsets, self.store.gather(slots))
        return Runs(stamp, np.zeros(len(stamp), np.int32), {"rows": part})

    def compact(self) -> None:
        if len(self.store) <= 2 * len(self) + _SPARE:
            return
        settled, slots = len(self.graph), [self.graph.slot]
        if self.recent is not None:
            part = self.recent.parts["rows"]
            slots.append(part["slot"])
            columns = {**part.columns, "slot": np.arange(settled, settled + len(part))}
            self.recent = self.recent.with_parts(rows=Part(part.offsets, columns))
        self.store.compact(np.concatenate(slots))
        self.graph.slot = np.arange(settled)

    @property
    def nbytes(self) -> int:
        held = self.graph.nbytes + self.store.nbytes + self.feed.nbytes
        return held + (0 if self.recent is None else self.recent.nbytes)

    def _check(self) -> None:
        self.graph._check()
        if self.recent is not None and len(self.recent):
            assert (np.diff(self.recent.stamp) > 0).all()
            assert self.recent.stamp[0] > self.graph.pane.max(initial=np.iinfo(np.int64).min)
