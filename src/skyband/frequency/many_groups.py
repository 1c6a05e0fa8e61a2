"""Sketches of many groups in one state: every array has one more dimension in front, the group.

A query without ``by`` has a single group and no such dimension.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array, Codes, Hashes, Ints, Mask, Saved
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.flat_state import Form, Forms, require
from skyband.data.keys import hash_columns
from skyband.data.retained_rows import RetainedRows
from skyband.frequency.rows import SketchSynopsis
from skyband.kernels.frequency.fsw import Plan

__all__ = ["GroupedSketch"]

_SIDES: tuple[Any, ...] = ("left", "right")


class GroupedSketch(SketchSynopsis):
    """A sketch of counters in flat arrays, which may hold many groups, and a store of their items.

    While panes are taken, ``row`` says which of their rows brought the item of a slot; -1 if the
    item is in the store already.
    """

    many_groups = True
    saved_parts = (("", "store"),)
    store: RetainedRows
    row: Ints
    blank: dict[str, Array]
    """The state of a group without rows."""

    def set_blank(self, arrays: Mapping[str, Array]) -> None:
        """Start without groups, or with the single group of a query without ``by``."""
        self.blank = dict(arrays)
        for name, array in self.blank.items():
            setattr(self, name, array[None][:0] if self.query.groups else array.copy())

    @property
    def known(self) -> range:
        """The codes of all groups that there is room for."""
        first = getattr(self, next(iter(self.blank)))
        return range(len(first)) if self.query.groups else range(1)

    def stacked(self, name: str) -> Any:
        """An array with the dimension of groups, even if the query has none."""
        array = getattr(self, name)
        return array if self.query.groups else array[None]

    @property
    @abstractmethod
    def alive(self) -> Mask:
        """Which groups have live panes."""

    @property
    @abstractmethod
    def used(self) -> Array:
        """The slots of all items that are counted, numbered across all groups."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """The number of slots of a group."""

    def hold(self, groups: Array) -> None:
        """Make room for the groups with these codes."""
        have, bound = len(self.known), int(groups.max(initial=-1)) + 1
        if not self.query.groups or bound <= have:
            return
        for name, array in self.blank.items():
            # In C order, whatever the order of its parts: kernels are compiled once for each order.
            grown = np.empty((bound + bound // 8, *array.shape), array.dtype)
            grown[:have], grown[have:] = getattr(self, name), array
            setattr(self, name, grown)

    def forget(self, groups: Codes) -> None:
        for name, array in self.blank.items():
            getattr(self, name)[groups[groups < len(self.known)]] = array

    def plan(self, group: Codes, windows: Windows) -> tuple[Plan, Windows]:
        """What to fold, group by group; the windows in the order of the plan."""
        if not self.query.groups:
            none, panes = np.zeros(1, np.int64), np.arange(len(group))
            ends = np.array([len(group)]), np.array([len(windows)])
            return Plan(none, panes, np.append(none, ends[0]), none, ends[1]), windows
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
        return Plan(groups, runs, offsets, low, high), windows

    def _counted_keys(self) -> Hashes | None:
        assert self.latest is not None
        used = self.used
        hashes = hash_columns(list(self.store.gather(used).values()))
        owner = (used // self.slots).astype(np.int32)
        return self.latest.keys(hashes, owner, np.arange(len(used) + 1))

    # Items ------------------------------------------------------------------------------------

    def _items(self, panes: Runs, slots: Array, rows: Array) -> dict[str, Any]:
        """Items of answers, from rows just pushed or from the store of earlier calls."""
        fresh = rows >= 0
        if fresh.all():
            return self.item_columns(panes, rows)
        kept = self.store.gather(slots[~fresh])
        if not fresh.any():
            return kept
        pushed = self.item_columns(panes, rows[fresh])
        place = np.where(fresh, np.cumsum(fresh) - 1 + (~fresh).sum(), np.cumsum(~fresh) - 1)
        return {
            name: pa.concat_arrays([kept[name], pushed[name]]).take(pa.array(place))
            for name in pushed
        }

    def _materialise(self, panes: Runs, used: Array) -> None:
        """Copy the items out of the rows that brought them, so that the rows can be freed.

        ``used`` are the slots in use.
        """
        rows = self.row.ravel()
        fresh = used[rows[used] >= 0]
        if len(fresh):
            self.store.put(fresh, self.item_columns(panes, rows[fresh]))
        self.row[:] = -1

    # State ------------------------------------------------------------------------------------

    def restore(self, arrays: Saved) -> None:
        super().restore(arrays)
        self._admit()
        row: Any = self.blank["row"]
        self.row = np.broadcast_to(row, (*self.lead, *row.shape)).copy()

    @property
    def saved_forms(self) -> Forms:  # type: ignore[override]
        """All arrays are of the same groups; without groups, they have the lengths they had."""
        grouped = self.query.groups
        names = self.saved_arrays
        return {n: Form("groups" if grouped else len(getattr(self, n))) for n in names}

    def _admit(self) -> None:
        """Refuse lists whose slots, or whose tables, are not those of their items."""
        size, heap, item, table = self.lists()
        m, words = item.shape[1], table.shape[1]
        slots = np.arange(m)
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

    @abstractmethod
    def lists(self) -> tuple[Array, Array, Array, Array]:
        """Sizes, heaps, items and tables of all lists, one row for each."""

    @property
    def lead(self) -> tuple[int, ...]:
        """The shape of what is in front of a group's own arrays."""
        return (len(self.known),) if self.query.groups else ()

    @property
    def nbytes(self) -> int:
        arrays = sum(int(getattr(self, name).nbytes) for name in self.blank)
        return arrays + self.store.nbytes
