"""``ss`` and ``fss``: sketches that know no windows, so each window gets its own instance."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Array, Ints, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.errors import EngineError
from skyband.frequency.rows import CounterSketch
from skyband.kernels.frequency import spacesaving as kernel
from skyband.kernels.frequency.item_heap import table_find, table_size
from skyband.query.frequency import HeavyHitters

__all__ = ["FilteredSpaceSaving", "SpaceSaving"]

_NONE = np.zeros(0, np.int64)


class SpaceSaving(CounterSketch):
    """Space-Saving: if all ``capacity`` counters are taken, a new item replaces the least counter.

    The new item inherits the count of the item that it replaces. Cost: O(1) per row and instance,
    with one instance per slide. State: capacity counters per instance. Guarantee: the true count of
    an answered item lies within [count − error, count]; every item with more than total / capacity
    occurrences in the window is among the counters; an answer is ``exact`` if nothing was evicted.

    Metwally et al., run as by Homem and Carvalho (section 9): one instance starts at each pane at
    which a window or a ``peek`` may start, and lives for one window; the oldest one answers. Panes
    without rows start none, because it would equal the next one.

    >>> import pyarrow as pa, skyband as sb
    >>> letters = pa.table({"letter": list("aabbc")})
    >>> window = sb.CountWindow(5)
    >>> query = sb.HeavyHitters(k=2, item="letter", window=window, algorithm="ss", capacity=2)
    >>> sb.rank(letters, query).select(["letter", "count", "error"]).to_pylist()
    [{'letter': 'c', 'count': 3, 'error': 2}, {'letter': 'b', 'count': 2, 'error': 0}]
    """

    saved_arrays = (
        "last", "started", "control", "item", "f", "err", "alpha", "heap", "table", "total",
        "low", "slack", "ended",
    )  # fmt: skip

    filtered = False

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.cells = 1
        panes = query.window.panes
        # If a slide's second cut is nearer to its start than to its end, ``peek`` may start there,
        # although no window does.
        between = not panes.gaps and 0 < panes.slide <= 2 * panes.rest
        self.every = 1 if between else panes.per_slide
        """The number of panes from the start of one instance to that of the next."""
        self.instances = panes.per_window // self.every + 2

    def start(self) -> None:
        n, m = self.instances, self.capacity
        size, self.shift = table_size(m)
        self.store = self.item_type.new_store()
        self.last, self.started = np.full(2, kernel.NEVER), np.full(n, kernel.NEVER)
        # ``last`` holds the last pane, and the first pane since which no instance is missing.
        self.control, self.total = (
            np.zeros((n, kernel.COUNTS), np.int64),
            np.zeros(kernel.COUNTS, np.int64),
        )
        self.table = np.zeros((n, size), np.uint64)
        self.item, self.row = np.zeros((n, m), np.uint64), np.full((n, m), -1)
        self.f, self.err, self.low, self.slack = (np.zeros((n, m), self.dtype) for _ in range(4))
        self.alpha = np.zeros((n, self.cells), self.dtype)
        self.heap = np.tile(np.arange(m, dtype=np.int32), (n, 1))
        self.ended = np.zeros(2)

    # Panes ------------------------------------------------------------------------------------

    def _fold(self, panes: Runs, windows: Windows) -> Runs | None:
        panes = self.reduced(panes)
        shape = self.query.window.panes
        stamp, *pushed = self.unpacked(panes)
        instances = kernel.Instance(
            self.control, self.item, self.row, self.f, self.err, self.alpha, self.heap, self.low,
            self.slack, self.table,
        )  # fmt: skip
        slots, rows, values, ends, proven, mu = kernel.fold_instances(
            stamp, kernel.Pushed(*pushed), windows.first, windows.end, self.reads, self.filtered,
            shape.per_window, self.every, self.last, self.started, instances, self.shift,
            self.total, self.ended,
        )  # fmt: skip
        found = None
        if len(windows):
            columns = self._items(panes, slots, rows)
            lengths = np.diff(ends, prepend=0)
            found = self._answers(windows.number, lengths, values, columns, proven, mu)
        self._materialise(panes, self._used())
        return found

    def _used(self) -> Ints:
        live = np.flatnonzero(self.started != kernel.NEVER)
        slots = [i * self.capacity + self.heap[i, : self.control[i, kernel.SIZE]] for i in live]
        return np.concatenate([_NONE, *slots])

    # Answers ----------------------------------------------------------------------------------

    def _partial(self, first: int, end: int, group: int | None) -> Runs:
        shape = self.query.window.panes
        if first < self.last[1] and (first + shape.per_window) % shape.per_slide:
            raise EngineError(
                "this monitor was restored from a snapshot of version 0.1, which lacks what peek "
                "needs here; call peek when a window has just ended, or once a whole window has "
                "passed since the snapshot"
            )
        covered = np.flatnonzero(self.started >= first)
        if not len(covered):
            none = np.zeros((0, 2), self.dtype)
            columns = self.store.gather(_NONE)
            return self._answers(_NONE, _NONE, none, columns, _NONE > 0, none[:, 0])
        i = covered[np.argmin(self.started[covered])]
        live = self.heap[i, : self.control[i, kernel.SIZE]]
        values = np.stack([self.f[i, live], self.err[i, live]], axis=1)
        clean = not (
            self.control[i, kernel.REMOVALS] or self.alpha[i].any() or self.err[i, live].any()
        )
        columns = self.store.gather(i * self.capacity + live)
        lengths, mu = np.array([len(live)]), self.alpha[i].max(keepdims=True)
        number = np.zeros(1, np.int64)
        return self._answers(number, lengths, values, columns, np.array([clean]), mu)

    def _answers(
        self, number: Array, lengths: Array, values: Array, columns: dict[str, Any], proven: Array,
        mu: Array,
    ) -> Runs:  # fmt: skip
        counted = {"count": values[:, 0], "error": values[:, 1]}
        part = self.item_type.settled(Part(offsets_of(lengths), columns | counted), self.reads)
        group = np.zeros(len(number), np.int32)
        return Runs(number, group, {"items": part}, {"exact": proven, "bound:mu": mu})

    # State ------------------------------------------------------------------------------------

    def restore(self, arrays: Saved) -> None:
        if arrays and len(arrays["last"]) == 1:
            arrays = {**arrays, **self._of_version_0_1(arrays)}
        super().restore(arrays)

    def _of_version_0_1(self, arrays: Saved) -> State:
        """Convert what version 0.1 saved: it started instances only where windows start."""
        last = arrays["last"]
        found = {"last": np.append(last, last + 1 if last[0] != kernel.NEVER else last)}
        for name in ("started", "control", "item", "f", "err", "alpha", "table", "low", "slack"):
            found[name] = getattr(self, name).copy()
            found[name][: len(arrays[name])] = arrays[name]
        found["heap"] = np.concatenate([arrays["heap"], self.heap[len(arrays["heap"]) :]])
        return found

    def _stats(self) -> dict[str, int | float]:
        names = {"inserts": kernel.INSERTS, "removals": kernel.REMOVALS, "hits": kernel.HITS}
        total = self.total + self.control.sum(axis=0)
        live = self.started != kernel.NEVER
        mean = float(self.ended[0] / self.ended[1]) if self.ended[1] else 0.0
        filter_cells = self.cells if self.filtered else 0
        shape = self.query.window.panes
        instances = -(-shape.per_window // self.every)
        return {
            **{name: int(total[at]) for name, at in names.items()},
            "retained": int(self.control[live, kernel.SIZE].sum()),
            "state_bytes": self.nbytes + self.row.nbytes,
            "mu": mean,
            "counters": instances * (3 * self.capacity + filter_cells),
        }

    def _check(self) -> None:
        shape = self.query.window.panes
        live = np.flatnonzero(self.started != kernel.NEVER)
        assert len(np.unique(self.started[live])) == len(live)
        assert len(live) < self.instances
        if len(live):
            assert self.last[0] - self.started[live].min() < shape.per_window
        for i in live:
            size = int(self.control[i, kernel.SIZE])
            assert sorted(self.heap[i].tolist()) == list(range(self.capacity))
            used = self.heap[i, :size]
            for slot in used.tolist():
                assert table_find(self.table[i], self.shift, self.item[i, slot]) == slot
            assert np.count_nonzero(self.table[i, 1::2]) == size
            assert (self.err[i, used] <= self.f[i, used]).all()
            if size == self.capacity and not self.filtered:
                assert self.alpha[i].max() <= self.f[i, used].max()


class FilteredSpaceSaving(SpaceSaving):
    """FSS: Space-Saving behind a filter of ``cells`` counters that keeps out rare items.

    Cost, state and guarantee: as for Space-Saving, plus the cells of each instance. A new item
    enters only if its cell's count and its own weight together reach the least counter; its error
    is then its cell's count.

    Homem and Carvalho, section 2.3, run as in section 9. With one cell it is not the same as
    Space-Saving, although the paper says so: a new item's bound is its cell's count, which may be
    below the least counter.

    >>> import pyarrow as pa, skyband as sb
    >>> letters = pa.table({"letter": list("aabbc")})
    >>> window = sb.CountWindow(5)
    >>> sizes = {"capacity": 2, "cells": 1}
    >>> query = sb.HeavyHitters(k=2, item="letter", window=window, algorithm="fss", **sizes)
    >>> sb.rank(letters, query).select(["letter", "count", "error"]).to_pylist()
    [{'letter': 'a', 'count': 2, 'error': 0}, {'letter': 'b', 'count': 2, 'error': 0}]
    """

    filtered = True

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.cells = query.cells or 3 * self.capacity
