"""Which queries of a board are readers of one fold.

They differ only in k and in the size of their windows. So their panes are the same, and a row is
late for all of them or for none; what the longest window and the greatest k need is enough for all:

    panes           ├───┼───┼───┼───┼───┼───┤
    reader a        ├───────────────────────┤  the best 100
    reader b                        ├───────┤  the best 10
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from skyband import registry
from skyband.query.base import Query
from skyband.window import CountWindow, TimeWindow

__all__ = ["fold_key", "folds_of", "model_of", "widest"]

Name = TypeVar("Name")


def model_of(query: Query) -> Any:
    """The class of the algorithm that answers a query."""
    return registry.load(query.kind, registry.choose(query))


def fold_key(query: Query) -> str | None:
    """Queries with the same key are readers of one fold; None if a query reads alone.

    The algorithm must declare ``many_readers``. Windows with gaps leave out rows by their size.
    """
    window = query.window
    if not isinstance(window, TimeWindow | CountWindow) or query.sources:
        return None
    panes, model = window.panes, model_of(query)
    if panes.gaps or not model.many_readers or (query.groups and not model.many_groups):
        return None
    alike = {name: value for name, value in query.spec().items() if name not in ("k", "window")}
    alike["algorithm"] = registry.choose(query)
    alike["panes"] = [type(window).__name__, window.integer, panes.slide, panes.rest, panes.offset]
    alike["lateness"] = window.lateness_ticks
    return json.dumps(alike, sort_keys=True)


def folds_of(queries: Mapping[Name, Query]) -> list[list[Name]]:
    """The names of the queries of each fold, in the order of the board."""
    folds: dict[object, list[Name]] = {}
    for name, query in queries.items():
        key = fold_key(query)
        folds.setdefault((name,) if key is None else key, []).append(name)
    return list(folds.values())


def widest(queries: Sequence[Query]) -> Query:
    """A query with the greatest k and the longest window of the readers of a fold."""
    first, *others = queries
    if not others:
        return first
    settings: dict[str, Any] = {"algorithm": registry.choose(first)}
    if hasattr(first, "k"):
        settings["k"] = max(query.k for query in queries)  # type: ignore[attr-defined]
    settings["window"] = max((q.window for q in queries), key=lambda window: window.panes.size)
    return replace(first, **settings)
