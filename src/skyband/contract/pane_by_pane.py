"""A ready ``fold`` for algorithms that take one pane after the other."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from skyband.contract.rows import Windows
from skyband.contract.runs import Runs

__all__ = ["PaneByPane"]


class PaneByPane:
    """Mix into a synopsis: ``fold`` by ``push``, ``seal`` and ``partial``, for one group."""

    @abstractmethod
    def push(self, panes: Runs) -> None:
        """Take sealed panes that are newer than all before them."""

    @abstractmethod
    def seal(self, first: int, end: int) -> None:
        """Panes before ``end`` are complete, the empty ones too; those before ``first`` expire."""

    @abstractmethod
    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        """As the contract says."""

    def fold(self, panes: Runs, windows: Windows, final: bool = False) -> Runs | None:
        """Push panes up to the end of each window, then read it."""
        found: list[Runs] = []
        at = 0
        for number, first, end in zip(windows.number, windows.first, windows.end, strict=True):
            upto = int(np.searchsorted(panes.stamp, end))
            if upto > at:
                self.push(panes.slice(at, upto))
                at = upto
            self.seal(int(first), int(end))
            piece = self.partial(int(first), int(end))
            found.append(piece.stamped(np.full(len(piece), number)))
        if at < len(panes):
            self.push(panes.slice(at, len(panes)))
        return Runs.concat(found) if found else None
