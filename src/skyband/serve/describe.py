"""What ``GET /api/board`` tells about a service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skyband.query import Query
from skyband.serve.page import Page
from skyband.serve.status import ROWS

__all__ = ["describe"]


def describe(service: Page, sources: Mapping[str, str], title: str, engine: str) -> dict[str, Any]:
    """The queries, the engine and the sources."""
    board = service.board
    return {
        "name": title,
        "engine": engine,
        "on_bad": board.on_bad,
        "history": service.history.most,
        "queries": [_query(service, name, query) for name, query in board.queries.items()],
        "sources": [
            {
                "name": name or ROWS,
                "kind": kind,
                "columns": {each.name: str(each.type) for each in board.schemas[name]},
            }
            for name, kind in sources.items()
        ],
    }


def _query(service: Page, name: str, query: Query) -> dict[str, Any]:
    spec = query.spec()
    schema = service.board.columns(name)
    ((kind, window),) = spec["window"].items()
    return {
        "name": name,
        "kind": query.kind,
        "spec": spec,
        "columns": list(schema.names),
        "types": {each.name: str(each.type) for each in schema},
        "window": {"kind": kind} | window,
        "by": list(query.groups),
        "key": [column for column in query.key if column not in query.groups],
        "value": _value(query, schema.names),
        "ranked": query.ranked,
    }


def _value(query: Query, names: list[str]) -> str | None:
    """The column by which the answer is ranked: what a bar shows."""
    semantics = getattr(query, "semantics", None)
    wanted: tuple[Any, ...] = ("decayed", getattr(query, "score", None), "count", "score")
    if semantics in ("pk-topk", "pt-k", "u-kranks"):
        wanted = ("topk_probability",)
    return next((name for name in wanted if name in names), None)
