"""Runs one query on the embedded engine and compares every answer with the oracle.

Tests of all families use ``compare``: it checks tables, changes, totals and row counts at every
push, on request with snapshots restored in between and a ``peek`` after each push. Approximate
answers must keep their guarantees instead (``promises``).
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband import registry
from skyband.data.keys import hash_kept
from support import promises, streams
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
        FUSED | {"k": 1, "recurrences": 3, "combine": "min", "bounds": (0.0, 1.0)},
        FUSED | {"k": 3, "combine": {"b": 0.5, "a": 2.0}, "bounds": {"a": (0, 1), "b": (-1, 2)}},
        FUSED | {"k": 2, "combine": "max", "by": ("g",)},
        FUSED | {"k": 2, "combine": "product", "recurrences": 2, "by": ("g",)},
        FUSED | {"k": 2, "combine": _own_score},
        FUSED | {"k": 2, "combine": "mean", "stream": None},
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
    "latest": {"distinct": "latest", "id": "price"},
    "eaa-repeats": {"repeats": "max"},
}

Sent = streams.Stream | Mapping[str, streams.Stream]
"""One stream, or one per source."""


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


class Seen(NamedTuple):
    """An answer in the oracle's terms."""

    start: int | None
    end: int
    table: list[oracle.Row]
    changes: list[oracle.Row]
    total: Any
    exact: bool
    bounds: dict[str, Any]


@dataclass
class Got:
    """The results of an engine, in the oracle's terms."""

    answers: list[Seen] = field(default_factory=list)
    peeks: list[Seen | None] = field(default_factory=list)
    """After each push and the flush; None if there was nothing to see yet."""
    stats: dict[str, Any] = field(default_factory=dict)


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
        rest = (window.slide, window.lateness, window.offset)
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
    return Seen(start, end, *tables, answer.total, answer.exact, answer.bounds)


def _peek(monitor: sb.Monitor, last: int | None) -> Seen | None:
    window: Any = monitor.query.window
    ticks: Any = f"{last} us" if last and not getattr(window, "integer", True) else last
    try:
        return _seen(monitor.peek(last=ticks))
    except sb.EngineError as problem:
        if "nothing to see" not in str(problem):
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


def check_peeks(
    kind: str, peeks: Sequence[Seen | None], looks: Sequence[oracle.Answer | None]
) -> None:
    """Assert that each peek equals the oracle's and says that it is exact."""
    for number, (got, want) in enumerate(zip(peeks, looks, strict=True)):
        assert (got is None) == (want is None)
        if got is None or want is None:
            continue
        told = f"peek {number}, [{want.start}, {want.end})"
        assert (got.start, got.end) == (want.start, want.end), told
        assert same_total(got.total, want.total), told
        for mine, theirs in ((got.table, want.table), (got.changes, want.changes)):
            problem = oracle.difference(mine, theirs, oracle.SUMS[kind])
            assert problem is None, f"{told}: {problem}"
        if any(row.get("error") for row in want.table):
            assert not got.exact  # an item came back after it had been forgotten
        else:
            forgetful = kind == "HeavyHitters" and got.start is None  # an item that is not shown
            assert got.exact or forgetful


def same_total(got: Any, want: Any) -> bool:
    """Whether totals are equal; decayed ones up to the last digits."""
    return bool(got == want or (isinstance(got, float) and math.isclose(got, want, rel_tol=1e-9)))


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
        assert (got.start, got.end) == (want.start, want.end)
        assert same_total(got.total, want.total)
        promises.check(kind, query, got, want.table, every.table)


def sent(stream: Sent, settings: Mapping[str, Any]) -> tuple[list[Any], list[Any], pa.Table]:
    """The pushes of a stream as tables and as rows, and a table that shows its columns."""
    if isinstance(stream, Mapping):
        rows = pushes({name: each.row_batches for name, each in stream.items()})
        tables = pushes({name: each.batches for name, each in stream.items()})
        return tables, rows, next(iter(stream.values())).table
    if settings.get("stream", "") is None:
        return *stream.by_source("stream"), stream.table
    return stream.batches, marked(stream, settings.get("keep", ())).row_batches, stream.table


def marked(stream: streams.Stream, keep: Sequence[str]) -> streams.Stream:
    """The stream, its rows marked with the hash of their kept columns, as the oracle needs it."""
    if not keep or not stream.rows:
        return stream
    return dataclasses.replace(stream, rows=marked_rows(stream.rows, stream.table, keep))


def marked_rows(
    rows: Sequence[oracle.Row], table: pa.Table, keep: Sequence[str]
) -> list[oracle.Row]:
    """The rows of a table, marked with the hash of their kept columns."""
    if not keep or not rows:
        return list(rows)
    hashes = hash_kept([table[name] for name in keep]).tolist()
    return [row | {oracle.KEPT: each} for row, each in zip(rows, hashes, strict=True)]


def pushes(batches: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Pushes of several streams: alternately all streams in one push, and one after the other."""
    found: list[dict[str, Any]] = []
    for number in range(max(len(each) for each in batches.values())):
        turn = {name: each[number] for name, each in batches.items() if number < len(each)}
        found += [turn] if number % 2 else [{name: batch} for name, batch in turn.items()]
    return found


def check(kind: str, got: Got, want: oracle.Run) -> None:
    """Assert that an engine's results equal the oracle's."""
    sums = oracle.SUMS[kind]
    assert [a[:2] for a in got.answers] == [(a.start, a.end) for a in want.answers]
    for mine, answer in zip(got.answers, want.answers, strict=True):
        problem = oracle.difference(mine.table, answer.table, sums)
        assert problem is None, f"window ending {mine.end}: {problem}"
        problem = oracle.difference(mine.changes, answer.changes, sums)
        assert problem is None, f"changes of the window ending {mine.end}: {problem}"
        assert same_total(mine.total, answer.total), f"total of the window ending {mine.end}"
    check_counts(got, want)


def check_counts(got: Got, want: oracle.Run) -> None:
    """Assert that the counts of rows equal the oracle's."""
    names = ("rows_in", "rows_late", "rows_unused", "rows_filtered")
    counts = {name: got.stats[name] for name in names}
    wanted = {name: getattr(want, name) for name in counts}
    assert counts == wanted
