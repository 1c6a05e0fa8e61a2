"""What the contract requires of every algorithm, whatever it answers.

Algorithms come from the registry. For each: the cut into batches does not matter, summaries made
separately and combined give the same answers, shards merge to the same answer, snapshots and packed
summaries survive a round trip, a peek leaves no trace, inputs are not changed, state stays bounded.
Where an approximate algorithm may give different answers, each answer keeps its guarantees.
"""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import oracle
import skyband as sb
from skyband import registry
from support import conformance, promises, results, sending, streams, unwritten
from support.shards import sharded
from support.suites import cases, in_turn, is_exact, registered, settings_of
from support.truth import truth

WINDOW = oracle.TimeWindow(30, 7, lateness=6)
Push = Any
"""A table, or a mapping from source to table."""


def pushes(kind: str, settings: dict[str, Any], seed: int = 11, start: int = 0) -> list[Push]:
    """A stream that a kind of query can read, in six batches."""
    by_settings: dict[str, Any] = {}
    if kind == "FusedTopK":
        by_settings = {
            "streams": settings["streams"],
            "recurrences": settings.get("recurrences", 1),
            "groups": 2 if settings.get("by") else 1,
        }
    apart = settings.get("stream", "") is None
    return list(_pushes(kind, seed, start, apart, **by_settings))


@functools.cache
def _pushes(kind: str, seed: int, start: int, apart: bool, **by_settings: Any) -> list[Push]:
    if kind == "SkylineJoin":
        sides = streams.two_sides(seed, 80, lateness=6, batches=6)
        moved = {name: later(side.table, start) for name, side in sides.items()}
        return [
            {name: moved[name].slice(a, b - a) for name, (a, b) in zip(moved, edges, strict=True)}
            for edges in zip(*(side.edges for side in sides.values()), strict=True)
        ]
    if kind != "FusedTopK":
        return streams.stream(
            seed, 160, pattern="crowded", lateness=6, step=2, gap=30, start=start, batches=6
        ).batches
    made = streams.reports(
        seed, 160, size=WINDOW.size, objects=40, lateness=6, batches=6, **by_settings
    )
    made = streams.Stream(later(made.table, start), made.rows, made.cuts)
    return list(made.by_source("stream")[0] if apart else made.batches)


def later(table: pa.Table, start: int) -> pa.Table:
    """The same rows at a later time."""
    at = table.schema.get_field_index("ts")
    return table.set_column(at, "ts", pc.add(table["ts"], start))


def whole(batches: list[Push]) -> list[Push]:
    """All batches as one."""
    if not isinstance(batches[0], dict):
        return [pa.concat_tables(batches)]
    names = dict.fromkeys(name for batch in batches for name in batch)
    return [{n: pa.concat_tables([b[n] for b in batches if n in b]) for n in names}]


def copied(batches: list[Push]) -> list[Push]:
    """The same rows in other memory."""
    every = [each if isinstance(each, dict) else {"": each} for each in batches]
    made = [{n: t.take(list(range(t.num_rows))) for n, t in each.items()} for each in every]
    return made if isinstance(batches[0], dict) else [each[""] for each in made]


def row_by_row(batches: list[Push]) -> list[Push]:
    return [
        row
        for batch in batches
        for row in (
            [{n: t.slice(i, 1)} for n, t in batch.items() for i in range(t.num_rows)]
            if isinstance(batch, dict)
            else [batch.slice(i, 1) for i in range(batch.num_rows)]
        )
    ]


def query_of(kind: str, settings: dict[str, Any]) -> sb.Query:
    shape = streams.stream(1, 1).table
    return conformance.query_of(kind, WINDOW, settings, shape)


def tables(query: sb.Query, batches: list[Push]) -> list[dict[str, Any]]:
    return [row for answer in conformance.run(query, batches).answers for row in answer[2]]


def assert_same(kind: str, got: list[dict[str, Any]], want: list[dict[str, Any]]) -> None:
    problem = oracle.difference(got, want, oracle.SUMS[kind])
    assert problem is None, problem


def truths(
    kind: str, settings: dict[str, Any], batches: list[Push]
) -> tuple[list[oracle.Answer], list[oracle.Answer]]:
    """The definition's answers, and the same with all items or objects instead of k."""
    rows = [
        {n: streams.rows_of(t) for n, t in batch.items()}
        if isinstance(batch, dict)
        else sending.marked_rows(streams.rows_of(batch), batch, settings.get("keep", ()))
        for batch in batches
    ]
    wanted, wide = (
        truth(kind, WINDOW, rows, settings | more).run.answers for more in ({}, {"k": 10**6})
    )
    return wanted, wide


def assert_promised(
    kind: str, query: sb.Query, got: list[results.Seen], settings: dict[str, Any], batches: Any
) -> None:
    """Assert that each answer keeps its guarantees; windows without rows may be left out."""
    wanted, wide = truths(kind, settings, batches)
    every = {answer.end: answer.table for answer in wide}
    seen = {answer.end: answer for answer in got}
    assert {answer.end for answer in wanted if answer.table} <= set(seen)
    for want in wanted:
        if want.end in seen:
            promises.check(kind, query, seen[want.end], want.table, every[want.end])


