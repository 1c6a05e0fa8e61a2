"""Runs one query on the embedded engine and compares every answer with the oracle.

Tests of all families use ``compare``: it checks tables, changes, totals and row counts at every
push, on request with snapshots restored in between and a ``peek`` after each push. Approximate
answers must keep their guarantees instead (``promises``).
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband import registry
from support import promises, streams
from support.results import Got, Seen, check, check_counts, check_peeks, same_total
from support.sending import Sent, sent
from support.truth import truth

FUSED = {"id": "object", "stream": "stream", "value": "value", "streams": ("a", "b"), "time": "ts"}


def _own_score(values: Any) -> Any:
    """A user's monotone function: the oracle passes one object's values, the engine many."""
    first, second = np.moveaxis(np.asarray(values), -1, 0)
    return np.maximum(first, 0.5) + 2 * second


# Small queries of every kind over the columns of ``streams``; each algorithm runs all of its kind.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "TopK": [
        {"k": 2, "score": "score", "id": "id", "time": "ts"},
        {"k": 1, "score": "score", "time": "ts", "largest": False, "keep": ("volume", "kind")},
        {"k": 3, "score": "score", "id": "id", "time": "ts", "by": ("g",)},
        {"k": 20, "score": "weight", "id": "id", "time": "ts", "by": ("g", "kind")}
        | {"keep": ("item",)},
    ],
    "HeavyHitters": [
        {"k": 2, "item": "item", "time": "ts"},
        {"k": 2, "item": "item", "weight": "weight", "time": "ts", "by": ("g",)}
        | {"keep": ("price", "kind")},
    ],
    "UncertainTopK": [
        {"k": 2, "score": "score", "probability": "p", "id": "id", "time": "ts", **semantics}
        for semantics in (
            {"semantics": "pk-topk"},
            {"semantics": "pt-k", "threshold": 0.5},
            {"semantics": "u-kranks", "keep": ("volume",)},
            {"semantics": "u-topk", "by": ("g",), "keep": ("item", "kind")},
        )
    ],
    "FusedTopK": [
        FUSED | {"k": 2},
        FUSED | {"k": 1, "recurrences": 3, "combine": "min", "parts": True},
        FUSED | {"k": 3, "combine": {"b": 0.5, "a": 2.0}, "bounds": {"a": (0, 1), "b": (-1, 2)}},
        FUSED | {"k": 2, "combine": "max", "by": ("g",), "parts": True},
        FUSED | {"k": 2, "combine": "product", "recurrences": 2, "by": ("g",)},
        FUSED | {"k": 2, "combine": _own_score},
        FUSED | {"k": 2, "combine": "mean", "stream": None, "parts": True},
        FUSED | {"k": 1, "recurrences": 2, "stream": None, "by": ("g",)},
    ],
    "Skyline": [
        {"prefer": {"price": "min", "volume": "max"}, "id": "id", "time": "ts"},
        {"prefer": {"price": "max", "weight": "min", "kind": "diff"}, "time": "ts", "by": ("g",)},
    ],
    "SkylineJoin": [
        {"left": "trades", "right": "risks", "on": "stock", "time": "ts", "prefer": prefer}
        for prefer in (
            {"price": "min", "risk": "max"},
            {"price": "max", "risks_ts": "min", "trades_ts": "diff"},
            {"stock": "diff", "risk": "min"},
        )
    ],
}

# Settings that make an algorithm show its typical behaviour on few rows.
OPTIONS: dict[str, dict[str, Any]] = {
    "sla": {"kmax": 3},
    "eaa": {"kmax": 3, "slack": 0},
    "eaa-approx": {"kmax": 3, "slack": 0},
    "eaa-repeats": {"slack": 0},
    "lsj": {"share_from": 0},
}

# Settings without which an algorithm does not answer.
NEEDED: dict[str, dict[str, Any]] = {
    "skyband-distinct": {"distinct": "best", "id": "price"},
    "skyband-ties": {"ties": "all"},
    "distinct-ties": {"ties": "all", "distinct": "latest", "id": "price"},
    "latest": {"distinct": "latest", "id": "price"},
    "eaa-repeats": {"repeats": "max"},
}


def small_streams(
    kind: str, settings: Mapping[str, Any], window: Any, lateness: int = 0
) -> st.SearchStrategy[Any]:
    """Streams of few rows with the columns that a kind of query reads."""
    if kind == "SkylineJoin":
        return streams.sides(max_rows=14, lateness=lateness)
    if kind != "FusedTopK":
        return streams.streams(max_rows=14, lateness=lateness)
    return streams.report_streams(
        size=window.size,
        recurrences=settings.get("recurrences", 1),
        max_rows=20,
        lateness=lateness,
        count=isinstance(window, oracle.CountWindow),
        grouped=bool(settings.get("by")),
    )


def long_stream(kind: str, settings: Mapping[str, Any], window: Any, pattern: str) -> Sent:
    """A few hundred rows with the columns that a kind of query reads."""
    by_settings: dict[str, Any] = {}
    if kind == "FusedTopK":
        by_settings = {
            "size": window.size,
            "streams": settings["streams"],
            "recurrences": settings.get("recurrences", 1),
            "count": isinstance(window, oracle.CountWindow),
            "groups": 2 if settings.get("by") else 1,
        }
    return _long_stream(kind, pattern, **by_settings)


@functools.cache
def _long_stream(kind: str, pattern: str, **by_settings: Any) -> Sent:
    seed = streams.PATTERNS.index(pattern)
    if kind == "SkylineJoin":
        return streams.two_sides(seed, 90, lateness=5, batches=9)
    if kind != "FusedTopK":
        return streams.stream(7, 250, pattern=pattern, lateness=5, step=2, gap=40, batches=9)
    objects = 6 + 10 * seed
    return streams.reports(seed, 250, objects=objects, lateness=5, batches=9, **by_settings)


def fits(settings: Mapping[str, Any], window: Any) -> bool:
    """Whether a query may have this window: no count windows over several sources."""
    several = settings.get("stream", "") is None or "left" in settings
    return not (several and isinstance(window, oracle.CountWindow))


def query_of(kind: str, window: Any, settings: Mapping[str, Any], table: pa.Table) -> sb.Query:
    """The engine's query for the oracle's window; windows over timestamps become durations."""
    build = getattr(sb, kind)
    query: sb.Query = build(window=window_of(window, table), **settings)
    return query


def window_of(window: Any, table: pa.Table) -> Any:
    """The engine's window for the oracle's."""
    if isinstance(window, oracle.CountWindow):
        return sb.CountWindow(window.size, window.slide)
    if isinstance(window, oracle.SideWindows):
        rest = (window.slide, window.lateness, window.offset, window.revise)
        sides = {name: oracle.TimeWindow(size, *rest) for name, size in window.sizes}
        return {name: window_of(each, table) for name, each in sides.items()}
    given = {each.name: getattr(window, each.name) for each in fields(window)}
    since = given.pop("since", None)
    if pa.types.is_timestamp(table.schema.field("ts").type):
        given = {n: v if v is None else f"{v} us" for n, v in given.items()}
        if since is not None:
            since = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=since)
    if since is not None:
        given["since"] = since
    return getattr(sb, type(window).__name__)(**given)


def run(
    query: sb.Query,
    batches: Sequence[Any],
    restarts: bool = False,
    lasts: Sequence[int | None] = (),
) -> Got:
    """Every answer of a Monitor over these pushes and the flush.

    With ``lasts``, also a peek after each of them.
    """
    monitor = sb.Monitor(query)
    got = Got()
    # A user's function is not part of a snapshot.
    combine = getattr(query, "combine", None)
    own = {"combine": combine} if callable(combine) else {}
    for number in range(len(batches) + 1):
        if restarts:
            monitor = sb.Monitor.restore(monitor.snapshot(), **own)
        answers = monitor.push(batches[number]) if number < len(batches) else monitor.flush()
        _read(got, answers)
        monitor._check()
        if lasts:
            if restarts:
                monitor = sb.Monitor.restore(monitor.snapshot(), **own)
            got.peeks.append(_peek(monitor, lasts[number]))
            monitor._check()
    got.stats = dict(monitor.stats())
    return got


def _read(got: Got, answers: Sequence[sb.Answer]) -> None:
    got.answers += [_seen(answer) for answer in answers]


def _seen(answer: sb.Answer) -> Seen:
    edges = pa.array([answer.start, answer.end])
    if pa.types.is_timestamp(edges.type):
        edges = edges.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
    start, end = edges.to_pylist()
    tables = streams.rows_of(answer.table), streams.rows_of(answer.changes)
    return Seen(start, end, *tables, answer.total, answer.exact, answer.bounds, answer.revision)


def _peek(monitor: sb.Monitor, last: int | None) -> Seen | None:
    window: Any = monitor.query.window
    ticks: Any = f"{last} us" if last and not getattr(window, "integer", True) else last
    try:
        return _seen(monitor.peek(last=ticks))
    except sb.EngineError as problem:
        if "there is no answer yet" not in str(problem):
            raise
        return None


def lasts_of(query: sb.Query, pushes: int) -> list[int | None]:
    """What to peek at after each push: alternately the whole window and a shorter one."""
    size = query.window.panes.size
    if not query.window.panes.sized:
        return [None] * (pushes + 1)
    if not registry.load(query.kind, registry.choose(query)).shortens:
        return [None] * (pushes + 1)
    return [None if number % 2 else 1 + 5 * number % size for number in range(pushes + 1)]


def compare(
    kind: str,
    window: Any,
    settings: Mapping[str, Any],
    stream: Sent,
    restarts: bool = False,
    peeks: bool = False,
) -> None:
    """Assert that the engine's answers equal the oracle's, or keep their guarantees.

    With ``peeks``, also compare a peek after each push.
    """
    tables, rows, table = sent(stream, settings)
    query = query_of(kind, window, settings, table)
    model = registry.load(kind, registry.choose(query))
    if peeks and not model.peeks:
        refuses_to_peek(query, tables)
        peeks = False
    lasts = lasts_of(query, len(tables)) if peeks else []
    got = run(query, tables, restarts, lasts)
    want = truth(kind, window, rows, settings, lasts)
    if model.exact and not (window_is_unsized(window) and "capacity" in settings):
        check(kind, got, want.run)
        check_peeks(kind, got.peeks, want.peeks)
        return
    wide = truth(kind, window, rows, {**settings, "k": 10**6}, lasts)
    check_counts(got, want.run)
    _promised(kind, query, got.answers, want.run.answers, wide.run.answers)
    _promised(kind, query, got.peeks, want.peeks, wide.peeks)


def window_is_unsized(window: Any) -> bool:
    return isinstance(window, (oracle.DecayWindow, oracle.LandmarkWindow))


def refuses_to_peek(query: sb.Query, batches: Sequence[Any]) -> None:
    """Assert that an algorithm that keeps too little for a peek says so and names one that can."""
    monitor = sb.Monitor(query)
    for batch in batches:
        monitor.push(batch)
        with pytest.raises(sb.EngineError, match="algorithm='skyband'"):
            monitor.peek()


def _promised(
    kind: str,
    query: sb.Query,
    answers: Sequence[Seen | None],
    wanted: Sequence[oracle.Answer | None],
    wide: Sequence[oracle.Answer | None],
) -> None:
    for got, want, every in zip(answers, wanted, wide, strict=True):
        assert (got is None) == (want is None)
        if got is None or want is None or every is None:
            continue
        assert (got.start, got.end, got.revision) == (want.start, want.end, want.revision)
        assert same_total(got.total, want.total)
        promises.check(kind, query, got, want.table, every.table)
