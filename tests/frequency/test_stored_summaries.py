"""Summaries of sketches that are stored: their size, and their bounds however they merge."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband import registry
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.engine.clock import clock_for
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.spark.bucket import Bucket
from support import approximate, spark_session, streams
from support.spark_simulator import Job, plan_of

SKETCHES = [
    name
    for name in registry.algorithms("HeavyHitters")
    if not registry.load("HeavyHitters", name).exact
]
PER_SLOT = 2
"""Items of a stored summary, as a multiple of the capacity; docs/internals/decisions/0009."""


def most_items(query: sb.HeavyHitters) -> int:
    """How many items a stored summary has at most."""
    assert query.capacity is not None
    if "raw_rows" in query.options:
        return max(int(query.options["raw_rows"]) // 2, query.capacity + 1)
    return PER_SLOT * query.capacity


def query_of(algorithm: str, capacity: int, **more: Any) -> sb.HeavyHitters:
    sizes: dict[str, Any] = {"capacity": capacity} | (
        {} if algorithm == "ss" else {"cells": 3 * capacity}
    )
    window = sb.TimeWindow(12, slide=4, lateness=2)
    chosen: dict[str, Any] = {"k": capacity, "item": "item", "time": "ts", "window": window}
    return sb.HeavyHitters(algorithm=algorithm, **chosen | sizes | more)


ROW = st.tuples(
    st.sampled_from((0, 0, 0, 0, 1)),
    st.sampled_from("abcdefghijkl"),
    st.sampled_from("xxy"),
    st.integers(0, 5),
)


def table_of(rows: list[tuple[int, str, str, int]], weights: pa.DataType) -> pa.Table:
    step, item, group, weight = zip(*rows, strict=True)
    columns = {"ts": (1_000 + np.cumsum(step)).tolist(), "item": item, "g": group}
    return pa.table(columns | {"weight": pa.array(weight, weights)})


# Merging --------------------------------------------------------------------------------------


@given(data=st.data())
@settings(max_examples=100)
def test_bounds_hold_however_a_pane_is_split_and_merged(data: st.DataObject) -> None:
    """Rows in any split, their summaries in any tree: sizes, counts, errors and ``missing``."""
    kind = data.draw(st.sampled_from((pa.int64(), pa.float64(), None)))
    rows = data.draw(st.lists(ROW, min_size=20, max_size=60))
    table = table_of(rows, kind or pa.int64())
    capacity = data.draw(st.integers(1, 3))
    options = data.draw(st.sampled_from(({}, {"raw_rows": 1}, {"raw_rows": 14})))
    weight = None if kind is None else "weight"
    query = query_of("ss", capacity, by=("g",), weight=weight, options=options)
    synopsis = make_synopsis(query)
    synopsis.prepare(stored=True)  # type: ignore[attr-defined]
    intake, groups = Intake(query, synopsis), None
    pieces: list[Runs] = []
    order = data.draw(st.randoms())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=8)))
    for low, high in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        read = intake.take("", table.slice(low, high - low))
        groups = groups or GroupTable(query.groups, read.batch.schema)
        placed = clock_for(query, [query], ("",)).place(read, synopsis.axes[""], groups)
        if placed.rows is not None:
            pieces.append(synopsis.summarise(placed.rows))
    while len(pieces) > 1:
        order.shuffle(pieces)
        some = order.randint(2, len(pieces))
        merged = synopsis.combine(Runs.concat(pieces[:some]).ordered())
        pieces = [Runs.unpack(merged.pack())[0], *pieces[some:]]
    assert groups is not None
    truth: dict[Any, Counter[str]] = defaultdict(Counter)
    panes = query.window.panes
    for row in table.to_pylist():
        pane = int(panes.pane_of(row["ts"]))
        truth[pane, row["g"]][row["item"]] += 1 if kind is None else row["weight"]
    (whole,) = pieces
    assert len(whole) == len(truth)
    assert not whole.part("rows").columns
    known, (names,) = whole.parts["known"], groups.gather(whole.group)
    for run, (pane, group) in enumerate(zip(whole.stamp.tolist(), names.to_pylist(), strict=True)):
        own, missing = slice(*known.offsets[run : run + 2]), whole.scalars["missing"][run]
        counts, items = truth[pane, group], known["item:item"][own].to_pylist()
        assert len(items) == len(set(items)) <= most_items(query)
        for item, count, error in zip(items, known["count"][own], known["error"][own], strict=True):
            assert count - error <= counts[item] <= count, (item, counts)
            assert 0 <= error <= missing
        assert max((n for item, n in counts.items() if item not in items), default=0) <= missing
        assert missing <= counts.total() / (most_items(query) + 1)


# Jobs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", SKETCHES)
def test_answers_of_jobs_keep_their_bounds(algorithm: str) -> None:
    """Any stream, split into batches, partitions and shards; the state is there or read again."""

    @given(data=st.data())
    @settings(max_examples=12)
    def holds(data: st.DataObject) -> None:
        table = table_of(data.draw(st.lists(ROW, min_size=30, max_size=60)), pa.int64())
        more: dict[str, Any] = {"by": ("g",)} if data.draw(st.booleans()) else {}
        if algorithm != "fsw-f" and data.draw(st.booleans()):
            more["weight"] = "weight"
        more["options"] = data.draw(st.sampled_from(({}, {"raw_rows": 1}, {"raw_rows": 10})))
        query = query_of(algorithm, data.draw(st.integers(1, 2)), **more)
        cuts = [0, *sorted(data.draw(st.lists(st.integers(0, 60), max_size=5))), 60]
        pushes = [table.slice(low, high - low) for low, high in pairwise(cuts)]
        plan = plan_of(query, {"": table}, shards=data.draw(st.integers(1, 3)), bounds=True)
        job = Job(plan, data.draw(st.integers(1, 3)), data.draw(st.booleans()))
        got = pa.concat_tables([job.push({"": push}) for push in pushes])
        exact = sb.HeavyHitters(
            k=100, item="item", time="ts", window=query.window, by=query.by, weight=query.weight
        )
        want, _ = spark_session.embedded(exact, pushes)
        truth = approximate.answers(query, streams.rows_of(want))
        for place, rows in approximate.answers(query, streams.rows_of(got)).items():
            (bounds,) = {tuple(row["bounds"]) for row in rows}
            approximate.CHECKS["HeavyHitters"](query, rows, truth[place], dict(bounds))

    holds()


@pytest.mark.parametrize("options", [{}, {"raw_rows": 60}, {"raw_rows": 200}], ids=str)
@pytest.mark.parametrize("algorithm", SKETCHES)
def test_the_state_does_not_grow_with_the_distinct_items(
    algorithm: str, options: dict[str, int]
) -> None:
    """Each piece of a pane is within the bound, an open pane within five, and so are the bytes."""
    capacity, rows, rng = 20, 9_000, np.random.default_rng(3)
    query = query_of(
        algorithm, capacity, window=sb.TimeWindow(60, slide=10), k=5, options=options
    )  # fmt: skip
    limit, most = most_items(query), []
    for distinct in (1_000, 1 << 40):
        table = pa.table({
            "ts": 1_000 + np.arange(rows) // 60, "item": rng.integers(0, distinct, rows)
        })  # fmt: skip
        job, sizes = Job(plan_of(query, {"": table}), parts=2), []
        for start in range(0, rows, 75):
            job.push({"": table.slice(start, 75)})
            (store,) = job.stores.values()
            bucket = Bucket(job.plan, job.label, store)
            (stored,) = bucket.folds
            assert stored.panes[:, 3].max() <= limit
            panes, place = np.unique(stored.panes[:, 0], return_inverse=True)
            assert np.bincount(place, stored.panes[:, 3]).max() <= 5 * limit
            assert bucket.state_bytes == sum(len(blob) for blob in store.kept.values())
            assert bucket.retained == stored.panes[:, 3].sum()
            sizes.append(bucket.state_bytes)
        most.append(max(sizes))
        assert len(panes) >= 6
        assert stored.panes[:, 3].max() > 0.9 * limit
    assert most[1] < 1.5 * most[0]
