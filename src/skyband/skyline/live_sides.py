"""All live rows of both sides: the state of the algorithms that join whole windows."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from skyband.arrays import Ints
from skyband.contract.pane_by_pane import PaneByPane
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs, expand
from skyband.data.flat_state import Form, Forms, Parts
from skyband.query.skyline import SkylineJoin
from skyband.skyline.join import SIDES, JoinSynopsis
from skyband.skyline.live_rows import JoinRows


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
    saved_arrays: ClassVar[tuple[str, ...]] = ("counts",)
    saved_forms: ClassVar[Forms] = {"counts": Form(4)}
    saved_parts: ClassVar[Parts] = (("left/", "left"), ("right/", "right"))

    def __init__(self, query: SkylineJoin) -> None:
        super().__init__(query)
        self.left: JoinRows
        self.right: JoinRows
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
            side.append(panes.parts[SIDES[at]].columns, *self.side_rows(panes, at))

    def seal(self, first: int, end: int) -> None:
        for side in self.live:
            side.expire(first)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        left, right = self.pairs(self.firsts(first, end))
        stores = [side.store for side in self.live]
        slots = left + self.live[0].gone, right + self.live[1].gone
        return self.answer(stores, slots, np.array([0, len(left)]), np.zeros(1, np.int64))

    @abstractmethod
    def pairs(self, firsts: tuple[int, int]) -> tuple[Ints, Ints]:
        """The skyline of the join of the rows from these panes on, as positions in both sides."""

    # State ------------------------------------------------------------------------------------

    def stats(self) -> dict[str, int | float]:
        rows, comparisons = sum(len(side) for side in self.live), int(self.counts[0])
        return {"retained": rows, "state_bytes": self.nbytes, "comparisons": comparisons}

    def _check(self) -> None:
        for side in self.live:
            side._check()
