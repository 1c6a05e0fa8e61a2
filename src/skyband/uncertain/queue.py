"""The reserve of the four compact set queues; each names its kernels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from skyband.arrays import Ints, Saved
from skyband.data.flat_state import Form, admitted, require
from skyband.uncertain.kernels import queue as q
from skyband.uncertain.kernels.compact import compact_end
from skyband.uncertain.kernels.queue import Queue
from skyband.uncertain.kernels.types import (
    KEEP,
    SemanticsCode,
    UncertainRowsState,
    before,
    sort_slots,
)
from skyband.uncertain.windowed import Reserve, UncertainRows

_MOST_ROOM = 1 << 40


class Kernels(NamedTuple):
    """The kernels of a queue: one takes panes, one finds the rows of a window's compact set."""

    fold: Callable[[SemanticsCode, UncertainRowsState, Queue, Ints, Ints], Queue]
    read: Callable[[UncertainRowsState, Queue, int], Ints]


class CompactSets(Reserve):
    """Compact sets of the newest panes; how many depends on the algorithm."""

    kernels: ClassVar[Kernels]
    head_counts: ClassVar[bool] = False
    """Whether the window's compact set is kept in addition to the entries, not as one of them."""
    waits: ClassVar[bool] = False
    """Whether new rows wait in a buffer."""

    def __init__(self, rule: SemanticsCode, k: int, store: UncertainRows) -> None:
        super().__init__(rule, k, store)
        num = np.zeros(q.NUMBERS, np.int64)
        num[q.ROOM] = k * k
        self.queue = Queue(np.zeros(64, np.int64), np.zeros((4, 4), np.int64), num)

    def take(self, offsets: Ints, gone: Ints) -> None:
        self.queue = self.kernels.fold(self.rule, self.store.rows, self.queue, offsets, gone)

    def find(self, first: int) -> tuple[Ints, bool]:
        slots = self.kernels.read(self.store.rows, self.queue, first)
        _, entry, num = self.queue
        # An entry that has not expired covers the window; otherwise only the newest rows do.
        closed = bool((entry[num[q.FIRST] : num[q.LAST], q.OLDEST] >= first).any())
        return slots, closed

    # Slots ------------------------------------------------------------------------------------

    def _used(self) -> tuple[int, int]:
        """The start and end of the part of the arena that is in use."""
        _, entry, num = self.queue
        if num[q.FIRST] == num[q.LAST]:
            return 0, 0
        last = entry[num[q.LAST] - 1]
        return int(entry[num[q.FIRST], q.BEGIN]), int(last[: q.OLDEST].sum())

    def live(self) -> Ints:
        arena, _, num = self.queue
        low, high = self._used()
        tail = np.arange(num[q.TAIL], num[q.HIGH])
        return np.unique(np.concatenate([arena[low:high], tail]))

    def renumber(self, live: Ints) -> None:
        arena, entry, num = self.queue
        low, high = self._used()
        first, last = num[q.FIRST], num[q.LAST]
        entry = entry[first:last].copy() if last > first else np.zeros((4, 4), np.int64)
        entry[:, q.BEGIN] -= low
        num[[q.TAIL, q.FRESH]] = np.searchsorted(live, num[[q.TAIL, q.FRESH]])
        num[q.FIRST], num[q.LAST], num[q.HIGH] = 0, last - first, len(live)
        self.queue = Queue(np.searchsorted(live, arena[low:high]), entry, num)

    # State ------------------------------------------------------------------------------------

    def state(self) -> Saved:
        return self.queue._asdict()

    def restore(self, arrays: Saved) -> None:
        rows = len(self.store)
        forms = {"arena": Form("arena", 0, rows), "num": Form(q.NUMBERS, 0)}
        self.queue = Queue(**admitted(arrays, self.queue._asdict(), forms))
        arena, entry, num = self.queue
        require(num[q.FIRST] <= num[q.LAST] <= len(entry), "entries that are not there")
        require(num[q.TAIL] <= num[q.FRESH] <= num[q.HIGH] == rows, "rows that are not there")
        require(0 < num[q.ROOM] <= _MOST_ROOM, "a buffer without room")
        lists = entry[num[q.FIRST] : num[q.LAST], : q.OLDEST]
        inside = ((lists >= 0) & (lists <= len(arena))).all() and (lists[:, q.SIZE] > 0).all()
        begins = np.append(lists[:, q.BEGIN], len(arena))
        require(inside and (lists.sum(axis=1) <= begins[1:]).all(), "lists that overlap")

    def stats(self, head: int, rebuilt: int) -> dict[str, int | float]:
        _, entry, num = self.queue
        lists = entry[num[q.FIRST] : num[q.LAST], q.SIZE : q.OLDEST]
        # As the paper counts: a row counts once in every list that has it.
        retained = lists.sum() + (head if self.head_counts else 0) + num[q.HIGH] - num[q.TAIL]
        return {
            "retained": int(retained),
            "compact_sets": len(lists),
            "largest_compact_set": int(max(lists[:, 0].max(initial=0), head)),
            "compact_sets_built": int(num[q.MADE]) + rebuilt,
            "compact_sets_updated": int(num[q.UPDATED]),
            "segments_merged": int(num[q.MERGED]),
            "buffers_emptied": int(num[q.FLUSHED]),
        }

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.queue)

    def _sets(self) -> list[Ints]:
        """The compact sets of all entries, oldest first."""
        arena, entry, num = self.queue
        return [
            arena[begin : begin + size]
            for begin, size, _, _ in entry[num[q.FIRST] : num[q.LAST]].tolist()
        ]

    def _check(self) -> None:
        _, entry, num = self.queue
        rows = self.store.rows
        live = entry[num[q.FIRST] : num[q.LAST]]
        assert num[q.TAIL] <= num[q.HIGH] == len(self.store)
        ends = live[:, : q.OLDEST].sum(axis=1)
        assert (live[1:, q.BEGIN] >= ends[:-1]).all()
        oldest = live[:, q.OLDEST]
        assert (oldest[1:] > oldest[:-1]).all(), "two entries are the same set"
        sets = self._sets()
        for slots, pane in zip(sets, oldest, strict=True):
            assert rows.pane[slots].min() == pane
            self.store.check_order(slots)
            assert self._end(slots) in (len(slots), -1), "an entry has more than its compact set"
        for old, new in pairwise(sets):
            beyond = np.setdiff1d(old, new)
            assert len(beyond), "two entries are the same set"
            # Theorem 3.2: rows that only the older set has are from panes before all those of the
            # newer set, and older sets end no later.
            assert old[-1] == new[-1] or before(rows, new[-1:], 1, old[-1]) == 0
            assert rows.pane[beyond].max() < rows.pane[new].min()
        tail = np.arange(num[q.TAIL], num[q.HIGH])
        if len(live):
            assert (rows.pane[tail] > oldest[-1]).all()
        if not self.waits or num[q.FRESH] == num[q.HIGH]:
            ordered = sort_slots(rows, num[q.TAIL], num[q.HIGH])
            assert self._end(ordered) < 0, "the newest rows admit a compact set"

    def _end(self, slots: Ints) -> int:
        """The size of the compact set of sorted rows; -1 if they admit none."""
        return compact_end(self.rule, self.store.rows.prob, slots, len(slots), KEEP)
