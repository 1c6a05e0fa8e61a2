"""Windows of very many groups, counted from the lists of their panes."""

from __future__ import annotations

from typing import Any

import numpy as np

from skyband.arrays import Ints, copied, pooled
from skyband.contract.rows import Windows
from skyband.contract.runs import Part, Runs, offsets_of
from skyband.data.keys import hash_columns
from skyband.frequency.group_lists import GroupLists
from skyband.frequency.items import ItemColumns
from skyband.kernels.core.arrange import counting_order
from skyband.kernels.frequency import shared_groups as kernel

__all__ = ["NEVER", "CountedGroups", "comparison"]

NEVER = int(np.iinfo(np.int64).min)
_PACKED = (1 << 31) - 1


class CountedGroups(GroupLists):
    """Lists from which windows are counted, without keeping sums of items.

    Cost of windows that end together: O(1) per entry in the longest of them, and per window one
    pass over its items. State: that of the lists.
    """

    def __init__(self, item_type: ItemColumns) -> None:
        super().__init__(item_type, 0)
        self.total = 0
        """The sum of all counts in the lists."""

    def __len__(self) -> int:
        return len(self.index)

    # Panes ------------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows) -> None:
        """Take panes; windows are read otherwise."""
        start = len(self.entries)
        self._append(panes)
        np.add.at(self.item_refs, self.entries["code"][start:], 1)
        self.total += int(self.entries["value"][start:].sum())

    def _drop(self, gone: int) -> None:
        entries = int(self.offsets[self.cuts[gone]])
        np.subtract.at(self.item_refs, self.entries["code"][:entries], 1)
        self.total -= int(self.entries["value"][:entries].sum())
        super()._drop(gone)

    def panes(self, first: int | None = None, end: int | None = None) -> Runs:
        """The lists of panes from ``first`` to ``end``, as they came from the feed."""
        bounds = [NEVER if first is None else first, -1 - NEVER if end is None else end]
        low, high = np.searchsorted(self.pane, bounds).tolist()
        runs, last = self.cuts[[low, high]].tolist()
        begin, stop = self.offsets[[runs, last]].tolist()
        columns: dict[str, Any] = dict(self.store.gather(self.entries["code"][begin:stop]))
        if not self.item_type.raw:
            columns = {"hash": hash_columns(list(columns.values()))} | columns
        columns["count"] = self.entries["value"][begin:stop].copy()
        part = Part(self.offsets[runs : last + 1] - begin, columns)
        stamp = np.repeat(self.pane[low:high], np.diff(self.cuts[low : high + 1]))
        return Runs(stamp, self.runs["owner"][runs:last].copy(), {"items": part})

    # Windows ----------------------------------------------------------------------------------

    def room_of(self, asked: kernel.Asked) -> Ints:
        """How many items the answers of windows have at most."""
        high, low = (self.offsets[self.cuts[each]] for each in (asked.end, asked.first))
        entries: Ints = high - low
        decided = self.item_type.decided
        return np.minimum(entries, asked.k * self.groups) if decided else entries

    def by_group(self, ranks: Ints) -> kernel.Lists:
        """The runs in the order in which answers show their groups, then in that of panes."""
        sequence = self.sequence(self.groups, ranks)
        position = np.empty(self.groups, np.int64)
        position[sequence] = np.arange(self.groups)
        order, starts = counting_order(position[self.runs["owner"]], self.groups)
        pane = np.repeat(np.arange(len(self.pane), dtype=np.int32), np.diff(self.cuts))[order]
        low, high = self.offsets[order], self.offsets[order + 1]
        code, value = self.entries["code"], self.entries["value"]
        rest = kernel.number_items(starts, pane, low, high, code, value, self.order_key)
        return kernel.Lists(sequence, starts, pane, *rest)

    def counted(
        self, lists: kernel.Lists, asked: kernel.Asked, room: Ints
    ) -> tuple[kernel.Found, Ints, Ints]:
        """The best items of windows, and where items and groups of each query begin."""
        many = int(asked.reader.max()) + 1
        items, groups = np.zeros(many, np.int64), np.zeros(many, np.int64)
        np.add.at(items, asked.reader, room)
        np.add.at(groups, asked.reader, np.minimum(room, self.groups))
        at, answers = offsets_of(items), offsets_of(groups)
        found = kernel.Found(
            pooled(int(at[-1]), np.int32), pooled(int(at[-1]), np.int64), at[:-1].copy(),
            pooled(int(answers[-1]), np.int32), pooled(int(answers[-1]), np.int64),
            answers[:-1].copy(), *np.zeros((2, len(asked.end)), np.int64),
        )  # fmt: skip
        order = comparison(lists.key, self.item_type.decided, self.total)
        space = _space(int(np.diff(lists.first).max(initial=0)), int(asked.k.max()))
        kernel.count_groups(lists, asked, order, space, found)
        return found, at, answers

    def answered(
        self, lists: kernel.Lists, asked: kernel.Asked, number: Ints, room: Ints
    ) -> dict[int, tuple[Runs, int]]:
        """The answers of windows, and the (group, item) pairs of the last one, by query."""
        found, starts, firsts = self.counted(lists, asked, room)
        runs = {}
        for place in np.unique(asked.reader).tolist():
            own = np.flatnonzero(asked.reader == place)
            items = slice(int(starts[place]), int(found.at[place]))
            groups = slice(int(firsts[place]), int(found.answers[place]))
            ends = found.ends[groups] - starts[place]
            best = self._best(ends, found.code[items], copied(found.sums[items]))
            numbers, k = np.repeat(number[own], found.many[own]), int(asked.k[own[0]])
            answers = self._answers(numbers, copied(found.group[groups]), best, k)
            runs[place] = answers, int(found.pairs[own[-1]])
        return runs


def comparison(keys: Ints, decided: bool, total: int) -> kernel.Order:
    """How items with these order keys compare, whose counts add up to ``total``."""
    least, most = int(keys.min(initial=0)), int(keys.max(initial=0))
    packs = decided and most - least < _PACKED and total < _PACKED
    return kernel.Order(least, packs, decided)


def _space(items: int, k: int) -> kernel.Room:
    return kernel.Room(
        np.empty(items + 1, np.int32),
        np.empty(items, np.int64),
        np.empty(items + 8, np.int64),
        np.empty(items, np.int64),
        np.empty(max(4 * k, kernel.LEAST_BUFFER, items), np.int64),
    )
