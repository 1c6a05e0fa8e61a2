"""Windows: what part of a stream a query looks at, and when it is answered.

Times become integers here (``ticks``): microseconds since the epoch, or the values of an integer
time column. A window's panes (``panes.py``) do the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, ClassVar

import numpy as np

from skyband.durations import Duration, duration_text, parse_duration
from skyband.errors import QueryError
from skyband.panes import ArrivalPanes, DecayPanes, LandmarkPanes, Panes, SidePanes

__all__ = [
    "CountWindow", "DecayWindow", "Duration", "EventWindow", "LandmarkWindow", "Panes",
    "SideWindows", "TimeWindow", "Window", "duration_text", "parse_duration",
]  # fmt: skip

_DAY = 86_400_000_000
_GREATEST = 1 << 60
_TICKS = (-(1 << 63), (1 << 63) - 1)
# Years 1 to 9999, the range of Python's datetime, less one day at each end for time zones.
_CALENDAR = (-62_135_596_800_000_000 + _DAY, 253_402_300_799_999_999 - _DAY)


def _fits(name: str, ticks: int) -> None:
    if ticks > _GREATEST:
        raise QueryError(f"{name} must be at most 2**60, not {ticks}")


def _is_integer(value: object) -> bool:
    # To numpy, a duration is an integer too.
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.timedelta64))


def _ticks(given: Mapping[str, Any], free: Mapping[str, Any]) -> tuple[dict[str, int], bool]:
    """The parts of a window as ticks, and whether they are integers instead of durations.

    Zero means the same with or without a unit, so the parts in ``free`` may be zero in either form.
    """
    parts = {name: value for name, value in given.items() if value is not None}
    parts |= {n: v for n, v in free.items() if not (_is_integer(v) and v == 0)}
    integers = [_is_integer(value) for value in parts.values()]
    if any(integers) and not all(integers):
        raise QueryError(
            "a window must be given in all durations or all integers (for an integer time "
            f"column); got {parts}"
        )
    found = {n: int(v) if integers[0] else parse_duration(v, n) for n, v in parts.items()}
    found = dict.fromkeys(free, 0) | found
    for name in given:
        if name in found and found[name] <= 0:
            raise QueryError(f"{name} must be positive, not {given[name]!r}")
    if found["lateness"] < 0:
        raise QueryError(f"lateness must be zero or positive, not {free['lateness']!r}")
    for name in (*given, "lateness"):
        _fits(name, found.get(name, 0))
    return found, integers[0]


class EventWindow:
    """What all windows over event time share."""

    panes: Panes
    lateness_ticks: int
    integer: bool

    def _set(self, panes: Panes, lateness: int, integer: bool) -> None:
        object.__setattr__(self, "panes", panes)
        object.__setattr__(self, "lateness_ticks", lateness)
        object.__setattr__(self, "integer", integer)

    @property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest time of a row; its windows' edges must be valid times too."""
        margin = self.panes.size + 2 * self.panes.slide + self.lateness_ticks
        low, high = _TICKS if self.integer else _CALENDAR
        return low + margin, high - margin

    def ticks(self, value: Duration, what: str) -> int:
        """Convert a duration to this window's ticks (microseconds, or plain integers)."""
        if self.integer:
            if not _is_integer(value):
                raise QueryError(f"{what} must be an integer like the window's size, not {value!r}")
            return int(value)  # type: ignore[arg-type]
        return parse_duration(value, what)


