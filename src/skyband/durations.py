"""Durations, written as in Spark: ``"10 minutes"``, ``"90 s"``, ``"250 ms"``."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Any

import numpy as np

from skyband.errors import QueryError

__all__ = ["Duration", "duration_text", "parse_duration"]

Duration = str | timedelta | np.timedelta64 | int

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
