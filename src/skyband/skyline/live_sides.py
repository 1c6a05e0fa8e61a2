"""All live rows of both sides, for algorithms that join whole windows; among them ``naive``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import pyarrow as pa

from skyband.arrays import Hashes, Ints, Saved
from skyband.contract.pane_by_pane import PaneByPane
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs, expand
from skyband.data.flat_state import FlatState, Form, Forms, Parts, require
from skyband.data.keys import KeyIndex
from skyband.query.skyline import SkylineJoin
from skyband.skyline.base import row_store, skylines
from skyband.skyline.join import SIDES, JoinSynopsis
from skyband.skyline.kernels.dominance import mixed

_SPARE = 1024
"""Up to this many slots may be unused before the store is compacted."""
_BY_ROW = ("key", "points", "segment", "pane")


class JoinRows(FlatState):
    """The live rows of one side, oldest first; row i is in slot ``gone + i`` of the store.

    ``expired + i`` numbers rows from the very first one, so it identifies a row permanently.
    """

    saved_arrays: ClassVar[tuple[str, ...]] = (*_BY_ROW, "gone", "expired")
    saved_forms: ClassVar[Forms] = {
        **dict.fromkeys(_BY_ROW, Form("rows")),
        "key": Form("rows", 0),
        "pane": Form("rows", ascends=True),
        "gone": Form(1, 0, 1 << 62),
        "expired": Form(1, 0, 1 << 62),
    }
    saved_parts = (("rows/", "store"),)

    def __init__(self, schema: pa.Schema, dimensions: int) -> None:
        self.store = row_store(schema)
        self.key: Ints = np.zeros(0, np.int64)
        """The join key as a small number."""
        self.points: Ints = np.empty((0, dimensions), np.int64)
        self.segment: Ints = np.zeros(0, np.int64)
        self.pane: Ints = np.zeros(0, np.int64)
        self.gone = 0
        self.expired = 0
        """Rows that have expired since the beginning."""

    def __len__(self) -> int:
        return len(self.pane)

    def append(self, columns: Mapping[str, pa.Array], *arrays: Ints) -> None:
        """Add rows: the columns of the store; keys, points, segments and panes."""
        if not len(arrays[-1]):
            return
        self.store.append(columns, len(arrays[-1]))
        for name, fresh in zip(_BY_ROW, arrays, strict=True):
            setattr(self, name, np.concatenate([getattr(self, name), fresh]))

    def expire(self, first: int) -> None:
        """Drop the rows of panes before ``first``."""
        gone = int(np.searchsorted(self.pane, first))
        if gone:
            for name in _BY_ROW:
                setattr(self, name, getattr(self, name)[gone:])
            self.gone += gone
            self.expired += gone
            if self.gone > len(self) + _SPARE:
                self.store.compact(np.arange(self.gone, len(self.store)))
                self.gone = 0

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        require(len(self.store) == self.gone + len(self), "rows without columns")

    def _check(self) -> None:
        assert all(len(getattr(self, name)) == len(self) for name in _BY_ROW)
        assert (np.diff(self.pane) >= 0).all()
        assert len(self.store) == self.gone + len(self)


class LiveSynopsis(JoinSynopsis, PaneByPane):
    """Keeps every live row of both sides; an algorithm reads ``pairs`` from them."""

    shortens = True
    saved_arrays: ClassVar[tuple[str, ...]] = ("counts",)
    saved_forms: ClassVar[Forms] = {"counts": Form(4)}
    saved_parts: ClassVar[Parts] = (("left/", "left"), ("right/", "right"), ("keys/", "keys"))

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.left: JoinRows
        self.right: JoinRows
        self.keys = KeyIndex()
        self.counts = np.zeros(4, np.int64)
        self.folding = False
        """Whether windows are being read in order by ``fold``, not one on request by ``peek``."""

    def start(self) -> None:
        super().start()
        assert self.sides is not None
        self.left, self.right = (JoinRows(s.schema, s.prefer.dimensions) for s in self.sides)

    @property
    def live(self) -> tuple[JoinRows, JoinRows]:
        """The live rows of both sides."""
        return self.left, self.right

    def fold_known(self, panes: Runs, windows: Windows) -> Runs | None:
        self.folding = True
        try:
            return PaneByPane.fold(self, panes, windows)
        finally:
            self.folding = False

    def push(self, panes: Runs) -> None:
        for at, side in enumerate(self.live):
            keys, *arrays = self.side_rows(panes, at)
            columns = panes.parts[SIDES[at]].columns
            side.append(columns, self._encoded(keys.view(np.uint64)), *arrays)

    def seal(self, first: int, end: int) -> None:
        for side in self.live:
            side.expire(first)
        if self.keys.bound > 2 * sum(map(len, self.live)) + 1024:
            before, self.keys = self.keys, KeyIndex()
            for side in self.live:
                side.key = self._encoded(before.hashes(side.key))

    def _encoded(self, keys: Hashes) -> Ints:
        return self.keys.encode(keys).codes.astype(np.int64)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        left, right = self.pairs(self.firsts(first, end))
        stores = [side.store for side in self.live]
        slots = left + self.live[0].gone, right + self.live[1].gone
        return self.answer(stores, slots, np.array([0, len(left)]), np.zeros(1, np.int64))

    @abstractmethod
    def pairs(self, firsts: tuple[int, int]) -> tuple[Ints, Ints]:
        """The skyline of the join of the rows from these panes on, as positions in both sides."""

    # State ------------------------------------------------------------------------------------

    def restore_known(self, arrays: Saved) -> None:
        super().restore_known(arrays)
        for side in self.live:
            require(side.key.max(initial=-1) < self.keys.bound, "a row has no join key")

    def stats(self) -> dict[str, int | float]:
        rows, comparisons = sum(len(side) for side in self.live), int(self.counts[0])
        return {"retained": rows, "state_bytes": self.nbytes, "comparisons": comparisons}

    def _check(self) -> None:
        for side in self.live:
            side._check()
        self.keys._check()


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
