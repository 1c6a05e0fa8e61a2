"""TopK: the k best rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
    keep: Sequence[str] = (),
    later: str | None = None,
) -> list[Row]:
    """The first k rows in row order: id, score and time, if the query names them, and `keep`.

    `later` is the column that breaks ties: the time, unless the caller has numbered the arrivals.
    """
    columns = [column for column in (id, score, time, *keep) if column is not None]
    best = in_row_order(rows, score, later=later or time, id=id, largest=largest)[:k]
    return [{column: row[column] for column in columns} for row in best]
