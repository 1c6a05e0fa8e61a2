"""Clocks: which pane a row belongs to, when panes are sealed, which windows are due.

A clock knows how far its stream has come. For time windows that is the watermark: the least of the
sources' marks (greatest time seen minus lateness). For count windows it is the number of arrivals
of each group. Both have the same methods, so that nothing else asks which kind of window there is:

    place       assign rows to panes, and note how far they bring their source; rows of sealed
                panes are late
    target      how far the stream has come by all that was observed
    passes      whether going there seals a pane with rows or ends a window
    settle      go there if it does not
    advance     go there if it does; the windows that are due

Late rows of time windows may correct answers: ``correct`` tells the windows that read their panes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.contract.rows import Rows, Windows
from skyband.contract.runs import Runs, expand, run_starts
from skyband.data.columns import to_arrow
from skyband.data.flat_state import require, whole
from skyband.data.group_table import GroupTable
from skyband.data.time_axis import TimeAxis
from skyband.engine.open_panes import OpenPanes, SplitPanes, duplicate, last_windows
from skyband.engine.placement import (
    NEVER,
    Placement,
    ReadBatch,
    codes_of,
    place_by_sorting,
    place_rows,
    place_stretches,
)
from skyband.errors import EngineError
from skyband.kernels.arrange import arrival_numbers
from skyband.panes import Panes, SidePanes
from skyband.query.base import Query
from skyband.window import CountWindow

_FAR = 1 << 62
"""More than any time, pane or window in a snapshot."""
_BEYOND = int(np.iinfo(np.int64).max)
_MOST_WINDOWS = 1 << 28
"""How many windows one push may answer; their numbers alone take 2 GB."""
_NONE = np.zeros(0, np.int64)


class ClockPreview(NamedTuple):
    """What a few rows would do to a clock, before they are taken."""

    first: int
    """The first pane that they belong to."""
    greatest: int
    """The greatest time that would have been seen; 0 if there are no times."""
    target: Any
    """How far the stream would have come."""


def clock_for(
    widest: Query,
    readers: Sequence[Query],
    sources: Iterable[str],
    idle: float | None = None,
    joins: int | None = None,
) -> Clock:
    """A clock for the readers of a fold; ``widest`` has the longest of their windows.

    ``joins`` is the greatest time that others had seen, if the fold joins a running stream.
    """
    window, panes = widest.window, [query.window.panes for query in readers]
    if isinstance(window, CountWindow):
        return ArrivalClock(window.panes, bool(widest.groups), panes)
    clock = TimeClock(window.panes, window.lateness_ticks, sources, idle, panes)
    clock.revise = window.revise_ticks
    if joins is not None:
        clock.join(joins)
    return clock


def windows_due(
    panes: Panes,
    filled: Ints,
    after: int,
    upto: int,
    lasts: Ints | None = None,
    least: int | None = None,
) -> Ints:
    """Numbers of the windows to answer among those in ``(after, upto]``, ascending.

    They are the windows that cover a filled pane, plus the first empty window after each stretch of
    them; windows without a size have none of those. ``lasts`` are the last windows with rows of
    each pane, if that depends on the rows' source. Windows before ``least`` are as if empty.
    """
    low = panes.first_window_of(filled)
    low = low if least is None else np.maximum(low, least)
    high = panes.last_window_of(filled) if lasts is None else lasts
    covered = low <= high
    if upto == after + 1:  # most often it is one window
        due = covered & (low <= upto) & (high >= upto - panes.sized)
        return np.full(int(due.any()), upto, np.int64)
    low = np.maximum(low[covered], after + 1)
    high = np.minimum(high[covered] + panes.sized, upto)
    low, high = low[low <= high], high[low <= high]
    if not len(low):
        return _NONE
    # Panes ascend, so their windows do too: a stretch begins where a window number exceeds all
    # earlier ones by more than one.
    reach = np.maximum.accumulate(high)
    begins = np.ones(len(low), np.bool_)
    begins[1:] = low[1:] > reach[:-1] + 1
    last = np.append(reach[:-1][begins[1:]], reach[-1])
    lengths = last - low[begins] + 1
    if lengths.sum(dtype=np.float64) > _MOST_WINDOWS:
        raise EngineError(
            f"{int(lengths.sum(dtype=np.float64)):,} windows end at once, more than fit into "
            "memory; use a longer slide, or look for rows whose times are wrong"
        )
    return expand(low[begins], lengths)


class TimeClock:
    """Event time: one mark per source, one watermark, the same panes for all groups."""

    def __init__(
        self,
        panes: Panes,
        lateness: int,
        sources: Iterable[str],
        idle: float | None = None,
        readers: Sequence[Panes] = (),
    ) -> None:
        """``panes`` are those of the longest window; ``readers`` those of all windows that are due.

        A source that is silent for ``idle`` seconds on the wall does not hold the watermark back.
        """
        self.panes, self.readers = panes, tuple(readers or (panes,))
        self.foresees = not panes.gaps
        """Whether ``glimpse`` can tell what rows would do."""
        self.lateness, self.idle = lateness, idle
        self.revise: int | None = None
        """How far behind the watermark a late row may be to correct answers; None if none does."""
        self.seen: dict[str, int | None] = dict.fromkeys(sources)
        """The greatest time seen in each source."""
        self.ignored: set[str] = set()
        """Sources that do not hold the stream back because they are exhausted or idle."""
        self.watermark: int | None = None
        self.answered: int | None = None
        self.joined: int | None = None
        """The watermark at which it joined a stream that was already running; see ``join``."""
        self.filled: Ints = np.zeros(0, np.int64)
        """Sealed panes with rows that the last answered window, or a later one, covers."""
        self.lasts: Ints | None = None
        """The last window with rows of each of them, if that depends on the rows' source."""
        self._heard: dict[str, float] = {}
        """When each source was last heard of, on the wall."""

    @property
    def started(self) -> bool:
        return self.watermark is not None

    @property
    def sealed(self) -> int:
        """The first pane that still takes rows."""
        return NEVER if self.watermark is None else int(self.panes.pane_of(self.watermark))

    def sealed_of(self, groups: Codes) -> Any:
        return self.sealed

    def join(self, seen: int) -> int:
        """Begin with the first window that starts at or after ``seen``; return its number.

        For a clock that has seen nothing, in a stream that was read up to ``seen`` without it.
        """
        first = self.panes.first_window_from(seen)
        assert first is not None
        pane = first - 1
        if self.panes.sized:
            pane = self.panes.first_read(self.panes.first_pane(first), self.panes.end_pane(first))
        self.answered = first - 1
        self.watermark = self.joined = int(self.panes.pane_start(pane))
        return first

    @property
    def _least(self) -> int | None:
        """The first window to answer, if it has joined a running stream."""
        return None if self.joined is None else self.panes.first_window_from(self.joined)

    @property
    def waiting(self) -> bool:
        """Whether it has joined a running stream, and its first window has not begun yet."""
        return self.joined is not None and self.joined == self.watermark

    # Rows --------------------------------------------------------------------------------------

    def place(self, read: ReadBatch, axis: TimeAxis | None, groups: GroupTable) -> Placement:
        """Rows by pane and group, without late and unused rows; notes the greatest time."""
        if read.greatest is not None:
            before = self.seen[read.source]
            self.seen[read.source] = read.greatest if before is None else max(before, read.greatest)
            if self.idle is not None:
                self._heard[read.source] = time.monotonic()
        since, panes, ticks = self.panes.since, self.panes.of(read.source), read.ticks
        if ticks is not None and self.floor is not None:
            pane = panes.pane_of(ticks)
            late = panes.used(pane) & (pane < self.sealed) & (ticks < self.floor)
            rest = _some_rows(read, np.flatnonzero(~late)) if late.any() else read
            placement = place_rows(rest, axis, panes, groups, NEVER)
            return replace(placement, late=np.flatnonzero(late))
        if since is None or ticks is None or not bool((ticks < since).any()):
            return place_rows(read, axis, panes, groups, self.sealed)
        # Rows before the landmark of a landmark window are not used.
        kept = np.flatnonzero(ticks >= since)
        placement = place_rows(_some_rows(read, kept), axis, panes, groups, self.sealed)
        unused = placement.unused + len(ticks) - len(kept)
        return replace(placement, late=kept[placement.late], unused=unused)

    def behind(self, times: Ints) -> Ints:
        """How far late rows of these times are behind the watermark."""
        assert self.watermark is not None
        return self.watermark - times

    @property
    def greatest(self) -> int | None:
        """The greatest time seen in any source."""
        times = [time for time in self.seen.values() if time is not None]
        return max(times) if times else None

    def _ignore_idle(self) -> None:
        if self.idle is None:
            return
        now = time.monotonic()
        for source in self.seen:
            silent = now - self._heard.setdefault(source, now) > self.idle
            (self.ignored.add if silent else self.ignored.discard)(source)

    def target(self) -> int | None:
        """The watermark that follows from the sources' marks; it never goes back."""
        self._ignore_idle()
        holding = [time for name, time in self.seen.items() if name not in self.ignored]
        if not holding:
            holding = [self.greatest]
        known = [time for time in holding if time is not None]
        if len(known) < len(holding):
            return self.watermark
        mark = min(known) - self.lateness
        return mark if self.watermark is None else max(mark, self.watermark)

    def final(self) -> int | None:
        """The watermark of a stream that has ended: the first window end after its last row."""
        greatest = self.greatest
        if greatest is None:
            return self.watermark
        end = int(self.panes.end_of(self.panes.last_window_ending_by(greatest) + 1))
        return end if self.watermark is None else max(end, self.watermark)

    # Sealing -----------------------------------------------------------------------------------

    def passes(self, target: int, least: int) -> bool:
        """Whether this watermark seals a pane with rows or ends a window.

        ``least`` is the first open pane with rows.
        """
        return bool(least < self.panes.pane_of(target)) or not self._waits(target)

    def settle(self, target: int) -> None:
        """Set the watermark, which passes nothing."""
        self.watermark = target

    def _waits(self, watermark: int) -> bool:
        """Whether no window with rows ends between the last answered one and this watermark."""
        if self.answered is None:
            return not len(self.filled)
        return self.panes.last_window_ending_by(watermark) <= self.answered

    def split(self, open_panes: OpenPanes, target: int) -> SplitPanes:
        """Cut off the open panes that this watermark seals; see ``OpenPanes.split``."""
        upto = int(self.panes.pane_of(target))
        return open_panes.split(lambda runs: runs.stamp < upto)

    def advance(
        self, target: int, sealed: Runs | None, groups: GroupTable, elsewhere: Ints = _NONE
    ) -> list[Windows]:
        """Move the watermark past these panes; the windows due, for each reader.

        ``elsewhere`` are panes that have rows in other processes, if that decides what is answered.
        """
        filled = _NONE if sealed is None else sealed.stamp[run_starts(sealed.stamp)]
        if len(elsewhere):
            upto = int(self.panes.pane_of(target))
            filled = np.union1d(filled, elsewhere[elsewhere < upto])
        lasts = None
        if isinstance(self.panes, SidePanes):
            lasts = _NONE if sealed is None else last_windows(self.panes, sealed)
        due = self._due(target, filled, lasts)
        ranks = _NONE if sealed is None and not any(map(len, due)) else groups.ranks
        return [
            Windows(number, panes.first_pane(number), panes.end_pane(number), ranks)
            for panes, number in zip(self.readers, due, strict=True)
        ]

    def _due(self, watermark: int, filled: Ints, lasts: Ints | None) -> list[Ints]:
        self.watermark = watermark
        upto = self.panes.last_window_ending_by(watermark)
        filled = np.concatenate([self.filled, filled])
        if lasts is not None and self.lasts is not None:
            lasts = np.concatenate([self.lasts, lasts])
        after = self.answered
        if after is None:
            after = int(self.panes.first_window_of(filled[0])) - 1 if len(filled) else upto
        self.filled, self.lasts = filled, lasts
        if upto <= after:
            return [_NONE for _ in self.readers]
        self.answered = upto
        settings = filled, after, upto, lasts, self._least
        due = [windows_due(panes, *settings) for panes in self.readers]
        live = self._last_due(filled, lasts) > upto
        self.filled, self.lasts = filled[live], None if lasts is None else lasts[live]
        if not self.panes.sized:
            self.filled = self.filled[:1]  # rows never leave, so the first pane says it all
        return due

    # Corrections -------------------------------------------------------------------------------

    @property
    def floor(self) -> int | None:
        """The time from which on late rows correct answers; None if they never do."""
        if self.revise is None or self.watermark is None:
            return None
        floor = self.watermark - self.revise
        return floor if self.joined is None else max(floor, self.joined)

    @property
    def first_correctable(self) -> int:
        """The first window that a row may still correct."""
        if self.floor is None:
            return -_FAR
        return int(self.panes.first_window_of(self.panes.pane_of(self.floor)))

    def first_kept(self, window: int | None = None) -> int:
        """The first pane to read if this window, or any that may be corrected, is read again."""
        window = self.first_correctable if window is None else window
        if self.answered is not None:
            window = min(window, self.answered)
        first, end = self.panes.first_pane(window), self.panes.end_pane(window)
        return int(self.panes.first_read(first, end))

    def correct(self, stamps: Ints, late: Runs | None) -> list[Ints]:
        """Note late rows of these panes; for each reader, the ended windows that read one of them.

        ``late`` are their summaries, which decide it if each source has its own window.
        """
        assert self.watermark is not None
        upto, lasts = self.panes.last_window_ending_by(self.watermark), None
        if isinstance(self.panes, SidePanes):
            assert late is not None
            lasts = last_windows(self.panes, late)
        touched = []
        for panes in self.readers:
            low = panes.first_window_of(stamps)
            low = low if self._least is None else np.maximum(low, self._least)
            high = np.minimum(panes.last_read_of(stamps) if lasts is None else lasts, upto)
            touched.append(np.unique(expand(low, np.maximum(high - low + 1, 0))))
        if self.answered is None and any(map(len, touched)):
            self.answered = upto
        self._note_filled(stamps, lasts, upto)
        return touched

    def _last_due(self, filled: Ints, lasts: Ints | None) -> Ints:
        """The last window that is answered because of each pane: an empty one, if rows leave it."""
        last = self.panes.last_window_of(filled) if lasts is None else lasts
        return np.asarray(last + self.panes.sized)

    def _note_filled(self, stamps: Ints, lasts: Ints | None, upto: int) -> None:
        """Add sealed panes to those that a window after this one covers."""
        live = self._last_due(stamps, lasts) > upto
        filled, place = np.unique(np.append(self.filled, stamps[live]), return_inverse=True)
        if lasts is not None:
            merged = np.full(len(filled), NEVER)
            known = _NONE if self.lasts is None else self.lasts
            np.maximum.at(merged, place, np.append(known, lasts[live]))
            self.lasts = merged
        self.filled = filled

    def sealed_windows(self, size: int, groups: GroupTable) -> Windows:
        """The window of this size, or a shorter one, that ends with the last sealed pane."""
        panes, ranks, end = self.panes, groups.ranks, np.full(1, self.sealed)
        if not panes.sized:
            return Windows(np.zeros(1, np.int64), panes.first_pane(end), end, ranks)
        first = np.asarray(panes.first_since(end, size))
        return Windows(np.zeros(1, np.int64), first, end, ranks)

    def oldest_pane(self, last: Windows) -> int:
        """The first pane that groups still need after the last window read."""
        if self.revise is not None:
            return self.first_kept()
        return int(self.panes.first_read(last.first[0], last.end[0]))

    # Few rows ----------------------------------------------------------------------------------

    def glimpse(self, ticks: Ints | None, counting: Ints | None, rows: int) -> ClockPreview | None:
        """What rows with these times would do; None if one of them is late or unused.

        ``counting`` are the times of the rows that ``where`` leaves; None for all.
        """
        assert ticks is not None
        low = high = int(ticks[0])
        if len(ticks) > 1:
            low, high = int(ticks.min()), int(ticks.max())
        if self.ignored or (self.panes.since is not None and low < self.panes.since):
            return None
        first = _BEYOND
        if counting is None or len(counting):
            first = int(self.panes.pane_of(low if counting is None else counting.min()))
        (seen,), mark = self.seen.values(), self.watermark
        if mark is not None and first < self.panes.pane_of(mark):
            return None
        greatest = high if seen is None or high > seen else seen
        target = greatest - self.lateness
        return ClockPreview(first, greatest, target if mark is None else max(target, mark))

    def accept(self, glimpse: ClockPreview) -> int:
        """Take such rows; the arrival number of the first, which matters to count windows only."""
        self.seen = dict.fromkeys(self.seen, glimpse.greatest)
        self.watermark = glimpse.target
        return 0

    def place_accepted(
        self, read: ReadBatch, axis: TimeAxis | None, groups: GroupTable, first: int
    ) -> Rows | None:
        """Rows that were accepted, by pane and group: none is late, whatever came since."""
        return place_rows(read, axis, self.panes, groups, NEVER).rows

    # State -------------------------------------------------------------------------------------

    def keep_readers(self, kept: Sequence[int]) -> None:
        """Go on with some of the readers only."""
        self.readers = tuple(self.readers[i] for i in kept)

    def copied(self) -> TimeClock:
        """An independent copy of this clock."""
        clock = duplicate(self)
        clock.seen, clock.ignored = dict(self.seen), set(self.ignored)
        return clock

    def state(self) -> dict[str, Any]:
        """Plain values for a snapshot."""
        lasts = {} if self.lasts is None else {"lasts": self.lasts.tolist()}
        joined = {} if self.joined is None else {"joined": self.joined}
        return lasts | joined | {
            "seen": self.seen,
            "ignored": sorted(self.ignored),
            "watermark": self.watermark,
            "answered": self.answered,
            "filled": self.filled.tolist(),
        }  # fmt: skip

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        require(set(state["ignored"]) <= set(state["seen"]), "a source that is not there")
        self.seen = {name: _time(seen) for name, seen in state["seen"].items()}
        self.ignored = set(state["ignored"])
        self.watermark, self.answered = _time(state["watermark"]), _time(state["answered"])
        self.joined = _time(state.get("joined"))
        self.filled = _numbers(state["filled"])
        self.lasts = _numbers(state["lasts"]) if "lasts" in state else None
        self._check_saved()

    def _check_saved(self) -> None:
        """Refuse a clock that would answer windows that ended before its watermark."""
        filled, lasts = self.filled, self.lasts
        require(lasts is None or len(lasts) == len(filled), "panes that are not there")
        require(self.watermark is not None or not len(filled), "sealed panes, but no watermark")
        if self.watermark is None:
            return
        upto, after = self.panes.last_window_ending_by(self.watermark), self.answered
        if after is None and len(filled):
            after = int(self.panes.first_window_of(filled[0])) - 1
        sealed = (np.diff(filled) > 0).all() and filled.max(initial=NEVER) < self.sealed
        require(sealed and (after is None or upto <= after), "windows of the past are due")