@dataclass(frozen=True)
class TimeWindow(EventWindow):
    """Windows ``[end - size, end)`` whose ends are the multiples of ``slide`` since the epoch.

    ``slide`` defaults to ``size`` (tumbling windows). Rows may come up to ``lateness`` behind the
    greatest time seen. Durations are strings, timedeltas (of Python, numpy or pandas) or, over an
    integer time column, integers.

    >>> TimeWindow("10 minutes", slide="1 minute", lateness="30 seconds").panes.per_window
    10
    """

    size: Duration
    slide: Duration | None = None
    lateness: Duration = 0
    offset: Duration = 0
    panes: Panes = field(init=False, repr=False, compare=False)
    lateness_ticks: int = field(init=False, repr=False, compare=False)
    integer: bool = field(init=False, repr=False, compare=False)

    sort: ClassVar[str] = "sized"

    def __post_init__(self) -> None:
        if self.size is None:
            raise QueryError("a TimeWindow needs a size, for example '10 minutes'")
        given = {"size": self.size, "slide": self.slide}
        ticks, integer = _ticks(given, {"lateness": self.lateness, "offset": self.offset})
        slide = ticks.get("slide", ticks["size"])
        self._set(Panes(ticks["size"], slide, ticks["offset"] % slide), ticks["lateness"], integer)


class SideWindows(EventWindow, Mapping[str, TimeWindow]):
    """One TimeWindow per source: windows of different sizes that end together.

    At an end ``e``, a source with a window of size ``s`` has its rows of ``[e - s, e)``. An answer
    starts where the longest window does.

    >>> SideWindows({"trades": TimeWindow(10, slide=5), "risks": TimeWindow(20, slide=5)}).sizes
    {'trades': 10, 'risks': 20}
    """

    sort: ClassVar[str] = "sized"

    def __init__(self, sides: Mapping[str, TimeWindow]) -> None:
        self.sides = dict(sides)
        for name, window in self.sides.items():
            if not isinstance(window, TimeWindow):
                raise QueryError(f"the window of {name!r} must be a TimeWindow, not {window!r}")
        (first, one), *others = self.sides.items()
        for name, other in others:
            if other.integer != one.integer:
                raise QueryError(
                    f"the windows of {first!r} and {name!r} must both be given in durations or "
                    "both in integers"
                )
            for part, mine, theirs in (
                ("slide", one.panes.slide, other.panes.slide),
                ("offset", one.panes.offset, other.panes.offset),
                ("lateness", one.lateness_ticks, other.lateness_ticks),
            ):
                if mine != theirs:
                    raise QueryError(
                        f"the windows of {first!r} and {name!r} have different {part}; only their "
                        f"sizes may differ, because they end together: give both the same {part}="
                    )
        panes = one.panes
        sizes = tuple(self.sizes.items())
        cut = SidePanes(max(self.sizes.values()), panes.slide, panes.offset, sizes)
        self._set(cut, one.lateness_ticks, one.integer)

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each source's window, in ticks."""
        return {name: window.panes.size for name, window in self.sides.items()}

    def __getitem__(self, source: str) -> TimeWindow:
        return self.sides[source]

    def __iter__(self) -> Iterator[str]:
        return iter(self.sides)

    def __len__(self) -> int:
        return len(self.sides)

    def __repr__(self) -> str:
        return repr(self.sides)


@dataclass(frozen=True)
class DecayWindow(EventWindow):
    """All rows so far, each weighing half as much after every ``half_life``.

    At an end ``e``, a row of time ``t < e`` weighs ``2 ** (-(e - t) / half_life)``. Ends are the
    multiples of ``slide``; an end is answered if there are rows in ``[e - slide, e)``. For TopK and
    HeavyHitters.

    >>> DecayWindow("30 minutes", slide="1 minute").panes.half_life
    1800000000
    """

    half_life: Duration
    slide: Duration
    lateness: Duration = 0
    offset: Duration = 0
    panes: DecayPanes = field(init=False, repr=False, compare=False)
    lateness_ticks: int = field(init=False, repr=False, compare=False)
    integer: bool = field(init=False, repr=False, compare=False)

    sort: ClassVar[str] = "decay"

    def __post_init__(self) -> None:
        for name in ("half_life", "slide"):
            if getattr(self, name) is None:
                raise QueryError(f"a DecayWindow needs a {name}, for example '30 minutes'")
        given = {"half_life": self.half_life, "slide": self.slide}
        ticks, integer = _ticks(given, {"lateness": self.lateness, "offset": self.offset})
        slide = ticks["slide"]
        panes = DecayPanes(slide, slide, ticks["offset"] % slide, ticks["half_life"])
        self._set(panes, ticks["lateness"], integer)


