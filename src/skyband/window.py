"""Windows: what part of a stream a query looks at, and when it is answered.

Times become integers here (``ticks``): microseconds since the epoch, or the values of an integer
time column. A window's panes (``panes.py``) do the arithmetic.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import InitVar, dataclass, field, fields, replace
from datetime import UTC, date, datetime, time, timedelta
from fractions import Fraction
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import numpy as np

from skyband.errors import QueryError
from skyband.local_days import DAY, LocalDays
from skyband.panes import ArrivalPanes, ComparedPanes, DecayPanes, LandmarkPanes, Panes, SidePanes

# Durations, written as in Spark: ``"10 minutes"``, ``"90 s"``, ``"250 ms"`` ----------------------


Duration = str | timedelta | np.timedelta64 | int

_UNITS = {
    1: ("us", "µs", "μs", "microsecond", "microseconds"),
    1_000: ("ms", "millisecond", "milliseconds"),
    1_000_000: ("s", "sec", "secs", "second", "seconds"),
    60_000_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000_000: ("h", "hr", "hrs", "hour", "hours"),
    DAY: ("d", "day", "days"),
    7 * DAY: ("w", "week", "weeks"),
}
_MICROSECONDS = {name: size for size, names in _UNITS.items() for name in names}
_VARYING = {"month", "months", "mon", "quarter", "quarters", "year", "years", "y", "yr", "yrs"}
_TOO_FINE = {"ns", "nanosecond", "nanoseconds"}
_TERM = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([a-zµμ]+)\s*,?")


def parse_duration(value: Duration, what: str = "duration") -> int:
    """Convert a duration, written as in Spark, to microseconds.

    >>> parse_duration("1 minute 30 seconds"), parse_duration("250 ms")
    (90000000, 250000)
    """
    if isinstance(value, (timedelta, np.timedelta64)):
        return _microseconds(value, what)
    if not isinstance(value, str):
        raise QueryError(
            f"{what} must be a string such as '10 minutes' or a timedelta, not {value!r}"
        )
    text = value.strip().lower()
    if text.startswith("interval"):
        text = text[len("interval") :].strip()
    text = text.replace("'", "")
    total, at = Fraction(0), 0
    if not text:
        raise QueryError(f"{what} is empty; write it as '10 minutes' or '90 s'")
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None:
            raise QueryError(
                f"{what} {value!r} was not understood; write it as '10 minutes', '90 s', "
                "'1 hour 30 minutes' or '250 ms'"
            )
        number, unit = term.groups()
        if unit in _VARYING:
            raise QueryError(
                f"{what} {value!r}: months and years vary in length; give days, for example "
                "'30 days'"
            )
        if unit in _TOO_FINE:
            raise QueryError(
                f"{what} {value!r}: nanoseconds are too short for a window; use microseconds "
                "(us) or a longer unit"
            )
        if unit not in _MICROSECONDS:
            raise QueryError(
                f"{what} {value!r}: unknown unit {unit!r}; use weeks, days, hours, minutes, "
                "seconds, milliseconds or microseconds"
            )
        total += Fraction(number) * _MICROSECONDS[unit]
        at = term.end()
    if total.denominator != 1:
        raise QueryError(
            f"{what} {value!r} is not a whole number of microseconds; round it to microseconds"
        )
    return int(total)


def _microseconds(value: Any, what: str) -> int:
    """A duration of Python, numpy or pandas; the last two may be finer than a microsecond."""
    one: Any = timedelta(microseconds=1)
    rest: Any = getattr(value, "nanoseconds", 0)  # of pandas
    if isinstance(value, np.timedelta64):
        unit, one = np.datetime_data(value)[0], np.timedelta64(1, "us")
        if unit in ("Y", "M", "generic") or np.isnat(value):
            raise QueryError(
                f"{what} {value!r} has no fixed length; give weeks, days, hours, minutes, seconds "
                "or less, for example np.timedelta64(30, 'D')"
            )
        rest = (value % one) / one
    if rest:
        raise QueryError(
            f"{what} {value!r} is not a whole number of microseconds; round it to microseconds"
        )
    return int(value // one)


def duration_text(microseconds: int) -> str:
    """A duration as a person would write it, rounded up by a tenth at most.

    >>> duration_text(5_399_999_759), duration_text(61_000_000), duration_text(1)
    ('90 minutes', '61 seconds', '1 us')
    """
    for size in sorted(_UNITS, reverse=True)[1:]:  # without weeks
        count = -(-microseconds // size)
        if 10 * (count * size - microseconds) <= microseconds:
            long = _UNITS[size][0] if size < 1_000_000 else _UNITS[size][-1]
            return f"{count} {long.removesuffix('s') if count == 1 and len(long) > 2 else long}"
    return f"{microseconds} us"


_GREATEST = 1 << 60
_TICKS = (-(1 << 63), (1 << 63) - 1)
# Years 1 to 9999, the range of Python's datetime, less one day at each end for time zones.
_CALENDAR = (-62_135_596_800_000_000 + DAY, 253_402_300_799_999_999 - DAY)


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
            "the parts of a window must be all durations or all integers (for an integer time "
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


def _settings_of(window: Any) -> list[str]:
    return [each.name for each in fields(window) if each.init]


_ALL_LATER = "rows never leave it, so a late row would correct every later answer"


def _refuse_revise(window: object, revise: Duration | None, why: str) -> None:
    if revise is not None:
        raise QueryError(
            f"a {type(window).__name__} takes no revise=, because {why}; use a TimeWindow, or "
            "leave out revise="
        )


class EventWindow:
    """What all windows over event time share."""

    panes: Panes
    lateness_ticks: int
    revise_ticks: int | None = None
    """How far behind the watermark a late row may be to correct answers; None if none does."""
    integer: bool
    zone: str | None = None
    """The zone in which days begin, if that matters."""

    def _set(self, panes: Panes, ticks: Mapping[str, int], integer: bool) -> None:
        object.__setattr__(self, "panes", panes)
        object.__setattr__(self, "lateness_ticks", ticks["lateness"])
        object.__setattr__(self, "revise_ticks", ticks.get("revise"))
        object.__setattr__(self, "integer", integer)

    def __dir__(self) -> list[str]:
        """What is of use to people; the rest is for engines."""
        return _settings_of(self)

    @property
    def reach(self) -> tuple[int, int]:
        """The least and the greatest time of a row; its windows' edges must be valid times too."""
        margin = self.panes.size + 2 * self.panes.slide + self.lateness_ticks
        margin += self.revise_ticks or 0
        low, high = _TICKS if self.integer else _CALENDAR
        return low + margin, high - margin

    def words(self, settings: Mapping[str, Any]) -> list[str]:
        """This window in words; ``settings`` are those of ``Query.spec``."""
        size = settings.get("size")
        words = [] if size is None else [str(size)]
        if settings.get("slide") is not None:
            words += ["every", str(settings["slide"])]
        others = {n: v for n, v in settings.items() if n not in ("size", "slide") and v}
        return words + [f"{name} {value}" for name, value in others.items()]

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

    Args:
        size: Length of a window, such as ``"10 minutes"``.
        slide: Time from one window to the next; by default ``size``.
        lateness: How far a row may be behind the greatest time seen.
        offset: How far all windows are shifted.
        zone: Time zone, such as ``"America/New_York"``, whose midnights end windows of whole days.
        revise: How much later than ``lateness`` a row may be and still correct answers.

    Durations are strings, timedeltas (of Python, numpy or pandas) or, over an integer time column,
    integers. A row that is late by at most ``revise`` corrects the windows that it belongs to: each
    is answered again as a whole, with the next ``Answer.revision``. With a ``zone``, a window may
    have a day of 23 or 25 hours, ``offset`` is read on local clocks, and answers show local times.

    >>> TimeWindow("10 minutes", slide="1 minute", lateness="30 seconds").panes.per_window
    10
    """

    size: Duration
    slide: Duration | None = None
    lateness: Duration = 0
    offset: Duration = 0
    zone: str | None = None
    revise: Duration | None = None

    sort: ClassVar[str] = "sized"

    def __post_init__(self) -> None:
        if self.size is None:
            raise QueryError("a TimeWindow needs a size, for example '10 minutes'")
        given = {"size": self.size, "slide": self.slide, "revise": self.revise}
        ticks, integer = _ticks(given, {"lateness": self.lateness, "offset": self.offset})
        slide = ticks.get("slide", ticks["size"])
        offset = ticks["offset"] % slide
        days = None if self.zone is None else self._days(ticks, integer, offset % DAY)
        self._set(Panes(ticks["size"], slide, offset, days=days), ticks, integer)

    def _days(self, ticks: Mapping[str, int], integer: bool, clock: int) -> LocalDays:
        """The days of the zone."""
        if integer:
            raise QueryError("zone needs a size in days, and integers have no days; leave out zone")
        for name in ("size", "slide"):
            if ticks.get(name, DAY) % DAY:
                raise QueryError(
                    f"{name} {getattr(self, name)!r} is not a whole number of days, but windows "
                    "with a zone end at local midnight; give days or weeks, or leave out zone"
                )
        try:
            ZoneInfo(self.zone)  # type: ignore[arg-type]
        except (KeyError, ValueError, OSError, TypeError):
            raise QueryError(
                f"zone {self.zone!r} is not a known time zone; give a name such as "
                "'America/New_York' or 'Europe/Berlin'"
            ) from None
        return LocalDays(self.zone, clock)  # type: ignore[arg-type]

    def compared(self) -> TimeWindow:
        """An equal window, whose panes serve for a comparison with the window before it, too."""
        window, panes = replace(self), self.panes
        compared = ComparedPanes(panes.size, panes.slide, panes.offset, days=panes.days)
        object.__setattr__(window, "panes", compared)
        return window


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
                ("zone", one.zone, other.zone),
                ("lateness", one.lateness_ticks, other.lateness_ticks),
                ("revise", one.revise_ticks, other.revise_ticks),
            ):
                if mine != theirs:
                    raise QueryError(
                        f"the windows of {first!r} and {name!r} have different {part}; only their "
                        f"sizes may differ, because they end together; give both the same {part}="
                    )
        panes = one.panes
        sizes = tuple(self.sizes.items())
        longest = max(self.sizes.values())
        cut = SidePanes(longest, panes.slide, panes.offset, sizes, days=panes.days)
        self.zone, self.revise = one.zone, one.revise
        ticks = {"lateness": one.lateness_ticks}
        if one.revise_ticks is not None:
            ticks["revise"] = one.revise_ticks
        self._set(cut, ticks, one.integer)

    def words(self, settings: Mapping[str, Any]) -> list[str]:
        windows = [each["time"] for each in settings.values()]
        sizes = [f"{side} {each['size']}" for side, each in zip(settings, windows, strict=True)]
        one = windows[0] | {"size": " and ".join(sizes)}
        return super().words(one | {"slide": one["slide"] or windows[0]["size"]})

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
    """All rows so far; the weight of each halves with every ``half_life``.

    Args:
        half_life: Time in which a weight halves, such as ``"30 minutes"``.
        slide: Time from one answer to the next.
        lateness: How far a row may be behind the greatest time seen.
        offset: How far all ends are shifted.

    At an end ``e``, a row of time ``t < e`` weighs ``2 ** (-(e - t) / half_life)``. Ends are the
    multiples of ``slide``; an end is answered if there are rows in ``[e - slide, e)``. For TopK
    and HeavyHitters.

    >>> DecayWindow("30 minutes", slide="1 minute").panes.half_life
    1800000000
    """

    half_life: Duration
    slide: Duration
    lateness: Duration = 0
    offset: Duration = 0
    revise: InitVar[Duration | None] = None
    panes: DecayPanes = field(init=False, repr=False, compare=False)

    sort: ClassVar[str] = "decay"

    def __post_init__(self, revise: Duration | None) -> None:
        _refuse_revise(self, revise, _ALL_LATER)
        for name in ("half_life", "slide"):
            if getattr(self, name) is None:
                raise QueryError(f"a DecayWindow needs a {name}, for example '30 minutes'")
        given = {"half_life": self.half_life, "slide": self.slide}
        ticks, integer = _ticks(given, {"lateness": self.lateness, "offset": self.offset})
        slide = ticks["slide"]
        panes = DecayPanes(slide, slide, ticks["offset"] % slide, ticks["half_life"])
        self._set(panes, ticks, integer)


@dataclass(frozen=True)
class LandmarkWindow(EventWindow):
    """All rows since a given time, or since the first row; answered every ``slide``.

    Args:
        slide: Time from one answer to the next, such as ``"1 minute"``.
        since: A datetime, an ISO 8601 string or an integer; by default the first row decides.
        lateness: How far a row may be behind the greatest time seen.
        offset: How far all ends are shifted.

    A ``since`` without a zone is in UTC. Rows before it are left out. For TopK, HeavyHitters,
    UncertainTopK and Skyline.

    >>> LandmarkWindow(slide="1 minute", since="2026-01-01").panes.since
    1767225600000000
    """

    slide: Duration
    since: datetime | date | str | int | None = None
    lateness: Duration = 0
    offset: Duration = 0
    revise: InitVar[Duration | None] = None
    panes: LandmarkPanes = field(init=False, repr=False, compare=False)

    sort: ClassVar[str] = "landmark"

    def __post_init__(self, revise: Duration | None) -> None:
        _refuse_revise(self, revise, _ALL_LATER)
        if self.slide is None:
            raise QueryError("a LandmarkWindow needs a slide, for example '1 minute'")
        free = {"lateness": self.lateness, "offset": self.offset}
        ticks, integer = _ticks({"slide": self.slide}, free)
        slide = ticks["slide"]
        landmark = None if self.since is None else self._moment(integer)
        panes = LandmarkPanes(slide, slide, ticks["offset"] % slide, landmark)
        self._set(panes, ticks, integer)

    def words(self, settings: Mapping[str, Any]) -> list[str]:
        """As ``EventWindow.words``."""
        return super().words({"since": "the first row"} | {n: v for n, v in settings.items() if v})

    def _moment(self, integer: bool) -> int:
        """The landmark as ticks; ``since`` becomes an integer, or a datetime in UTC."""
        since = self.since
        if integer or _is_integer(since):
            if not integer or not _is_integer(since):
                raise QueryError(
                    "since must be a time such as '2026-01-01 12:00' or a datetime, or an integer "
                    f"if slide is an integer (for an integer time column); got {since!r}"
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
            raise QueryError(f"since must be a datetime or text like '2026-01-01', not {since!r}")
        since = since.replace(tzinfo=UTC) if since.tzinfo is None else since.astimezone(UTC)
        object.__setattr__(self, "since", since)
        return (since - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


@dataclass(frozen=True)
class CountWindow:
    """The last ``size`` arrivals, answered after every ``slide`` arrivals.

    Args:
        size: Length of the window in rows.
        slide: Rows from one answer to the next; by default ``size``.

    >>> CountWindow(100_000, slide=1_000).panes.per_window
    100
    """

    size: int
    slide: int | None = None
    revise: InitVar[Duration | None] = None
    panes: Panes = field(init=False, repr=False, compare=False)

    sort: ClassVar[str] = "sized"
    lateness_ticks: ClassVar[int] = 0
    revise_ticks: ClassVar[None] = None
    integer: ClassVar[bool] = True
    reach: ClassVar[None] = None
    """Times of rows do not matter."""

    def __post_init__(self, revise: Duration | None) -> None:
        _refuse_revise(self, revise, "arrivals are never late")
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

    def __dir__(self) -> list[str]:
        """What is of use to people; the rest is for engines."""
        return _settings_of(self)

    def words(self, settings: Mapping[str, Any]) -> list[str]:
        """As ``EventWindow.words``."""
        return [f"the last {self.panes.size:,} arrivals, every {self.panes.slide:,}"]

    def ticks(self, value: Duration, what: str) -> int:
        """Check a number of arrivals, which is this window's unit."""
        if not _is_integer(value):
            raise QueryError(f"{what} of a CountWindow must be a number of rows, not {value!r}")
        return int(value)  # type: ignore[arg-type]


Window = TimeWindow | CountWindow | DecayWindow | LandmarkWindow | SideWindows
