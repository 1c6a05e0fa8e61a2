"""``ss`` and ``fss``: sketches that know no windows, so each window gets its own instance."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband import registry
from skyband.arrays import Array, Ints, Mask, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.frequency.kernels import spacesaving as kernel
from skyband.frequency.kernels.fsw import GroupWork
from skyband.frequency.kernels.item_heap import table_find, table_size
from skyband.frequency.kernels.spacesaving import NEVER, InstanceState, fold_instances
from skyband.frequency.many_groups import GroupedSketch
from skyband.query.frequency import HeavyHitters

_NONE = np.zeros(0, np.int64)


class SpaceSaving(GroupedSketch):
    """Space-Saving: if all ``capacity`` counters are taken, a new item replaces the least counter.

    The new item inherits the count of the item that it replaces. Cost: O(1) per row and instance,
    with one instance per slide. State: capacity counters per instance. Guarantee: the true count of
    an answered item lies within [count − error, count]; every item with more than total / capacity
    occurrences in the window is among the counters; an answer is ``exact`` if nothing was evicted.

    Metwally et al., run as by Homem and Carvalho (section 9): one instance starts at each pane at
    which a window or a ``peek`` may start, and lives for one window; the oldest one answers. Panes
    without rows start none, because it would equal the next one.

    ``fss`` (section 2.3) keeps rare items out by a filter of ``cells`` counters: a new item enters
    only if its cell's count and its own weight together reach the least counter, and its error is
    then its cell's count. With one cell that is not Space-Saving, although the paper says so: a new
    item's bound is its cell's count, which may be below the least counter.

    >>> import pyarrow as pa, skyband as sb
    >>> letters = pa.table({"letter": list("aabbc")})
    >>> window = sb.CountWindow(5)
    >>> query = sb.HeavyHitters(k=2, item="letter", window=window, algorithm="ss", capacity=2)
    >>> sb.rank(letters, query).select(["letter", "count", "error"]).to_pylist()
    [{'letter': 'c', 'count': 3, 'error': 2}, {'letter': 'b', 'count': 2, 'error': 0}]
    >>> sizes = {"capacity": 2, "cells": 1}
    >>> query = sb.HeavyHitters(k=2, item="letter", window=window, algorithm="fss", **sizes)
    >>> sb.rank(letters, query).select(["letter", "count", "error"]).to_pylist()
    [{'letter': 'a', 'count': 2, 'error': 0}, {'letter': 'b', 'count': 2, 'error': 0}]
    """

    saved_arrays = (
        "last", "started", "control", "item", "f", "err", "alpha", "heap", "table", "total",
        "low", "slack", "ended",
    )  # fmt: skip

    last: Ints
    started: Ints
    control: Ints
    total: Ints
    ended: Array

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.filtered = registry.choose(query) == "fss"
        self.cells = (query.cells or 3 * self.capacity) if self.filtered else 1
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
        self.set_blank({
            # The last pane, and the first pane since which no instance is missing.
            "last": np.full(2, NEVER), "started": np.full(n, NEVER),
            "control": np.zeros((n, kernel.COUNTS), np.int64),
            "total": np.zeros(kernel.COUNTS, np.int64), "ended": np.zeros(2),
            "table": np.zeros((n, size), np.uint64),
            "item": np.zeros((n, m), np.uint64), "row": np.full((n, m), -1),
            **{name: np.zeros((n, m), self.dtype) for name in ("f", "err", "low", "slack")},
            "alpha": np.zeros((n, self.cells), self.dtype),
            "heap": np.tile(np.arange(m, dtype=np.int32), (n, 1)),
        })  # fmt: skip

    # Panes ------------------------------------------------------------------------------------

    def _run(self, panes: Runs, work: GroupWork, due: Windows) -> Runs:
        pushed = self.summaries.unpacked(panes)
        instances = kernel.Instance(*(getattr(self, name) for name in kernel.Instance._fields))
        state = InstanceState(self.last, self.started, instances, self.total, self.ended)
        slots, rows, values, which, owner, ends, proven, mu = fold_instances(
            work, pushed, due.first, due.end, self.reads, self.filtered,
            self.panes, self.every, state, self.shift,
        )  # fmt: skip
        columns, lengths = self._items(panes, slots, rows), np.diff(ends, prepend=0)
        return self._answers(due.number[which], owner, lengths, values, columns, proven, mu)

    @property
    def alive(self) -> Mask:
        return np.asarray((self.started != NEVER).any(axis=1))

    @property
    def sizes(self) -> Ints:
        return np.where(self.started != NEVER, self.control[..., kernel.SIZE], 0)

    # Answers ----------------------------------------------------------------------------------

    def _nothing(self) -> Runs:
        values, columns = np.zeros((0, 2), self.dtype), self.store.gather(_NONE)
        return self._answers(_NONE, _NONE, _NONE, values, columns, _NONE > 0, values[:, 0])

    def _read_group(self, group: int, first: int, end: int) -> Runs:
        arrays = ("started", "heap", "control", "f", "err", "alpha")
        started, heap, control, f, err, alpha = (getattr(self, name)[group] for name in arrays)
        covered = np.flatnonzero(started >= first)
        if not len(covered):
            return self._nothing()
        i = covered[np.argmin(started[covered])]
        live = heap[i, : control[i, kernel.SIZE]]
        values = np.stack([f[i, live], err[i, live]], axis=1)
        clean = not (control[i, kernel.REMOVALS] or alpha[i].any() or err[i, live].any())
        columns = self.store.gather((group * self.instances + i) * self.capacity + live)
        lengths, mu, number = np.array([len(live)]), alpha[i].max(keepdims=True), np.zeros(1, int)
        exact = np.array([clean])
        return self._answers(number, number + group, lengths, values, columns, exact, mu)

    def _answers(
        self, number: Array, group: Array, lengths: Array, values: Array, columns: dict[str, Any],
        proven: Array, mu: Array,
    ) -> Runs:  # fmt: skip
        counted = {"count": values[:, 0], "error": values[:, 1]}
        part = self.item_type.settled(Part(offsets_of(lengths), columns | counted), self.reads)
        scalars = {"exact": proven, "bound:mu": mu}
        return Runs(number, group.astype(np.int32), {"items": part}, scalars)

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        self._clear_ended()
        return super().snapshot()

    def _admit(self) -> None:
        self._clear_ended()
        super()._admit()

    def _clear_ended(self) -> None:
        """Empty the tables that instances which have ended leave behind."""
        self.table[self.started == NEVER] = 0

    def _stats(self) -> dict[str, int | float]:
        names = {"inserts": kernel.INSERTS, "removals": kernel.REMOVALS, "hits": kernel.HITS}
        control, started = self.control, self.started
        total = self.total.sum(axis=0) + control.sum(axis=(0, 1))
        ended = self.ended.sum(axis=0)
        filter_cells = self.cells if self.filtered else 0
        groups = int(np.count_nonzero(self.alive)) if self.query.groups else 1
        instances = -(-self.query.window.panes.per_window // self.every) * groups
        return {
            **{name: int(total[at]) for name, at in names.items()},
            "retained": int(control[started != NEVER][:, kernel.SIZE].sum()),
            "state_bytes": self.nbytes,
            "mu": float(ended[0] / ended[1]) if ended[1] else 0.0,
            "counters": instances * (3 * self.capacity + filter_cells),
        }

    def _check(self) -> None:
        for group in self.known:
            started, last = self.started[group], self.last[group]
            live = np.flatnonzero(started != NEVER)
            assert len(np.unique(started[live])) == len(live)
            assert len(live) < self.instances
            if len(live):
                per_window = self.query.window.panes.per_window
                assert last[0] - started[live].min() < per_window
            for i in live:
                arrays = (getattr(self, name)[group, i] for name in kernel.Instance._fields)
                self._check_instance(kernel.Instance(*arrays))

    def _check_instance(self, one: kernel.Instance) -> None:
        size = int(one.control[kernel.SIZE])
        assert sorted(one.heap.tolist()) == list(range(self.capacity))
        used = one.heap[:size]
        for slot in used.tolist():
            assert table_find(one.table, self.shift, one.item[slot]) == slot
        assert np.count_nonzero(one.table[1::2]) == size
        assert (one.err[used] <= one.f[used]).all()
        if size == self.capacity and not self.filtered:
            assert one.alpha.max() <= one.f[used].max()
