"""Tracks which groups are live; a group without rows in any future window is forgotten."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from skyband.arrays import Ints
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable

__all__ = ["LiveGroups"]

_NEVER = np.iinfo(np.int64).min
_FEW = 1024


class LiveGroups:
    """The newest pane of each group, and when to look for groups to forget."""

    def __init__(self, table: GroupTable) -> None:
        self.table = table
        self.newest: Ints = np.zeros(0, np.int64)
        """The newest pane with rows, by group code."""
        self.known = _FEW
        """The number of groups after the last look for expired ones."""

    @property
    def nbytes(self) -> int:
        return self.newest.nbytes + self.table.nbytes

    def saw(self, runs: Runs) -> None:
        """Note the panes in which groups have rows."""
        bound = self.table.bound
        if bound > len(self.newest):
            grown = np.full(max(bound, 2 * len(self.newest)), _NEVER)
            grown[: len(self.newest)] = self.newest
            self.newest = grown
        if self.table.names:
            np.maximum.at(self.newest, runs.group, runs.stamp)

    def expired(self, first: int) -> npt.NDArray[np.int32] | None:
        """Groups without rows since pane ``first``.

        None if the number of groups has not doubled since the last look.
        """
        if not self.table.names or len(self.table) < 2 * self.known:
            return None
        live = self.table.live
        return live[self.newest[live] < first].astype(np.int32)

    def release(self, gone: npt.NDArray[np.int32]) -> None:
        """Free the codes of these groups."""
        if len(gone):
            self.table.release(gone)
            self.newest[gone] = _NEVER
        self.known = max(_FEW, len(self.table))
