"""A ready-made ``fold`` for algorithms that take one pane at a time, and a state of whole panes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from skyband.arrays import Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs, Types
from skyband.data.flat_state import load, require, save


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


class LivePanes(PaneByPane):
    """A mixin for synopses of one group whose state is the summaries of all live panes."""

    saved_runs: Callable[..., Runs]
    """See ``Synopsis.saved_runs``."""
    _summary_types: Callable[[], Types]
    live = Runs(np.zeros(0, np.int64), np.zeros(0, np.int32), {})

    def push(self, panes: Runs) -> None:
        self.live = Runs.concat([self.live, panes])

    def seal(self, first: int, end: int) -> None:
        self.live = self.between(first, end)

    def between(self, first: int, end: int) -> Runs:
        """The live panes ``[first, end)``."""
        low, high = np.searchsorted(self.live.stamp, (first, end))
        return self.live.slice(int(low), int(high))

    def snapshot(self) -> State:
        """See ``Synopsis.snapshot``."""
        return save(self) | {"live": np.frombuffer(self.live.pack(), np.uint8)}

    def restore(self, arrays: Saved) -> None:
        """See ``Synopsis.restore``."""
        require("live" in arrays, "the live panes are missing")
        load(self, arrays)
        live = self.saved_runs(Runs.unpack(arrays["live"].tobytes())[0])
        self.live = live.typed(self._summary_types(), whole=True)
        require((live.stamp[1:] >= live.stamp[:-1]).all(), "panes are not in order")
