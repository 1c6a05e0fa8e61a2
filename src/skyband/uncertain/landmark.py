"""``landmark``: the likeliest top k since a moment."""

from __future__ import annotations

from skyband.contract.accumulated import Accumulated
from skyband.uncertain.base import UncertainSynopsis


class CompactSet(Accumulated, UncertainSynopsis):
    """Keeps the compact set of all rows so far, for each group.

    The compact set of a union is part of the union of the compact sets (theorem 3.2 of the paper),
    so a window that no row leaves needs one set only. Cost: one sort of the compact set per pane
    with rows. State: the compact set, or all rows if they admit none. Exact. Jin et al. 2008.

    >>> import pyarrow as pa, skyband as sb
    >>> rows = pa.table({"t": [0, 3, 12], "speed": [9, 5, 7], "p": [0.5, 1.0, 0.25]})
    >>> window = sb.LandmarkWindow(slide=10)
    >>> query = sb.UncertainTopK(k=1, score="speed", probability="p", time="t", window=window)
    >>> sb.rank(rows, query)["topk_probability"].to_pylist()
    [0.5, 0.5]
    """
