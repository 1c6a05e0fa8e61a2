"""``explain``: how a query or a board will be answered, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband import registry
from skyband.engine.who_shares import (
    can_unite,
    cuts_of,
    families,
    finest,
    model_of,
    sharing_key,
    unions,
)
from skyband.query.base import Query
from skyband.query.board import Board, board_of
from skyband.window import CountWindow

__all__ = ["explain", "sharing_of"]


def explain(query_or_board: Query | Board) -> str:
    """How a query or a board will be answered: algorithms, panes, and which queries share work.

    >>> import skyband as sb
    >>> window = sb.TimeWindow("10 minutes", slide="1 minute")
    >>> print(sb.explain(sb.TopK(k=10, score="bytes", time="ts", window=window)))
    TopK by skyband, exact, time ts, k 10, score bytes
      window 10 minutes every 1 minute; 10 panes per window
    """
    queries = board_of(query_or_board)
    if None in queries:
        return "\n".join(_lines(queries[None]))
    count = len(queries)
    found = [f"{count} quer{'ies' if count > 1 else 'y'} over one read of the source"]
    for name, query in queries.items():
        first, *rest = _lines(query)
        found += [f"{name}: {first}", *rest]
        found.append(f"  {sharing_of(name, queries)}")
    return "\n".join(found)


def _lines(query: Query) -> list[str]:
    algorithm = registry.choose(query)
    model = model_of(query)
    hidden = ("kind", "window", "algorithm", "options")
    given = {n: v for n, v in query.spec().items() if n not in hidden and v not in (None, [], {})}
    plain = {name: value for name, value in given.items() if not _is_default(query, name)}
    words = [f"{query.kind} by {algorithm}", "exact" if model.exact else "approximate"]
    words += [f"{name} {_text(value)}" for name, value in plain.items()]
    window, panes = query.window, query.window.panes
    if isinstance(window, CountWindow):
        size = f"the last {panes.size:,} arrivals, every {panes.slide:,}"
    else:
        size = " ".join(_window(query))
    per_window = f"{panes.per_window} pane{'s' if panes.per_window > 1 else ''} per window"
    remark = model.remark(query)
    told = [f"  {remark}"] if remark else []
    return [", ".join(words), f"  window {size}; {per_window}", *told]


def _window(query: Query) -> list[str]:
    ((kind, settings),) = query.spec()["window"].items()
    if kind == "sides":
        windows = [each["time"] for each in settings.values()]
        sizes = [f"{side} {each['size']}" for side, each in zip(settings, windows, strict=True)]
        settings = windows[0] | {"size": " and ".join(sizes)}
        settings["slide"] = settings["slide"] or windows[0]["size"]
    size = settings.get("size")
    words = [] if size is None else [str(size)]
    if settings.get("slide") is not None:
        words += ["every", str(settings["slide"])]
    others = {n: v for n, v in settings.items() if n not in ("size", "slide") and v}
    return words + [f"{name} {value}" for name, value in others.items()]


def _is_default(query: Query, name: str) -> bool:
    known: Any = type(query).__dataclass_fields__[name]
    return bool(getattr(query, name) == known.default)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={each}" for name, each in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _state_of(name: Any, queries: Mapping[Any, Query], family: list[Any]) -> str:
    """With which queries of its family one keeps its state, for algorithms that can do that."""
    query = queries[name]
    state = model_of(query).state_name
    union = next((names for names in unions(queries, family) if name in names), None)
    if union is not None:
        others = ", ".join(each for each in union if each != name)
        whole = ", if weights are whole numbers" if getattr(query, "weight", None) else ""
        mixed = len({cuts_of(queries[each]) for each in union}) > 1
        cut = ", cut wherever a window of any of them begins or ends" if mixed else ""
        return f"; keeps one {state} with {others}{cut}{whole}"
    own = state.split()[-1]
    if can_unite(query):
        late = "" if isinstance(query.window, CountWindow) else "the same lateness and "
        return f"; keeps its own {own}: no other has {late}panes that fit"
    if state == "state":
        return f"; keeps its own state, as each query by {registry.choose(query)} does"
    model, counts = model_of(query), isinstance(query.window, CountWindow)
    if query.groups and not (model.unites_counts if counts else model.unites_groups):
        over = " over a count window" if counts else ""
        return f"; keeps its own {own}, as each query with groups{over} does"
    return f"; keeps its own {own}, as its window has {_odd(query)}"


def _odd(query: Query) -> str:
    return "gaps between its slides" if query.window.panes.gaps else "a single pane"


def sharing_of(name: Any, queries: Mapping[Any, Query]) -> str:
    """With which queries of a board one shares its pass over the rows, or why it does not."""
    names = next((names for names in families(queries) if name in names), None)
    if names is not None:
        others = ", ".join(each for each in names if each != name)
        base = finest([queries[each].window.panes for each in names])
        panes = (
            f"the panes of {names[base]}"
            if base is not None
            else "panes cut wherever a window of any of them begins or ends"
        )
        most = max(getattr(queries[each], "k", 0) for each in names)
        greatest = f", for k {most}" if most else ""
        told = f"shares one pass over the rows with {others}: {panes}{greatest}"
        return told + _state_of(name, queries, names)
    if sharing_key(queries[name]) is not None:
        return "reads by itself: no other query differs from it only in k and window"
    if not model_of(queries[name]).shares_summaries:
        algorithm = registry.choose(queries[name])
        return f"reads by itself: {algorithm} does not share its summaries"
    return "reads by itself: this kind of window does not share"
