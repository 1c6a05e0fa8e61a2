"""``landmark``: the best rows since a moment."""

from __future__ import annotations

from skyband.contract.accumulated import Accumulated
from skyband.contract.runs import Part
from skyband.topk.base import TopKSynopsis


class BestRows(Accumulated, TopKSynopsis):
    """Keeps the best k rows of each group: no row ever leaves, so no other row can come back.

    Cost: one comparison per row that is not among the best k of its pane, then what ``Accumulated``
    costs for the best k rows of each pane and group. State: k rows per group. Exact.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"t": [0, 3, 12], "x": [9, 5, 7]})
    >>> query = sb.TopK(k=2, score="x", time="t", window=sb.LandmarkWindow(slide=10))
    >>> sb.rank(rows, query)["x"].to_pylist()
    [9, 5, 9, 7]
    """

    def _best(self, part: Part) -> Part:
        return self._first_in_order(part)
