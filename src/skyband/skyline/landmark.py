"""``landmark``: the skyline of all rows since a moment."""

from __future__ import annotations

from skyband.contract.accumulated import Accumulated
from skyband.contract.runs import Runs
from skyband.skyline.single import SkylineSynopsis

__all__ = ["WholeSkyline"]


class WholeSkyline(Accumulated, SkylineSynopsis):
    """Keeps the skyline of all rows so far, for each group: a dominated row never comes back.

    Cost: one skyline of the state and the pane's skyline per pane with rows. State: the rows of the
    answer. Exact.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"t": [0, 3, 12], "price": [3, 2, 1]})
    >>> query = sb.Skyline(prefer={"price": "min"}, time="t", window=sb.LandmarkWindow(slide=10))
    >>> sb.rank(rows, query)["price"].to_pylist()
    [2, 1]
    """

    shortens = False

    def combine(self, runs: Runs) -> Runs:
        return self._united(runs)
