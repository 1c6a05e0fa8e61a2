"""csq, ccsq, scsq and scsq-buffer: the compact set queues (sections 4.1 to 4.4 of the paper).

They differ in their reserve: which compact sets of the newest panes it keeps, and in which form.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np

from skyband.arrays import Ints, Saved, State
from skyband.data.flat_state import Form, admitted, require
from skyband.uncertain.kernels import queue as q
from skyband.uncertain.kernels.compact import set_end
from skyband.uncertain.kernels.queue import Queue
from skyband.uncertain.kernels.scsq import buffer_fold, scsq_fold, scsq_read
from skyband.uncertain.kernels.types import UncertainRowsState, before, sort_slots
from skyband.uncertain.windowed import Reserve, UncertainRows, WindowedSynopsis

_MOST_ROOM = 1 << 40


class Kernels(NamedTuple):
    """The kernels of a queue: one takes panes, one finds the rows of a window's compact set."""

    fold: Callable[[UncertainRowsState, Queue, Ints, Ints], Queue]
    read: Callable[[UncertainRowsState, Queue, int], Ints]


class CompactSets(Reserve):
    """All distinct compact sets of the newest panes; other algorithms keep fewer, or parts."""

    kernels: ClassVar[Kernels] = Kernels(q.csq_fold, q.csq_read)
    head_counts: ClassVar[bool] = False
    """Whether the window's compact set is kept in addition to the entries, not as one of them."""
    waits: ClassVar[bool] = False
    """Whether new rows wait in a buffer."""

    def __init__(self, store: UncertainRows) -> None:
        super().__init__(store)
        num = np.zeros(q.NUMBERS, np.int64)
        num[q.ROOM] = store.rule.k * store.rule.k
        self.queue = Queue(np.zeros(64, np.int64), np.zeros((4, 4), np.int64), num)

    def take(self, offsets: Ints, gone: Ints) -> None:
        self.queue = self.kernels.fold(self.store.rows, self.queue, offsets, gone)

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

    def state(self) -> State:
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
        return set_end(self.store.rows, slots, len(slots))


class CompactSetQueue(WindowedSynopsis):
    """Keeps all distinct compact sets of the newest panes, so that on expiry the next is there.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH²) per row and
    O(H² log W) space. Exact.

    Section 4.1, algorithm 1, pane by pane. The newest rows are searched for a compact set until
    they admit none; the paper searches once, but the rows that are left may admit another.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="csq")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    keeps = CompactSets


class CompressedSets(CompactSets):
    """The newest compact set, and the rows that each older one adds."""

    kernels = Kernels(q.ccsq_fold, q.ccsq_read)
    head_counts = True

    def _sets(self) -> list[Ints]:
        num = self.queue.num
        entries = range(num[q.FIRST], num[q.LAST])
        return [q.ccsq_set(self.store.rows, self.queue, e) for e in entries]

    def _check(self) -> None:
        super()._check()
        arena, entry, num = self.queue
        for begin, size, _, oldest in entry[num[q.FIRST] : num[q.LAST]][:-1].tolist():
            added = self.store.rows.pane[arena[begin : begin + size]]
            assert (added == oldest).all(), "an older set adds rows of its oldest pane only"


class CompressedQueue(WindowedSynopsis):
    """Keeps the newest compact set whole, and for every older one only what it adds.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH²) per row and
    O(H(k + log W)) space. Exact.

    Section 4.2, pane by pane: an older set adds only rows of its oldest pane. We depart from it
    while panes are added: all sets are then held in full, as in csq.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="ccsq")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    keeps = CompressedSets


class Segments(CompactSets):
    """A few compact sets, and the rows between them that may still enter one."""

    kernels = Kernels(scsq_fold, scsq_read)
    head_counts = True

    def _check(self) -> None:
        super()._check()
        arena, entry, num = self.queue
        rows = self.store.rows
        live = entry[num[q.FIRST] : num[q.LAST]]
        sizes, segments = live[:, q.SIZE], live[:, q.MORE]
        largest, h = sizes.max(initial=0), num[q.LARGEST]
        assert h <= 2 * largest, "footnote 1: H has shrunk"
        assert largest <= 2 * h, "footnote 1: H has grown"
        assert (segments[1:] + segments[:-1] >= h).all(), "invariant 7"
        older = np.iinfo(np.int64).min
        for begin, size, more, oldest in live.tolist():
            segment = arena[begin + size : begin + size + more]
            self.store.check_order(np.append(segment, arena[begin + size - 1]))
            panes = rows.pane[segment]
            assert ((panes > older) & (panes < oldest)).all()
            # A merge adds the rows that a compact set has of one pane to fewer than H rows.
            of_one_pane = np.unique(panes, return_counts=True)[1].max(initial=0)
            assert more <= num[q.BOUND] + of_one_pane, "invariant 6"
            older = oldest


class SegmentalQueue(WindowedSynopsis):
    """Keeps O(log W) compact sets and, between them, the rows that may still enter one.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH log W) per row
    and O(H(k + log W)) space. Exact.

    Section 4.3. If panes hold many rows, a merge adds all rows of the older set's oldest pane, so
    invariant 6 becomes: a segment has at most H rows plus those of one pane. H is updated as in
    footnote 1, and the H that counts is the one in force when the segment was filled.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="scsq")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    keeps = Segments


class BufferedSegments(Segments):
    """The same, with a buffer for new rows."""

    kernels = Kernels(buffer_fold, scsq_read)
    waits = True

    def _check(self) -> None:
        super()._check()
        num = self.queue.num
        assert num[q.TAIL] <= num[q.FRESH] <= num[q.HIGH]
        assert num[q.HIGH] - num[q.FRESH] < num[q.ROOM], "the buffer is full"


class BufferedQueue(WindowedSynopsis):
    """SCSQ with a buffer for new rows; only the window's compact set is updated at once.

    Cost in a random stream, with W rows in the window and H in a compact set: O(kH²/W + log W)
    amortised per row and O(H(k + log W)) space. Exact.

    Section 4.4, algorithm 2, with a buffer of kH rows that is resized as in footnote 2. Departures:
    panes that arrive together, with no window between them that needs the queue, fill the buffer
    together, and it is emptied once; when it is emptied, the rows after the newest compact set's
    oldest pane stay in it (the paper drops them, but windows that start among them need them); if
    kH rows admit no compact set, the buffer grows, so that the algorithm turns into BS.

    >>> import pyarrow as pa, skyband as sb
    >>> readings = pa.table({"speed": [5, 6, 8, 2], "p": [0.8, 0.5, 0.4, 0.4]})
    >>> names, window = {"score": "speed", "probability": "p"}, sb.CountWindow(4)
    >>> query = sb.UncertainTopK(k=2, **names, window=window, algorithm="scsq-buffer")
    >>> sb.rank(readings, query)["speed"].to_pylist()
    [5, 6]
    """

    keeps = BufferedSegments
