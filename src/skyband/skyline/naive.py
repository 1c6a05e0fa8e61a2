"""naive: join the live windows, then sort and filter."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.contract.runs import expand
from skyband.skyline.base import skylines
from skyband.skyline.kernels.dominance import mixed
from skyband.skyline.live_sides import LiveSynopsis


class Naive(LiveSynopsis):
    """Joins the live rows and computes the skyline of their pairs for every window.

    Time: O(p log p + p s) per window, where p is the number of joined pairs and s the number of
    pairs in the answer. State: all live rows. Exact.

    The paper's Naive (section VI.A); keys are matched by their sorted hashes.

    >>> import pyarrow as pa, skyband as sb
    >>> trades = pa.table({"ts": [1, 2], "stock": ["a", "b"], "price": [5, 3]})
    >>> risks = pa.table({"ts": [1, 2], "stock": ["a", "b"], "risk": [1, 2]})
    >>> names = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
    >>> wish = {"price": "min", "risk": "min"}
    >>> query = sb.SkylineJoin(**names, prefer=wish, window=sb.TimeWindow(10), algorithm="naive")
    >>> sb.rank({"trades": trades, "risks": risks}, query)["stock"].to_pylist()
    ['a', 'b']
    """

    def pairs(self, firsts: tuple[int, int]) -> tuple[Ints, Ints]:
        left, right = self.live
        low, high = (np.searchsorted(s.pane, f) for s, f in zip(self.live, firsts, strict=True))
        mine, theirs = _joined(left.key[low:], right.key[high:])
        mine, theirs = mine + low, theirs + high
        points = np.hstack([left.points[mine], right.points[theirs]])
        segment = mixed(left.segment[mine], right.segment[theirs])
        best, _ = skylines(points, segment, np.array([0, len(points)]), self.counts)
        self.counts[1] += len(points)
        return mine[best], theirs[best]

    def stats(self) -> dict[str, int | float]:
        return super().stats() | {"pairs": int(self.counts[1])}


def _joined(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Positions of all pairs of equal keys."""
    order = np.argsort(right, kind="stable")
    ranked = right[order]
    low, high = np.searchsorted(ranked, left), np.searchsorted(ranked, left, side="right")
    lengths = high - low
    return np.repeat(np.arange(len(left)), lengths), order[expand(low, lengths)]