def _some_rows(read: ReadBatch, rows: Ints) -> ReadBatch:
    """Some of the rows of a batch."""
    ticks = None if read.ticks is None or not len(rows) else read.ticks[rows]
    return replace(read, batch=read.batch.take(to_arrow(rows)), ticks=ticks)


def _time(value: Any) -> int | None:
    return None if value is None else whole(value, -_FAR)


def _numbers(values: Any, least: int = -_FAR) -> Ints:
    return np.array([whole(value, least) for value in values], np.int64)


class ArrivalClock:
    """Arrivals, counted separately for each group. A group is never forgotten."""

    waiting = False
    started = True

    def __init__(self, panes: Panes, grouped: bool = False, readers: Sequence[Panes] = ()) -> None:
        """See ``TimeClock``."""
        self.panes, self.grouped = panes, grouped
        self.readers = tuple(readers or (panes,))
        self.foresees = not grouped and not panes.gaps
        self.counts: Ints = np.zeros(1, np.int64)
        self.answered: Ints = np.zeros(1, np.int64)
        """The counts up to which windows were answered."""
        self.seen: dict[str, int | None] = {}
        self.ignored: set[str] = set()

    @property
    def sealed(self) -> int:
        return int(self.panes.pane_of(self.counts.min()))

    def sealed_of(self, groups: Codes) -> Any:
        counts = np.append(self.counts, np.zeros(groups.max(initial=0) + 1, np.int64))
        return self.panes.pane_of(counts[groups])

    def _reserve(self, groups: int) -> None:
        """Make room for this many groups."""
        if groups > len(self.counts):
            more = max(groups, 2 * len(self.counts)) - len(self.counts)
            self.counts = np.append(self.counts, np.zeros(more, np.int64))

    # Rows --------------------------------------------------------------------------------------

    def place(self, read: ReadBatch, axis: TimeAxis | None, groups: GroupTable) -> Placement:
        """Number the arrivals of each group, and place them; none is late."""
        rows = read.batch.num_rows
        if not rows:
            return Placement(None)
        if not groups.names:
            first = int(self.counts[0])
            self.counts = self.counts + rows
            return place_stretches(read, range(first, first + rows), None, self.panes, groups)
        codes = codes_of(read.batch, groups)
        self._reserve(groups.bound)
        counts = self.counts.copy()
        numbers = arrival_numbers(codes, counts)
        self.counts = counts
        return place_by_sorting(read, numbers, None, self.panes, groups, codes)

    def behind(self, times: Ints) -> Ints:
        """No arrival is late."""
        return np.zeros_like(times)

    def target(self) -> Ints:
        """The arrivals so far."""
        return self.counts

    def final(self) -> None:
        """A stream of arrivals has no last window."""
        return

    # Sealing -----------------------------------------------------------------------------------

    def passes(self, target: Ints, least: int) -> bool:
        """Whether these arrivals fill a pane or end a window."""
        if self.grouped:
            return len(target) != len(self.answered) or bool((target != self.answered).any())
        upto, slide = int(self.panes.pane_of(target[0])), self.panes.slide
        return least < upto or bool(target[0] // slide != self.answered[0] // slide)

    def settle(self, target: Ints) -> None:
        """Note arrivals that pass nothing."""
        self.answered = target

    def split(self, open_panes: OpenPanes, target: Ints) -> SplitPanes:
        """Cut off the panes that their groups have filled."""
        upto = self.panes.pane_of(target)
        return open_panes.split(lambda runs: runs.stamp < upto[runs.group])

    def advance(
        self, target: Ints, sealed: Runs | None, groups: GroupTable, elsewhere: Ints = _NONE
    ) -> list[Windows]:
        """The windows that groups have completed, for each reader: they all end together.

        Those with the same number come in the order of groups.
        """
        before = np.zeros_like(target)
        before[: len(self.answered)] = self.answered
        codes = np.flatnonzero(before != target)
        self.answered = target
        done = before[codes] // self.panes.slide
        lengths = target[codes] // self.panes.slide - done
        number, owner = expand(done + 1, lengths), np.repeat(codes, lengths).astype(np.int32)
        ranks = _NONE if sealed is None and not len(number) else groups.ranks
        if self.grouped:
            order = np.lexsort((ranks[owner], number))
            number, owner = number[order], owner[order]
        group = owner if self.grouped else None
        return [
            Windows(number, panes.first_pane(number), panes.end_pane(number), ranks, group)
            for panes in self.readers
        ]

    def sealed_windows(self, size: int, groups: GroupTable) -> Windows:
        """For each group, the window of this size that ends with its last full pane."""
        self._reserve(groups.bound)  # groups of a push that failed are known, too
        panes, ranks, codes = self.panes, groups.ranks, groups.live
        codes = codes[np.argsort(ranks[codes], kind="stable")]
        end = panes.pane_of(self.counts[codes])
        codes, end = codes[end > 0], end[end > 0]
        start = np.maximum(panes.pane_start(end) - size, 0)
        first = np.asarray(panes.pane_of(start - 1) + 1)
        group = codes.astype(np.int32) if self.grouped else None
        return Windows(np.arange(len(first)), first, end, ranks, group)

    def oldest_pane(self, last: Windows) -> int:
        """Groups that count their arrivals are never forgotten."""
        return NEVER

    # Few rows ----------------------------------------------------------------------------------

    def glimpse(self, ticks: Ints | None, counting: Ints | None, rows: int) -> ClockPreview | None:
        """What so many rows would do."""
        return ClockPreview(int(self.panes.pane_of(self.counts[0])), 0, self.counts + rows)

    def accept(self, glimpse: ClockPreview) -> int:
        """Take such rows; the arrival number of the first."""
        first = int(self.counts[0])
        self.counts = self.answered = glimpse.target
        return first

    def place_accepted(
        self, read: ReadBatch, axis: TimeAxis | None, groups: GroupTable, first: int
    ) -> Rows | None:
        """Rows that were accepted, by pane; ``first`` is the arrival number of the first."""
        numbers = range(first, first + read.rows_in)
        return place_stretches(read, numbers, None, self.panes, groups).rows

    # State -------------------------------------------------------------------------------------

    def keep_readers(self, kept: Sequence[int]) -> None:
        """Go on with some of the readers only."""
        self.readers = tuple(self.readers[i] for i in kept)

    def copied(self) -> ArrivalClock:
        """An independent copy of this clock; arrays are never changed, only replaced."""
        return duplicate(self)

    def state(self) -> dict[str, Any]:
        """Plain values for a snapshot."""
        return {"counts": self.counts.tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        require(len(state["counts"]) > 0, "no arrivals are known")
        self.counts = self.answered = _numbers(state["counts"], 0)


Clock: TypeAlias = TimeClock | ArrivalClock
