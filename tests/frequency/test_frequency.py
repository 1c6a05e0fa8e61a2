"""Sketches of HeavyHitters: the guarantees of answers against exact counts at every window."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband import registry
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.engine.clock import clock_for
from skyband.engine.fold import Fold
from skyband.engine.intake import Intake, refuse
from skyband.engine.per_group import make_synopsis
from support import streams
from support.sketch_cases import STREAMS, small
from support.truth import truth

SKETCHES = [
    name
    for name in registry.algorithms("HeavyHitters")
    if not registry.load("HeavyHitters", name).exact
]
RANKED_BY_COUNT = ("ss", "fss", "fsw", "fsw-r")
"""Algorithms whose answers show the estimate that decides the rank."""


def answers_to(
    query: sb.HeavyHitters,
    window: Any,
    stream: streams.Stream,
) -> tuple[list[oracle.Answer], list[oracle.Answer]]:
    """The definition's answers, and the same with all items instead of k."""
    asked = {"k": query.k, "item": "item", "time": "ts", "weight": query.weight, "by": query.by}
    wanted, everything = (
        truth("HeavyHitters", window, stream.row_batches, asked | more).run.answers
        for more in ({}, {"k": 10**6})
    )
    return wanted, everything


def check_promises(
    query: sb.HeavyHitters,
    window: Any,
    stream: streams.Stream,
    restarts: bool = False,
) -> int:
    """Assert the guarantees of every answer; returns how many answers were proven exact."""
    wanted, everything = answers_to(query, window, stream)
    monitor = sb.Monitor(query)
    answers: list[sb.Answer] = []
    for batch in stream.batches:
        if restarts:
            monitor = sb.Monitor.restore(monitor.snapshot())
        answers += monitor.push(batch)
        monitor._check()
    answers += monitor.flush()
    monitor._check()
    assert len(answers) == len(everything)
    proven = 0
    for got, all_items, want in zip(answers, everything, wanted, strict=True):
        counts = {
            (*(row[name] for name in query.by), row["item"]): row["count"]
            for row in all_items.table
        }
        rows = streams.rows_of(got.table)
        for row in rows:
            true = counts.get((*(row[name] for name in query.by), row["item"]), 0)
            assert row["count"] - row["error"] <= true <= row["count"], (row, true)
        check_what_is_left_out(query, got, rows, counts)
        if query.algorithm in RANKED_BY_COUNT:
            order = [
                (*(row[n] for n in query.by), -row["count"], row["error"], row["item"])
                for row in rows
            ]
            assert order == sorted(order)
        assert got.total == want.total
        if got.exact:
            proven += 1
            rows = [{n: row[n] for n in row if n != "proven"} for row in rows]
            assert oracle.difference(rows, want.table, ("count",)) is None
    return proven


def check_what_is_left_out(
    query: sb.HeavyHitters, got: sb.Answer, rows: list[dict[str, Any]], counts: dict[Any, Any]
) -> None:
    """No item that the answer lacks counts more than ``mu``, nor more than a proven row does."""
    shown = {(*(row[name] for name in query.by), row["item"]) for row in rows}
    left_out = {key: count for key, count in counts.items() if key not in shown}
    mu = got.bounds["mu"]
    assert max(left_out.values(), default=0) <= mu
    for row in rows if query.proof else ():
        group = tuple(row[name] for name in query.by)
        others = [count for key, count in left_out.items() if key[:-1] == group]
        true = counts.get((*group, row["item"]), 0)
        if row["proven"]:
            assert true >= max(others, default=0), (row, others)
        if not query.by:
            assert row["proven"] is (row["count"] - row["error"] >= mu)
        assert row["proven"] or not got.exact


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", SKETCHES)
@given(data=st.data())
@settings(max_examples=30)
def test_bounds_hold_over_time_windows(algorithm: str, data: st.DataObject) -> None:
    window = data.draw(streams.time_windows())
    stream = data.draw(streams.streams(max_rows=20, lateness=window.lateness))
    capacity = data.draw(st.integers(1, 4))
    more: dict[str, Any] = {}
    if algorithm != "fsw-f" and data.draw(st.booleans()):
        more["weight"] = "weight"
    if data.draw(st.booleans()):
        more["by"] = ("g",)
    more["options"] = {"raw_rows": data.draw(st.sampled_from((2, 5, 100)))}
    more["proof"] = data.draw(st.booleans())
    query = small(
        algorithm, data.draw(st.integers(1, capacity)), capacity, window, stream.table, **more
    )
    check_promises(query, window, stream, data.draw(st.booleans()))


@pytest.mark.nojit
@pytest.mark.parametrize("algorithm", SKETCHES)
@given(data=st.data())
@settings(max_examples=25)
def test_bounds_hold_over_count_windows(algorithm: str, data: st.DataObject) -> None:
    window = data.draw(streams.count_windows())
    stream = data.draw(streams.streams(max_rows=20))
    capacity = data.draw(st.integers(1, 4))
    more: dict[str, Any] = {"by": ("g",)} if data.draw(st.booleans()) else {}
    more["options"] = {"raw_rows": data.draw(st.sampled_from((2, 5, 100)))}
    more["proof"] = data.draw(st.booleans())
    query = small(algorithm, 1, capacity, window, stream.table, **more)
    check_promises(query, window, stream, data.draw(st.booleans()))


