"""TopK: the k best rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oracle.order import in_row_order
from oracle.windows import Row


def topk(
    rows: Iterable[Row],
    k: int,
    score: str,
    *,
    time: str | None = None,
    id: str | None = None,
    largest: bool = True,
    distinct: str | None = None,
    keep: Sequence[str] = (),
    later: str | None = None,
) -> list[Row]:
    """The first k rows in row order: id, score and time, if the query names them, and `keep`.

    `distinct` leaves one row of each id: the first in row order ("best"), or the latest ("latest"),
    of equally late rows the first in row order. `later` is the column that breaks ties: the time,
    unless the caller has numbered the arrivals.
    """
    columns = [column for column in (id, score, time, *keep) if column is not None]
    ordered = in_row_order(rows, score, later=later or time, id=id, largest=largest)
    if distinct is not None:
        assert id is not None
        ordered = one_of_each(ordered, id, distinct, later or time)
    best = ordered[:k]
    return [{column: row[column] for column in columns} for row in best]


def one_of_each(ordered: list[Row], id: str, distinct: str, later: str | None) -> list[Row]:
    """The row that counts of each id, from rows in row order and in that order."""
    places = list(range(len(ordered)))
    if distinct == "latest":
        assert later is not None
        places.sort(key=lambda place: ordered[place][later], reverse=True)
    chosen: dict[Any, int] = {}
    for place in places:
        chosen.setdefault(ordered[place][id], place)
    return [ordered[place] for place in sorted(chosen.values())]
