"""``explain``: how a query or a board will be answered, as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband import registry
from skyband.contract.capabilities import ReaderFold
from skyband.engine.fold import fold_key, folds_of, model_of
from skyband.query.base import Query
from skyband.query.board import Board, board_of


class Explanation(str):
    """Lines of text, which a notebook and the prompt show as lines."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def explain(query_or_board: Query | Board) -> Explanation:
    """Say how a query or a board will be answered: algorithms, panes, which queries share work.

    >>> import skyband as sb
    >>> window = sb.TimeWindow("10 minutes", slide="1 minute")
    >>> sb.explain(sb.TopK(k=10, score="bytes", time="ts", window=window))
    TopK by skyband, exact, time ts, k 10, score bytes
      window 10 minutes every 1 minute; 10 panes per window
    """
    queries = board_of(query_or_board)
    if None in queries:
        return Explanation("\n".join(_lines(queries[None])))
    count = len(queries)
    found = [f"{count} quer{'ies' if count > 1 else 'y'} over one read of the source"]
    for name, query in queries.items():
        first, *rest = _lines(query)
        found += [f"{name}: {first}", *rest]
        found.append(f"  {sharing_of(name, queries)}")
    return Explanation("\n".join(found))


def _lines(query: Query) -> list[str]:
    algorithm = registry.choose(query)
    model = model_of(query)
    hidden = ("kind", "window", "algorithm", "options")
    given = {n: v for n, v in query.spec().items() if n not in hidden and v not in (None, [], {})}
    plain = {name: value for name, value in given.items() if not _is_default(query, name)}
    words = [f"{query.kind} by {algorithm}", "exact" if model.exact else "approximate"]
    words += [f"{name} {_text(value)}" for name, value in plain.items()]
    window, panes = query.window, query.window.panes
    ((_, settings),) = query.spec()["window"].items()
    size = " ".join(window.words(settings))
    per_window = f"{panes.per_window} pane{'s' if panes.per_window > 1 else ''} per window"
    remark = model.remark(query) if hasattr(model, "remark") else ""
    remarks = [f"  {remark}"] if remark else []
    return [", ".join(words), f"  window {size}; {per_window}", *remarks]


def _is_default(query: Query, name: str) -> bool:
    known: Any = type(query).__dataclass_fields__[name]
    return bool(getattr(query, name) == known.default)


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={each}" for name, each in value.items())
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def sharing_of(name: Any, queries: Mapping[Any, Query]) -> str:
    """With which queries of a board one shares its state, or why it does not."""
    names = next(names for names in folds_of(queries) if name in names)
    if len(names) > 1:
        others = ", ".join(each for each in names if each != name)
        return f"shares one state with {others}; they differ only in k and window size"
    if fold_key(queries[name]) is not None:
        return "keeps its own state: no other query differs from it only in k and window size"
    if not issubclass(model_of(queries[name]), ReaderFold):
        return f"keeps its own state, as every query by {registry.choose(queries[name])} does"
    return "keeps its own state: this kind of window does not share"
