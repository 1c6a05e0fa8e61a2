"""sfs: recomputes the skyline of every window by sorting and filtering."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.contract.pane_by_pane import LivePanes
from skyband.contract.runs import Runs
from skyband.data.flat_state import Form, Forms
from skyband.query.skyline import Skyline
from skyband.skyline.base import united
from skyband.skyline.single import SkylineSynopsis


class Sfs(LivePanes, SkylineSynopsis):
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

    def __init__(self, query: Skyline) -> None:
        super().__init__(query)
        self.counts = np.zeros(1, np.int64)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        panes = self.between(first, end)
        window = Runs(np.zeros(len(panes), np.int64), panes.group, {"rows": panes.part("rows")})
        return united(window, self.output(), self.shown_prefer, self.counts)

    def stats(self) -> dict[str, int | float]:
        return {
            "retained": len(self.live.part("rows")),
            "state_bytes": self.live.nbytes + self.nbytes,
            "comparisons": int(self.counts[0]),
        }
