"""The best row of every id of each live pane: what the position of any id follows from."""

from __future__ import annotations

import numpy as np

from skyband.arrays import Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs

__all__ = ["Everyone"]

_NEVER = np.iinfo(np.int64).min


class Everyone:
    """Summaries of the live panes, as they came. State: one row per id of each pane."""

    def __init__(self) -> None:
        self.pieces: list[Runs] = []

    @property
    def nbytes(self) -> int:
        return sum(piece.nbytes for piece in self.pieces)

    def take(self, panes: Runs) -> None:
        """Take sealed panes."""
        if len(panes):
            self.pieces.append(panes)

    def expire(self, windows: Windows) -> None:
        """Drop the panes that no window after these covers."""
        if windows.group is None:
            first = int(windows.first[-1])
            kept = [(piece, piece.stamp >= first) for piece in self.pieces]
        else:
            most = max([int(windows.group.max()), *(int(p.group.max()) for p in self.pieces)])
            needed = np.full(most + 1, _NEVER)
            np.maximum.at(needed, windows.group, windows.first)
            kept = [(piece, piece.stamp >= needed[piece.group]) for piece in self.pieces]
        self.pieces = [p if live.all() else p.take(live) for p, live in kept if live.any()]

    def rows(self, first: int, group: int) -> Part | None:
        """The rows of a group in pane ``first`` and later, as one run; None if there are none."""
        found = [p.take((p.stamp >= first) & (p.group == group)) for p in self.pieces]
        found = [piece for piece in found if len(piece)]
        if not found:
            return None
        part = Runs.concat(found).parts["rows"]
        return Part(np.array([0, len(part)]), part.columns)

    def state(self) -> State:
        """All panes as bytes."""
        if not self.pieces:
            return {}
        return {"everyone": np.frombuffer(Runs.concat(self.pieces).pack(), np.uint8)}

    def restore(self, arrays: Saved) -> None:
        """Replace everything by what ``state`` returned."""
        packed = arrays.get("everyone")
        self.pieces = [] if packed is None else [Runs.unpack(packed.tobytes())[0]]
