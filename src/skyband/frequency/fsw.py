"""``fsw``, ``fsw-r``, ``fsw-f``: Filtered Space-Saving with a sliding window."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array, Codes, Hashes, Ints, Mask, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.flat_state import Form, Forms, require
from skyband.frequency.kernels import fsw as kernel
from skyband.frequency.kernels.fsw import fold_fsw
from skyband.frequency.kernels.item_heap import PaneItems, table_find, table_size
from skyband.frequency.many_groups import GroupedSketch
from skyband.query.frequency import HeavyHitters

__all__ = ["Fsw", "FswF", "FswR"]

_NONE = np.zeros(0, np.int64)
_ALL: Any = slice(None)
_WIDTH = 64
"""The most buckets of a block of a histogram."""
_NARROW = np.dtype(np.int32)
"""The type of whole numbers, as long as they fit."""
_FAR = 1 << 62
_COUNTERS = (
    "base", "cur", "err", "ecur", "low", "slack", "hist", "fine", "item_blocks", "error_blocks",
    "cell_blocks",
)  # fmt: skip
"""Arrays of counts, which all have the same type."""
_SHARED = {"cur", "ecur", "fine", "bits", "shift", "ratio"}
"""What all groups use."""


class Fsw(GroupedSketch):
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

    saved_arrays = (
        "control", "item", "born", "seen", "base", "err", "item_hist", "item_err", "cell_hist",
        "marks", "hist", "held", "heap", "table", "low", "slack",
    )  # fmt: skip

    default_ratio = 1
    control: Ints
    item: Hashes
    born: Ints
    seen: Ints
    base: Array
    err: Array
    item_blocks: Array
    error_blocks: Array
    cell_blocks: Array
    marks: Array
    hist: Array
    held: Ints
    heap: Codes
    table: Hashes
    low: Array
    slack: Array

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.cells = query.cells or 3 * self.capacity
        self.ratio = query.ratio or self.default_ratio
        self.filter_bits = 0

    def start(self) -> None:
        m, h, p = self.capacity, self.cells, self.panes
        kind = _NARROW if self.dtype.kind == "i" else self.dtype
        size, self.shift = table_size(m)
        self.store = self.item_type.new_store()
        control = np.zeros(kernel.CONTROLS, np.int64)
        control[kernel.LOST] = kernel.NEVER
        item_blocks = _new_blocks(m, p, kind)
        self.set_blank({
            "control": control, "item": np.zeros(m, np.uint64), "row": np.full(m, -1),
            "born": np.full(m, kernel.NEVER), "seen": np.full(m, kernel.NEVER),
            **{name: np.zeros(m, kind) for name in ("base", "err", "low", "slack")},
            "item_blocks": item_blocks, "error_blocks": item_blocks[:0],
            "cell_blocks": _new_blocks(h, p, kind), "marks": np.zeros((p, h), np.uint8),
            "hist": np.zeros(h, kind), "held": np.full(p, kernel.NEVER),
            "heap": np.arange(m, dtype=np.int32), "table": np.zeros(size, np.uint64),
        })  # fmt: skip
        # What follows is 0 between panes, so all groups use the same.
        self.cur, self.ecur = np.zeros(m, kind), np.zeros(m, kind)
        self.fine = np.zeros(h * self.ratio, kind)
        self.bits = np.zeros(-(-self.filter_bits // 8), np.uint8)

    def sketch(self) -> kernel.Sketch:
        """The state as kernels take it; with groups, it has one more dimension in front."""
        names = {
            "item_hist": "item_blocks", "item_err": "error_blocks", "cell_hist": "cell_blocks"
        }  # fmt: skip
        return kernel.Sketch(*(getattr(self, names.get(n, n)) for n in kernel.Sketch._fields))

    def one(self, group: int) -> kernel.Sketch:
        """The state of one group, for reading."""
        if not self.query.groups:
            return self.sketch()
        arrays = self.sketch()._asdict().items()
        return kernel.Sketch(*(v if name in _SHARED else v[group] for name, v in arrays))

    # Counters ---------------------------------------------------------------------------------

    # Snapshots hold histograms with one row per item or cell.

    @property
    def item_hist(self) -> Array:
        """The count of each slot's item in each bucket."""
        return _flat(self.item_blocks, self.panes)

    @item_hist.setter
    def item_hist(self, histograms: Array) -> None:
        self.item_blocks = _blocked(histograms, self.blank["item_blocks"])

    @property
    def item_err(self) -> Array:
        """The error of each slot's item in each bucket; empty as long as it follows from counts."""
        if not self.has_errors:
            return np.zeros((0, self.panes), self.base.dtype)
        return _flat(self.error_blocks, self.panes)

    @item_err.setter
    def item_err(self, histograms: Array) -> None:
        if len(histograms):
            self.error_blocks = _blocked(histograms, self.blank["item_blocks"])
            self.blank["error_blocks"] = self.blank["item_blocks"]
        else:
            self.error_blocks = self.item_blocks[..., :0, :, :]

    @property
    def cell_hist(self) -> Array:
        """The bound of each cell in each bucket."""
        return _flat(self.cell_blocks, self.panes)

    @cell_hist.setter
    def cell_hist(self, histograms: Array) -> None:
        self.cell_blocks = _blocked(histograms, self.blank["cell_blocks"])

    @property
    def has_errors(self) -> bool:
        return bool(self.error_blocks.shape[-3] > 0)

    def make_room(self, pushed: PaneItems) -> None:
        """Widen the counters if one of them might not fit after these panes.

        No counter grows by more than the total weight of the rows and ``missing``; in FSWf an
        item's second occurrence counts two.
        """
        if self.base.dtype == self.dtype:
            return
        weight = pushed.weights.sum(dtype=np.float64) if len(pushed.weights) else pushed.offsets[-1]
        more = pushed.counts.sum(dtype=np.float64) + pushed.missing.sum(dtype=np.float64)
        least = max(int(each.max(initial=0)) for each in (self.base, self.err, self.hist))
        if least + 2.0 * (float(weight) + more) > np.iinfo(self.base.dtype).max:
            self.set_type(self.dtype)

    def set_type(self, kind: np.dtype[Any]) -> None:
        for name in _COUNTERS:
            setattr(self, name, getattr(self, name).astype(kind, copy=False))
            if name in self.blank:
                self.blank[name] = self.blank[name].astype(kind, copy=False)

    def keep_errors(self) -> None:
        """Start errors per pane: up to an item's insertion all counts are error, later ones not."""
        counts = self.item_hist
        errors = np.zeros_like(counts)
        for group in self.known:
            at = group if self.query.groups else ...
            held, born = self.held[at].tolist(), self.born[at]
            mine, own = errors[at], counts[at]
            for bucket, pane in enumerate(held):
                if pane != kernel.NEVER:
                    before = pane < born
                    mine[before, bucket] = own[before, bucket]
            for bucket, pane in enumerate(held):
                if pane != kernel.NEVER:
                    same = born == pane
                    mine[same, bucket] = self.err[at][same] - mine[same].sum(axis=1)
        self.item_err = errors

    # Groups -----------------------------------------------------------------------------------

    @property
    def slots(self) -> int:
        return self.capacity

    @property
    def used(self) -> Array:
        heap, size = self.stacked("heap"), self.stacked("control")[:, kernel.SIZE]
        first = self.capacity * np.arange(len(heap))
        return np.asarray((first[:, None] + heap)[np.arange(self.capacity) < size[:, None]])

    @property
    def alive(self) -> Mask:
        return np.asarray((self.stacked("held") != kernel.NEVER).any(axis=1))

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
            sketch = kernel.Sketch(*(v if name in _SHARED else v[None] for name, v in arrays))
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
        counts = _flat(s.item_hist, self.panes)[shown][:, inside].sum(axis=1)
        values = np.stack([counts, np.minimum(s.err[shown], counts)], axis=1)
        before = (s.held[inside][None, :] <= s.born[shown][:, None]).sum(axis=1)
        let_go = before if len(self.bits) else np.zeros(len(shown), np.int64)
        bounds = _flat(s.cell_hist, self.panes)[:, inside].sum(axis=1)
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

    def restore(self, arrays: Saved) -> None:
        kind = arrays["base"].dtype if "base" in arrays else self.base.dtype
        require(kind in (self.dtype, self.blank["base"].dtype), f"counts of type {kind}")
        self.set_type(kind)
        if "item_err" in arrays and arrays["item_err"].shape[-2:] == self.item_hist.shape[-2:]:
            self.error_blocks = self.item_blocks
            self.blank["error_blocks"] = self.blank["item_blocks"]
        super().restore(arrays)
        self.set_type(kind)

    @property
    def saved_forms(self) -> Forms:  # type: ignore[override]
        forms = super().saved_forms
        return forms if self.has_errors else {**forms, "item_err": Form(0)}

    def _admit(self) -> None:
        super()._admit()
        held = self.stacked("held").max(axis=1, initial=kernel.NEVER)
        size, heap, _, _ = self.lists()
        live = np.arange(self.capacity) < size[:, None]
        born = np.take_along_axis(self.stacked("born"), heap.astype(np.int64), axis=1)
        require(((born <= held[:, None]) & (born > -_FAR) | ~live).all(), "an item of no pane")

    def lists(self) -> tuple[Array, Array, Array, Array]:
        names = ("heap", "item", "table")
        return self.stacked("control")[:, kernel.SIZE], *(self.stacked(n) for n in names)

    @property
    def nbytes(self) -> int:
        shared = (self.cur, self.ecur, self.fine, self.bits)
        return super().nbytes + sum(int(array.nbytes) for array in shared)

    def _check(self) -> None:
        assert len({getattr(self, name).dtype for name in _COUNTERS}) == 1
        assert not self.cur.any()
        assert not self.ecur.any()
        assert not self.fine.any()
        assert not self.bits.any()
        for group in self.known:
            _check_group(self.one(group), self.panes, self.ratio)

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


