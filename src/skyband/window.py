"""Windows, and the panes that they are made of.

    TimeWindow("10 s", slide="4 s")          size mod slide = 2 s, so two panes per slide

    window ends      4         8        12        16
    panes       ├ 0 ┼ 1 ┼ 2 ┼ 3 ┼ 4 ┼ 5 ┼ 6 ┼ 7 ┤
                0   2   4   6   8   10  12  14  16
    the window that ends at 16 is [6, 16): panes 3 to 7

Panes are numbered with consecutive integers. A row belongs to exactly one pane, and a window is a
whole number of panes. Code outside this module works with pane numbers, not with times.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.arrays import Ints
from skyband.errors import QueryError

__all__ = [
    "CountWindow", "Duration", "Panes", "TimeWindow", "Window", "duration_text", "parse_duration",
]  # fmt: skip

Duration = str | timedelta | int

_DAY = 86_400_000_000
_UNITS = {
    1: ("us", "µs", "μs", "microsecond", "microseconds"),
    1_000: ("ms", "millisecond", "milliseconds"),
    1_000_000: ("s", "sec", "secs", "second", "seconds"),
    60_000_000: ("m", "min", "mins", "minute", "minutes"),
    3_600_000_000: ("h", "hr", "hrs", "hour", "hours"),
    86_400_000_000: ("d", "day", "days"),
    7 * 86_400_000_000: ("w", "week", "weeks"),
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
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
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
                f"{what} {value!r}: months and years differ in length, so they cannot size a "
                "window; give days, for example '30 days'"
            )
        if unit in _TOO_FINE:
            raise QueryError(
                f"{what} {value!r}: nanoseconds are too fine for a window; use microseconds (us) "
                "or a longer unit"
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
_CALENDAR = (-62_135_596_800_000_000 + _DAY, 253_402_300_799_999_999 - _DAY)


def _fits(name: str, ticks: int) -> None:
    if ticks > _GREATEST:
        raise QueryError(f"{name} must be at most 2**60, not {ticks}")


def _is_integer(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


@dataclass(frozen=True, slots=True)
class Panes:
    """Pane arithmetic on plain integers, the same for times and for arrival counts.

    Window number j ends at ``offset + j * slide``. Panes are numbered as in the drawing at the top
    of this module.
    """

    size: int
    slide: int
    offset: int = 0

    @property
    def rest(self) -> int:
        """``size mod slide``; if it is not 0, every slide is cut a second time."""
        return self.size % self.slide

    @property
    def per_slide(self) -> int:
        return 2 if self.rest else 1

    @property
    def gaps(self) -> bool:
        """Whether there are panes that no window covers."""
        return self.slide > self.size

    @property
    def per_window(self) -> int:
        """The number of panes that a window covers."""
        whole = self.size // self.slide
        return whole * self.per_slide + (1 if self.rest else 0)

    def pane_of(self, position: Any) -> Any:
        """Pane numbers of integer positions (an array or one number)."""
        shifted = position - self.offset if self.offset else position
        slides = shifted // self.slide
        if not self.rest:
            return slides
        second = (shifted - slides * self.slide) >= self.slide - self.rest
        return 2 * slides + second

    def pane_start(self, pane: Any) -> Any:
        """First position of a pane (an array or one number)."""
        if not self.rest:
            return self.offset + pane * self.slide
        slides, second = pane // 2, pane % 2
        return self.offset + slides * self.slide + second * (self.slide - self.rest)

    def pane_end(self, pane: Any) -> Any:
        """First position after a pane."""
        return self.pane_start(pane + 1)

    def used(self, pane: Ints) -> npt.NDArray[np.bool_]:
        """Whether some window covers each pane."""
        if not self.gaps:
            return np.ones(len(pane), np.bool_)
        return np.asarray(pane % 2 == 1)

    def end_of(self, window: Any) -> Any:
        """The position at which window number ``window`` ends."""
        return self.offset + window * self.slide

    def first_pane(self, window: Any) -> Any:
        """The first pane of a window."""
        return self.end_pane(window) - self.per_window

    def end_pane(self, window: Any) -> Any:
        """The pane after the last pane of a window."""
        return window * self.per_slide

    def last_window_ending_by(self, position: int) -> int:
        """The greatest window number whose end is at or before ``position``."""
        return int((position - self.offset) // self.slide)

    def first_window_of(self, pane: Any) -> Any:
        """The first window that covers the pane; for a pane in a gap, the first that ends later."""
        return pane // self.per_slide + 1

    def last_window_of(self, pane: Any) -> Any:
        """The last window that covers the pane."""
        return (pane + self.per_window) // self.per_slide


@dataclass(frozen=True)
class TimeWindow:
    """Windows ``[end - size, end)`` whose ends are the multiples of ``slide`` since the epoch.

    ``slide`` defaults to ``size`` (tumbling windows). Rows may come up to ``lateness`` behind the
    greatest time seen. Durations are strings, timedeltas or, over an integer time column, integers.

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

    def __post_init__(self) -> None:
        if self.size is None:
            raise QueryError("a TimeWindow needs a size, for example '10 minutes'")
        given = {"size": self.size, "slide": self.slide}
        extras = {"lateness": self.lateness, "offset": self.offset}
        given = {name: value for name, value in given.items() if value is not None}
        # Zero means the same with or without a unit, so it may be mixed with either form.
        given |= {n: v for n, v in extras.items() if not (_is_integer(v) and v == 0)}
        integers = [_is_integer(value) for value in given.values()]
        if any(integers) and not all(integers):
            raise QueryError(
                "a window must be given in all durations or all integers (for an integer time "
                f"column); got {given}"
            )
        integer = integers[0]

        def ticks(name: str) -> int:
            value: Any = given.get(name, 0)
            return int(value) if _is_integer(value) else parse_duration(value, name)

        size = ticks("size")
        slide = ticks("slide") if "slide" in given else size
        lateness, offset = ticks("lateness"), ticks("offset")
        if size <= 0:
            raise QueryError(f"size must be positive, not {self.size!r}")
        if slide <= 0:
            raise QueryError(f"slide must be positive, not {self.slide!r}")
        if lateness < 0:
            raise QueryError(f"lateness must be zero or positive, not {self.lateness!r}")
        for name, value in (("size", size), ("slide", slide), ("lateness", lateness)):
            _fits(name, value)
        object.__setattr__(self, "panes", Panes(size, slide, offset % slide))
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
class CountWindow:
    """The last ``size`` arrivals, read after every ``slide`` arrivals.

    >>> CountWindow(100_000, slide=1_000).panes.per_window
    100
    """

    size: int
    slide: int | None = None
    panes: Panes = field(init=False, repr=False, compare=False)

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
        object.__setattr__(self, "panes", Panes(int(self.size), int(slide)))

    def ticks(self, value: Duration, what: str) -> int:
        """Check a number of arrivals, which is this window's unit."""
        if not _is_integer(value):
            raise QueryError(f"{what} of a CountWindow must be a number of rows, not {value!r}")
        return int(value)  # type: ignore[arg-type]


Window = TimeWindow | CountWindow
