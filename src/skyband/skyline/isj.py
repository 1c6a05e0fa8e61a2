"""isj: the iterative skyline join, recomputed for every window."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Ints
from skyband.contract.runs import Runs
from skyband.data.keys import KeyIndex
from skyband.kernels.skyline.isj import LEFT, RIGHT, Results, Side, join_layer
from skyband.query.skyline import SkylineJoin
from skyband.skyline.live import LiveSynopsis
from skyband.skyline.points import skylines

__all__ = ["Isj"]


class Isj(LiveSynopsis):
    """Layer by layer: join the local skylines, keep the results, prune, continue with the rest.

    Time, in every layer: a sort-filter of each side's remaining rows, their join, and a check of
    each remaining row against the results. State: all live rows. Exact.

    Iterative (Sun et al.) with outsider pruning, which is ISJ in the paper's section VI.A;
    docs/decisions/0016-iteration-layers.md says how we read the paper's text.

    >>> import pyarrow as pa, skyband as sb
    >>> trades = pa.table({"ts": [1, 2], "stock": ["a", "b"], "price": [5, 3]})
    >>> risks = pa.table({"ts": [1, 2], "stock": ["a", "b"], "risk": [1, 2]})
    >>> names = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
    >>> wish = {"price": "min", "risk": "min"}
    >>> query = sb.SkylineJoin(**names, prefer=wish, window=sb.TimeWindow(10), algorithm="isj")
    >>> sb.rank({"trades": trades, "risks": risks}, query)["stock"].to_pylist()
    ['a', 'b']
    """

    saved_arrays = ("counts", "left_codes", "right_codes", "local_counts")
    saved_parts = (*LiveSynopsis.saved_parts, ("keys/", "keys"))
    join_layer = staticmethod(join_layer)

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.keys = KeyIndex()
        self.left_codes: Ints = np.zeros(0, np.int64)
        self.right_codes: Ints = np.zeros(0, np.int64)
        self.layers: list[tuple[int, int]] = []
        """Rows of both sides at the start of each layer of the last window."""
        self.local_counts = np.zeros(1, np.int64)
        """Comparisons for local skylines: the only ones that sharing can save."""

    @property
    def codes(self) -> tuple[Ints, Ints]:
        """The join keys of the live rows of both sides as small numbers."""
        return self.left_codes, self.right_codes

    def push(self, panes: Runs) -> None:
        before = [len(side) for side in self.live]
        super().push(panes)
        fresh = [self._encoded(side.key[at:]) for side, at in zip(self.live, before, strict=True)]
        self.left_codes = np.concatenate([self.left_codes, fresh[0]])
        self.right_codes = np.concatenate([self.right_codes, fresh[1]])

    def _encoded(self, keys: Ints) -> Ints:
        return self.keys.encode(keys.view(np.uint64)).codes.astype(np.int64)

    def seal(self, first: int, end: int) -> None:
        self.left_codes = self.left_codes[self.left.expire(first) :]
        self.right_codes = self.right_codes[self.right.expire(first) :]
        if self.keys.bound > 2 * (len(self.left) + len(self.right)) + 1024:
            self.keys = KeyIndex()
            self.left_codes = self._encoded(self.left.key)
            self.right_codes = self._encoded(self.right.key)

    def pairs(self, firsts: tuple[int, int]) -> tuple[Ints, Ints]:
        sides = self.live
        bound = self.keys.bound
        cells = [_cells(c, side.segment, bound) for c, side in zip(self.codes, sides, strict=True)]
        active = [
            np.arange(np.searchsorted(side.pane, first), len(side), dtype=np.int64)
            for side, first in zip(sides, firsts, strict=True)
        ]
        width = sum(side.points.shape[1] for side in sides)
        results = Results(np.zeros((64, 3), np.int64), np.zeros((64, width), np.int64), 0)
        left, right = (Side(s.points, *c) for s, c in zip(sides, cells, strict=True))
        self.layers = []
        while len(active[0]) and len(active[1]):
            self.layers.append((len(active[0]), len(active[1])))
            sky = [self.local(len(self.layers), at, active[at], firsts[at]) for at in (0, 1)]
            left_rest, right_rest, results = self.join_layer(
                left, active[0], sky[0], right, active[1], sky[1], results, self.counts
            )
            active = [left_rest, right_rest]
        pairs = results.pairs[: results.size]
        return pairs[:, LEFT].copy(), pairs[:, RIGHT].copy()

    def local(self, layer: int, at: int, active: Ints, first: int) -> Ints:
        """The local skyline of one side's rows in a layer, as row positions."""
        side = self.live[at]
        whole = np.array([0, len(active)])
        kept, _ = skylines(side.points[active], side.segment[active], whole, self.local_counts)
        return active[kept]

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        joined, pruned, layers = self.counts[1:4].tolist()
        found = super().stats() | {"pairs": joined, "pruned": pruned, "layers": layers}
        found["local_comparisons"] = int(self.local_counts[0])
        found["comparisons"] += found["local_comparisons"]
        return found

    def _check(self) -> None:
        super()._check()
        for codes, side in zip(self.codes, self.live, strict=True):
            assert np.array_equal(self.keys.hashes(codes), side.key.view(np.uint64))


def _cells(codes: Ints, segment: Ints, keys: int) -> tuple[Ints, Ints, Ints]:
    """Each row's cell, each cell's key and segment, and each key's first cell."""
    if not len(segment) or (segment == segment[0]).all():
        cells = np.zeros((keys, 2), np.int64)
        cells[:, 0] = np.arange(keys)
        cells[:, 1] = segment[0] if len(segment) else 0
        return codes, cells, np.arange(keys + 1)
    order = np.lexsort((segment, codes))
    key, part = codes[order], segment[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (part[1:] != part[:-1])
    cell = np.empty(len(order), np.int64)
    cell[order] = np.cumsum(fresh) - 1
    cells = np.stack([key[fresh], part[fresh]], axis=1)
    return cell, cells, np.searchsorted(cells[:, 0], np.arange(keys + 1))
