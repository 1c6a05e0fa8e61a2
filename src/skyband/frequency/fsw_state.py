"""The state of ``fsw``: flat arrays of the list and of the cells, counted in buckets of panes."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array, Codes, Hashes, Ints, Mask, Saved
from skyband.data.flat_state import Form, Forms, require
from skyband.frequency.fsw_checks import check_group
from skyband.frequency.histograms import blocked, flat, new_blocks
from skyband.frequency.many_groups import GroupedSketch
from skyband.kernels.frequency import fsw_rows as kernel
from skyband.kernels.frequency.item_heap import table_size
from skyband.kernels.frequency.pushed import Pushed
from skyband.query.frequency import HeavyHitters

__all__ = ["SHARED", "FswState"]

_NARROW = np.dtype(np.int32)
"""The type of whole numbers, as long as they fit."""
_FAR = 1 << 62
_COUNTERS = (
    "base", "cur", "err", "ecur", "low", "slack", "hist", "fine", "item_blocks", "error_blocks",
    "cell_blocks",
)  # fmt: skip
"""Arrays of counts, which all have the same type."""
SHARED = {"cur", "ecur", "fine", "bits", "shift", "ratio"}
"""What all groups use."""


class FswState(GroupedSketch):
    """The list of monitored items and the filter of cells, of one group or of many."""

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
        item_blocks = new_blocks(m, p, kind)
        self.set_blank({
            "control": control, "item": np.zeros(m, np.uint64), "row": np.full(m, -1),
            "born": np.full(m, kernel.NEVER), "seen": np.full(m, kernel.NEVER),
            **{name: np.zeros(m, kind) for name in ("base", "err", "low", "slack")},
            "item_blocks": item_blocks, "error_blocks": item_blocks[:0],
            "cell_blocks": new_blocks(h, p, kind), "marks": np.zeros((p, h), np.uint8),
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
        return kernel.Sketch(*(v if name in SHARED else v[group] for name, v in arrays))

    # Counters ---------------------------------------------------------------------------------

    # Snapshots hold histograms with one row per item or cell.

    @property
    def item_hist(self) -> Array:
        """The count of each slot's item in each bucket."""
        return flat(self.item_blocks, self.panes)

    @item_hist.setter
    def item_hist(self, histograms: Array) -> None:
        self.item_blocks = blocked(histograms, self.blank["item_blocks"])

    @property
    def item_err(self) -> Array:
        """The error of each slot's item in each bucket; empty as long as it follows from counts."""
        if not self.has_errors:
            return np.zeros((0, self.panes), self.base.dtype)
        return flat(self.error_blocks, self.panes)

    @item_err.setter
    def item_err(self, histograms: Array) -> None:
        if len(histograms):
            self.error_blocks = blocked(histograms, self.blank["item_blocks"])
            self.blank["error_blocks"] = self.blank["item_blocks"]
        else:
            self.error_blocks = self.item_blocks[..., :0, :, :]

    @property
    def cell_hist(self) -> Array:
        """The bound of each cell in each bucket."""
        return flat(self.cell_blocks, self.panes)

    @cell_hist.setter
    def cell_hist(self, histograms: Array) -> None:
        self.cell_blocks = blocked(histograms, self.blank["cell_blocks"])

    @property
    def has_errors(self) -> bool:
        return bool(self.error_blocks.shape[-3] > 0)

    def make_room(self, pushed: Pushed) -> None:
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

    # State ------------------------------------------------------------------------------------

    def restore(self, arrays: Saved) -> None:
        if "control" in arrays and arrays["control"].shape[-1] == kernel.LOST:
            # Version 0.1 did not record items left out at weight 0; without weights there are none.
            lost = kernel.NEVER if self.query.weight is None else arrays["held"].max()
            arrays = {**arrays, "control": np.append(arrays["control"], lost)}
        kind = arrays["base"].dtype if "base" in arrays else self.base.dtype
        require(kind in (self.dtype, self.blank["base"].dtype), f"counts of type {kind}")
        self.set_type(kind)
        if "item_err" in arrays and arrays["item_err"].shape[-2:] == self.item_hist.shape[-2:]:
            self.item_err = self.item_hist
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

    def like(self, other: GroupedSketch) -> None:
        assert isinstance(other, FswState)
        wide = max(self.base.dtype, other.base.dtype, key=lambda kind: kind.itemsize)
        for each in (self, other):
            each.set_type(wide)
            if (self.has_errors or other.has_errors) and not each.has_errors:
                each.keep_errors()

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
            check_group(self.one(group), self.panes, self.ratio)
