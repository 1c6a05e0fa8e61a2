"""HeavyHitters: the k items that occur most often, or weigh most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oracle.windows import Row


def heavy_hitters(rows: Iterable[Row], k: int, item: str, weight: str | None = None) -> list[Row]:
    """Count best first, then the smaller item. A true count has no error."""
    counts: dict[Any, Any] = {}
    for row in rows:
        counts[row[item]] = counts.get(row[item], 0) + (1 if weight is None else row[weight])
    smaller_first = sorted(counts)
    best = sorted(smaller_first, key=lambda key: counts[key], reverse=True)[:k]
    return [{item: key, "count": counts[key], "error": 0} for key in best]
