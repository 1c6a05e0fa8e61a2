"""sfs: recomputes the skyline of every window by sorting and filtering."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.contract.pane_by_pane import PaneByPane
from skyband.contract.runs import Part, Runs
from skyband.data.flat_state import Form, Forms
from skyband.query.skyline import Skyline
from skyband.skyline.base import by_value
from skyband.skyline.live_rows import LiveRows
from skyband.skyline.points import skylines
from skyband.skyline.single import SkylineSynopsis


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

    saved_arrays = ("counts",)
    saved_forms: ClassVar[Forms] = {"counts": Form(1)}
    saved_parts = (("", "live"),)

    def __init__(self, query: Skyline) -> None:
        super().__init__(query)
        self.live: LiveRows
        self.counts = np.zeros(1, np.int64)

    def start(self) -> None:
        self.live = LiveRows(self.output(), self.shown_prefer.dimensions)

    def push(self, panes: Runs) -> None:
        part = panes.parts["rows"]
        pane = np.repeat(panes.stamp, part.lengths)
        self.live.append(part.columns, *self.points_of(part), pane)

    def seal(self, first: int, end: int) -> None:
        self.live.expire(first)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        live = self.live
        low, high = np.searchsorted(live.pane, (first, end))
        whole = np.array([0, high - low])
        kept, offsets = skylines(live.points[low:high], live.segment[low:high], whole, self.counts)
        slots = by_value(live.store, kept + low + live.gone, offsets)
        rows = Part(offsets, live.store.gather(slots))
        one = Runs(np.zeros(1, np.int64), np.zeros(1, np.int32), {"rows": rows})
        return one.slice(0, min(1, len(rows)))

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        return {
            "retained": len(self.live),
            "state_bytes": self.nbytes,
            "comparisons": int(self.counts[0]),
        }

    def _check(self) -> None:
        self.live._check()
        rows = self.live.store.gather(np.arange(self.live.gone, len(self.live.store)))
        points = self.shown_prefer.points(rows.__getitem__, len(self.live))
        assert np.array_equal(points, self.live.points)
