"""stabsky: the non-redundant rows and their dominance graph, from which any window is read."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skyband.arrays import Ints, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.flat_state import require
from skyband.query.skyline import Skyline
from skyband.skyline.graph import OPERATIONS, DominanceGraph
from skyband.skyline.rows import row_store
from skyband.skyline.single import SkylineSynopsis

__all__ = ["StabSky"]

_SPARE = 1024
"""Up to this many slots may be unused before a store is compacted."""


class StabSky(SkylineSynopsis):
    """The rows that can still be in an answer, each with the window starts for which it is.

    A row is redundant once it is dominated by a row that expires as late or later. Every other row
    keeps its critical dominator, the youngest older row that dominates it. Those edges form the
    dominance graph, and the interval (pane of the critical dominator, own pane] holds the first
    panes of all windows whose answer contains the row. So any shorter window, in whole panes, can
    be read from the same state.

    Time: O(s m) comparisons per pane, where s is the number of rows on its skyline and m the number
    of members; O(m) per window read. State: m rows; for n independent rows in d dimensions about
    (ln n)^d / d!. Exact.

    Lin et al., as in the paper's section IV.A and Algorithm 1, by panes instead of rows. Intervals
    are kept in one flat array that is scanned, not in an interval tree: see
    docs/decisions/0014-stabsky-by-panes.md.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"price": [3, 2, 4, 1], "volume": [5, 1, 9, 1]})
    >>> wish = {"price": "min", "volume": "max"}
    >>> monitor = sb.Monitor(sb.Skyline(prefer=wish, window=sb.CountWindow(4, slide=1)))
    >>> monitor.push(rows)[-1].table["price"].to_pylist()
    [1, 3, 4]
    >>> monitor.peek(last=2).table["price"].to_pylist()
    [1, 4]
    """

    saved_parts = (("graph/", "graph"), ("rows/", "store"))

    def __init__(self, query: Skyline) -> None:
        super().__init__(query)
        self.graph = DominanceGraph(self.shown_prefer.dimensions)

    def start(self) -> None:
        self.graph = DominanceGraph(self.shown_prefer.dimensions)
        self.store = row_store(self.output())

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        slots, offsets = self._fold(panes, windows.first, windows.end)
        store = self.store
        found = self.answer(store, slots, offsets, windows.number) if len(windows) else None
        if len(store) > 2 * len(self.graph) + _SPARE:
            store.compact(self.graph.slot)
            self.graph.slot = np.arange(len(self.graph))
        return found

    def _fold(self, panes: Runs, first: Ints, end: Ints) -> tuple[Ints, Ints]:
        part = panes.parts["rows"]
        slots = self.store.append(part.columns, len(part))
        points, segment = self.points_of(part)
        return self.graph.fold(points, segment, slots, part.offsets, panes.stamp, first, end)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        slots = self.graph.read(first)
        offsets = np.array([0, len(slots)])
        return self.answer(self.store, slots, offsets, np.zeros(1, np.int64))

    # State ------------------------------------------------------------------------------------

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        require(self.graph.slot.max(initial=-1) < len(self.store), "a row has no slot")

    def stats(self) -> dict[str, int | float]:
        size = {"retained": len(self.graph), "state_bytes": self.nbytes}
        return size | self.graph.stats()

    def tallies(self) -> Mapping[str, Ints]:
        return {name: self.graph.counts[i : i + 1] for i, name in enumerate(OPERATIONS)}

    def _check(self) -> None:
        self.graph._check()
        assert (np.diff(self.graph.slot) > 0).all()
        rows = self.store.gather(self.graph.slot)
        points = self.shown_prefer.points(rows.__getitem__, len(self.graph))
        assert np.array_equal(points, self.graph.points)
