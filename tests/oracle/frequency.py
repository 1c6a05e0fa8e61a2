"""HeavyHitters: the k items that occur most often, or weigh most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oracle.order import KEPT
from oracle.windows import Row


def heavy_hitters(
    rows: Iterable[Row],
    k: int,
    item: str | Sequence[str],
    weight: str | None = None,
    keep: Sequence[str] = (),
    later: str | None = None,
    proof: bool = False,
) -> list[Row]:
    """Largest count first, then the smaller item. The counts are exact, so the error is 0.

    With `proof`, each row says that its place is proven: nothing left out has a greater count.
    `keep` are columns of the item's latest row; `later` is the column that says which is later.
    """
    columns = [item] if isinstance(item, str) else list(item)
    counts: dict[tuple[Any, ...], Any] = {}
    latest: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = tuple(row[column] for column in columns)
        if later is not None:
            latest[key] = later_row(latest.get(key, row), row, later)
        counts[key] = counts.get(key, 0) + (1 if weight is None else row[weight])
    smaller_first = sorted(counts)
    best = sorted(smaller_first, key=lambda key: counts[key], reverse=True)[:k]
    return [
        dict(zip(columns, key, strict=True))
        | {"count": counts[key], "error": 0}
        | ({"proven": True} if proof else {})
        | {column: latest[key][column] for column in keep}
        for key in best
    ]


def later_row(one: Row, other: Row, later: str) -> Row:
    """The later row; of rows of the same time, the one whose kept columns have the smaller hash."""
    return min(other, one, key=lambda row: (-row[later], row.get(KEPT, 0)))