def _check_group(s: kernel.Sketch, panes: int, ratio: int) -> None:
    """Assert every invariant of the state of one group."""
    size = int(s.control[kernel.SIZE])
    assert sorted(s.heap.tolist()) == list(range(len(s.item)))
    live = s.heap[:size]
    for slot in live.tolist():
        assert table_find(s.table, s.shift, s.item[slot]) == slot
    assert np.count_nonzero(s.table[1::2]) == size
    item_hist, cell_hist = _flat(s.item_hist, panes), _flat(s.cell_hist, panes)
    assert np.allclose(s.base[live], item_hist[live].sum(axis=1))  # f = sum of item_hist
    assert np.allclose(s.hist, cell_hist.sum(axis=1))  # alpha = sum of cell_hist
    assert not item_hist[s.heap[size:]].any(), "a slot without an item counts nothing"
    empty = s.held == kernel.NEVER
    assert not item_hist[live][:, empty].any()
    assert not cell_hist[:, empty].any()
    assert np.array_equal(s.marks.T != 0, cell_hist != 0)
    assert (s.err[live] >= 0).all()
    assert (s.err[live] <= s.base[live] * (1 + 1e-12)).all()
    if len(s.item_err):
        item_err = _flat(s.item_err, panes)
        assert np.allclose(s.err[live], item_err[live].sum(axis=1))
        assert (item_err[live] <= item_hist[live] * (1 + 1e-12)).all()
    held = s.held[~empty]
    if len(held):
        assert held.max() - held.min() < panes
    for slot in live.tolist():
        coarse = kernel.cell_of(s.item[slot], len(s.fine)) // ratio
        if not len(s.item_err) and not len(s.bits):  # Lemma 4
            assert s.err[slot] <= s.hist[coarse] * (1 + 1e-12)


# Histograms over panes, in blocks of some 64 buckets; see ``kernels.frequency.fsw_rows``


def _new_blocks(owners: int, panes: int, dtype: Any) -> Array:
    """Empty histograms: an array of (block, owner, bucket)."""
    blocks = -(-panes // _WIDTH)
    return np.zeros((blocks, owners, -(-panes // blocks)), dtype)


def _blocked(histograms: Array, like: Array) -> Array:
    """Histograms, one per row, in blocks like those of ``like``; of one group, or of several."""
    blocks, owners, width = like.shape
    lead = histograms.shape[:-2]
    found = np.zeros((*lead, owners, blocks * width), histograms.dtype)
    found[..., : histograms.shape[-1]] = histograms
    split = found.reshape(*lead, owners, blocks, width)
    return np.ascontiguousarray(np.moveaxis(split, -2, -3))


def _flat(blocks: Array, panes: int) -> Array:
    """The inverse of ``blocked``: one row of ``panes`` buckets per owner."""
    *lead, count, owners, width = blocks.shape
    rows = np.moveaxis(blocks, -3, -2).reshape(*lead, owners, count * width)
    return np.ascontiguousarray(rows[..., :panes])
