"""HeavyHitters: the k items that occur most often, or weigh most."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from oracle.windows import Row


def heavy_hitters(
    rows: Iterable[Row], k: int, item: str | Sequence[str], weight: str | None = None
) -> list[Row]:
    """Largest count first, then the smaller item. The counts are exact, so the error is 0."""
    columns = [item] if isinstance(item, str) else list(item)
    counts: dict[tuple[Any, ...], Any] = {}
    for row in rows:
        key = tuple(row[column] for column in columns)
        counts[key] = counts.get(key, 0) + (1 if weight is None else row[weight])
    smaller_first = sorted(counts)
    best = sorted(smaller_first, key=lambda key: counts[key], reverse=True)[:k]
    return [
        dict(zip(columns, key, strict=True)) | {"count": counts[key], "error": 0} for key in best
    ]
