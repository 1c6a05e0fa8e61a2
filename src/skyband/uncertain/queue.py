"""What the four compact set queues share on the Python side; a queue names its algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from skyband.kernels.uncertain import queue as q
from skyband.kernels.uncertain.loop import expire_queue, fold_queue, read_queue
from skyband.kernels.uncertain.queue import Queue
from skyband.query.uncertain import UncertainTopK
from skyband.uncertain.windowed import Floats, Ints, WindowedSynopsis

__all__ = ["QueueSynopsis"]


class QueueSynopsis(WindowedSynopsis):
    """Compact sets of the newest panes, as many as the algorithm keeps of them."""

    code: ClassVar[int]

    def __init__(self, query: UncertainTopK) -> None:
        super().__init__(query)
        num = np.zeros(q.NUMBERS, np.int64)
        num[q.ALGORITHM] = self.code
        num[q.OPEN] = 1
        num[q.HEAD_OLDEST] = q.FAR
        num[q.ROOM] = query.k * query.k
        none = np.zeros(0, np.int64)
        self._queue = Queue(np.empty(64, np.int64), np.empty((4, 4), np.int64), none, num)

    def _run(
        self, stamp: Ints, offsets: Ints, first: Ints, end: Ints, final: bool
    ) -> tuple[Ints, Floats, Ints]:
        self._queue, slots, chance, ends = fold_queue(
            self.rule, self.store.rows, self._queue, stamp, offsets, first, end, final
        )
        return slots, chance, ends

    def _expire(self, first: int) -> None:
        if self.schemas:
            self._queue = expire_queue(self.rule, self.store.rows, self._queue, first)

    def _read(self, first: int) -> Ints:
        return read_queue(self.rule, self.store.rows, self._queue, first)

    # Slots ------------------------------------------------------------------------------------

    def _used(self) -> tuple[int, int]:
        """The stretch of the arena that is in use."""
        _, entry, _, num = self._queue
        if num[q.FIRST] == num[q.LAST]:
            return 0, 0
        last = entry[num[q.LAST] - 1]
        return int(entry[num[q.FIRST], q.BEGIN]), int(last[: q.OLDEST].sum())

    def _live(self) -> Ints:
        arena, _, head, num = self._queue
        low, high = self._used()
        tail = np.arange(num[q.TAIL], num[q.HIGH])
        return np.unique(np.concatenate([arena[low:high], head[: num[q.HEAD]], tail]))

    def _renumber(self, live: Ints) -> None:
        arena, entry, head, num = self._queue
        low, high = self._used()
        first, last = num[q.FIRST], num[q.LAST]
        entry = entry[first:last].copy() if last > first else np.empty((4, 4), np.int64)
        entry[:, q.BEGIN] -= low
        places = {name: np.searchsorted(live, num[name]) for name in (q.TAIL, q.FRESH)}
        num[q.FIRST], num[q.LAST] = 0, last - first
        for name, place in places.items():
            num[name] = place
        num[q.HIGH] = len(live)
        self._queue = Queue(
            np.searchsorted(live, arena[low:high]),
            entry,
            np.searchsorted(live, head[: num[q.HEAD]]),
            num,
        )

    # State ------------------------------------------------------------------------------------

    def _state(self) -> Mapping[str, npt.NDArray[Any]]:
        return self._queue._asdict()

    def _load(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._queue = Queue(**arrays)

    def stats(self) -> dict[str, int | float]:
        num = self._queue.num
        own = sum(array.nbytes for array in self._queue)
        return {
            "retained": self._retained(),
            "state_bytes": own + (self.store.nbytes if self.schemas else 0),
            "compact_sets": int(num[q.LAST] - num[q.FIRST]),
            "largest_compact_set": self._largest(),
            "compact_sets_built": int(num[q.MADE] + num[q.REBUILT]),
            "compact_sets_updated": int(num[q.UPDATED]),
            "segments_merged": int(num[q.MERGED]),
            "buffers_emptied": int(num[q.FLUSHED]),
        }

    def _retained(self) -> int:
        """Rows as the paper counts them: one in every list that has it."""
        low, high = self._used()
        num = self._queue.num
        return int(high - low + num[q.HIGH] - num[q.TAIL])

    def _largest(self) -> int:
        """The size of the largest compact set."""
        _, entry, _, num = self._queue
        sizes = entry[num[q.FIRST] : num[q.LAST], q.SIZE]
        return int(max(sizes.max(initial=0), num[q.HEAD]))

    def _sets(self) -> list[Ints]:
        """The compact sets of all entries, oldest first."""
        arena, entry, _, num = self._queue
        return [
            arena[begin : begin + size]
            for begin, size, _, _ in entry[num[q.FIRST] : num[q.LAST]].tolist()
        ]

    def _check(self) -> None:
        super()._check()
        if not self.schemas:
            return
        _, entry, head, num = self._queue
        rows = self.store.rows
        live = entry[num[q.FIRST] : num[q.LAST]]
        assert num[q.TAIL] <= num[q.HIGH] == len(self.store)
        ends = live[:, : q.OLDEST].sum(axis=1)
        assert (live[1:, q.BEGIN] == ends[:-1]).all()
        oldest = live[:, q.OLDEST]
        assert (oldest[1:] > oldest[:-1]).all(), "two entries are the same set"
        for slots, pane in zip(self._sets(), oldest, strict=True):
            assert rows.pane[slots].min() == pane
            self._check_order(slots)
        self._check_order(head[: num[q.HEAD]])
        if num[q.HEAD]:
            assert num[q.HEAD_OLDEST] == rows.pane[head[: num[q.HEAD]]].min()
        if len(live):
            assert (rows.pane[num[q.TAIL] :] > oldest[-1]).all()

    def _check_order(self, slots: Ints) -> None:
        rows = self.store.rows
        order = np.lexsort((slots, -rows.pane[slots], ~rows.key[slots]))
        assert np.array_equal(order, np.arange(len(slots)))
