"""Checks of the values of a query; each raises QueryError and says what is wanted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from skyband.errors import QueryError

__all__ = ["column", "columns", "count", "number", "one_of", "preferences"]


def one_of(name: str, value: object, known: Sequence[str]) -> None:
    """Check that a value is one of the known ones."""
    if value not in known:
        raise QueryError(f"{name} must be one of {', '.join(known)}, not {value!r}")


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


def count(name: str, value: object, optional: bool = False) -> None:
    """Check that a value is a positive whole number."""
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise QueryError(f"{name} must be a whole number of at least 1, not {value!r}")
    if value >= 1 << 31:
        raise QueryError(f"{name} must be less than 2**31, not {value!r}")


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
