"""stabsky: the non-redundant rows with their dominance graph, from which any window is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.kernels.stab import ALWAYS, stab_fold, stab_read
from skyband.query.skyline import Skyline
from skyband.runs import Runs
from skyband.skyline.rows import RowStore, under
from skyband.skyline.single import SkylineSynopsis
from skyband.synopsis import Windows

__all__ = ["StabSky"]

Ints = npt.NDArray[np.int64]
_SPARE = 1024
"""Slots without a row that are not worth compacting a store for."""


class StabSky(SkylineSynopsis):
    """The rows that can still be answered, each with the window starts for which it is.

    A row is redundant once a row that expires no earlier dominates it. Every other row keeps its
    critical dominator, the youngest older row that dominates it: those edges are the dominance
    graph, and the interval (pane of the critical dominator, own pane] holds the first panes of all
    windows that answer the row. So any shorter window, in whole panes, is read from the same state.

    Time: O(s m) comparisons a pane, s being the rows on its skyline and m the members; O(m) a
    window read. State: m rows; on n independent rows in d dimensions about (ln n)^d / d!. Exact.

    Lin et al., as in the paper's section IV.A and Algorithm 1, by panes instead of rows. Intervals
    lie in one flat array that is scanned, not in an interval tree: see
    docs/decisions/0030-stabsky-by-panes.md.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"price": [3, 2, 4, 1], "volume": [5, 1, 9, 1]})
    >>> wish = {"price": "min", "volume": "max"}
    >>> monitor = sb.Monitor(sb.Skyline(prefer=wish, window=sb.CountWindow(4, slide=1)))
    >>> monitor.push(rows)[-1].table["price"].to_pylist()
    [1, 3, 4]
    >>> monitor.peek(last=2).table["price"].to_pylist()
    [1, 4]
    """

    def __init__(self, query: Skyline) -> None:
        super().__init__(query)
        self.store: RowStore | None = None
        self.points: Ints = np.empty((0, self.shown_prefer.dimensions), np.int64)
        self.segment: Ints = np.zeros(0, np.int64)
        self.pane: Ints = np.zeros(0, np.int64)
        self.since: Ints = np.zeros(0, np.int64)
        self.parent: Ints = np.zeros(0, np.int64)
        self.slot: Ints = np.zeros(0, np.int64)
        self.counts = np.zeros(4, np.int64)

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        slots, offsets = self._fold(panes, windows.first, windows.end)
        found = self.answer(self._rows(), slots, offsets, windows.number) if len(windows) else None
        store = self._rows()
        if len(store) > 2 * len(self.slot) + _SPARE:
            store.compact(self.slot)
            self.slot = np.arange(len(self.slot))
        return found

    def _fold(self, panes: Runs, first: Ints, end: Ints) -> tuple[Ints, Ints]:
        part = panes.parts["rows"]
        size = len(self.pane)
        points, segment = self.points_of(part)
        blank = np.zeros(len(part), np.int64)
        slots = self._rows().append(part.columns, len(part)) if len(part) else blank
        arrays = (
            np.concatenate([self.points, points]),
            np.concatenate([self.segment, segment]),
            np.concatenate([self.pane, np.repeat(panes.stamp, part.lengths)]),
            np.concatenate([self.since, blank]),
            np.concatenate([self.parent, blank]),
            np.concatenate([self.slot, slots]),
        )
        size, found, offsets = stab_fold(
            *arrays, size, part.offsets, panes.stamp, first, end, self.counts
        )
        kept = (array[:size] for array in arrays)
        self.points, self.segment, self.pane, self.since, self.parent, self.slot = kept
        return found, offsets

    def push(self, panes: Runs) -> None:
        none = np.zeros(0, np.int64)
        self._fold(panes, none, none)

    def seal(self, first: int, end: int) -> None:
        """Expiry waits for the next window that is read."""

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        slots = stab_read(self.pane, self.since, self.slot, first)
        offsets = np.array([0, len(slots)])
        return self.answer(self._rows(), slots, offsets, np.zeros(1, np.int64))

    def _rows(self) -> RowStore:
        if self.store is None:
            self.store = RowStore(self.output())
        return self.store

    # State ------------------------------------------------------------------------------------

    @property
    def intervals(self) -> Ints:
        """(pane of the critical dominator, own pane] of each member, oldest first."""
        return np.stack([self.since, self.pane], axis=1)

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        return {
            "points": self.points,
            "segment": self.segment,
            "pane": self.pane,
            "since": self.since,
            "parent": self.parent,
            "slot": self.slot,
        }

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        arrays = self._arrays() | {"counts": self.counts.copy()}
        return arrays | {f"rows/{n}": value for n, value in self._rows().state().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        for name in self._arrays():
            setattr(self, name, arrays[name])
        self.counts = arrays["counts"].copy()
        self._rows().restore(under(arrays, "rows/"))

    def stats(self) -> dict[str, int | float]:
        own = sum(array.nbytes for array in self._arrays().values())
        kept = 0 if self.store is None else self.store.nbytes
        comparisons, redundant, expired, edges = self.counts.tolist()
        return {
            "retained": len(self.pane),
            "state_bytes": own + kept,
            "comparisons": comparisons,
            "redundant": redundant,
            "expired": expired,
            "edges": edges,
        }

    def _check(self) -> None:
        size = len(self.pane)
        assert all(len(array) == size for array in self._arrays().values())
        assert (np.diff(self.pane) >= 0).all(), "members stand by age"
        assert (np.diff(self.slot) > 0).all()
        for child in range(size):
            better = (self.points >= self.points[child]).all(axis=1)
            better &= (self.points > self.points[child]).any(axis=1)
            better &= self.segment == self.segment[child]
            above = np.flatnonzero(better)
            assert (self.pane[above] < self.pane[child]).all(), "a redundant member"
            parent = int(self.parent[child])
            if len(above):
                assert self.pane[above].max() == self.pane[parent] == self.since[child]
                assert parent in above, "an edge without dominance"
                assert parent < child, "the graph is a forest that grows with age"
            else:
                oldest = self.pane[0]
                assert parent == -1, "a root without a live dominator"
                assert self.since[child] == ALWAYS or self.since[child] < oldest
