"""``fsw``, ``fsw-r``, ``fsw-f``: Filtered Space-Saving with a sliding window."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.frequency.fsw_state import SHARED, FswState
from skyband.frequency.histograms import flat
from skyband.kernels.frequency import fsw_rows as kernel
from skyband.kernels.frequency.fsw import fold_fsw
from skyband.query.frequency import HeavyHitters

__all__ = ["Fsw", "FswF", "FswR"]

_NONE = np.zeros(0, np.int64)
_ALL: Any = slice(None)


class Fsw(FswState):
    """FSW: a list of ``capacity`` monitored items and a filter of ``cells``, counted per pane.

    Cost: O(1) per row, O(capacity + cells) per pane, O(panes) per item that enters the list. State:
    (capacity + cells) × the panes of a window, whatever the number of distinct items; 32 bits per
    whole number, 64 once a count might not fit. Guarantee:
    the true count of an answered item lies within [count − error, count]; the count of an item that
    is not monitored is at most its cell's bound; an item that occurs in one pane more often than
    the least monitored count at the pane's end is monitored at that moment. An item that met a full
    list is in no list until its next row, so an answer may show fewer than k items, even none. An
    answer is ``exact`` if every live cell and every error is zero, and no item of a live pane was
    left out because it weighed 0.

    Homem and Carvalho, "Finding top-k elements in a time-sliding window", section 4. We depart from
    Figure 4 in three places: an inserted item's active bucket counts the observation that brought
    it; its bound is read before the eviction it causes; and its error is that of its own buckets.

    >>> import pyarrow as pa, skyband as sb
    >>> words = pa.table({"word": "a rose is a rose is a rose and a bud".split()})
    >>> window, sizes = sb.CountWindow(11), {"capacity": 2, "cells": 3}
    >>> query = sb.HeavyHitters(k=2, item="word", window=window, algorithm="fsw", **sizes)
    >>> sb.rank(words, query).select(["word", "count", "error"]).to_pylist()
    [{'word': 'a', 'count': 4, 'error': 3}, {'word': 'rose', 'count': 3, 'error': 0}]
    """

    # Panes ------------------------------------------------------------------------------------

    def _fold(self, panes: Runs, windows: Windows) -> Runs | None:
        panes = self.reduced(panes)
        pushed = self.unpacked(panes, raw=True)
        self.hold(panes.group)
        self.make_room(pushed)
        if not self.has_errors and (pushed.missing.any() or pushed.errors.any()):
            self.keep_errors()
        plan, asked = self.plan(panes.group, windows)
        arrays = self.sketch()._asdict().items()
        sketch = self.sketch()
        if not self.query.groups:
            sketch = kernel.Sketch(*(v if name in SHARED else v[None] for name, v in arrays))
        slots, rows, values, let_go, which, owner, ends, proven, mu, live = fold_fsw(
            sketch, plan, pushed, self.item_type.raw, asked.first, asked.end,
            self.reads, self.dtype.kind == "i",
        )  # fmt: skip
        found = None
        if len(windows):
            columns, lengths = self._items(panes, slots, rows), np.diff(ends, prepend=0)
            if not self.query.groups and len(which) < len(windows):
                # A window without rows has an answer too, which FSWf never proves exact.
                lengths, mu, live, owner, told = (
                    _spread(each, which, len(windows))
                    for each in (lengths, mu, live, owner, proven)
                )
                proven, which = told | (np.bincount(which, minlength=len(windows)) == 0), _ALL
                proven &= not self.filter_bits
            part = self._part(offsets_of(lengths), values, let_go, columns)
            found = self._answers(asked.number[which], owner, part, proven, mu, live)
            found = found.ordered(windows.ranks) if self.query.groups else found
        self._materialise(panes, self.used)
        return found

    # Answers ----------------------------------------------------------------------------------

    def _partial(self, first: int, end: int, group: int | None) -> Runs:
        asked = self.known if group is None else [group] if group in self.known else []
        found = [self._partial_of(each, first, end) for each in asked]
        found = [each for each in found if len(each)]
        return Runs.concat(found) if found else self._nothing()

    def _nothing(self) -> Runs:
        part = self._part(np.zeros(1, np.int64), np.zeros((0, 2)), _NONE, self.store.gather(_NONE))
        return self._answers(_NONE, _NONE, part, _NONE > 0, _NONE, _NONE)

    def _partial_of(self, group: int, first: int, end: int) -> Runs:
        s = self.one(group)
        live = s.heap[: s.control[kernel.SIZE]]
        inside = (s.held >= first) & (s.held < end)
        if not inside.any():
            return self._nothing()
        shown = live[s.seen[live] >= first]
        columns = self.store.gather(group * self.capacity + shown)
        counts = flat(s.item_hist, self.panes)[shown][:, inside].sum(axis=1)
        values = np.stack([counts, np.minimum(s.err[shown], counts)], axis=1)
        before = (s.held[inside][None, :] <= s.born[shown][:, None]).sum(axis=1)
        let_go = before if len(self.bits) else np.zeros(len(shown), np.int64)
        bounds = flat(s.cell_hist, self.panes)[:, inside].sum(axis=1)
        lost = s.control[kernel.LOST] >= first or bounds.any()
        part = self._part(np.array([0, len(shown)]), values, let_go, columns)
        clean = not (len(self.bits) or lost or s.err[shown].any())
        number, mu = np.zeros(1, np.int64), bounds.max(keepdims=True)
        live_panes = inside.sum(keepdims=True)
        return self._answers(number, number + group, part, np.array([clean]), mu, live_panes)

    def _part(self, offsets: Array, values: Array, let_go: Array, columns: dict[str, Any]) -> Part:
        lift, values = let_go.astype(self.dtype, copy=False), values.astype(self.dtype, copy=False)
        count, error = values[:, 0] + lift, values[:, 1]
        counted = {"count": count, "error": error + lift, "estimate": values[:, 0]}
        return self.item_type.settled(Part(offsets, columns | counted), self.reads)

    def _answers(
        self, number: Array, group: Array, part: Part, proven: Array, mu: Array, live: Array
    ) -> Runs:
        mu = mu.astype(self.dtype)
        if self.filter_bits:
            # An item that is left out may have been ignored once in each live pane.
            after = np.flatnonzero(part.lengths == self.reads)
            mu[after] = np.maximum(mu[after], part["estimate"][part.offsets[after + 1] - 1])
            mu += live.astype(self.dtype)
        scalars = {"exact": proven, "bound:mu": mu}
        return Runs(number, group.astype(np.int32), {"items": part}, scalars)

    # State ------------------------------------------------------------------------------------

    @property
    def mu(self) -> Any:
        """The least monitored count, 0 while the list has room: the paper's μ.

        The greatest of all groups.
        """
        full = self.stacked("control")[:, kernel.SIZE] == self.capacity
        least = self.stacked("base")[full]
        return least.min(axis=1).max() if len(least) else self.base.dtype.type(0)

    def _stats(self) -> dict[str, int | float]:
        names = {
            "inserts": kernel.INSERTS, "removals": kernel.REMOVALS, "hits": kernel.HITS,
            "updates": kernel.UPDATES, "bucket_updates": kernel.BUCKETS,
            "stayed_0": kernel.STAYED, "stayed_1": kernel.STAYED + 1,
            "stayed_2": kernel.STAYED + 2, "stayed_more": kernel.STAYED + 3,
            "retained": kernel.SIZE,
        }  # fmt: skip
        m, h, p = self.capacity, self.cells, self.panes
        groups = int(np.count_nonzero(self.alive)) if self.query.groups else 1
        counters = m * (4 + p) + h * (p + self.ratio) + -(-self.filter_bits // 16)
        total = self.stacked("control").sum(axis=0)
        found: dict[str, int | float] = {n: int(total[at]) for n, at in names.items()}
        return found | {
            "mu": self.mu.item(),
            "counters": counters * groups,
            "state_bytes": self.nbytes,
        }


def _spread(values: Array, places: Array, size: int) -> Array:
    """These values at their places in an array of zeros."""
    found = np.zeros(size, values.dtype)
    found[places] = values
    return found


class FswR(Fsw):
    """FSWr: FSW with ``ratio`` fine counters per cell while a pane is being counted.

    Cost, state and guarantee: as for FSW, plus ratio × cells counters. When a pane ends, a cell
    keeps the greatest of its fine counters, so items of the same cell disturb each other less.

    Paper: section 6. The error of an inserted item is its cell's history plus its fine counter.

    >>> import skyband as sb
    >>> FswR(sb.HeavyHitters(k=50, item="flow", window=sb.CountWindow(10))).ratio
    4
    """

    default_ratio = 4


class FswF(FswR):
    """FSWf: FSWr that ignores an item's first occurrence in a pane while the list is full.

    Cost and state: as for FSWr, plus ``filter_bits`` bits. Guarantee: as for FSW, with count and
    error raised by one per live pane up to the item's insertion; items are ranked by the estimate
    without that addition. An answer is never ``exact``. Works best if most items occur once.

    Paper: section 7. We test the fine counter for zero, not the cell's bucket, and filter only when
    the list is full: until then an insertion changes no cell.

    >>> import skyband as sb
    >>> FswF(sb.HeavyHitters(k=50, item="flow", window=sb.CountWindow(10))).filter_bits
    32000
    """

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.filter_bits = query.filter_bits or 32 * self.capacity
