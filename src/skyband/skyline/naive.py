"""naive: join the live windows, then sort and filter."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints, Saved
from skyband.contract.runs import Runs
from skyband.data.flat_state import require
from skyband.query.skyline import SkylineJoin
from skyband.skyline.kernels.dominance import mixed
from skyband.skyline.live_sides import LiveSynopsis, join
from skyband.skyline.points import skylines


class Naive(LiveSynopsis):
    """Maintains the join pane by pane and recomputes its skyline for every window.

    Time: O(p log p + p s) per window, where p is the number of joined pairs and s the number of
    pairs in the answer; new rows of each side are joined with the live rows of the other, as in a
    symmetric hash join. State: all live rows and two numbers for each joined pair. Exact.

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

    saved_arrays = ("counts", "joined")

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.joined: Ints = np.zeros((2, 0), np.int64)
        """The live pairs, left row and right row; rows are numbered from the very first one."""

    def push(self, panes: Runs) -> None:
        before = [len(side) for side in self.live]
        super().push(panes)
        left, right = self.live
        new, whole = join(left.key[before[0] :], right.key)
        whole_left, new_right = join(left.key[: before[0]], right.key[before[1] :])
        lefts = np.concatenate([new + before[0], whole_left]) + left.expired
        rights = np.concatenate([whole, new_right + before[1]]) + right.expired
        self.joined = np.hstack([self.joined, [lefts, rights]])
        self.counts[1] += len(lefts)

    def seal(self, first: int, end: int) -> None:
        super().seal(first, end)
        left, right = self.live
        keep = (self.joined[0] >= left.expired) & (self.joined[1] >= right.expired)
        if not keep.all():
            self.joined = self.joined[:, keep]

    def pairs(self, firsts: tuple[int, int]) -> tuple[Ints, Ints]:
        sides = self.live
        at = [rows - side.expired for rows, side in zip(self.joined, sides, strict=True)]
        alive = (sides[0].pane[at[0]] >= firsts[0]) & (sides[1].pane[at[1]] >= firsts[1])
        at = [rows[alive] for rows in at]
        points = np.hstack([side.points[rows] for side, rows in zip(sides, at, strict=True)])
        segment = mixed(sides[0].segment[at[0]], sides[1].segment[at[1]])
        kept, _ = skylines(points, segment, np.array([0, len(points)]), self.counts)
        return at[0][kept], at[1][kept]

    # State ------------------------------------------------------------------------------------

    def restore_known(self, arrays: Saved) -> None:
        self.joined = np.zeros((2, *arrays["joined"].shape[1:2]), np.int64)
        super().restore_known(arrays)
        require(len(self.joined) == 2, "pairs that are not two rows")
        for rows, side in zip(self.joined, self.live, strict=True):
            at = rows - side.expired
            require(((at >= 0) & (at < len(side))).all(), "a pair has no row")

    def stats(self) -> dict[str, int | float]:
        return super().stats() | {"pairs": int(self.counts[1])}

    def _check(self) -> None:
        super()._check()
        left, right = self.live
        a, b = self.joined[0] - left.expired, self.joined[1] - right.expired
        assert (left.key[a] == right.key[b]).all()
        assert len(a) == len(join(left.key, right.key)[0])
