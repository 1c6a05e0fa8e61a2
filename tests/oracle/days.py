"""Windows of whole days in a time zone: they end when the clocks there show midnight.

With an `offset`, when they show so much after midnight. If clocks skip that time, the first instant
after it counts; if they show it twice, the first of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from oracle.windows import Row

EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True)
class DayWindow:
    """Sizes and slides are numbers of days."""

    size: int
    slide: int
    zone: str
    offset: timedelta = timedelta()
    lateness: timedelta = timedelta()

    def edge(self, day: int) -> datetime:
        """Where day number `day` since 1970-01-01 begins."""
        return first_instant(self.zone, EPOCH + self.offset + timedelta(days=day))


class LiveDays(NamedTuple):
    """A window that is answered, and the rows in it."""

    start: datetime
    end: datetime
    rows: list[Row]


@cache
def first_instant(zone: str, clock: datetime) -> datetime:
    """The first instant at which clocks in the zone show `clock`, or a later time."""
    at = clock.replace(tzinfo=UTC) - timedelta(days=1)  # no zone is further from UTC
    for step in (timedelta(minutes=1), timedelta(seconds=1)):
        while at.astimezone(ZoneInfo(zone)).replace(tzinfo=None) < clock:
            at += step
        at -= step
    return at + timedelta(seconds=1)


def days_around(times: Sequence[datetime], window: DayWindow) -> range:
    """Days that contain all of these times, their windows, and one window more on each side."""
    margin = window.size + 2 * window.slide + 2
    low, high = ((at.replace(tzinfo=None) - EPOCH).days for at in (min(times), max(times)))
    return range(low - margin, high + margin)


def day_windows(rows: Sequence[Row], time: str, window: DayWindow) -> list[LiveDays]:
    """Every window answered by the end of a finite input; as `time_windows`."""
    if not rows:
        return []
    windows, days = [], days_around([row[time] for row in rows], window)
    for end in (day for day in days if day % window.slide == 0):
        edges = window.edge(end - window.size), window.edge(end)
        inside = [row for row in rows if edges[0] <= row[time] < edges[1]]
        windows.append(LiveDays(*edges, inside))
    last = min(each.end for each in windows if each.end > max(row[time] for row in rows))
    return [
        each
        for before, each in pairwise(windows)
        if each.end <= last and (each.rows or before.rows)
    ]


def cuts(days: range, window: DayWindow) -> list[datetime]:
    """Where panes begin: the ends of windows and, if size mod slide is not 0, their starts."""
    starts = {-window.size % window.slide, 0}
    return sorted(window.edge(day) for day in days if day % window.slide in starts)


def lateness_of(batches: Sequence[Sequence[Row]], time: str, window: DayWindow) -> list[list[bool]]:
    """Which rows of each push are late: the watermark before it had reached the end of their pane.

    Only for windows without gaps.
    """
    edges = cuts(days_around([row[time] for batch in batches for row in batch], window), window)
    greatest: datetime | None = None
    late = []
    for batch in batches:
        watermark = None if greatest is None else greatest - window.lateness
        ends = [min(edge for edge in edges if edge > row[time]) for row in batch]
        late.append([watermark is not None and end <= watermark for end in ends])
        greatest = max([row[time] for row in batch] + ([greatest] if greatest else []))
    return late
