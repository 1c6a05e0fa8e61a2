"""Checks of the values of a query; each raises QueryError and says what is wanted."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, time
from typing import Any, Literal, TypeAlias

import numpy as np

from skyband.errors import QueryError, did_you_mean
from skyband.query.expressions import parse_condition

ColumnNames: TypeAlias = str | Sequence[str]
"""The names of one column or of several."""
OnBad: TypeAlias = Literal["raise", "skip"]
"""What bad rows do: raise DataError, or be left out and counted."""
Ties: TypeAlias = Literal["rank", "share", "all"]
_FORM = {"column", "format", "unit"}
TIES = ("rank", "share", "all")
"""How equal values are ranked: every row has a rank of its own, or they share one; with "all", the
answer also has the rows that tie with the k-th."""
ISO = "iso"
"""The ``time_format`` of ISO 8601."""


def one_of(name: str, value: object, known: Sequence[str]) -> None:
    """Check that a value is one of the known ones."""
    if value not in known:
        meant = did_you_mean(value, known)
        raise QueryError(f"{name} must be one of {', '.join(known)}, not {value!r}{meant}")


def flag(name: str, value: object) -> None:
    """Check that a value is True or False."""
    if not isinstance(value, bool):
        raise QueryError(f"{name} must be True or False, not {value!r}")


def column(name: str, value: object, optional: bool = False) -> None:
    """Check that a value is a column name."""
    if value is None and optional:
        return
    if not isinstance(value, str) or not value:
        raise QueryError(f"{name} must be the name of a column, not {value!r}")


def columns(name: str, value: Any, empty: bool = False) -> tuple[str, ...]:
    """Check one or several column names; return them as a tuple."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Iterable):
        raise QueryError(f"{name} must be column names, not {value!r}")
    result = tuple(names)
    for each in result:
        column(name, each)
    if not result and not empty:
        raise QueryError(f"{name} must name at least one column")
    if len(set(result)) != len(result):
        raise QueryError(f"{name} names a column twice: {result}")
    return result


def conditions(value: Any) -> dict[str, tuple[Any, ...]] | str:
    """Check ``where``: a text, or a value or several per column, which are returned as a tuple."""
    if value is None:
        return {}
    if isinstance(value, str):
        try:
            parse_condition(value)
        except QueryError as problem:
            raise QueryError(f"where is not a condition: {problem}") from None
        return value.strip()
    if not isinstance(value, Mapping):
        raise QueryError(
            "where must be a string such as \"bytes > 1000 and service = 'web'\", or map columns "
            f"to a value or a list of values; got {value!r}"
        )
    found: dict[str, tuple[Any, ...]] = {}
    for name, wanted in value.items():
        column("where", name)
        several = isinstance(wanted, list | tuple | set | frozenset)
        values = sorted(wanted, key=repr) if isinstance(wanted, set | frozenset) else wanted
        found[name] = tuple(_plain_value(name, each) for each in (values if several else [wanted]))
        if not found[name]:
            raise QueryError(f"where[{name!r}] has no values, so no row would count; give one")
    return found


def _plain_value(name: str, value: Any) -> Any:
    """A value of ``where`` that a snapshot can hold; times become text."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, date | time):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise QueryError(f"where[{name!r}] must hold text, numbers, booleans or times, not {value!r}")


def count(name: str, value: object, optional: bool = False) -> int | None:
    """Check that a value is a positive whole number; return it as a plain int."""
    if value is None and optional:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise QueryError(f"{name} must be a whole number of at least 1, not {value!r}")
    if value >= 1 << 31:
        raise QueryError(f"{name} must be less than 2**31, not {value!r}")
    return int(value)


def counts(query: object, *names: str, optional: bool = False) -> None:
    """Check settings of a query by ``count``, and make them plain."""
    for name in names:
        object.__setattr__(query, name, count(name, getattr(query, name), optional))


def delimiter(name: str, value: object) -> str:
    """Check that a value is one character that may stand between the fields of CSV."""
    if not isinstance(value, str) or len(value.encode()) != 1 or value in '"\r\n':
        raise QueryError(f"{name} must be one character, such as ';', not {value!r}")
    return value


def number(name: str, value: object, low: float, high: float, open_low: bool = False) -> None:
    """Check that a value is a finite number within bounds."""
    fits = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or not (low <= value <= high) or (open_low and value == low):  # type: ignore[operator]
        left = "(" if open_low else "["
        raise QueryError(f"{name} must be a number in {left}{low}, {high}], not {value!r}")


def preferences(value: Any) -> dict[str, str]:
    """Check a skyline's preferences: 'min', 'max' or 'diff' for each column."""
    if not isinstance(value, Mapping) or not value:
        raise QueryError(f"prefer must map columns to 'min', 'max' or 'diff'; got {value!r}")
    for name, wish in value.items():
        column("prefer", name)
        if wish not in ("min", "max", "diff"):
            raise QueryError(f"prefer[{name!r}] must be 'min', 'max' or 'diff', not {wish!r}")
    if all(wish == "diff" for wish in value.values()):
        raise QueryError("prefer needs at least one column with 'min' or 'max'")
    return dict(value)


def time_form(given: Any, written: Any, unit: Any) -> tuple[Any, str | None, str | None]:
    """Check how times are written: the column, its format and its unit.

    ``{"column": "t", "unit": "s"}`` stands for all three.
    """
    if isinstance(given, Mapping) and "column" in given and not set(given) - _FORM:
        written, unit = given.get("format", written), given.get("unit", unit)
        given = given["column"]
    if written is not None and unit is not None:
        raise QueryError("time_format is for text and time_unit for numbers; give one of them")
    if written is not None and written != ISO:
        if not isinstance(written, str) or "%" not in written:
            raise QueryError(
                f"time_format must be 'iso' or be written like '%d.%m.%Y %H:%M', not {written!r}"
            )
        if re.search(r"(?<![.,])%f", written):
            raise QueryError(f"time_format takes %f only after a point or a comma, not {written!r}")
    if unit is not None:
        one_of("time_unit", unit, ("s", "ms", "us", "ns"))
    return given, written, unit
