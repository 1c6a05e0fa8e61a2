"""The one total order of rows."""

from __future__ import annotations

from collections.abc import Iterable

from oracle.windows import Row

KEPT = "#kept"
"""The mark on a row with the hash of its kept columns; whoever makes the rows puts it there."""


def in_row_order(
    rows: Iterable[Row],
    score: str,
    *,
    later: str | None = None,
    id: str | None = None,
    probability: str | None = None,
    largest: bool = True,
) -> list[Row]:
    """Best score first, then the later row, then the smaller id, then the larger probability.

    Rows that are equal in all of that are ordered by the hash of their kept columns, if they are
    marked with it: the smaller one first. `later` is the column that says which row is later: the
    time, or the arrival number. The sorts run from the last criterion to the first, which works
    because each sort is stable.
    """
    ordered = sorted(rows, key=lambda row: row.get(KEPT, 0))
    if probability is not None:
        ordered.sort(key=lambda row: row[probability], reverse=True)
    if id is not None:
        ordered.sort(key=lambda row: row[id])
    if later is not None:
        ordered.sort(key=lambda row: row[later], reverse=True)
    ordered.sort(key=lambda row: row[score], reverse=largest)
    return ordered
