"""sfs: recomputes the skyline of every window by sorting and filtering."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.arrays import Ints
from skyband.contract.pane_by_pane import PaneByPane
from skyband.contract.runs import Runs
from skyband.data.packing import under
from skyband.query.skyline import Skyline
from skyband.skyline.points import skylines
from skyband.skyline.single import SkylineSynopsis

__all__ = ["Sfs"]


class Sfs(PaneByPane, SkylineSynopsis):
    """Sort-filter skyline of the live panes' skylines, recomputed for every window.

    Time: O(m log m + m s) per window, where m is the number of rows on the skylines of the live
    panes and s the number of rows in the answer. State: those m rows. Exact. Any shorter window in
    whole panes can be asked for.

    Chomicki et al.'s SFS as the paper's section VI uses it, except that its input is first reduced
    to the skyline of each pane, since rows of one pane expire together.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"price": [3, 2, 4, 1], "volume": [5, 1, 9, 1]})
    >>> wish = {"price": "min", "volume": "max"}
    >>> query = sb.Skyline(prefer=wish, window=sb.CountWindow(4), algorithm="sfs")
    >>> sb.rank(rows, query)["price"].to_pylist()
    [1, 3, 4]
    """

    def __init__(self, query: Skyline) -> None:
        super().__init__(query)
        self.points: Ints = np.empty((0, self.shown_prefer.dimensions), np.int64)
        self.segment: Ints = np.zeros(0, np.int64)
        self.pane: Ints = np.zeros(0, np.int64)
        self.gone = 0
        """Slots of the store before the first live row."""
        self.counts = np.zeros(1, np.int64)

    def push(self, panes: Runs) -> None:
        part = panes.parts["rows"]
        points, segment = self.points_of(part)
        self.store.append(part.columns, len(part))
        self.points = np.concatenate([self.points, points])
        self.segment = np.concatenate([self.segment, segment])
        self.pane = np.concatenate([self.pane, np.repeat(panes.stamp, part.lengths)])

    def seal(self, first: int, end: int) -> None:
        expired = int(np.searchsorted(self.pane, first))
        if not expired:
            return
        self.points, self.segment = self.points[expired:], self.segment[expired:]
        self.pane = self.pane[expired:]
        self.gone += expired
        store = self.store
        if self.gone > len(self.pane) + 1024:
            store.compact(np.arange(self.gone, len(store)))
            self.gone = 0

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        low, high = np.searchsorted(self.pane, (first, end))
        whole = np.array([0, high - low])
        kept, offsets = skylines(self.points[low:high], self.segment[low:high], whole, self.counts)
        return self.answer(self.store, kept + low + self.gone, offsets, np.zeros(1, np.int64))

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, npt.NDArray[Any]]:
        arrays = {"points": self.points, "segment": self.segment, "pane": self.pane}
        arrays |= {"gone": np.array([self.gone]), "counts": self.counts.copy()}
        return arrays | {f"rows/{n}": value for n, value in self.store.state().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.points, self.segment = arrays["points"], arrays["segment"]
        self.pane, self.gone = arrays["pane"], int(arrays["gone"][0])
        self.counts = arrays["counts"].copy()
        self.store.restore(under(arrays, "rows/"))

    def stats(self) -> dict[str, int | float]:
        own = self.points.nbytes + self.segment.nbytes + self.pane.nbytes
        return {
            "retained": len(self.pane),
            "state_bytes": own + self.store.nbytes,
            "comparisons": int(self.counts[0]),
        }

    def _check(self) -> None:
        assert len(self.points) == len(self.segment) == len(self.pane)
        assert (np.diff(self.pane) >= 0).all()
        assert len(self.store) == self.gone + len(self.pane)
        rows = self.store.gather(np.arange(self.gone, len(self.store)))
        points = self.shown_prefer.points(rows.__getitem__, len(self.pane))
        assert np.array_equal(points, self.points)