@pytest.mark.parametrize("raw_rows", [100, 10_000])
@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("algorithm", SKETCHES)
def test_adversarial_streams(algorithm: str, name: str, raw_rows: int) -> None:
    stream, window = STREAMS[name], oracle.TimeWindow(40, 10)
    more = {"weight": "weight"} if name == "weights" and algorithm != "fsw-f" else {}
    options = {"raw_rows": raw_rows}
    query = small(algorithm, 5, 12, window, stream.table, options=options, proof=True, **more)
    proven = check_promises(query, window, stream)
    if name == "one item" and algorithm != "fsw-f":
        assert proven


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("algorithm", [name for name in SKETCHES if name != "fsw-f"])
def test_adversarial_streams_with_room_for_every_item(algorithm: str, name: str) -> None:
    stream, window = STREAMS[name], oracle.TimeWindow(40, 10)
    more = {"weight": "weight"} if name == "weights" else {}
    roomy = small(algorithm, 5, 2000, window, stream.table, **more)
    answers = len(list(sb.watch(stream.table, roomy)))
    assert check_promises(roomy, window, stream) == answers


@pytest.mark.parametrize("algorithm", SKETCHES)
def test_answers_do_not_depend_on_batches(algorithm: str) -> None:
    stream = STREAMS["zipf"]
    for raw_rows in (50, 100_000):
        query = small(
            algorithm,
            5,
            12,
            oracle.TimeWindow(40, 10),
            stream.table,
            options={"raw_rows": raw_rows},
        )
        whole = sb.rank(stream.table, query)
        one_by_one = sb.rank((stream.table.slice(i, 37) for i in range(0, 1500, 37)), query)
        assert whole.equals(one_by_one)


# Summaries made separately -----------------------------------------------------------------------


def apart(query: sb.HeavyHitters, batches: list[pa.Table], parts: int, shards: int) -> list[Any]:
    """Answers from partitions that are summarised and packed separately, then merged by shard."""
    reader = make_synopsis(query)
    intake = Intake(query, reader)
    schema = intake.take("", batches[0]).batch.schema
    groups = GroupTable(query.groups, schema)
    folds = []
    for _ in range(shards):
        worker = make_synopsis(query)
        worker.bind("", schema)
        folds.append(Fold([query], worker, groups, refuse, ("",)))
    table = pa.concat_tables(batches)
    rng = np.random.default_rng(table.num_rows)
    part_of = rng.integers(0, parts, table.num_rows)
    for part in range(parts):
        taken = intake.take("", table.take(pa.array(np.flatnonzero(part_of == part))))
        where = reader.shard("", taken.batch, shards)
        for shard, fold in enumerate(folds):
            mine = intake.take("", taken.batch.take(pa.array(np.flatnonzero(where == shard))))
            clock = clock_for(query, [query], ("",))
            placed = clock.place(mine, reader.axes[""], groups)
            if placed.rows is not None:
                runs = reader.combine(reader.summarise(placed.rows))
                fold.take(Runs.unpack(runs.pack())[0])
    panes = query.window.panes
    found = []
    for number in range(panes.last_window_ending_by(max(table["ts"].to_pylist())) + 2):
        steps = [fold.begin(int(panes.end_of(number))) for fold in folds]
        pieces = [f.folded(s)[0] for f, s in zip(folds, steps, strict=True) if s is not None]
        partials = [piece for piece in pieces if piece is not None]
        if partials:
            windows = folds[0].windows(np.array([number]))
            found.append(folds[0].answer(0, partials, windows).views()[0])
    return found


@pytest.mark.parametrize("name", ["zipf", "all distinct", "drift", "weights", "silent panes"])
@pytest.mark.parametrize("algorithm", registry.algorithms("HeavyHitters"))
def test_summaries_made_apart_keep_true_bounds(algorithm: str, name: str) -> None:
    stream, window = STREAMS[name], oracle.TimeWindow(40, 10)
    more: dict[str, Any] = {} if algorithm == "exact" else {"options": {"raw_rows": 30}}
    if name == "weights" and algorithm != "fsw-f":
        more["weight"] = "weight"
    query = small(algorithm, 5, 12, window, stream.table, proof=True, **more)
    want, every = answers_to(query, window, stream)
    counts = {a.end: {row["item"]: row["count"] for row in a.table} for a in every}
    tables = {a.end: a.table for a in want}
    for parts, shards in ((1, 3), (3, 1), (3, 2)):
        for answer in apart(query, stream.batches, parts, shards):
            rows = streams.rows_of(answer.table)
            for row in rows:
                true = counts[answer.end].get(row["item"], 0)
                assert row["count"] - row["error"] <= true <= row["count"], (row, true)
            check_what_is_left_out(
                query, answer, rows, {(item,): n for item, n in counts[answer.end].items()}
            )
            if answer.exact:
                rows = [{n: row[n] for n in row if n != "proven"} for row in rows]
                assert oracle.difference(rows, tables[answer.end], ("count",)) is None
            if algorithm == "exact":
                assert answer.exact


@pytest.mark.parametrize("algorithm", ["exact", "fsp"])
@pytest.mark.parametrize("name", ["zipf", "silent panes", "all distinct"])
def test_a_long_push_is_taken_in_stretches(
    algorithm: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, window = STREAMS[name], oracle.TimeWindow(40, 10)
    query = small(algorithm, 5, 12, window, stream.table)
    whole = sb.rank(stream.table, query)
    monkeypatch.setattr("skyband.frequency.pane_sums._STRETCH", 7)
    assert sb.rank(stream.table, query).equals(whole)


def test_a_snapshot_has_nothing_of_instances_that_have_ended() -> None:
    window = sb.TimeWindow(3, slide=1)
    query = sb.HeavyHitters(k=2, item="i", time="t", window=window, algorithm="ss", capacity=2)
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"t": [0, 1, 6, 10], "i": ["a", "c", "a", "b"]}))
    blob = monitor.snapshot()
    assert sb.Monitor.restore(blob).snapshot() == blob
