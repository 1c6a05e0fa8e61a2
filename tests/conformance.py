"""Runs one query on the embedded engine and compares every answer with the oracle.

Tests of all families go through ``compare``: tables, changes, totals and counts of rows, at every
push; with snapshots restored in between where asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

import oracle
import skyband as sb
import streams

# One small query of every kind over the columns of ``streams``; algorithms run all of them.
SETTINGS: dict[str, list[dict[str, Any]]] = {
    "TopK": [
        {"k": 2, "score": "score", "id": "id", "time": "ts"},
        {"k": 1, "score": "score", "time": "ts", "largest": False},
        {"k": 3, "score": "score", "id": "id", "time": "ts", "by": ("g",)},
        {"k": 20, "score": "weight", "id": "id", "time": "ts", "by": ("g", "kind")},
    ],
    "HeavyHitters": [
        {"k": 2, "item": "item", "time": "ts"},
        {"k": 2, "item": "item", "weight": "weight", "time": "ts", "by": ("g",)},
    ],
    "UncertainTopK": [
        {"k": 2, "score": "score", "probability": "p", "id": "id", "time": "ts", **semantics}
        for semantics in (
            {"semantics": "pk-topk"},
            {"semantics": "pt-k", "threshold": 0.5},
            {"semantics": "u-kranks"},
            {"semantics": "u-topk", "by": ("g",)},
        )
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

SEVERAL = ("SkylineJoin",)
"""Queries over several streams: theirs are drawn from ``streams.sides``."""

SNAPSHOT = "snapshot"


@dataclass
class Got:
    """What an engine gave, in the oracle's terms."""

    answers: list[tuple[int, int, list[oracle.Row], list[oracle.Row], Any]] = field(
        default_factory=list
    )
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
    names = ("size", "slide", "lateness", "offset")
    given = {name: getattr(window, name) for name in names}
    if pa.types.is_timestamp(table.schema.field("ts").type):
        given = {n: v if v is None else f"{v} us" for n, v in given.items()}
    return sb.TimeWindow(**given)


def run(query: sb.Query, batches: Sequence[Any], restarts: bool = False) -> Got:
    """Every answer of a Monitor over these pushes, and the flush."""
    monitor = sb.Monitor(query)
    got = Got()
    for batch in batches:
        if restarts:
            monitor = sb.Monitor.restore(monitor.snapshot())
        _read(got, monitor.push(batch))
        monitor._check()
    if restarts:
        monitor = sb.Monitor.restore(monitor.snapshot())
    _read(got, monitor.flush())
    monitor._check()
    got.stats = dict(monitor.stats())
    return got


def _read(got: Got, answers: Sequence[sb.Answer]) -> None:
    for answer in answers:
        edges = pa.array([answer.start, answer.end])
        if pa.types.is_timestamp(edges.type):
            edges = edges.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        start, end = edges.to_pylist()
        tables = streams.rows_of(answer.table), streams.rows_of(answer.changes)
        got.answers.append((start, end, *tables, answer.total))


def compare(
    kind: str,
    window: Any,
    settings: Mapping[str, Any],
    stream: streams.Stream | Mapping[str, streams.Stream],
    restarts: bool = False,
) -> None:
    """Assert that the engine's answers are the oracle's, to the last change."""
    if isinstance(stream, Mapping):
        row_batches = pushes({name: each.row_batches for name, each in stream.items()})
        batches = pushes({name: each.batches for name, each in stream.items()})
        table = next(iter(stream.values())).table
    else:
        row_batches, batches, table = stream.row_batches, stream.batches, stream.table
    want = oracle.answers(kind, window, row_batches, **settings)
    query = query_of(kind, window, settings, table)
    got = run(query, batches, restarts)
    check(kind, got, want)


def pushes(batches: Mapping[str, Sequence[Any]]) -> list[Any]:
    """Pushes of several streams: by turns one batch of each together, and one after the other."""
    found: list[dict[str, Any]] = []
    for number in range(max(len(each) for each in batches.values())):
        turn = {name: each[number] for name, each in batches.items() if number < len(each)}
        found += [turn] if number % 2 else [{name: batch} for name, batch in turn.items()]
    return found


def check(kind: str, got: Got, want: oracle.Run) -> None:
    """Assert that what an engine gave is what the oracle wants."""
    sums = oracle.SUMS[kind]
    assert [a[:2] for a in got.answers] == [(a.start, a.end) for a in want.answers]
    for (_, end, table, changes, total), answer in zip(got.answers, want.answers, strict=True):
        problem = oracle.difference(table, answer.table, sums)
        assert problem is None, f"window ending {end}: {problem}"
        problem = oracle.difference(changes, answer.changes, sums)
        assert problem is None, f"changes of the window ending {end}: {problem}"
        assert total == answer.total, f"total of the window ending {end}"
    counts = {name: got.stats[name] for name in ("rows_in", "rows_late", "rows_unused")}
    wanted = {name: getattr(want, name) for name in counts}
    assert counts == wanted
