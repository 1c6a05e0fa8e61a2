"""``fsw``, ``fsw-r``, ``fsw-f``: Filtered Space-Saving with a sliding window."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.frequency.histograms import blocked, flat, new_blocks
from skyband.frequency.rows import CounterSketch, Pushed
from skyband.kernels.frequency import fsw_rows as kernel
from skyband.kernels.frequency.fsw import fold_fsw
from skyband.kernels.frequency.item_heap import table_find, table_size
from skyband.query.frequency import HeavyHitters

__all__ = ["Fsw", "FswF", "FswR"]

_NARROW = np.dtype(np.int32)
"""The type of whole numbers, as long as they fit."""
_COUNTERS = (
    "base", "cur", "err", "ecur", "low", "slack", "hist", "fine", "item_blocks", "error_blocks",
    "cell_blocks",
)  # fmt: skip
"""Arrays of counts, which all have the same type."""
_IN_BLOCKS = {"item_hist", "item_err", "cell_hist"}
"""Saved arrays that are made from blocks when they are read."""


class Fsw(CounterSketch):
    """FSW: a list of ``capacity`` monitored items and a filter of ``cells``, counted per pane.

    Cost: O(1) per row, O(capacity + cells) per pane, O(panes) per item that enters the list. State:
    (capacity + cells) × the panes of a window, whatever the number of distinct items; 32 bits per
    whole number, 64 once a count might not fit. Guarantee:
    the true count of an answered item lies within [count − error, count]; the count of an item that
    is not monitored is at most its cell's bound; an item that occurs in one pane more often than
    the least monitored count at the pane's end is monitored at that moment. An answer is ``exact``
    if every live cell and every error is zero, and no item of a live pane was left out because it
    weighed 0.

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

    saved_arrays = (
        "control", "item", "born", "seen", "base", "err", "item_hist", "item_err", "cell_hist",
        "marks", "hist", "held", "heap", "table", "low", "slack",
    )  # fmt: skip

    default_ratio = 1

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.cells = query.cells or 3 * self.capacity
        self.ratio = query.ratio or self.default_ratio
        self.filter_bits = 0

    def start(self) -> None:
        m, h, p = self.capacity, self.cells, self.panes
        size, self.shift = table_size(m)
        self.store = self.item_type.new_store()
        self.table = np.zeros(size, np.uint64)
        self.control = np.zeros(kernel.CONTROLS, np.int64)
        self.control[kernel.LOST] = kernel.NEVER
        self.item = np.zeros(m, np.uint64)
        self.born, self.seen = np.full(m, kernel.NEVER), np.full(m, kernel.NEVER)
        self.row = np.full(m, -1)
        kind = _NARROW if self.dtype.kind == "i" else self.dtype
        self.base, self.cur, self.err, self.ecur, self.low, self.slack = (
            np.zeros(m, kind) for _ in range(6)
        )
        self.item_blocks, self.cell_blocks = new_blocks(m, p, kind), new_blocks(h, p, kind)
        self.error_blocks = self.item_blocks[:0]
        self.marks = np.zeros((p, h), np.uint8)
        self.hist = np.zeros(h, kind)
        self.fine = np.zeros(h * self.ratio, kind)
        self.bits = np.zeros(-(-self.filter_bits // 8), np.uint8)
        self.held = np.full(p, kernel.NEVER)
        self.heap = np.arange(m, dtype=np.int32)

    def _sketch(self) -> kernel.Sketch:
        names = {
            "item_hist": "item_blocks", "item_err": "error_blocks", "cell_hist": "cell_blocks"
        }  # fmt: skip
        return kernel.Sketch(*(getattr(self, names.get(n, n)) for n in kernel.Sketch._fields))

    # Snapshots hold histograms with one row per item or cell.

    @property
    def item_hist(self) -> Array:
        """The count of each slot's item in each bucket."""
        return flat(self.item_blocks, self.panes)

    @item_hist.setter
    def item_hist(self, histograms: Array) -> None:
        self.item_blocks = blocked(histograms, self.item_blocks)

    @property
    def item_err(self) -> Array:
        """The error of each slot's item in each bucket; empty as long as it follows from counts."""
        if not len(self.error_blocks):
            return np.zeros((0, self.panes), self.base.dtype)
        return flat(self.error_blocks, self.panes)

    @item_err.setter
    def item_err(self, histograms: Array) -> None:
        blocks = blocked(histograms, self.item_blocks) if len(histograms) else self.item_blocks[:0]
        self.error_blocks = blocks

    @property
    def cell_hist(self) -> Array:
        """The bound of each cell in each bucket."""
        return flat(self.cell_blocks, self.panes)

    @cell_hist.setter
    def cell_hist(self, histograms: Array) -> None:
        self.cell_blocks = blocked(histograms, self.cell_blocks)

    def _make_room(self, pushed: Pushed) -> None:
        """Widen the counters if one of them might not fit after these panes.

        No counter grows by more than the total weight of the rows and ``missing``; in FSWf an
        item's second occurrence counts two.
        """
        if self.base.dtype == self.dtype:
            return
        weight = pushed.weights.sum(dtype=np.float64) if len(pushed.weights) else pushed.offsets[-1]
        more = pushed.counts.sum(dtype=np.float64) + pushed.missing.sum(dtype=np.float64)
        least = max(int(each.max()) for each in (self.base, self.err, self.hist))
        if least + 2.0 * (float(weight) + more) > np.iinfo(self.base.dtype).max:
            self._set_type(self.dtype)

    def _set_type(self, kind: np.dtype[Any]) -> None:
        for name in _COUNTERS:
            setattr(self, name, getattr(self, name).astype(kind, copy=False))

    # Panes ------------------------------------------------------------------------------------

    def _fold(self, panes: Runs, windows: Windows) -> Runs | None:
        panes = self.reduced(panes)
        pushed = self.unpacked(panes, raw=True)
        self._make_room(pushed)
        if not len(self.error_blocks) and (pushed.missing.any() or pushed.errors.any()):
            self._keep_errors()
        slots, rows, values, let_go, ends, proven, mu, live = fold_fsw(
            self._sketch(), *pushed, self.item_type.raw, windows.first, windows.end, self.reads,
            self.dtype.kind == "i",
        )  # fmt: skip
        found = None
        if len(windows):
            columns = self._items(panes, slots, rows)
            part = self._part(offsets_of(np.diff(ends, prepend=0)), values, let_go, columns)
            found = self._answers(windows.number, part, proven, mu, live)
        self._materialise(panes, self._used())
        return found

    def _used(self) -> Array:
        return self.heap[: self.control[kernel.SIZE]]

    def _keep_errors(self) -> None:
        """Start errors per pane: up to an item's insertion all counts are error, later ones not."""
        counts = self.item_hist
        errors = np.zeros_like(counts)
        for bucket, pane in enumerate(self.held.tolist()):
            if pane != kernel.NEVER:
                before = pane < self.born
                errors[before, bucket] = counts[before, bucket]
        for bucket, pane in enumerate(self.held.tolist()):
            if pane != kernel.NEVER:
                same = self.born == pane
                errors[same, bucket] = self.err[same] - errors[same].sum(axis=1)
        self.item_err = errors

    # Answers ----------------------------------------------------------------------------------

    def _partial(self, first: int, end: int, group: int | None) -> Runs:
        live = self.heap[: self.control[kernel.SIZE]]
        inside = (self.held >= first) & (self.held < end)
        shown = live[(self.seen[live] >= first)]
        columns = self.store.gather(shown)
        counts = self.item_hist[shown][:, inside].sum(axis=1)
        values = np.stack([counts, np.minimum(self.err[shown], counts)], axis=1)
        before = (self.held[inside][None, :] <= self.born[shown][:, None]).sum(axis=1)
        let_go = before if len(self.bits) else np.zeros(len(shown), np.int64)
        bounds = self.cell_hist[:, inside].sum(axis=1)
        lost = self.control[kernel.LOST] >= first or bounds.any()
        runs = 1 if len(shown) or lost else 0
        part = self._part(np.array([0, len(shown)] if runs else [0]), values, let_go, columns)
        clean = not (len(self.bits) or lost or self.err[shown].any())
        mu, live = np.full(runs, bounds.max()), np.full(runs, inside.sum())
        return self._answers(np.zeros(runs, np.int64), part, np.full(runs, clean), mu, live)

    def _part(self, offsets: Array, values: Array, let_go: Array, columns: dict[str, Any]) -> Part:
        lift, values = let_go.astype(self.dtype, copy=False), values.astype(self.dtype, copy=False)
        count, error = values[:, 0] + lift, values[:, 1]
        counted = {"count": count, "error": error + lift, "estimate": values[:, 0]}
        return self.item_type.settled(Part(offsets, columns | counted), self.reads)

    def _answers(self, number: Array, part: Part, proven: Array, mu: Array, live: Array) -> Runs:
        mu = mu.astype(self.dtype, copy=False)
        if self.filter_bits:
            # An item that is left out may have been ignored once in each live pane.
            after = np.flatnonzero(part.lengths == self.reads)
            mu[after] = np.maximum(mu[after], part["estimate"][part.offsets[after + 1] - 1])
            mu += live
        group = np.zeros(len(number), np.int32)
        return Runs(number, group, {"items": part}, {"exact": proven, "bound:mu": mu})

    # State ------------------------------------------------------------------------------------

    @property
    def mu(self) -> Any:
        """The least monitored count, 0 while the list has room: the paper's μ."""
        full = self.control[kernel.SIZE] == self.capacity
        return self.base.min() if full else self.base.dtype.type(0)

    def restore(self, arrays: Saved) -> None:
        if arrays and len(arrays["control"]) == kernel.LOST:
            # Version 0.1 did not record items left out at weight 0; without weights there are none.
            lost = kernel.NEVER if self.query.weight is None else arrays["held"].max()
            arrays = {**arrays, "control": np.append(arrays["control"], lost)}
        super().restore(arrays)
        self._set_type(self.base.dtype)

    @property
    def nbytes(self) -> int:
        arrays = {*self.saved_arrays, *_COUNTERS, "row", "bits"} - _IN_BLOCKS
        return self.store.nbytes + sum(int(getattr(self, name).nbytes) for name in arrays)

    def _stats(self) -> dict[str, int | float]:
        names = {
            "inserts": kernel.INSERTS, "removals": kernel.REMOVALS, "hits": kernel.HITS,
            "updates": kernel.UPDATES, "bucket_updates": kernel.BUCKETS,
            "stayed_0": kernel.STAYED, "stayed_1": kernel.STAYED + 1,
            "stayed_2": kernel.STAYED + 2, "stayed_more": kernel.STAYED + 3,
            "retained": kernel.SIZE,
        }  # fmt: skip
        m, h, p = self.capacity, self.cells, self.panes
        counters = m * (4 + p) + h * (p + self.ratio) + -(-self.filter_bits // 16)
        found: dict[str, int | float] = {n: int(self.control[at]) for n, at in names.items()}
        return found | {
            "mu": self.mu.item(), "counters": counters, "state_bytes": self.nbytes
        }  # fmt: skip

    def _check(self) -> None:
        size = int(self.control[kernel.SIZE])
        assert sorted(self.heap.tolist()) == list(range(self.capacity))
        live = self.heap[:size]
        for slot in live.tolist():
            assert table_find(self.table, self.shift, self.item[slot]) == slot
        assert np.count_nonzero(self.table[1::2]) == size
        item_hist, item_err, cell_hist = self.item_hist, self.item_err, self.cell_hist
        assert len({getattr(self, name).dtype for name in _COUNTERS}) == 1
        assert np.allclose(self.base[live], item_hist[live].sum(axis=1))  # f = sum of item_hist
        assert np.allclose(self.hist, cell_hist.sum(axis=1))  # alpha = sum of cell_hist
        assert not self.cur.any() or not self.cur[live].any()
        assert not self.fine.any()
        assert not self.bits.any()
        empty = self.held == kernel.NEVER
        assert not item_hist[live][:, empty].any()
        assert not cell_hist[:, empty].any()
        assert np.array_equal(self.marks.T != 0, cell_hist != 0)
        assert (self.err[live] >= 0).all()
        assert (self.err[live] <= self.base[live] * (1 + 1e-12)).all()
        if len(item_err):
            assert np.allclose(self.err[live], item_err[live].sum(axis=1))
            assert (item_err[live] <= item_hist[live] * (1 + 1e-12)).all()
        held = self.held[~empty]
        if len(held):
            assert held.max() - held.min() < self.panes
        for slot in live.tolist():
            coarse = kernel.cell_of(self.item[slot], len(self.fine)) // self.ratio
            if not len(item_err) and not len(self.bits):  # Lemma 4
                assert self.err[slot] <= self.hist[coarse] * (1 + 1e-12)


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
