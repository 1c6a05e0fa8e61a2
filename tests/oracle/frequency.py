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
    aggregate: str | None = None,
    min_rows: int = 1,
    largest: bool = True,
    against: str | None = None,
    order: str = "gain",
    smoothing: float = 1,
    min_count: float = 1,
    earlier: Sequence[Row] = (),
) -> list[Row]:
    """Largest count first, then the smaller item. The counts are exact, so the error is 0.

    With `proof`, each row says that its place is proven: nothing left out has a greater count.
    `keep` are columns of the item's latest row; `later` is the column that says which is later.
    """
    columns = [item] if isinstance(item, str) else list(item)
    asked: dict[str, Any] = {"k": k, "columns": columns, "weight": weight}
    asked |= {"keep": keep, "later": later}
    if aggregate is not None:
        return aggregated(rows, aggregate=aggregate, min_rows=min_rows, largest=largest, **asked)
    if against is not None:
        growth: dict[str, Any] = {"smoothing": smoothing, "min_count": min_count}
        return growing(rows, earlier, order=order, **growth, **asked)
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


def by_item(rows: Iterable[Row], columns: Sequence[str]) -> dict[tuple[Any, ...], list[Row]]:
    """The rows of each item, the smaller item first."""
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row[column] for column in columns), []).append(row)
    return dict(sorted(found.items()))


def aggregated(
    rows: Iterable[Row],
    k: int,
    columns: Sequence[str],
    weight: str,
    keep: Sequence[str],
    later: str,
    aggregate: str,
    min_rows: int,
    largest: bool,
) -> list[Row]:
    """Items with enough rows by an aggregate of their weights, then the smaller item."""
    aggregates = {"sum": sum, "mean": lambda values: sum(values) / len(values)}
    aggregates |= {"max": max, "min": min}
    found = []
    for key, mine in by_item(rows, columns).items():
        value = aggregates[aggregate]([row[weight] for row in mine])
        known = {"value": value, "count": len(mine), "error": 0}
        if len(mine) >= min_rows:
            found.append(dict(zip(columns, key, strict=True)) | known | kept(mine, keep, later))
    return sorted(found, key=lambda row: -row["value"] if largest else row["value"])[:k]


def growing(
    rows: Iterable[Row],
    earlier: Iterable[Row],
    k: int,
    columns: Sequence[str],
    weight: str | None,
    keep: Sequence[str],
    later: str,
    order: str,
    smoothing: float,
    min_count: float,
) -> list[Row]:
    """Items by how much more they have than in the rows before, then by count, then the smaller."""

    def total(some: Sequence[Row]) -> Any:
        return sum(1 if weight is None else row[weight] for row in some)

    before = by_item(earlier, columns)
    found = []
    for key, mine in by_item(rows, columns).items():
        count, old = total(mine), total(before.get(key, ()))
        growth = {"count": count, "before": old, "gain": count - old}
        if order == "ratio":
            growth["ratio"] = (count + smoothing) / (old + smoothing)
        if count >= min_count:
            known = {**growth, "error": 0} | kept(mine, keep, later)
            found.append(dict(zip(columns, key, strict=True)) | known)
    return sorted(found, key=lambda row: (-row[order], -row["count"]))[:k]


def kept(rows: Sequence[Row], keep: Sequence[str], later: str) -> Row:
    """The columns to keep, of the latest of an item's rows."""
    latest = rows[0]
    for row in rows[1:]:
        latest = later_row(latest, row, later)
    return {column: latest[column] for column in keep}