@dataclass(frozen=True)
class LandmarkWindow(EventWindow):
    """All rows since a moment, or since the first row; answered every ``slide``.

    ``since`` is a datetime, an ISO 8601 text or, over an integer time column, an integer; a moment
    without a zone counts as UTC. Rows before it are not used. For TopK, HeavyHitters, UncertainTopK
    and Skyline.

    >>> LandmarkWindow(slide="1 minute", since="2026-01-01").panes.since
    1767225600000000
    """

    slide: Duration
    since: datetime | date | str | int | None = None
    lateness: Duration = 0
    offset: Duration = 0
    panes: LandmarkPanes = field(init=False, repr=False, compare=False)
    lateness_ticks: int = field(init=False, repr=False, compare=False)
    integer: bool = field(init=False, repr=False, compare=False)

    sort: ClassVar[str] = "landmark"

    def __post_init__(self) -> None:
        if self.slide is None:
            raise QueryError("a LandmarkWindow needs a slide, for example '1 minute'")
        free = {"lateness": self.lateness, "offset": self.offset}
        ticks, integer = _ticks({"slide": self.slide}, free)
        slide = ticks["slide"]
        landmark = None if self.since is None else self._moment(integer)
        panes = LandmarkPanes(slide, slide, ticks["offset"] % slide, landmark)
        self._set(panes, ticks["lateness"], integer)

    def _moment(self, integer: bool) -> int:
        """The landmark as ticks; ``since`` becomes an integer, or a datetime in UTC."""
        since = self.since
        if integer or _is_integer(since):
            if not integer or not _is_integer(since):
                raise QueryError(
                    "since must be a moment such as '2026-01-01 12:00' or a datetime, or an "
                    f"integer if slide is one (for an integer time column); got {since!r}"
                )
            object.__setattr__(self, "since", int(since))  # type: ignore[arg-type]
            return int(since)  # type: ignore[arg-type]
        if isinstance(since, str):
            try:
                since = datetime.fromisoformat(since.strip())
            except ValueError:
                raise QueryError(
                    f"since {since!r} was not understood; write it as '2026-01-01 12:00' or "
                    "'2026-01-01T12:00:00+01:00'"
                ) from None
        if isinstance(since, date) and not isinstance(since, datetime):
            since = datetime.combine(since, time())
        if not isinstance(since, datetime):
            raise QueryError(f"since must be a datetime or a text like '2026-01-01', not {since!r}")
        since = since.replace(tzinfo=UTC) if since.tzinfo is None else since.astimezone(UTC)
        object.__setattr__(self, "since", since)
        return (since - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@dataclass(frozen=True)
class CountWindow:
    """The last ``size`` arrivals, read after every ``slide`` arrivals.

    >>> CountWindow(100_000, slide=1_000).panes.per_window
    100
    """

    size: int
    slide: int | None = None
    panes: Panes = field(init=False, repr=False, compare=False)

    sort: ClassVar[str] = "sized"
    lateness_ticks: ClassVar[int] = 0
    integer: ClassVar[bool] = True

    def __post_init__(self) -> None:
        slide = self.size if self.slide is None else self.slide
        for name, value in (("size", self.size), ("slide", slide)):
            if not _is_integer(value):
                raise QueryError(
                    f"{name} of a CountWindow must be a number of rows, not {value!r}; "
                    "use TimeWindow for durations"
                )
            if value <= 0:
                raise QueryError(f"{name} must be positive, not {value!r}")
            _fits(name, value)
        object.__setattr__(self, "panes", ArrivalPanes(int(self.size), int(slide)))

    def ticks(self, value: Duration, what: str) -> int:
        """Check a number of arrivals, which is this window's unit."""
        if not _is_integer(value):
            raise QueryError(f"{what} of a CountWindow must be a number of rows, not {value!r}")
        return int(value)  # type: ignore[arg-type]


Window = TimeWindow | CountWindow | DecayWindow | LandmarkWindow | SideWindows
