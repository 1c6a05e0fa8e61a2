"""Clocks decide when panes are sealed and windows answered.

A clock knows how far its stream has advanced. For time windows that is the watermark: the least of
the sources' marks (greatest time seen minus lateness). For count windows it is the number of
arrivals, counted separately for each group.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from skyband.arrays import Codes, Ints
from skyband.contract.runs import expand
from skyband.data.flat_state import require, whole
from skyband.errors import EngineError
from skyband.kernels.core.arrange import arrival_numbers
from skyband.window import Panes

__all__ = ["CountClock", "Counted", "TimeClock", "windows_due"]

NEVER = np.iinfo(np.int64).min
FAR = 1 << 62
_MOST_WINDOWS = 1 << 28
"""How many windows one push may answer; their numbers alone take 2 GB."""


def windows_due(
    panes: Panes,
    filled: Ints,
    after: int,
    upto: int,
    pending: int | None,
    lasts: Ints | None = None,
) -> Ints:
    """Numbers of the windows to answer among those in ``(after, upto]``, ascending.

    They are the windows that cover a filled pane, plus the first empty window after each stretch of
    them; windows without a size have none of those. ``pending`` is the last answered window, if it
    was not empty. ``lasts`` are the last windows with rows of each pane, if that depends on the
    rows' source.
    """
    low = np.maximum(panes.first_window_of(filled), after + 1)
    high = np.minimum(panes.last_window_of(filled) if lasts is None else lasts, upto)
    low, high = low[low <= high], high[low <= high]
    if pending is not None:
        # The pending window counts as a stretch here; it is removed again below.
        low, high = np.append(pending, low), np.append(pending, high)
    if not len(low):
        return np.zeros(0, np.int64)
    # Panes ascend, so their windows do too: a stretch begins where a window number exceeds all
    # earlier ones by more than one.
    reach = np.maximum.accumulate(high)
    begins = np.ones(len(low), np.bool_)
    begins[1:] = low[1:] > reach[:-1] + 1
    first = low[begins]
    last = np.append(reach[:-1][begins[1:]], reach[-1])
    if panes.sized:
        last = np.minimum(last + 1, upto)
    if pending is not None:
        first[0] += 1
    lengths = np.maximum(last - first + 1, 0)
    if lengths.sum(dtype=np.float64) > _MOST_WINDOWS:
        raise EngineError(
            f"{int(lengths.sum(dtype=np.float64)):,} windows end at once, more than fit into "
            "memory; use a longer slide, or look for rows whose times are wrong"
        )
    return expand(first, lengths)


def _time(value: Any) -> int | None:
    return None if value is None else whole(value, -FAR)


class TimeClock:
    """Event time: one mark per source, one watermark, the same panes for all groups."""

    def __init__(self, panes: Panes, lateness: int, sources: Iterable[str]) -> None:
        self.panes = panes
        self.lateness = lateness
        self.seen: dict[str, int | None] = dict.fromkeys(sources)
        self.ignored: set[str] = set()
        """Sources that do not hold the watermark back because they are exhausted or idle."""
        self.watermark: int | None = None
        self.answered: int | None = None
        self.pending: int | None = None
        self.joined: int | None = None
        """The watermark at which it joined a stream that was already running; see ``join``."""
        self.filled: Ints = np.zeros(0, np.int64)
        """Sealed panes that have rows and that a future window covers."""
        self.lasts: Ints | None = None
        """The last window with rows of each of them, if that depends on the rows' source."""

    @property
    def sealed(self) -> int:
        """The first pane that still takes rows."""
        return NEVER if self.watermark is None else int(self.panes.pane_of(self.watermark))

    def join(self, seen: int) -> int:
        """Begin with the first window that starts at or after ``seen``; return its number.

        For a clock that has seen nothing, in a stream that was read up to ``seen`` without it.
        """
        first = self.panes.last_window_ending_by(seen + self.panes.size - 1) + 1
        pane = int(self.panes.first_pane(first) if self.panes.sized else first - 1)
        self.answered = first - 1
        self.watermark = self.joined = int(self.panes.pane_start(pane))
        return first

    @property
    def waiting(self) -> bool:
        """Whether it has joined a running stream, and its first window has not begun yet."""
        return self.joined is not None and self.joined == self.watermark

    def observe(self, source: str, greatest: int) -> None:
        """Note the greatest time in a batch of a source."""
        before = self.seen[source]
        self.seen[source] = greatest if before is None else max(before, greatest)

    @property
    def greatest(self) -> int | None:
        """The greatest time seen in any source."""
        times = [time for time in self.seen.values() if time is not None]
        return max(times) if times else None

    def mark(self) -> int | None:
        """The watermark that follows from the sources' marks; it never goes back."""
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

    def waits(self, watermark: int) -> bool:
        """Whether no window with rows ends between the last answered one and this watermark."""
        if self.answered is None:
            return not len(self.filled)
        return self.panes.last_window_ending_by(watermark) <= self.answered

    def advance(self, watermark: int, filled: Ints, lasts: Ints | None = None) -> Ints:
        """Move the watermark and return the windows due.

        ``filled`` are the panes with rows that this seals, ``lasts`` the last windows in which
        their rows live, if that depends on the rows' source.
        """
        self.watermark = watermark
        upto = self.panes.last_window_ending_by(watermark)
        filled = np.concatenate([self.filled, filled])
        if lasts is not None and self.lasts is not None:
            lasts = np.concatenate([self.lasts, lasts])
        after = self.answered
        if after is None:
            after = int(self.panes.first_window_of(filled[0])) - 1 if len(filled) else upto
        if upto <= after:
            self.filled, self.lasts = filled, lasts
            return np.zeros(0, np.int64)
        covers = self._covers(filled, lasts, upto)
        if upto == after + 1 and self.panes.sized:  # most often it is one window
            due = np.full(int(covers or self.pending is not None), upto, np.int64)
        else:
            due = windows_due(self.panes, filled, after, upto, self.pending, lasts)
        self.answered = upto
        self.pending = upto if covers else None
        live = (self.panes.last_window_of(filled) if lasts is None else lasts) > upto
        self.filled, self.lasts = filled[live], None if lasts is None else lasts[live]
        if not self.panes.sized:
            self.filled = self.filled[:1]  # rows never leave, so the first pane says it all
        return due

    def _covers(self, filled: Ints, lasts: Ints | None, window: int) -> bool:
        """Whether rows in the window will leave it, so that an empty answer may follow."""
        if not self.panes.sized:
            return False
        first = filled.searchsorted(self.panes.first_pane(window))
        end = filled.searchsorted(self.panes.end_pane(window))
        return bool(end > first if lasts is None else (lasts[first:end] >= window).any())

    def copied(self) -> TimeClock:
        """An independent copy of this clock."""
        found = TimeClock.__new__(TimeClock)  # a fifth of the time of copy()
        found.__dict__.update(self.__dict__)
        found.seen, found.ignored = dict(self.seen), set(self.ignored)
        return found

    def state(self) -> dict[str, Any]:
        """Plain values for a snapshot."""
        lasts = {} if self.lasts is None else {"lasts": self.lasts.tolist()}
        joined = {} if self.joined is None else {"joined": self.joined}
        return (
            lasts
            | joined
            | {
                "seen": self.seen,
                "ignored": sorted(self.ignored),
                "watermark": self.watermark,
                "answered": self.answered,
                "pending": self.pending,
                "filled": self.filled.tolist(),
            }
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        require(set(state["ignored"]) <= set(state["seen"]), "a source that is not there")
        self.seen = {name: _time(seen) for name, seen in state["seen"].items()}
        self.ignored = set(state["ignored"])
        numbers = (state.get(n) for n in ("watermark", "answered", "pending", "joined"))
        self.watermark, self.answered, self.pending, self.joined = map(_time, numbers)
        self.filled = np.array([whole(pane, -FAR) for pane in state["filled"]], np.int64)
        self.lasts = None
        if "lasts" in state:
            self.lasts = np.array([whole(window, -FAR) for window in state["lasts"]], np.int64)
            require(len(self.lasts) == len(self.filled), "panes that are not there")
        self._admit()

    def _admit(self) -> None:
        """Refuse a clock that would answer windows that ended before its watermark."""
        filled = self.filled
        require(self.watermark is not None or not len(filled), "sealed panes, but no watermark")
        require(self.pending in (None, self.answered), "a window that was not answered")
        if self.watermark is None:
            return
        upto = self.panes.last_window_ending_by(self.watermark)
        after = self.answered
        if after is None and len(filled):
            after = int(self.panes.first_window_of(filled[0])) - 1
        sealed = (np.diff(filled) > 0).all() and filled.max(initial=NEVER) < self.sealed
        require(sealed and (after is None or upto <= after), "windows of the past are due")


class Counted(NamedTuple):
    """Which group each row belongs to, and its arrival number in that group."""

    codes: Codes
    arrivals: Ints


class CountClock:
    """Arrivals, counted separately for each group. A group is never forgotten."""

    def __init__(self, panes: Panes) -> None:
        self.panes = panes
        self.counts: Ints = np.zeros(1, np.int64)

    def reserve(self, groups: int) -> None:
        """Make room for this many groups."""
        if groups > len(self.counts):
            grown = np.zeros(max(groups, 2 * len(self.counts)), np.int64)
            grown[: len(self.counts)] = self.counts
            self.counts = grown

    def number(self, codes: Codes, groups: int) -> Counted:
        """Count rows of these groups, of which there are ``groups`` in all."""
        self.reserve(groups)
        return Counted(codes, arrival_numbers(codes, self.counts))

    def copied(self) -> CountClock:
        """An independent copy of this clock."""
        found = CountClock(self.panes)
        found.counts = self.counts.copy()
        return found

    def due(self, groups: Ints, before: Ints) -> tuple[Ints, Ints]:
        """The numbers and groups of the windows completed since the counts were ``before``."""
        last = self.counts[groups] // self.panes.slide
        done = before // self.panes.slide
        lengths = last - done
        return expand(done + 1, lengths), np.repeat(groups, lengths)
