"""Which queries of a board share work: functions that ``explain`` shows to people.

``sharing.py`` says what is shared and how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from skyband import registry
from skyband.query.base import Query
from skyband.window import CountWindow, Panes, TimeWindow

__all__ = [
    "alike",
    "by_cuts",
    "can_unite",
    "cuts_of",
    "families",
    "finest",
    "model_of",
    "sharing_key",
    "takes_feed",
    "unions",
]

_FEW_PANES = 256


def sharing_key(query: Query) -> str | None:
    """Queries with the same key share their summaries; None if a query shares with no other.

    They have the same kind, algorithm and settings, except for k and the window. Only algorithms
    that declare ``shares_summaries`` take part, and only over time windows of the same unit, or
    over count windows: these all count the same arrivals, with groups those of each group.
    """
    window = query.window
    if type(window) not in (TimeWindow, CountWindow) or query.sources:
        return None
    if not model_of(query).shares_summaries:
        return None
    algorithm = registry.choose(query)
    settings = {n: value for n, value in query.spec().items() if n not in ("k", "window")}
    unit = "arrivals"
    if isinstance(window, TimeWindow):
        unit = "integers" if window.integer else "times"
    alike = settings | {"algorithm": algorithm, "unit": unit}
    return json.dumps(alike, sort_keys=True)


def families(queries: Mapping[Any, Query]) -> list[list[Any]]:
    """The names of queries that share, for each group of at least two; in the board's order."""
    found: dict[str, list[Any]] = {}
    for name, query in queries.items():
        key = sharing_key(query)
        if key is not None:
            found.setdefault(key, []).append(name)
    return [names for names in found.values() if len(names) > 1]


def unions(queries: Mapping[Any, Query], family: Sequence[Any]) -> list[list[Any]]:
    """The names of a family's queries that keep one state, for each group of at least two.

    They have the same lateness. Their panes are the same, too, unless the algorithm takes panes
    that are cut wherever a window of any of them begins or ends, and these are not far too many.
    """
    found: dict[Any, list[Any]] = {}
    for name in family:
        query = queries[name]
        if _recuts(query):
            found.setdefault(_lateness(query), []).append(name)
    mixed = [names for names in found.values() if fewcuts_of([queries[each] for each in names])]
    others = [name for name in family if not any(name in names for names in mixed)]
    able = [name for name in others if can_unite(queries[name])]
    together = [names for names in mixed if len(names) > 1] + by_cuts(queries, able)
    return sorted(together, key=lambda names: list(family).index(names[0]))


def alike(queries: Mapping[Any, Query], family: Sequence[Any]) -> list[list[Any]]:
    """The names of queries that keep one state and take the same panes, by two or more."""
    return by_cuts(queries, [name for name in family if _unites(queries[name])])


def by_cuts(queries: Mapping[Any, Query], names: Sequence[Any]) -> list[list[Any]]:
    """The names of queries with the same panes and lateness, by two or more."""
    found: dict[Any, list[Any]] = {}
    for name in names:
        found.setdefault((cuts_of(queries[name]), _lateness(queries[name])), []).append(name)
    return [each for each in found.values() if len(each) > 1]


def can_unite(query: Query) -> bool:
    """Whether a query can keep one state with others."""
    return _unites(query) or _recuts(query)


def _unites(query: Query) -> bool:
    return _counts_as_one(query) and bool(model_of(query).unites(query))


def _recuts(query: Query) -> bool:
    return _counts_as_one(query) and bool(model_of(query).recuts(query))


def _counts_as_one(query: Query) -> bool:
    """Whether groups do not count their own arrivals, or a common state can hold such groups."""
    counted = bool(query.groups) and isinstance(query.window, CountWindow)
    return not counted or bool(model_of(query).unites_counts)


def takes_feed(queries: Sequence[Query]) -> bool:
    """Whether queries that keep one state take its panes from a feed, and not from each other.

    They do if their panes differ, or if their own summaries hold less than the common state needs.
    """
    return len({cuts_of(each) for each in queries}) > 1 or not all(
        _unites(each) for each in queries
    )


def model_of(query: Query) -> Any:
    """The class of the algorithm that answers a query."""
    return registry.load(query.kind, registry.choose(query))


def fewcuts_of(queries: Sequence[Query]) -> bool:
    """Whether the cuts of all these windows leave the longest one with few panes.

    Each pane has an entry per item, so a long window that is cut very often costs more than it
    saves: 256 panes are always allowed, and four times as many as the window has alone.
    """
    longest = max((query.window.panes for query in queries), key=lambda panes: int(panes.size))
    each = {cuts_of(query): query.window.panes for query in queries}
    many = sum(-(-longest.size // panes.slide) * panes.per_slide for panes in each.values())
    return bool(many <= max(_FEW_PANES, 4 * longest.per_window))


def cuts_of(query: Query) -> tuple[int, int, int]:
    """What decides where the panes of a query are cut."""
    panes = query.window.panes
    return panes.slide, panes.rest, panes.offset


def _lateness(query: Query) -> int:
    return int(getattr(query.window, "lateness_ticks", 0))


def finest(panes: Sequence[Panes]) -> int | None:
    """The position of the panes that have all cuts of all others, if one has evenly spaced ones."""
    for i, fine in enumerate(panes):
        step = fine.slide
        if not fine.rest and all(
            not (each.slide % step or each.rest % step or (each.offset - fine.offset) % step)
            for each in panes
        ):
            return i
    return None
