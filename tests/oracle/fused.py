"""FusedTopK: the best objects whose attributes arrive on separate streams."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from oracle.windows import Row

Combine = str | Mapping[str, float] | Sequence[float] | Callable[[list[Any]], Any]
Bounds = Sequence[Any] | Mapping[str, Sequence[Any]]


def fused(
    rows: Iterable[Row],
    k: int,
    *,
    id: str,
    stream: str,
    value: str,
    streams: Sequence[str],
    combine: Combine = "sum",
    bounds: Bounds = (0.0, 1.0),
    recurrences: int | str = 1,
    repeats: str = "sum",
    parts: bool = False,
    later: str | None = None,
) -> list[Row]:
    """The best of all objects with at least one live report: best score first, then smaller id.

    An object's value in a stream is the sum of its live reports there, or the stream's lower bound
    if it has none. More than `recurrences` reports are an error ("estimate" allows any number).
    `repeats` replaces the sum; other than for the sum, a limit of 1 is none. `later` is the column
    that says which report is the latest; of several, the one with the greatest value. `parts` adds
    the value of each stream, None where the object has no live report.
    """
    reports: dict[Any, dict[str, list[Any]]] = {}
    for row in rows:
        reports.setdefault(row[id], {name: [] for name in streams})[row[stream]].append(
            (0 if later is None or repeats != "latest" else row[later], row[value])
        )

    scores, known = {}, {}
    for key, seen in reports.items():
        for name in streams:
            free = isinstance(recurrences, str) or (repeats != "sum" and recurrences == 1)
            if not free and len(seen[name]) > int(recurrences):
                raise ValueError(f"{key!r} has {len(seen[name])} live reports in stream {name!r}")
        values = [
            together(seen[name], repeats) if seen[name] else lower_bound(bounds, streams, name)
            for name in streams
        ]
        scores[key] = combined(values, streams, combine)
        pairs = zip(streams, values, strict=True)
        known[key] = {name: value if seen[name] else None for name, value in pairs}

    smaller_first = sorted(scores)
    best = sorted(smaller_first, key=lambda key: scores[key], reverse=True)[:k]
    return [{id: key, "score": scores[key]} | (known[key] if parts else {}) for key in best]


def together(reports: list[tuple[Any, Any]], repeats: str) -> Any:
    """The value that several reports (each a time and a value) stand for."""
    values = [value for _, value in reports]
    if repeats == "latest":
        return max(reports)[1]
    if repeats == "max":
        return max(values)
    return sum(values) / (len(values) if repeats == "mean" else 1)


def lower_bound(bounds: Bounds, streams: Sequence[str], name: str) -> Any:
    """`bounds` is one pair for all streams, or a pair per stream, by name or in order."""
    if isinstance(bounds, Mapping):
        return bounds[name][0]
    if isinstance(bounds[0], Sequence):
        return bounds[streams.index(name)][0]
    return bounds[0]


def combined(values: list[Any], streams: Sequence[str], combine: Combine) -> Any:
    """Combine values, in the order of the streams, into one score: by name, weights or function."""
    named: dict[str, Callable[[list[Any]], Any]] = {
        "sum": sum,
        "mean": lambda each: sum(each) / len(each),
        "min": min,
        "max": max,
        "product": math.prod,
    }
    if isinstance(combine, str):
        return named[combine](values)
    if callable(combine):
        return combine(values)
    weights = [combine[name] for name in streams] if isinstance(combine, Mapping) else combine
    return sum(weight * v for weight, v in zip(weights, values, strict=True))
