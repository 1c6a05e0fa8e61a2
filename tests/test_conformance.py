"""What every algorithm owes to the contract, whatever it answers.

Algorithms come from the registry. For each: cutting the input into other batches changes nothing,
summaries made apart and combined answer as one, shards finish to the same answer, snapshots and
packed summaries survive the journey, inputs are untouched, state stays bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import conformance
import oracle
import skyband as sb
import streams
from skyband import registry
from skyband.fold import Fold, make_synopsis
from skyband.groups import GroupTable
from skyband.intake import Intake, refuse
from skyband.runs import Runs
from skyband.watermark import NEVER

EXACT = [
    pytest.param(kind, name, settings, id=f"{kind}-{name}-{number}")
    for kind in registry.kinds()
    for name in registry.algorithms(kind)
    if registry.load(kind, name).exact
    for number, settings in enumerate(conformance.SETTINGS.get(kind, ()))
]
WINDOW = oracle.TimeWindow(30, 7, lateness=6)


def stream(batches: int = 6) -> streams.Stream:
    return streams.stream(11, 160, pattern="crowded", lateness=6, step=2, gap=30, batches=batches)


def query_of(kind: str, name: str, settings: dict[str, Any]) -> sb.Query:
    return conformance.query_of(kind, WINDOW, settings | {"algorithm": name}, stream().table)


def tables(query: sb.Query, batches: list[pa.Table]) -> list[dict[str, Any]]:
    return [row for answer in conformance.run(query, batches).answers for row in answer[2]]


def assert_same(kind: str, got: list[dict[str, Any]], want: list[dict[str, Any]]) -> None:
    problem = oracle.difference(got, want, oracle.SUMS[kind])
    assert problem is None, problem


@pytest.mark.parametrize(("kind", "name", "settings"), EXACT)
def test_batches_do_not_matter(kind: str, name: str, settings: dict[str, Any]) -> None:
    query, table = query_of(kind, name, settings), stream().table
    before = table.to_pylist()
    whole = tables(query, [table])
    rows = [table.slice(i, 1) for i in range(table.num_rows)]
    assert_same(kind, tables(query, rows), whole)
    assert_same(kind, tables(query, stream().batches), whole)
    assert table.to_pylist() == before


@pytest.mark.parametrize(("kind", "name", "settings"), EXACT)
@pytest.mark.parametrize("shards", [1, 3])
def test_shards_and_packed_summaries_answer_as_one(
    kind: str, name: str, settings: dict[str, Any], shards: int
) -> None:
    query = query_of(kind, name, settings)
    want = tables(query, stream().batches)
    answers = [row for table in sharded(query, stream().batches, shards) for row in table]
    assert_same(kind, answers, want)


def sharded(query: sb.Query, batches: list[pa.Table], shards: int) -> list[list[dict[str, Any]]]:
    """Answers made the way a cluster makes them: rows dealt to shards, summaries packed."""
    reader = make_synopsis(query)
    intake = Intake(query, reader)
    workers = [make_synopsis(query) for _ in range(shards)]
    taken = [intake.take("", batch) for batch in batches]
    schema = intake.bound[""]
    groups = GroupTable(query.groups, schema)
    folds = []
    for worker in workers:
        worker.bind("", schema)
        folds.append(Fold(query, worker, groups, refuse))
    for each in taken:
        where = reader.shard("", each.batch, shards)
        for shard, fold in enumerate(folds):
            mine = np.flatnonzero(where == shard)
            part = intake.take("", each.batch.take(pa.array(mine)))
            placed = intake.place(part, groups, NEVER)
            if placed.rows is not None:
                runs, _ = Runs.unpack(reader.summarise(placed.rows).pack())
                fold.take(runs)
    last = max(each.greatest for each in taken if each.greatest is not None)
    panes = query.window.panes
    found = []
    for number in range(panes.last_window_ending_by(last) + 2):
        steps = [fold.seal(int(panes.end_of(number))) for fold in folds]
        partials = [step.partial for step in steps if step is not None and step.partial is not None]
        if partials:
            windows = folds[0].windows(np.array([number]))
            found.append(streams.rows_of(folds[0].answer(partials, windows).table))
    return found


@pytest.mark.parametrize(("kind", "name", "settings"), EXACT)
def test_state_is_bounded(kind: str, name: str, settings: dict[str, Any]) -> None:
    query = query_of(kind, name, settings)
    monitor = sb.Monitor(query)
    sizes = []
    for turn in range(12):
        part = streams.stream(turn, 200, pattern="uniform", step=2, start=turn * 400)
        monitor.push(part.table)
        sizes.append(monitor.stats()["state_bytes"])
    assert max(sizes[6:]) <= 2 * max(sizes[:6]) + 4096


@pytest.mark.parametrize("kind", registry.kinds())
def test_an_algorithm_of_another_query_is_refused(kind: str) -> None:
    settings = conformance.SETTINGS.get(kind)
    if not settings:
        pytest.skip("no settings")
    with pytest.raises(sb.QueryError, match="choose one of"):
        conformance.query_of(kind, WINDOW, settings[0] | {"algorithm": "other"}, stream().table)


@pytest.mark.parametrize(("kind", "name", "settings"), EXACT)
def test_a_query_can_be_written_down(kind: str, name: str, settings: dict[str, Any]) -> None:
    from skyband.query import from_spec

    query = query_of(kind, name, settings)
    again = from_spec(query.spec())
    assert again == query
    assert again.fingerprint == query.fingerprint
