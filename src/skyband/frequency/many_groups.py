"""Sketches of many groups in one state: the first dimension of every array is the group.

A query without ``by`` has a single group.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import ceil, lgamma, log, sqrt
from typing import Any

import numpy as np

from skyband.arrays import Array, Codes, Hashes, Ints, Mask, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.flat_state import Form, Forms, require
from skyband.data.keys import hash_columns
from skyband.data.retained_rows import RetainedRows
from skyband.frequency.base import FrequencySynopsis
from skyband.frequency.items import woven
from skyband.frequency.kernels.fsw import GroupWork
from skyband.frequency.sketch_summary import SketchSummaries
from skyband.query.frequency import HeavyHitters

# How many cells a sketch needs: the fullest of them decides how good its bounds can be -----------
#
# Items fall into cells at random. If at most d items share a cell, the ``capacity`` m items of the
# list are in at least m / d cells, so the least monitored count μ is at most the total of the
# (m / d)-th fullest cell (Homem and Carvalho, Theorems 4 and 5). With m / d of at least k, that is
# the total of the k-th fullest cell or less: a sketch can then tell the best k items from the rest.


def fullest_cell(distinct: int, cells: int) -> float:
    """The expected number of distinct items in the fullest cell: E(D_max) of Theorem 5.

    As in the paper, the number of items in a cell is taken to follow a Poisson distribution.

    >>> round(fullest_cell(100_000, 10_000), 2)
    24.28
    """
    mean = distinct / cells
    most = ceil(mean + 12 * sqrt(mean * log(cells + 2)) + 12 * log(cells + 2)) + 10
    number = np.arange(most + 1)
    factorials = np.array([lgamma(i + 1) for i in range(most + 1)])
    share = np.exp(number * log(mean) - mean - factorials)
    more = np.append(np.cumsum(share[::-1])[::-1][1:], 0.0)  # that a cell has more than so many
    return float((1 - np.exp(cells * np.log1p(-np.minimum(more, 1 - 1e-16)))).sum())


def cells_for(distinct: int, k: int, capacity: int) -> int:
    """The least number of cells for which the fullest is expected to hold at most m / k items.

    ``distinct`` is the number of distinct items in a window.

    >>> cells_for(100_000, k=100, capacity=2_000)
    13782
    """
    if capacity < 2 * k:
        raise ValueError(f"capacity ({capacity}) must be at least twice k ({k})")
    low, high = 1, 2
    while fullest_cell(distinct, high) > capacity / k:
        low, high = high, 2 * high
        if high > 64 * distinct:
            return high
    while high - low > 1:
        middle = (low + high) // 2
        if fullest_cell(distinct, middle) > capacity / k:
            low = middle
        else:
            high = middle
    return high


_SIDES: tuple[Any, ...] = ("left", "right")


class GroupedSketch(FrequencySynopsis):
    """A sketch of counters in flat arrays, which may hold many groups, and a store of their items.

    While panes are taken, ``row`` says which of their rows brought the item of a slot; -1 if the
    item is in the store already.
    """

    exact = False
    many_groups = True
    saved_parts = (("", "store"),)
    store: RetainedRows
    heap: Codes
    item: Hashes
    table: Hashes
    row: Ints
    blank: dict[str, Array]
    """The state of a group without rows."""

    def __init__(self, query: HeavyHitters) -> None:
        super().__init__(query)
        self.summaries = SketchSummaries(self)
        self.capacity = self.summaries.capacity
        self.panes = query.window.panes.per_window

    def prepare(self, stored: bool = False, late: bool = False, positions: bool = False) -> None:
        if stored:
            self.summaries.keep_no_rows()

    def set_blank(self, arrays: Mapping[str, Array]) -> None:
        """Start without groups, or with the single group of a query without ``by``."""
        self.blank = dict(arrays)
        for name, array in self.blank.items():
            setattr(self, name, array[None][:0] if self.query.groups else array[None].copy())

    @property
    def known(self) -> range:
        """The codes of all groups that there is room for."""
        return range(len(self.row))

    @property
    @abstractmethod
    def alive(self) -> Mask:
        """Which groups have live panes."""

    @property
    @abstractmethod
    def sizes(self) -> Ints:
        """How many items each list counts."""

    @property
    def used(self) -> Ints:
        """The slots of all items that are counted, numbered across all groups."""
        slots = self.capacity
        numbered = slots * np.arange(self.sizes.size)[:, None] + self.heap.reshape(-1, slots)
        return np.asarray(numbered[np.arange(slots) < self.sizes.reshape(-1, 1)])

    def hold(self, groups: Array) -> None:
        """Make room for the groups with these codes."""
        have, bound = len(self.known), int(groups.max(initial=-1)) + 1
        if bound <= have:
            return
        for name, array in self.blank.items():
            # In C order, whatever the order of its parts: kernels are compiled once for each order.
            grown = np.empty((bound + bound // 8, *array.shape), array.dtype)
            grown[:have], grown[have:] = getattr(self, name), array
            setattr(self, name, grown)

    def forget(self, groups: Codes) -> None:
        for name, array in self.blank.items():
            getattr(self, name)[groups[groups < len(self.known)]] = array

    def plan(self, group: Codes, windows: Windows) -> tuple[GroupWork, Windows]:
        """What to fold, group by group; the windows in the order of the plan."""
        runs = np.argsort(group, kind="stable")
        if windows.group is not None:  # each window belongs to one group
            order = np.argsort(windows.group, kind="stable")
            owner = windows.group[order]
            cut = (windows.number[order], windows.first[order], windows.end[order])
            windows = Windows(*cut, windows.ranks, owner)
            groups = np.union1d(group, owner).astype(np.int64)
            low, high = (np.searchsorted(owner, groups, side) for side in _SIDES)
        else:
            live = self.alive
            live[group] = True
            groups = np.flatnonzero(live) if len(windows) else np.unique(group).astype(np.int64)
            low, high = np.zeros(len(groups), np.int64), np.full(len(groups), len(windows))
        offsets = np.append(np.searchsorted(group[runs], groups), len(runs))
        return GroupWork(groups, runs, offsets, low, high), windows

    def _counted_keys(self) -> Hashes | None:
        assert self.latest is not None
        used = self.used
        hashes = hash_columns(list(self.store.gather(used).values()))
        owner = (used // (self.row.size // len(self.row))).astype(np.int32)
        return self.latest.keys(hashes, owner, np.arange(len(used) + 1))

    # Panes ------------------------------------------------------------------------------------

    @abstractmethod
    def _run(self, panes: Runs, work: GroupWork, due: Windows) -> Runs:
        """Take panes, and read windows, group by group."""

    @abstractmethod
    def _read_group(self, group: int, first: int, end: int) -> Runs:
        """The answer of a group over its live panes; ``_nothing`` if it has none."""

    @abstractmethod
    def _nothing(self) -> Runs:
        """No answers."""

    def _fold(self, panes: Runs, windows: Windows) -> Runs | None:
        panes = self.summaries.reduced(panes)
        self.hold(panes.group)
        answers = self._run(panes, *self.plan(panes.group, windows))
        self._materialise(panes, self.used)
        if not len(windows):
            return None
        return answers.ordered(windows.ranks) if self.query.groups else answers

    def _partial(self, first: int, end: int, group: int | None) -> Runs:
        groups = self.known if group is None else [group] if group in self.known else []
        answers = [self._read_group(each, first, end) for each in groups]
        return Runs.concat([each for each in answers if len(each)] or [self._nothing()])

    # Items ------------------------------------------------------------------------------------

    def _items(self, panes: Runs, slots: Array, rows: Array) -> dict[str, Any]:
        """Items of answers, from rows just pushed or from the store of earlier calls."""
        fresh = rows >= 0
        pushed = self.summaries.item_columns(panes, rows[fresh])
        return woven(fresh, pushed, self.store.gather(slots[~fresh]))

    def _materialise(self, panes: Runs, used: Array) -> None:
        """Copy the items out of the rows that brought them, so that the rows can be freed.

        ``used`` are the slots in use.
        """
        rows = self.row.ravel()
        fresh = used[rows[used] >= 0]
        if len(fresh):
            self.store.put(fresh, self.summaries.item_columns(panes, rows[fresh]))
        self.row[:] = -1

    # State ------------------------------------------------------------------------------------

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self._admit()
        groups = len(getattr(self, self.saved_arrays[0]))
        self.row = np.repeat(self.blank["row"][None], groups, axis=0)

    @property
    def saved_forms(self) -> Forms:  # type: ignore[override]
        """All arrays are of the same groups."""
        groups: Any = "groups" if self.query.groups else 1
        return dict.fromkeys(self.saved_arrays, Form(groups))

    def _admit(self) -> None:
        """Refuse lists whose slots, or whose tables, are not those of their items."""
        size, m, words = self.sizes.ravel(), self.capacity, self.table.shape[-1]
        heap, item = (each.reshape(-1, m) for each in (self.heap, self.item))
        table, slots = self.table.reshape(-1, words), np.arange(m)
        require(((size >= 0) & (size <= m)).all(), "more items than slots")
        require((np.sort(heap, axis=1) == slots).all(), "a slot is there twice")
        of, at = np.nonzero(table[:, 1::2])
        slot = table[of, 2 * at + 1] - np.uint64(1)
        require((slot < m).all(), "a slot that is not there")
        place = np.empty(heap.shape, np.int64)
        np.put_along_axis(place, heap.astype(np.int64), slots[None], axis=1)
        slot = slot.astype(np.int64)
        known = (place[of, slot] < size[of]) & (item[of, slot] == table[of, 2 * at])
        once = len(np.unique(of * words + slot)) == len(of) == size.sum()
        require(known.all() and once, "an item that is not in its table")
        rows = len(self.store)
        require(self.used.max(initial=-1) < rows or not self.store.stores, "an item without a row")

    @property
    def nbytes(self) -> int:
        arrays = sum(int(getattr(self, name).nbytes) for name in self.blank)
        return arrays + self.store.nbytes
