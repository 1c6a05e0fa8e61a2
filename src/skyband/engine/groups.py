"""Tracks which groups are live; a group without rows in any future window is forgotten."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable

__all__ = ["LiveGroups"]

_NEVER = np.iinfo(np.int64).min
_FEW = 1024


class LiveGroups:
    """The newest pane of each group, and when to look for groups to forget."""

    def __init__(self, table: GroupTable, forget: Callable[[Codes], None]) -> None:
        """``forget`` drops groups from the state of the query."""
        self.table, self.forget = table, forget
        self.newest: Ints = np.zeros(0, np.int64)
        """The newest pane with rows, by group code."""
        self.known = _FEW
        """The number of groups after the last look for expired ones."""
        self.needed = _NEVER
        """The first pane that may still be needed, at the last look or answer."""
        self.all: list[LiveGroups] = [self]
        """Those of all queries that have the same table: a code is freed when none needs it."""

    def join(self, first: LiveGroups) -> None:
        """Have the same table as another query from now on; codes are the same in both."""
        self.table, self.all = first.table, first.all
        self.all.append(self)

    @property
    def nbytes(self) -> int:
        return self.newest.nbytes + self.table.nbytes // len(self.all)

    def saw(self, runs: Runs) -> None:
        """Note the panes in which groups have rows."""
        self.reserve()
        if self.table.names:
            np.maximum.at(self.newest, runs.group, runs.stamp)

    def reserve(self) -> None:
        """Make room for all codes of the table."""
        bound = self.table.bound
        if bound > len(self.newest):
            grown = np.full(max(bound, 2 * len(self.newest)), _NEVER)
            grown[: len(self.newest)] = self.newest
            self.newest = grown

    def expired(self, first: int) -> Codes | None:
        """Groups without rows since pane ``first``, and that no other query needs.

        None if the number of groups has not doubled since the last look.
        """
        self.needed = first
        if not self.table.names or len(self.table) < 2 * self.known:
            return None
        live = self.table.live
        for each in self.all:
            each.reserve()
            live = live[each.newest[live] < each.needed]
        return live.astype(np.int32)

    def release(self, gone: Codes) -> None:
        """Forget these groups and free their codes."""
        if len(gone):
            for each in self.all:
                each.forget(gone)
            self.table.release(gone)
        for each in self.all:
            each.newest[gone] = _NEVER
            each.known = max(_FEW, len(self.table))
