"""The columns of ``rank(..., bounds=True)`` on Spark, with the simulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import oracle
import skyband as sb
from skyband import registry
from skyband.answers.answer import Answers, Promises
from skyband.spark.finishing import of_changes, of_rows
from skyband.spark.plan import PROMISE
from support import approximate, conformance, spark_cases, spark_simulator, streams

WINDOW = oracle.TimeWindow(30, 7, lateness=3)
CASES = [
    ("FusedTopK", "eaa-approx", 0, {}),
    ("FusedTopK", "eaa-approx", 3, {}),
    ("HeavyHitters", "ss", 1, {"capacity": 3}),
    ("HeavyHitters", "fsw", 0, {"capacity": 3}),
    ("TopK", "pabf", 2, {}),
    ("TopK", "skyband", 2, {}),
]


def made(kind: str, name: str, number: int, more: dict[str, Any]) -> tuple[Any, list[Any]]:
    chosen = spark_cases.settings_of(kind, name, number) | approximate.EXTRA.get(name, {}) | more
    stream = conformance.long_stream(kind, chosen, WINDOW, "uniform")
    return spark_cases.query_of(kind, WINDOW, chosen, stream), spark_cases.pushes_of(stream, chosen)


def given(query: sb.Query, pushes: list[Any], **settings: Any) -> list[dict[str, Any]]:
    """Rows of a simulated job, with their guarantees."""
    plan = spark_simulator.plan_of(
        query, spark_simulator.first_tables(pushes), bounds=True, **settings
    )
    assert plan.output.names[-2:] == PROMISE.names
    job = spark_simulator.Job(plan)
    return streams.rows_of(
        pa.concat_tables([job.push(spark_simulator.by_source(push)) for push in pushes])
    )


def counts_left_out(
    query: sb.Query, pushes: list[Any], rows: list[dict[str, Any]]
) -> dict[Any, float]:
    """By window: the greatest true count of an item that its rows do not show."""
    assert isinstance(query, sb.HeavyHitters)
    names = (*query.groups, *query.key)
    shown = {(row["window_end"], *(row[name] for name in names)) for row in rows}
    exact = sb.Monitor(replace(query, algorithm="exact", k=1_000, capacity=None, cells=None))
    found = {}
    for answer in (answer for push in pushes for answer in exact.push(push)):
        counts = [
            row["count"]
            for row in streams.rows_of(answer.table)
            if (row["window_end"], *(row[name] for name in names)) not in shown
        ]
        found[answer.end] = max(counts, default=0)
    return found


@pytest.mark.parametrize(("kind", "name", "number", "more"), CASES)
def test_rows_say_what_the_answer_says(
    kind: str, name: str, number: int, more: dict[str, Any]
) -> None:
    query, pushes = made(kind, name, number, more)
    rows = given(query, pushes)
    monitor = sb.Monitor(query)
    answers = [answer for push in pushes for answer in monitor.push(push)]
    told: dict[int, list[tuple[bool, dict[str, float]]]] = {}
    for row in rows:
        told.setdefault(row["window_end"], []).append((row["exact"], dict(row["bounds"])))
    full = [answer for answer in answers if answer.table.num_rows]
    assert len(full) == len(told) > 5
    for answer in full:
        end = answer.end if isinstance(answer.end, int) else streams.rows_of(answer.table)[0]
        mine = told[end if isinstance(end, int) else end["window_end"]]
        greatest = {name: max(bounds[name] for _, bounds in mine) for name in mine[0][1]}
        if kind == "HeavyHitters":  # a stored summary has less to go by than an embedded sketch
            assert greatest["mu"] >= counts_left_out(query, pushes, rows)[answer.end], answer.end
            continue
        assert answer.exact == all(exact for exact, _ in mine)
        assert answer.bounds == greatest
    proven = {row["exact"] for row in rows}
    exact = registry.load(kind, name).exact
    assert proven == {True} if exact else False in proven


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("kind", "name", "number", "more"), CASES)
def test_changes_say_it_too(
    kind: str, name: str, number: int, more: dict[str, Any], shards: int
) -> None:
    query, pushes = made(kind, name, number, more)
    names = ("window_end", *query.groups)
    tables = given(query, pushes, shards=shards)
    told = {tuple(row[n] for n in names): (row["exact"], row["bounds"]) for row in tables}
    changes = given(query, pushes, shards=shards, changes=True)
    kept = 0
    for row in changes:
        place = tuple(row[n] for n in names)
        if place in told:
            assert (row["exact"], row["bounds"]) == told[place], row
            kept += 1
        else:  # a group without rows; pabf never proves an answer exact
            assert row["exact"] == (name != "pabf"), row
            assert row["change"] == "leave", row
            assert dict(row["bounds"]).get("missed", -np.inf) == -np.inf
    assert 0 < kept <= len(changes) - (kind != "FusedTopK")  # FusedTopK's stream has no gaps


def test_a_batch_says_it_too() -> None:
    query, pushes = made(*CASES[0])
    whole = {"": pa.concat_tables(pushes)}
    plan = spark_simulator.plan_of(query, whole, streaming=False, bounds=True, shards=2)
    rows = streams.rows_of(spark_simulator.run_batch(plan, whole, parts=2))
    assert rows
    assert {tuple(dict(row["bounds"])) for row in rows} == {("missed",)}
    assert False in {row["exact"] for row in rows}


def test_groups_are_told_apart_whatever_their_key() -> None:
    """Three runs in two windows; null is a group like any other, and one group has left."""
    table = pa.table({"g": ["a", None, None, "b"], "rank": pa.array([1, 1, 2, 1], pa.int32())})
    bounds = {"missed": np.array([0.25, -np.inf, 7.0]), "delta": 1}
    told = Promises(np.array([1, 2, 1]), np.array([True, False, True]), bounds, empty=True)
    two = np.array([10, 20])
    flags = np.ones(2, np.bool_)
    query: Any = None
    answers = Answers(query, table, two, two, np.array([0, 3, 4]), flags, {}, two, promises=told)
    exact, shown = of_rows(answers)
    assert exact.to_pylist() == [True, False, False, True]
    assert shown.type == PROMISE.field("bounds").type
    low = [("delta", 1.0), ("missed", -np.inf)]
    assert shown.to_pylist()[1:] == [low, low, [("delta", 1.0), ("missed", 7.0)]]
    changed = pa.table({"g": [None, "gone", "a"]})
    exact, shown = of_changes(answers, 0, changed, ("g",))
    assert exact.to_pylist() == [False, True, True]
    assert shown.to_pylist() == [low, low, [("delta", 1.0), ("missed", 0.25)]]


def test_an_input_column_of_that_name_is_refused() -> None:
    pytest.importorskip("pyspark")
    from skyband.spark.ranking import _check_names

    table = spark_cases.some_rows().rename_columns(
        ["exact" if name == "id" else name for name in spark_cases.some_rows().column_names]
    )
    query = spark_cases.topk(id="exact")
    _check_names(spark_simulator.plan_of(query, {"": table}).first)
    with pytest.raises(sb.SchemaError, match="rename"):
        _check_names(spark_simulator.plan_of(query, {"": table}, bounds=True).first)
