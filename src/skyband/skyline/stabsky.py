"""stabsky: the non-redundant rows and their dominance graph, from which any window is read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from skyband.arrays import Codes, Ints, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, expand, offsets_of
from skyband.data.flat_state import require
from skyband.query.skyline import Skyline
from skyband.skyline.base import by_value, row_store
from skyband.skyline.graph import DominanceGraphs
from skyband.skyline.kernels.stabsky import PaneSkylines, Skylines, StabReads
from skyband.skyline.single import SkylineSynopsis

_SPARE = 1024
"""Up to this many slots may be unused before a store is compacted."""
_NO_CODES = np.zeros(0, np.int32)


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
    docs/internals/decisions/0014-stabsky-by-panes.md.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"price": [3, 2, 4, 1], "volume": [5, 1, 9, 1]})
    >>> wish = {"price": "min", "volume": "max"}
    >>> monitor = sb.Monitor(sb.Skyline(prefer=wish, window=sb.CountWindow(4, slide=1)))
    >>> monitor.push(rows)[-1].table["price"].to_pylist()
    [1, 3, 4]
    >>> monitor.peek(last=2).table["price"].to_pylist()
    [1, 4]
    """

    many_groups = True
    saved_parts = (("graphs/", "graphs"), ("rows/", "store"))

    def __init__(self, query: Skyline) -> None:
        super().__init__(query)
        self.graphs = DominanceGraphs(self.shown_prefer.dimensions)

    def start(self) -> None:
        self.graphs = DominanceGraphs(self.shown_prefer.dimensions)
        self.store = row_store(self.output())

    def serve(self, queries: Sequence[Skyline]) -> None:
        """Nothing changes: the graph of the longest window answers all shorter ones."""

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        return self.fold_readers(panes, [windows])[0]

    def fold_readers(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        part = panes.parts["rows"]
        slots = self.store.append(part.columns, len(part))
        rows = PaneSkylines(*self.points_of(part), slots, part.offsets, panes.stamp, panes.group)
        every, reader = Windows.merged(windows)
        oldest = every.end - self.query.window.panes.per_window
        group = _NO_CODES if every.group is None else every.group
        reads = StabReads(every.first, every.end, oldest, group)
        skylines = self.graphs.fold(rows, reads, len(every.ranks))
        answers: list[Runs | None] = [None] * len(windows)
        if len(every):
            skylines = self._by_value(skylines)
            if len(every.ranks) > 1:  # in the order of answers, so that rows are gathered once
                number = every.number[skylines.window]
                skylines = _pick(skylines, np.lexsort((every.ranks[skylines.group], number)))
            owner = reader[skylines.window]
            for i, own in enumerate(windows):
                if len(own):
                    whole = len(windows) == 1
                    mine = skylines if whole else _pick(skylines, np.flatnonzero(owner == i))
                    answers[i] = self._rows_of(mine, every.number[mine.window])
        if len(self.store) > 2 * len(self.graphs) + _SPARE:
            self.graphs.tidy()
            self.store.compact(self.graphs.slot)
            self.graphs.slot = np.arange(len(self.graphs))
        return answers

    def _by_value(self, skylines: Skylines) -> Skylines:
        slots = by_value(self.store, skylines.slot, skylines.offsets)
        return skylines._replace(slot=slots)

    def _rows_of(self, skylines: Skylines, number: Ints) -> Runs:
        rows = Part(skylines.offsets, self.store.gather(skylines.slot))
        return Runs(number, skylines.group, {"rows": rows})

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        skylines = self._by_value(self.graphs.read(first, group))
        return self._rows_of(skylines, skylines.window)

    # State ------------------------------------------------------------------------------------

    def forget(self, groups: Codes) -> None:
        self.graphs.forget(groups)

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        require(self.graphs.slot.max(initial=-1) < len(self.store), "a row has no slot")

    def stats(self) -> dict[str, int | float]:
        size = {"retained": len(self.graphs), "state_bytes": self.nbytes}
        return size | self.graphs.stats()

    def _check(self) -> None:
        self.graphs._check()
        places = self.graphs.places
        slots = self.graphs.slot[places]
        assert len(np.unique(slots)) == len(slots)
        rows = self.store.gather(slots)
        points = self.shown_prefer.points(rows.__getitem__, len(slots))
        assert np.array_equal(points, self.graphs.points[places])


def _pick(skylines: Skylines, pairs: Ints) -> Skylines:
    """Only these pairs of window and group, in this order."""
    lengths = np.diff(skylines.offsets)[pairs]
    slot = skylines.slot[expand(skylines.offsets[pairs], lengths)]
    return Skylines(skylines.window[pairs], skylines.group[pairs], offsets_of(lengths), slot)
