"""Skyline and SkylineJoin: the rows, or joined pairs of rows, that no other dominates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oracle.windows import Row


def dominates(a: Row, b: Row, prefer: Mapping[str, str]) -> bool:
    """Is a at least as good in every column, better in one, and equal in the "diff" columns?"""
    if any(a[column] != b[column] for column, wish in prefer.items() if wish == "diff"):
        return False
    better = {
        column: a[column] < b[column] if wish == "min" else a[column] > b[column]
        for column, wish in prefer.items()
        if wish != "diff"
    }
    no_worse = all(better[column] or a[column] == b[column] for column in better)
    return no_worse and any(better.values())


def skyline(rows: Iterable[Row], prefer: Mapping[str, str]) -> list[Row]:
    """Every row that no row dominates, sorted by their columns, left to right, ascending."""
    rows = list(rows)
    best = [row for row in rows if not any(dominates(other, row, prefer) for other in rows)]
    return sorted(best, key=lambda row: [nulls_last(value) for value in row.values()])


def nulls_last(value: Any) -> tuple[bool, bool, Any]:
    """A sort key for the values of one column: values first, then NaN, then nulls."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return (value is None, is_nan, 0 if value is None or is_nan else value)


def join(
    left_rows: Iterable[Row],
    right_rows: Iterable[Row],
    on: str | Sequence[str],
    left: str,
    right: str,
) -> list[Row]:
    """Every pair that agrees in `on`: those columns, then the other columns of left and of right.

    A column that both sides have is named side_column on both, e.g. trades_ts and risks_ts.
    """
    right_rows = list(right_rows)
    keys = [on] if isinstance(on, str) else list(on)
    pairs = []
    for a in left_rows:
        for b in right_rows:
            if any(a[key] != b[key] for key in keys):
                continue
            pair = {key: a[key] for key in keys}
            for side, row, other in ((left, a, b), (right, b, a)):
                for column, value in row.items():
                    if column not in keys:
                        pair[f"{side}_{column}" if column in other else column] = value
            pairs.append(pair)
    return pairs


def skyline_join(
    left_rows: Iterable[Row],
    right_rows: Iterable[Row],
    *,
    on: str | Sequence[str],
    prefer: Mapping[str, str],
    left: str,
    right: str,
) -> list[Row]:
    """The skyline of the join; `prefer` names the joined columns."""
    return skyline(join(left_rows, right_rows, on, left, right), prefer)
