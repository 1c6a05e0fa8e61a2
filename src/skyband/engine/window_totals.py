"""The number of rows, or the weight, that each window covers, as sums over panes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.arrays import Ints
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs, run_starts
from skyband.window import Panes

__all__ = ["Totals"]

_GROUP_SHIFT = 40
"""Count windows key their pane totals by group and pane; 2^40 panes per group are enough."""


class Totals:
    """The weight of every live pane; for count windows, of every group's live panes."""

    def __init__(self, panes: Panes, counting: bool) -> None:
        self.panes = panes
        self.counting = counting
        self.keys: Ints = np.zeros(0, np.int64)
        self.weights: npt.NDArray[Any] = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.weights.nbytes

    def add(self, sealed: Runs | None) -> None:
        """Add sealed panes, which must be sorted by pane unless they are of a count window."""
        if sealed is None:
            return
        weights = sealed.scalars.get("total")
        keys = sealed.stamp
        if self.counting:
            if weights is None:
                return  # the total is the number of arrivals, so nothing needs to be kept
            keys = _key(sealed.group, keys)
            order = np.argsort(keys, kind="stable")
            keys, weights = keys[order], weights[order]
        elif weights is None:
            weights = sealed.scalars["rows"]
        starts = run_starts(keys)
        sums = np.add.reduceat(weights, starts) if len(starts) else weights[:0]
        keys = np.concatenate([self.keys, keys[starts]])
        values = np.concatenate([self.weights, sums])
        if len(keys) > 1 and self.counting:
            order = np.argsort(keys, kind="stable")
            keys, values = keys[order], values[order]
        self.keys, self.weights = keys, values

    def of(self, windows: Windows) -> npt.NDArray[Any]:
        """The weight of each window."""
        first, end = windows.first, windows.end
        if self.counting and not len(self.keys):
            return self._rows(first, end)
        if windows.group is not None:
            first, end = _key(windows.group, first), _key(windows.group, end)
        low, high = np.searchsorted(self.keys, first), np.searchsorted(self.keys, end)
        sums = np.append(np.zeros(1, self.weights.dtype), np.cumsum(self.weights))
        totals: npt.NDArray[Any] = sums[high] - sums[low]
        return totals

    def _rows(self, first: Ints, end: Ints) -> Ints:
        """The arrivals in the panes of count windows, except those in gaps."""
        if self.panes.gaps:
            return np.asarray(self.panes.size * (end // 2 - first // 2))
        return np.asarray(self.panes.pane_start(end) - self.panes.pane_start(first))

    def expire(self, windows: Windows, counts: Ints) -> None:
        """Drop the panes before the last of these windows; its own panes may be read again.

        ``counts`` are the arrivals of each group so far.
        """
        if windows.group is None:
            self._keep(slice(int(np.searchsorted(self.keys, windows.first[-1])), None))
        elif len(self.keys) > 4 * self.panes.per_window * max(len(windows.ranks), 1):
            live = self.panes.first_pane(counts // self.panes.slide)
            owner = self.keys >> _GROUP_SHIFT
            self._keep((self.keys & ((1 << _GROUP_SHIFT) - 1)) >= live[owner])

    def _keep(self, rows: Any) -> None:
        self.keys, self.weights = self.keys[rows], self.weights[rows]


def _key(group: npt.NDArray[Any], pane: Ints) -> Ints:
    return (group.astype(np.int64) << _GROUP_SHIFT) + pane
