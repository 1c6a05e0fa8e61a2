"""isj: the iterative skyline join, recomputed for every window."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from skyband.arrays import Ints, Saved
from skyband.contract.runs import Runs
from skyband.data.flat_state import Form, Forms, require
from skyband.data.keys import KeyIndex
from skyband.query.skyline import SkylineJoin
from skyband.skyline.kernels.fabric import CellSide, Fabric, Sharing
from skyband.skyline.kernels.isj import LEFT, RIGHT, SideStart, join_window
from skyband.skyline.live_sides import LiveSynopsis

_NONE: Ints = np.zeros(0, np.int64)
_NO_SHARING = Sharing(1, False, 0)
NO_FABRIC = Fabric(_NONE, _NONE, np.zeros(1, np.int64), np.zeros(0, np.bool_), 0)


class Isj(LiveSynopsis):
    """Layer by layer: join the local skylines, keep the results, prune, continue with the rest.

    Time, in every layer: a sort-filter of each side's remaining rows, their join, and a check of
    each remaining row against the results. State: all live rows. Exact.

    Iterative (Sun et al.) with outsider pruning, which is ISJ in the paper's section VI.A;
    docs/internals/decisions/0016-iteration-layers.md says how we read the paper's text.

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
    saved_forms: ClassVar[Forms] = {
        **LiveSynopsis.saved_forms,
        "left_codes": Form("left", 0),
        "right_codes": Form("right", 0),
        "local_counts": Form(1),
    }
    saved_parts = (*LiveSynopsis.saved_parts, ("keys/", "keys"))

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
        return self.iterated(firsts, NO_FABRIC, _NO_SHARING, np.zeros(3, np.int64))[0]

    def iterated(
        self, firsts: tuple[int, int], fabric: Fabric, sharing: Sharing, shares: Ints
    ) -> tuple[tuple[Ints, Ints], Fabric]:
        """The pairs of the skyline, and the fabric of shared layers for the next window."""
        (left, one), (right, two) = (self._side(at, firsts[at]) for at in (0, 1))
        pairs, sizes, fabric = join_window(
            left, right, (one, two), fabric, sharing, self.counts, self.local_counts, shares
        )
        self.layers = [(a, b) for a, b in sizes.tolist()]
        return (pairs[:, LEFT].copy(), pairs[:, RIGHT].copy()), fabric

    def _side(self, at: int, first: int) -> tuple[CellSide, SideStart]:
        """What the kernel needs to know of one side."""
        side, codes, keys = self.live[at], self.codes[at], self.keys.bound
        low = int(np.searchsorted(side.pane, first))
        sky = self.first_sky(at, first)
        start = SideStart(low, side.expired, _NONE if sky is None else sky, sky is not None)
        segment = side.segment
        if not len(segment) or (segment == segment[0]).all():
            cells = np.zeros((keys, 2), np.int64)
            cells[:, 0] = np.arange(keys)
            cells[:, 1] = segment[0] if len(segment) else 0
            return CellSide(side.points, codes, cells, np.arange(keys + 1), segment, 1), start
        found, small = np.unique(segment, return_inverse=True)
        return CellSide(side.points, *_cells(codes, segment, keys), small, len(found)), start

    def first_sky(self, at: int, first: int) -> Ints | None:
        """The local skyline of layer 1 of one side, if it is known already."""
        return None

    # State ------------------------------------------------------------------------------------

    def restore_known(self, arrays: Saved) -> None:
        super().restore_known(arrays)
        for codes, side in zip(self.codes, self.live, strict=True):
            known = len(codes) == len(side) and codes.max(initial=-1) < self.keys.bound
            require(known, "a row has no join key")

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
    order = np.lexsort((segment, codes))
    key, part = codes[order], segment[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (key[1:] != key[:-1]) | (part[1:] != part[:-1])
    cell = np.empty(len(order), np.int64)
    cell[order] = np.cumsum(fresh) - 1
    cells = np.stack([key[fresh], part[fresh]], axis=1)
    return cell, cells, np.searchsorted(cells[:, 0], np.arange(keys + 1))
