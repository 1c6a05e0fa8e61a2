"""A ready-made ``fold`` for algorithms that take one pane at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from skyband.contract.rows import Windows
from skyband.contract.runs import Runs


class PaneByPane(ABC):
    """A mixin for synopses of one group; ``fold`` calls ``push``, ``seal`` and ``partial``."""

    @abstractmethod
    def push(self, panes: Runs) -> None:
        """Take sealed panes, which are newer than all panes taken before."""

    @abstractmethod
    def seal(self, first: int, end: int) -> None:
        """Panes before ``end`` are complete, even empty ones; those before ``first`` expire."""

    @abstractmethod
    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        """See ``Synopsis.partial``."""

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        """For each window, push the panes up to its end, then read it."""
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