@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
def test_batches_do_not_matter(kind: str, algorithm: str, number: int) -> None:
    settings = settings_of(kind, algorithm, number)
    query, batches = query_of(kind, settings), pushes(kind, settings)
    before = copied(batches)
    cuts = in_turn(kind, algorithm, number, (row_by_row(batches), batches))
    runs = [conformance.run(query, form).answers for form in (whole(batches), *cuts)]
    if is_exact(kind, algorithm) or kind == "HeavyHitters":  # sketches go row by row anyway
        want, *others = ([row for answer in run for row in answer.table] for run in runs)
        assert want
        for got in others:
            assert_same(kind, got, want)
    if not is_exact(kind, algorithm):
        for run in runs:
            assert_promised(kind, query, run, settings, batches)
    assert batches == before


@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
def test_snapshots_and_peeks_leave_no_trace(kind: str, algorithm: str, number: int) -> None:
    settings = settings_of(kind, algorithm, number)
    query, batches = query_of(kind, settings), pushes(kind, settings)
    can = registry.load(kind, algorithm).peeks
    lasts = conformance.lasts_of(query, len(batches)) if can else []
    plain = conformance.run(query, batches)
    peeked = conformance.run(query, batches, lasts=lasts)
    restored = conformance.run(query, batches, restarts=True, lasts=lasts)
    for other in (peeked, restored):
        assert_alike(kind, other.answers, plain.answers)
    assert_alike(kind, restored.peeks, peeked.peeks)


def assert_alike(kind: str, got: list[Any], want: list[Any]) -> None:
    """Assert that two lists of answers agree in everything they contain."""
    for mine, theirs in zip(got, want, strict=True):
        assert (mine is None) == (theirs is None)
        if mine is None:
            continue
        assert_same(kind, mine.table, theirs.table)
        assert_same(kind, mine.changes, theirs.changes)
        assert mine[:2] + mine[4:6] == theirs[:2] + theirs[4:6]
        assert mine.bounds == pytest.approx(theirs.bounds)


@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
def test_shards_and_packed_summaries_answer_as_one(kind: str, algorithm: str, number: int) -> None:
    settings = settings_of(kind, algorithm, number)
    query, batches = query_of(kind, settings), pushes(kind, settings)
    for shards in in_turn(kind, algorithm, number, (1, 3)):
        got = sharded(query, batches, shards)
        if is_exact(kind, algorithm):
            rows = [row for answer in got for row in answer.table]
            assert_same(kind, rows, tables(query, batches))
        else:
            assert_promised(kind, query, got, settings, batches)


@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
def test_state_is_bounded(kind: str, algorithm: str, number: int) -> None:
    settings = settings_of(kind, algorithm, number)
    query = query_of(kind, settings)
    monitor = sb.Monitor(query)
    sizes, rows = [], []
    for turn in range(12):
        batches = pushes(kind, settings, turn, turn * 800)
        for batch in batches if turn % 2 else whole(batches):
            monitor.push(batch)
        told = monitor.stats()
        sizes.append(told["state_bytes"])
        rows.append(told["retained"])
    assert max(sizes[6:]) <= 2 * max(sizes[:6]) + 4096
    # Bytes grow for long before it is worth collecting garbage; the rows that are kept do not.
    assert max(rows) <= 3 * rows[0] + 100


@pytest.mark.parametrize("kind", registry.kinds())
def test_an_algorithm_of_another_query_is_refused(kind: str) -> None:
    settings = conformance.SETTINGS[kind][0]
    with pytest.raises(sb.QueryError, match="choose one of"):
        query_of(kind, settings | {"algorithm": "other"})


@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
def test_a_query_can_be_written_down(kind: str, algorithm: str, number: int) -> None:
    from skyband.query import from_spec

    settings = settings_of(kind, algorithm, number)
    query = query_of(kind, settings)
    if callable(settings.get("combine")):
        with pytest.raises(sb.EngineError, match="give it again"):
            from_spec(query.spec())
    again = from_spec(query.spec() | {n: v for n, v in settings.items() if callable(v)})
    assert again == query
    assert again.fingerprint == query.fingerprint


@pytest.mark.nojit
@pytest.mark.skipif(not unwritten.VISIBLE, reason="compiled kernels do not call numpy's empty")
@pytest.mark.parametrize(("kind", "algorithm"), sorted(registered()))
def test_unwritten_memory_changes_neither_answers_nor_snapshots(kind: str, algorithm: str) -> None:
    settings = settings_of(kind, algorithm, 0)
    given = pushes(kind, settings)[:4]
    table = next(iter(given[0].values())) if isinstance(given[0], dict) else given[0]
    query = conformance.query_of(kind, WINDOW, settings, table)
    runs: list[list[Any]] = []
    for byte in (0x11, 0xFF):
        with unwritten.filled(byte):
            monitor = sb.Monitor(query)
            seen: list[Any] = []
            for batch in given:
                seen += [streams.rows_of(answer.table) for answer in monitor.push(batch)]
                blob = monitor.snapshot()
                seen.append(blob)
                assert sb.Monitor.restore(blob).snapshot() == blob
            runs.append(seen)
    assert runs[0] == runs[1]
