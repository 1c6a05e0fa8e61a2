"""All live rows of both sides: the state of the algorithms that join whole windows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.pane_by_pane import PaneByPane
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs, expand
from skyband.data.packing import under
from skyband.query.skyline import SkylineJoin
from skyband.skyline.join import SIDES, JoinSynopsis
from skyband.skyline.rows import RowStore

__all__ = ["LiveRows", "LiveSynopsis", "join"]


class LiveRows:
    """The live rows of one side, oldest first; row i is in slot ``gone + i`` of the store.

    ``expired + i`` numbers rows from the very first one, so it identifies a row permanently.
    """

    def __init__(self, schema: pa.Schema, dimensions: int) -> None:
        self.store = RowStore(schema)
        self.key: Ints = np.zeros(0, np.int64)
        self.points: Ints = np.empty((0, dimensions), np.int64)
        self.segment: Ints = np.zeros(0, np.int64)
        self.pane: Ints = np.zeros(0, np.int64)
        self.gone = 0
        self.expired = 0
        """Rows that have expired since the beginning."""

    def __len__(self) -> int:
        return len(self.pane)

    @property
    def nbytes(self) -> int:
        own = (self.key, self.points, self.segment, self.pane)
        return self.store.nbytes + sum(array.nbytes for array in own)

    def append(
        self, key: Ints, points: Ints, segment: Ints, pane: Ints, columns: Mapping[str, pa.Array]
    ) -> None:
        if not len(key):
            return
        self.store.append(columns, len(key))
        self.key = np.concatenate([self.key, key])
        self.points = np.concatenate([self.points, points])
        self.segment = np.concatenate([self.segment, segment])
        self.pane = np.concatenate([self.pane, pane])

    def expire(self, first: int) -> int:
        """Drop the rows of panes before ``first``; returns how many."""
        gone = int(np.searchsorted(self.pane, first))
        if gone:
            self.key, self.points = self.key[gone:], self.points[gone:]
            self.segment, self.pane = self.segment[gone:], self.pane[gone:]
            self.gone += gone
            self.expired += gone
            if self.gone > len(self) + 1024:
                self.store.compact(np.arange(self.gone, len(self.store)))
                self.gone = 0
        return gone

    def state(self) -> dict[str, npt.NDArray[Any]]:
        arrays = {"key": self.key, "points": self.points, "segment": self.segment}
        arrays |= {"pane": self.pane, "counts": np.array([self.gone, self.expired])}
        return arrays | {f"rows/{n}": value for n, value in self.store.state().items()}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        # Copies can be written to, as the arrays before the snapshot: one type for kernels.
        self.key, self.points = arrays["key"].copy(), arrays["points"].copy()
        self.segment, self.pane = arrays["segment"].copy(), arrays["pane"].copy()
        self.gone, self.expired = (int(n) for n in arrays["counts"])
        self.store.restore(under(arrays, "rows/"))

    def _check(self) -> None:
        assert len(self.key) == len(self.points) == len(self.segment) == len(self.pane)
        assert (np.diff(self.pane) >= 0).all()
        assert len(self.store) == self.gone + len(self)


def join(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Positions of all pairs of equal keys."""
    order = np.argsort(right, kind="stable")
    ranked = right[order]
    low, high = np.searchsorted(ranked, left), np.searchsorted(ranked, left, side="right")
    lengths = high - low
    return np.repeat(np.arange(len(left)), lengths), order[expand(low, lengths)]


class LiveSynopsis(JoinSynopsis, PaneByPane):
    """Keeps every live row of both sides; an algorithm reads ``pairs`` from them."""

    shortens = True

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.live: tuple[LiveRows, LiveRows]
        self.counts = np.zeros(4, np.int64)
        self.folding = False
        """Whether windows are being read in order by ``fold``, not one on request by ``peek``."""

    def start(self) -> None:
        super().start()
        assert self.sides is not None
        left, right = (LiveRows(s.schema, s.prefer.dimensions) for s in self.sides)
        self.live = left, right

    def fold_known(self, panes: Runs, windows: Windows) -> Runs | None:
        self.folding = True
        try:
            return PaneByPane.fold(self, panes, windows)
        finally:
            self.folding = False

    def push(self, panes: Runs) -> None:
        for at, side in enumerate(self.live):
            rows = self.side_rows(panes, at)
            side.append(*rows, panes.parts[SIDES[at]].columns)

    def seal(self, first: int, end: int) -> None:
        for side in self.live:
            side.expire(first)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        left, right = self.pairs(first)
        stores = [side.store for side in self.live]
        slots = left + self.live[0].gone, right + self.live[1].gone
        return self.answer(stores, slots, np.array([0, len(left)]), np.zeros(1, np.int64))

    @abstractmethod
    def pairs(self, first: int) -> tuple[Ints, Ints]:
        """The skyline of the join of the live rows, as positions in both sides."""

    # State ------------------------------------------------------------------------------------

    def snapshot_known(self) -> dict[str, npt.NDArray[Any]]:
        arrays: dict[str, npt.NDArray[Any]] = {"counts": self.counts.copy()}
        for name, side in zip(SIDES, self.live, strict=True):
            arrays |= {f"{name}/{n}": value for n, value in side.state().items()}
        return arrays

    def restore_known(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.counts = arrays["counts"].copy()
        for name, side in zip(SIDES, self.live, strict=True):
            side.restore(under(arrays, f"{name}/"))

    def stats(self) -> dict[str, int | float]:
        rows, used = sum(len(side) for side in self.live), sum(side.nbytes for side in self.live)
        return {"retained": rows, "state_bytes": used, "comparisons": int(self.counts[0])}

    def _check(self) -> None:
        for side in self.live:
            side._check()
