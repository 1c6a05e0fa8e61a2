"""``fsw``, ``fsw-r`` and ``fsw-f``: Filtered Space-Saving with a sliding window, one class."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband import registry
from skyband.arrays import Array, Codes, Hashes, Ints, Mask, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.flat_state import require
from skyband.frequency.kernels import fsw as kernel
from skyband.frequency.kernels.fsw import GroupWork, fold_fsw
from skyband.frequency.kernels.item_heap import PaneItems, table_find, table_size
from skyband.frequency.many_groups import GroupedSketch
from skyband.query.frequency import HeavyHitters

_NONE = np.zeros(0, np.int64)
_ALL: Any = slice(None)
_WIDTH = 64
"""The most buckets of a block of a histogram."""
_NARROW = np.dtype(np.int32)
"""The type of whole numbers, as long as they fit."""
_FAR = 1 << 62
_COUNTERS = (
    "base", "cur", "err", "ecur", "low", "slack", "hist", "fine", "item_hist", "item_err",
    "cell_hist",
)  # fmt: skip
"""Arrays of counts, which all have the same type."""
_SHARED = {"cur", "ecur", "fine", "bits", "shift", "ratio"}
"""What all groups use."""


class Fsw(GroupedSketch):
    """FSW: a list of ``capacity`` monitored items and a filter of ``cells``, counted per pane.

    With ``ratio`` above 1 it is FSWr: a cell has as many fine counters while a pane is counted, and
    keeps the greatest of them when it ends, so items of the same cell disturb each other less. With
    ``filter_bits`` it is FSWf, which also ignores an item's first occurrence in a pane while the
    list is full; it works best if most items occur once.

    Cost: O(1) per row, O(capacity + cells) per pane, O(panes) per item that enters the list. State:
    (capacity + cells) × the panes of a window, whatever the number of distinct items; 32 bits per
    whole number, 64 once a count might not fit; ratio × cells counters, and the bits. Guarantee:
    the true count of an answered item lies within [count − error, count]; the count of an item that
    is not monitored is at most its cell's bound; an item that occurs in one pane more often than
    the least monitored count at the pane's end is monitored at that moment. An item that met a full
    list is in no list until its next row, so an answer may show fewer than k items, even none. An
    answer is ``exact`` if every live cell and every error is zero, and no item of a live pane was
    left out because it weighed 0. FSWf raises count and error by one per live pane up to the item's
    insertion, but ranks by the estimate without that; its answers over rows are never ``exact``.

    Homem and Carvalho, "Finding top-k elements in a time-sliding window", sections 4, 6 and 7. We
    depart from Figure 4 in three places: an inserted item's active bucket counts the observation
    that brought it; its bound is read before the eviction it causes; and its error is that of its
    own buckets, in FSWr its cell's history plus its fine counter. FSWf tests the fine counter for
    zero, not the cell's bucket, and filters only when the list is full: until then an insertion
    changes no cell.

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

    control: Ints
    item: Hashes
    born: Ints
    seen: Ints
    base: Array
    err: Array
    item_hist: Array
    item_err: Array
    cell_hist: Array
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
        name = registry.choose(query)
        self.ratio = query.ratio or (1 if name == "fsw" else 4)
        self.filter_bits = 0
        if name == "fsw-f":
            self.filter_bits = query.filter_bits or 32 * self.capacity

    def start(self) -> None:
        m, h, p = self.capacity, self.cells, self.panes
        kind = _NARROW if self.dtype.kind == "i" else self.dtype
        size, self.shift = table_size(m)
        self.store = self.item_type.new_store()
        control = np.zeros(kernel.CONTROLS, np.int64)
        control[kernel.LOST] = kernel.NEVER
        item_hist = _new_blocks(m, p, kind)
        self.set_blank({
            "control": control, "item": np.zeros(m, np.uint64), "row": np.full(m, -1),
            "born": np.full(m, kernel.NEVER), "seen": np.full(m, kernel.NEVER),
            **{name: np.zeros(m, kind) for name in ("base", "err", "low", "slack")},
            "item_hist": item_hist, "item_err": item_hist[:0],
            "cell_hist": _new_blocks(h, p, kind), "marks": np.zeros((p, h), np.uint8),
            "hist": np.zeros(h, kind), "held": np.full(p, kernel.NEVER),
            "heap": np.arange(m, dtype=np.int32), "table": np.zeros(size, np.uint64),
        })  # fmt: skip
        # What follows is 0 between panes, so all groups use the same.
        self.cur, self.ecur = np.zeros(m, kind), np.zeros(m, kind)
        self.fine = np.zeros(h * self.ratio, kind)
        self.bits = np.zeros(-(-self.filter_bits // 8), np.uint8)

    def sketch(self) -> kernel.Sketch:
        """The state as kernels take it."""
        return kernel.Sketch(*(getattr(self, name) for name in kernel.Sketch._fields))

    def one(self, group: int) -> kernel.Sketch:
        """The state of one group, for reading."""
        arrays = self.sketch()._asdict().items()
        return kernel.Sketch(*(v if name in _SHARED else v[group] for name, v in arrays))

    # Counters ---------------------------------------------------------------------------------

    @property
    def has_errors(self) -> bool:
        """Whether the error of each bucket is kept, because it does not follow from the counts."""
        return len(self.blank["item_err"]) > 0

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
        errors, width = np.zeros_like(self.item_hist), self.item_hist.shape[-1]
        for compare in (np.less, np.equal):
            left = self.err - errors.sum(axis=(1, 3))
            for bucket in range(self.panes):
                at = (_ALL, bucket // width, _ALL, bucket % width)
                pane = self.held[:, bucket, None]
                wrong = self.item_hist[at] if compare is np.less else left
                errors[at] += np.where((pane != kernel.NEVER) & compare(pane, self.born), wrong, 0)
        self.item_err, self.blank["item_err"] = errors, self.blank["item_hist"]

    # Groups -----------------------------------------------------------------------------------

    @property
    def sizes(self) -> Ints:
        return self.control[:, kernel.SIZE]

    @property
    def alive(self) -> Mask:
        return np.asarray((self.held != kernel.NEVER).any(axis=1))

    # Panes ------------------------------------------------------------------------------------

    def _run(self, panes: Runs, work: GroupWork, due: Windows) -> Runs:
        pushed = self.summaries.unpacked(panes, raw=True)
        self.make_room(pushed)
        if not self.has_errors and (pushed.missing.any() or pushed.errors.any()):
            self.keep_errors()
        slots, rows, values, let_go, which, owner, ends, proven, mu, live = fold_fsw(
            self.sketch(), work, pushed, self.item_type.raw, due.first, due.end,
            self.reads, self.dtype.kind == "i",
        )  # fmt: skip
        columns, offsets = self._items(panes, slots, rows), offsets_of(np.diff(ends, prepend=0))
        part = self._part(offsets, values, let_go, columns)
        return self._answers(due.number[which], owner, part, proven, mu, live)

    # Answers ----------------------------------------------------------------------------------

    def _nothing(self) -> Runs:
        part = self._part(np.zeros(1, np.int64), np.zeros((0, 2)), _NONE, self.store.gather(_NONE))
        return self._answers(_NONE, _NONE, part, _NONE > 0, _NONE, _NONE)

    def _read_group(self, group: int, first: int, end: int) -> Runs:
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
        if "item_err" in arrays and arrays["item_err"].shape[1:2] != (0,):
            self.keep_errors()
        super().restore(arrays)

    def _admit(self) -> None:
        super()._admit()
        held, counted = self.held.max(axis=1, initial=kernel.NEVER), np.arange(self.capacity)
        born = np.take_along_axis(self.born, self.heap.astype(np.int64), axis=1)
        known = (born <= held[:, None]) & (born > -_FAR)
        require((known | (counted >= self.sizes[:, None])).all(), "an item of no pane")

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
        least = self.base[self.sizes == self.capacity]
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
        total = self.control.sum(axis=0)
        found: dict[str, int | float] = {n: int(total[at]) for n, at in names.items()}
        return found | {
            "mu": self.mu.item(),
            "counters": counters * groups,
            "state_bytes": self.nbytes,
        }


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


def _flat(blocks: Array, panes: int) -> Array:
    """The histograms of one group, one row of ``panes`` buckets per owner."""
    count, owners, width = blocks.shape
    rows = np.moveaxis(blocks, 0, 1).reshape(owners, count * width)
    return np.ascontiguousarray(rows[:, :panes])
