"""The dominance graph of a sliding window: non-redundant rows, critical dominators, intervals."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.arrays import Ints, Saved
from skyband.data.flat_state import FlatState, Form, Forms, require
from skyband.kernels.core.borrow import frozen
from skyband.kernels.skyline.stabsky import ALWAYS, Members, stab_fold, stab_follow, stab_read
from skyband.skyline.points import skylines

__all__ = ["OPERATIONS", "DominanceGraph"]

_FIELDS = Members._fields
OPERATIONS = ("comparisons", "redundant", "expired", "edges")
"""What the kernels count."""


class DominanceGraph(FlatState):
    """Rows that are not dominated by any row of their own or a newer pane, oldest first.

    ``parent`` is a row's critical dominator, the youngest older row that dominates it (-1: none is
    live). The interval (``since``, ``pane``] holds the first panes of all windows whose skyline
    contains the row. ``slot`` is the owner's number for the row.

    In this example, the paper's Figure 2, every tuple is a pane; p1 and p2 are redundant.

        p3 ──► p7      (0, 3] (3, 7]
        p4 ─┬► p5      (0, 4] (4, 5]
            └► p6             (4, 6]
    """

    saved_arrays = (*_FIELDS, "counts")
    saved_forms: ClassVar[Forms] = {
        **dict.fromkeys(_FIELDS, Form("rows")),
        "pane": Form("rows", ascends=True),
        "parent": Form("rows", -1, "rows"),
        "slot": Form("rows", 0),
        "counts": Form(len(OPERATIONS)),
    }

    def __init__(self, dimensions: int) -> None:
        self.points: Ints = np.empty((0, dimensions), np.int64)
        self.segment: Ints = np.zeros(0, np.int64)
        self.pane: Ints = np.zeros(0, np.int64)
        self.since: Ints = np.zeros(0, np.int64)
        self.parent: Ints = np.zeros(0, np.int64)
        self.slot: Ints = np.zeros(0, np.int64)
        self.counts = np.zeros(4, np.int64)

    def __len__(self) -> int:
        return len(self.pane)

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        require((self.parent < np.arange(len(self))).all(), "a row is older than its parent")

    @staticmethod
    def of(members: Members) -> DominanceGraph:
        """A graph of these rows; nothing was counted for it."""
        graph = DominanceGraph(members.points.shape[1])
        for name, array in zip(_FIELDS, members, strict=True):
            setattr(graph, name, array)
        return graph

    @property
    def members(self) -> Members:
        return Members(self.points, self.segment, self.pane, self.since, self.parent, self.slot)

    def fold(
        self,
        points: Ints,
        segment: Ints,
        slots: Ints,
        offsets: Ints,
        stamps: Ints,
        first: Ints,
        end: Ints,
    ) -> tuple[Ints, Ints]:
        """Push the skylines of panes and read windows; returns slots per window, and offsets."""
        blank = np.zeros(len(slots), np.int64)
        members = Members(
            np.concatenate([self.points, points]),
            np.concatenate([self.segment, segment]),
            np.concatenate([self.pane, np.repeat(stamps, np.diff(offsets))]),
            np.concatenate([self.since, blank]),
            np.concatenate([self.parent, blank]),
            np.concatenate([self.slot, slots]),
        )
        cuts, stamps = frozen(offsets), frozen(stamps)
        size, found, ends = stab_fold(members, len(self), cuts, stamps, first, end, self.counts)
        for name, array in zip(_FIELDS, members, strict=True):
            setattr(self, name, array[:size])
        return found, ends

    def follow(
        self, rows: tuple[Ints, Ints, Ints], start: int, shift: int, first: int, counts: Ints
    ) -> None:
        """Expire rows older than pane ``first``, then take the live rows from ``start`` on.

        ``rows`` holds the points, segments and panes of live rows, oldest first; a row's slot is
        its position plus ``shift``. ``counts[0]`` grows by the comparisons within panes.
        """
        points, segment, pane = rows
        if len(segment) and (segment[start:] != segment[-1]).any():
            fresh = np.flatnonzero(pane[start + 1 :] != pane[start:-1]) + 1
            cuts = np.array([0, *fresh, len(pane) - start])
            kept, offsets = skylines(points[start:], segment[start:], cuts, counts)
            kept += start
            window = np.array([first]), np.array([ALWAYS])
            stamps = pane[start + cuts[:-1]]
            self.fold(points[kept], segment[kept], kept + shift, offsets, stamps, *window)
            return
        found = stab_follow(self.members, *rows, start, shift, first, self.counts, counts)
        for name, array in zip(_FIELDS, found, strict=True):
            setattr(self, name, array)

    def read(self, first: int) -> Ints:
        """Slots on the skyline of the window that begins with pane ``first``."""
        return stab_read(self.members, first)

    def stats(self) -> dict[str, int | float]:
        """Operation counts."""
        return dict(zip(OPERATIONS, self.counts.tolist(), strict=True))

    def _check(self) -> None:
        size = len(self)
        assert all(len(getattr(self, name)) == size for name in _FIELDS)
        assert (np.diff(self.pane) >= 0).all(), "rows are ordered by age"
        for child in range(size):
            better = (self.points >= self.points[child]).all(axis=1)
            better &= (self.points > self.points[child]).any(axis=1)
            better &= self.segment == self.segment[child]
            above = np.flatnonzero(better)
            assert (self.pane[above] < self.pane[child]).all(), "a redundant row"
            parent = int(self.parent[child])
            if len(above):
                assert self.pane[above].max() == self.pane[parent] == self.since[child]
                assert parent in above, "an edge without dominance"
                assert parent < child, "the graph is a forest that grows with age"
            else:
                assert parent == -1, "a root without a live dominator"
                assert self.since[child] == ALWAYS or self.since[child] < self.pane[0]
