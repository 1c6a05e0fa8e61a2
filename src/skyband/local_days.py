"""Days of people: cuts at one time of the clock in a zone, as instants and back.

    America/New_York, at midnight; on March 8 the clocks go ahead

    on the wall   7th 00:00         8th 00:00         9th 00:00
    instant       7th 05:00 UTC     8th 05:00 UTC     9th 04:00 UTC
                       ├──── 24 hours ────┼──── 23 hours ────┤

A cut is named by what the clock on the wall shows, in ticks. Names are whole days apart, so the
arithmetic of panes is done on them; ``wall`` and ``instant`` lead there and back.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

DAY = 86_400_000_000
_EPOCH = datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
_TICK = timedelta(microseconds=1)
_FIRST, _LAST = -719_160, 2_932_894
"""Days since the epoch that Python's datetime can show in every zone; further ones are as these."""
_MOST = 1 << 14


@dataclass(frozen=True, slots=True)
class LocalDays:
    """Days of a zone that begin when its clocks show ``clock``, in ticks after midnight.

    If the clocks skip this time, the day begins at the first instant after it; if they show it
    twice, at the first of the two. A date that a zone skipped is a day without any time.
    """

    zone: str
    clock: int

    def wall(self, position: Any) -> Any:
        """The last cut at or before an instant (an array or one number)."""
        day = (position - self.clock) // DAY  # zones are less than a day apart from UTC
        day = day - 1 + (self._cuts(day) <= position) + (self._cuts(day + 1) <= position)
        return day * DAY + self.clock

    def instant(self, wall: Any) -> Any:
        """The instant of a cut (an array or one number)."""
        return self._cuts((wall - self.clock) // DAY)

    def _cuts(self, day: Any) -> Any:
        if np.ndim(day) == 0:
            return _cut(self.zone, self.clock, int(day))
        if not len(day):
            return day
        low, high = int(day.min()), int(day.max())
        if high - low < _MOST:
            days, place = np.arange(low, high + 1), day - low
        else:
            days, place = np.unique(day, return_inverse=True)
        return np.array([_cut(self.zone, self.clock, int(each)) for each in days])[place]


@lru_cache(2 * _MOST)
def _cut(zone: str, clock: int, day: int) -> int:
    """The first instant at which the clocks of a zone show this time of a day, or a later one."""
    place, near = ZoneInfo(zone), min(max(day, _FIRST), _LAST)
    wall = _EPOCH + timedelta(days=near, microseconds=clock)
    early, late = (
        wall - (wall.replace(tzinfo=place, fold=fold).utcoffset() or timedelta()) for fold in (1, 0)
    )

    def passed(second: int) -> bool:
        instant = (early + timedelta(seconds=second)).replace(tzinfo=UTC)
        return instant.astimezone(place).replace(tzinfo=None) >= wall

    if early < late:  # the clocks skip it: they changed at some instant between the two
        seconds = range(int((late - early).total_seconds()))
        late = early + timedelta(seconds=bisect_left(seconds, True, key=passed))
    return (late - _EPOCH) // _TICK + (day - near) * DAY
