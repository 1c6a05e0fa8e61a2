"""What every algorithm owes to the contract, whatever it answers.

Algorithms come from the registry. For each: cutting the input into other batches changes nothing,
summaries made apart and combined answer as one, shards finish to the same answer, snapshots and
packed summaries survive the journey, inputs are untouched, state stays bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
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
Push = Any
"""A table, or a mapping from source to table."""


def pushes(kind: str, settings: dict[str, Any], seed: int = 11, start: int = 0) -> list[Push]:
    """A stream of what a kind of query reads, in six batches."""
    if kind == "SkylineJoin":
        sides = streams.two_sides(seed, 80, lateness=6, batches=6)
        moved = {name: later(side.table, start) for name, side in sides.items()}
        return [
            {name: moved[name].slice(a, b - a) for name, (a, b) in zip(moved, edges, strict=True)}
            for edges in zip(*(side.edges for side in sides.values()), strict=True)
        ]
    if kind != "FusedTopK":
        made = streams.stream(
            seed, 160, pattern="crowded", lateness=6, step=2, gap=30, start=start, batches=6
        )
        return list(made.batches)
    made = streams.reports(
        seed,
        160,
        size=WINDOW.size,
        streams=settings["streams"],
        recurrences=settings.get("recurrences", 1),
        objects=40,
        lateness=6,
        groups=2 if settings.get("by") else 1,
        batches=6,
    )
    made = streams.Stream(later(made.table, start), made.rows, made.cuts)
    return list(made.by_source("stream")[0] if settings["stream"] is None else made.batches)


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


def query_of(kind: str, name: str, settings: dict[str, Any]) -> sb.Query:
    shape = streams.stream(1, 1).table
    return conformance.query_of(kind, WINDOW, settings | {"algorithm": name}, shape)


def tables(query: sb.Query, batches: list[Push]) -> list[dict[str, Any]]:
    return [row for answer in conformance.run(query, batches).answers for row in answer[2]]


def assert_same(kind: str, got: list[dict[str, Any]], want: list[dict[str, Any]]) -> None:
    problem = oracle.difference(got, want, oracle.SUMS[kind])
    assert problem is None, problem


@pytest.mark.parametrize(("kind", "name", "settings"), EXACT)
def test_batches_do_not_matter(kind: str, name: str, settings: dict[str, Any]) -> None:
    query, batches = query_of(kind, name, settings), pushes(kind, settings)
    want = tables(query, whole(batches))
    assert want
    assert_same(kind, tables(query, row_by_row(batches)), want)
    assert_same(kind, tables(query, batches), want)
    for used, fresh in zip(batches, pushes(kind, settings), strict=True):
        assert used == fresh


@pytest.mark.parametrize(("kind", "name", "settings"), EXACT)
@pytest.mark.parametrize("shards", [1, 3])
def test_shards_and_packed_summaries_answer_as_one(
    kind: str, name: str, settings: dict[str, Any], shards: int
) -> None:
    query = query_of(kind, name, settings)
    batches = pushes(kind, settings)
    want = tables(query, batches)
    answers = [row for table in sharded(query, batches, shards) for row in table]
    assert_same(kind, answers, want)


def sharded(query: sb.Query, batches: list[Push], shards: int) -> list[list[dict[str, Any]]]:
    """Answers made the way a cluster makes them: rows dealt to shards, summaries packed."""
    reader = make_synopsis(query)
    intake = Intake(query, reader)
    workers = [make_synopsis(query) for _ in range(shards)]
    taken = [
        intake.take(source, part)
        for batch in batches
        for source, part in (batch.items() if isinstance(batch, dict) else [("", batch)])
    ]
    groups = GroupTable(query.groups, next(iter(intake.bound.values())))
    folds = []
    for worker in workers:
        for source, schema in intake.bound.items():
            worker.bind(source, schema)
        folds.append(Fold(query, worker, groups, refuse))
    for each in taken:
        where = reader.shard(each.source, each.batch, shards)
        for shard, fold in enumerate(folds):
            mine = np.flatnonzero(where == shard)
            part = intake.take(each.source, each.batch.take(pa.array(mine)))
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
        for batch in pushes(kind, settings, turn, turn * 800):
            monitor.push(batch)
        sizes.append(monitor.stats()["state_bytes"])
    assert max(sizes[6:]) <= 2 * max(sizes[:6]) + 4096


@pytest.mark.parametrize("kind", registry.kinds())
def test_an_algorithm_of_another_query_is_refused(kind: str) -> None:
    settings = conformance.SETTINGS.get(kind)
    if not settings:
        pytest.skip("no settings")
    with pytest.raises(sb.QueryError, match="choose one of"):
        conformance.query_of(
            kind, WINDOW, settings[0] | {"algorithm": "other"}, pa.table({"ts": [1]})
        )


@pytest.mark.parametrize(("kind", "name", "settings"), EXACT)
def test_a_query_can_be_written_down(kind: str, name: str, settings: dict[str, Any]) -> None:
    from skyband.query import from_spec

    query = query_of(kind, name, settings)
    if callable(settings.get("combine")):
        with pytest.raises(sb.EngineError, match="give it again"):
            from_spec(query.spec())
    again = from_spec(query.spec() | {n: v for n, v in settings.items() if callable(v)})
    assert again == query
    assert again.fingerprint == query.fingerprint
