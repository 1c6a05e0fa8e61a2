"""The parts of the Spark engine compared with the embedded engine, without Spark."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband import registry
from skyband.data.ipc import table_from, table_to_bytes
from skyband.data.packing import pack, unpack
from skyband.engine.fold import Fold
from skyband.spark.bucket import CACHED_FOLDS, Bucket
from skyband.spark.parcels import unpack_runs
from support import approximate, conformance, spark_simulator, streams, suites
from support.both_engines import compare
from support.spark_cases import (
    modern,
    pushes_of,
    query_of,
    settings_of,
    some_rows,
    topk,
)

CASES = [
    pytest.param(kind, name, number, id=f"{kind}-{name}-{number}")
    for kind in registry.kinds()
    for name in registry.algorithms(kind)
    if registry.load(kind, name).exact
    for number in range(len(conformance.SETTINGS.get(kind, ())))
]


HOW = ((1, False), (1, True), (3, True))
"""Numbers of shards, and whether the state is read again before each batch."""


@pytest.mark.parametrize(("kind", "name", "number"), CASES)
def test_streaming_is_monitor(kind: str, name: str, number: int) -> None:
    chosen = settings_of(kind, name, number)

    @given(data=st.data())
    @settings(max_examples=suites.examples(kind, total=20, most=8))
    def holds(data: st.DataObject) -> None:
        window = data.draw(streams.time_windows())
        lateness = window.lateness * data.draw(st.integers(1, 2))
        stream = data.draw(conformance.small_streams(kind, chosen, window, lateness))
        pushes = pushes_of(stream, chosen)
        query = query_of(kind, window, chosen, stream)
        compare(
            kind,
            query,
            pushes,
            shards=data.draw(st.sampled_from((1, 1, 2, 3))),
            parts=data.draw(st.integers(1, 2)),
            changes=data.draw(st.booleans()),
            forgetful=data.draw(st.booleans()),
        )

    holds()


@pytest.mark.parametrize(("kind", "name", "number"), CASES)
def test_longer_streams(kind: str, name: str, number: int) -> None:
    window = oracle.TimeWindow(30, 7, lateness=3)  # some rows of the stream are later than that
    chosen = settings_of(kind, name, number)
    stream = conformance.long_stream(kind, chosen, window, "crowded")
    pushes = pushes_of(stream, chosen)
    if kind != "SkylineJoin":  # which has few answers
        pushes = pushes[: len(pushes) * 2 // 3]
    query = query_of(kind, window, chosen, stream)
    for shards, forgetful in suites.in_turn(kind, name, number, HOW):
        how = {"changes": forgetful, "forgetful": forgetful}
        compare(kind, query, pushes, shards=shards, parts=2, **how, least=10)


@pytest.mark.parametrize(("kind", "name", "number"), CASES)
def test_corrections(kind: str, name: str, number: int) -> None:
    chosen = settings_of(kind, name, number)

    @given(data=st.data())
    @settings(max_examples=suites.examples(kind, total=20, most=8))
    def holds(data: st.DataObject) -> None:
        window = dataclasses.replace(data.draw(streams.time_windows(3)), revise=500)
        lateness = data.draw(st.integers(10, 60))
        stream = data.draw(conformance.small_streams(kind, chosen, window, lateness))
        pushes = pushes_of(stream, chosen)
        query = query_of(kind, window, chosen, stream)
        changes, forgetful = data.draw(st.booleans()), data.draw(st.booleans())
        parts = data.draw(st.integers(1, 2))
        how = {"changes": changes, "forgetful": forgetful}
        compare(kind, query, pushes, shards=1, parts=parts, **how)

    holds()


@pytest.mark.parametrize(("kind", "name", "number"), CASES)
def test_batches(kind: str, name: str, number: int) -> None:
    window = oracle.TimeWindow(30, 7, lateness=3)
    chosen = settings_of(kind, name, number)
    stream = conformance.long_stream(kind, chosen, window, "crowded")
    pushes = pushes_of(stream, chosen)
    query = query_of(kind, window, chosen, stream)
    sources: dict[str, list[pa.Table]] = {}
    for push in pushes:
        for source, table in spark_simulator.by_source(push).items():
            sources.setdefault(source, []).append(table)
    whole = {source: pa.concat_tables(tables) for source, tables in sources.items()}
    want = sb.rank(whole if set(whole) != {""} else whole[""], query)
    assert want.num_rows > 10
    for shards in suites.in_turn(kind, name, number, (1, 3)):
        plan = spark_simulator.plan_of(query, whole, shards=shards, streaming=False)
        got = spark_simulator.run_batch(plan, whole, parts=2)
        problem = oracle.difference(streams.rows_of(got), streams.rows_of(want), oracle.SUMS[kind])
        assert problem is None, problem


APPROXIMATE = [
    pytest.param(kind, name, number, id=f"{kind}-{name}-{number}")
    for kind in registry.kinds()
    for name in registry.algorithms(kind)
    if not registry.load(kind, name).exact
    for number in range(len(conformance.SETTINGS.get(kind, ())))
]


@pytest.mark.parametrize(("kind", "name", "number"), APPROXIMATE)
def test_approximate_answers_keep_their_bounds(kind: str, name: str, number: int) -> None:
    window = oracle.TimeWindow(30, 7, lateness=3)
    chosen = settings_of(kind, name, number) | approximate.EXTRA.get(name, {})
    stream = conformance.long_stream(kind, chosen, window, "uniform")
    pushes = pushes_of(stream, chosen)
    try:
        query = query_of(kind, window, chosen, stream)
    except sb.QueryError as refused:
        pytest.skip(f"no such query: {refused}")
    for shards, forgetful in suites.in_turn(kind, name, number, HOW):
        plan = spark_simulator.plan_of(
            query, spark_simulator.first_tables(pushes), shards=shards, bounds=True
        )
        job = spark_simulator.Job(plan, parts=2, forgetful=forgetful)
        got = pa.concat_tables([job.push(spark_simulator.by_source(push)) for push in pushes])
        approximate.check(kind, query, got, pushes)


def stored_panes(job: spark_simulator.Job) -> list[int]:
    """The panes of the only key, once for each piece."""
    (store,) = job.stores.values()
    (stored,) = Bucket(job.plan, job.label, store).folds
    return sorted(stored.panes[:, 0].tolist())


def folds() -> list[Fold]:
    """The folds that this process keeps."""
    return [fold for live, _ in CACHED_FOLDS.kept.values() for _, fold in live]


class TestState:
    def test_another_query_finds_that_it_is_not_its_state(self) -> None:
        table = some_rows()
        job = spark_simulator.Job(spark_simulator.plan_of(topk(), {"": table}))
        job.push({"": table})
        (store,) = job.stores.values()
        for other in (
            spark_simulator.plan_of(topk(k=2), {"": table}),
            spark_simulator.plan_of(topk(), {"": table}, shards=2),
            spark_simulator.plan_of(topk(), {"": table}, changes=True),
            spark_simulator.plan_of(
                topk(), {"": table.set_column(1, "id", pa.nulls(40, pa.int64()))}
            ),
        ):
            with pytest.raises(sb.EngineError, match="another query"):
                Bucket(other, job.label, store)
        Bucket(spark_simulator.plan_of(topk(), {"": table}), job.label, store)

    def test_another_version_says_so(self) -> None:
        plan = spark_simulator.plan_of(topk(), {"": some_rows()})
        for own in (plan.first.identity | {"version": 0}, None):
            version = None if own is None else 0
            with pytest.raises(sb.EngineError, match=f"version {version}, but this Skyband reads"):
                plan.check_identity({"board": {"": own}, "alone": True})
        job = spark_simulator.Job(plan)
        job.push({"": some_rows()})
        (store,) = job.stores.values()
        assert store.blob is not None
        head, arrays = unpack(store.blob)
        store.blob = pack(head | {"version": 2}, arrays)
        with pytest.raises(sb.EngineError, match="version 2, but this Skyband reads"):
            Bucket(plan, job.label, store)

    def test_damage_is_found(self) -> None:
        table = some_rows()
        plan = spark_simulator.plan_of(topk(), {"": table})
        job = spark_simulator.Job(plan, forgetful=True)
        job.push({"": table})
        (store,) = job.stores.values()
        assert store.blob is not None
        store.blob = store.blob[:-1] + bytes([store.blob[-1] ^ 1])
        with pytest.raises(sb.EngineError, match="damaged"):
            Bucket(plan, job.label, store)

    def test_a_process_keeps_its_sessions_while_nothing_else_writes(self) -> None:
        table = some_rows()
        plan = spark_simulator.plan_of(topk(), {"": table})
        job = spark_simulator.Job(plan)
        CACHED_FOLDS.kept.clear()
        job.push({"": table})
        (store,) = job.stores.values()
        (kept,) = CACHED_FOLDS.kept.values()
        idle = Bucket(plan, job.label, store)
        (outcome,) = idle.step(job.watermark, []).values()
        assert not len(outcome.windows)
        idle.save(idle.head["timer"])
        assert list(CACHED_FOLDS.kept.values()) == [kept]

    @pytest.mark.parametrize("shards", [1, 2])
    def test_a_kept_session_drops_the_totals_of_expired_panes(self, shards: int) -> None:
        table = some_rows()
        job = spark_simulator.Job(spark_simulator.plan_of(topk(), {"": table}, shards=shards))
        CACHED_FOLDS.kept.clear()
        for _ in range(4):
            job.push({"": table})
            moved = pa.array([each + 1_000 for each in table["ts"].to_pylist()])
            table = table.set_column(table.schema.get_field_index("ts"), "ts", moved)
        assert len(CACHED_FOLDS.kept) == shards
        panes = job.plan.first.window.panes
        for fold in folds():
            assert len(fold.totals.runs) <= panes.per_window + 1

    def test_a_stored_pane_has_one_run_a_group(self) -> None:
        table = some_rows()
        plan = spark_simulator.plan_of(topk(by=("g",)), {"": table})
        job = spark_simulator.Job(plan, parts=3)
        job.push({"": table})
        for store in job.stores.values():
            for blob in store.kept.values():
                runs, _ = unpack_runs(blob, plan.first.groups())
                assert not runs.ordered().repeats.any()

    @pytest.mark.parametrize("forgetful", [False, True])
    def test_a_batch_writes_what_it_adds(self, forgetful: bool) -> None:
        """Forty batches of one pane: each writes its own rows, and sealing joins them."""
        query = sb.HeavyHitters(k=3, item="id", time="ts", window=sb.TimeWindow(100, slide=50))
        names = [f"item {n:06}" for n in range(40)]
        tables = [pa.table({"ts": [1_000 + n] * 40, "id": names}) for n in range(40)]
        plan = spark_simulator.plan_of(query, {"": tables[0]})
        job = spark_simulator.Job(plan, forgetful=forgetful)
        monitor, sizes = sb.Monitor(query), []
        for table in tables:
            before = dict(job.stores[0, 0].kept) if job.stores else {}
            job.push({"": table})
            monitor.push(table)
            kept = job.stores[0, 0].kept
            sizes.append(sum(len(b) for key, b in kept.items() if before.get(key) is not b))
        # All items are in every batch, so the joined pane is as large as one of them.
        assert max(sizes) < 1.5 * sizes[0]
        assert 1 < len(job.stores[0, 0].kept) < 34
        late = pa.table({"ts": [1_060], "id": ["z"]})
        (want,) = monitor.push(late)
        assert job.push({"": late}).to_pylist() == want.table.to_pylist()
        assert stored_panes(job) == [1_000 // 50, 1_060 // 50]  # each in one piece
        assert len(job.stores[0, 0].kept) == 2

    def test_expired_panes_leave_the_store(self) -> None:
        table = some_rows()
        job = spark_simulator.Job(spark_simulator.plan_of(topk(), {"": table}))
        job.push({"": table})
        (store,) = job.stores.values()
        late = pa.table({"ts": [9_000], "id": ["z"], "score": [1.0]})
        job.push({"": late.select(["ts", "id", "score"])})
        assert stored_panes(job) == [9_000 // 5]
        assert len(store.kept) == 1

    def test_a_retried_batch_starts_from_what_was_stored(self) -> None:
        first, second = some_rows(), modern(streams.stream(4, 40, start=60).table)
        query = topk(by=("g",))
        plan = spark_simulator.plan_of(query, {"": first})
        job, again = spark_simulator.Job(plan), spark_simulator.Job(plan)
        for each in (job, again):
            each.push({"": first})
        saved = {key: (s.blob, dict(s.kept)) for key, s in again.stores.items()}
        timers, seen, mark = dict(again.timers), dict(again.seen), again.watermark
        again.push({"": second})  # its writes are lost, and so are the folds it cached
        for key in list(again.stores):
            again.stores[key].blob, again.stores[key].kept = saved.get(key, (None, {}))
        again.timers, again.seen, again.watermark = timers, seen, mark
        assert again.push({"": second}) == job.push({"": second})


def test_bad_rows_are_counted_and_left_out() -> None:
    table = pa.table(
        {"ts": [5_000, 5_001, 5_900], "id": ["a", None, "c"], "score": [1.0, 2.0, 3.0]}
    )
    plan = spark_simulator.plan_of(topk(), {"": table}, on_bad="skip")
    job = spark_simulator.Job(plan)
    got = job.push({"": table})
    assert job.stats["rows_bad"] == 1
    assert got["id"].to_pylist() == ["a", "a"]
    with pytest.raises(sb.DataError, match="id"):
        spark_simulator.Job(spark_simulator.plan_of(topk(), {"": table})).push({"": table})


def test_a_time_that_the_watermark_cannot_hold_makes_a_bad_row() -> None:
    """A time before 1970, or too late to be shifted by a century, does not stop the stream."""
    good = pa.table({"ts": [5_000, 5_900], "id": ["a", "c"], "score": [1.0, 3.0]})
    wrong = pa.table({"ts": [-5, 2**62], "id": ["b", "d"], "score": [9.0, 9.0]})
    null = pa.table({"ts": [5_001, -7], "id": [None, None], "score": [1.0, 1.0]}).cast(good.schema)
    table = pa.concat_tables([good.slice(0, 1), null, wrong, good.slice(1)])
    job = spark_simulator.Job(spark_simulator.plan_of(topk(), {"": table}, on_bad="skip"))
    got = job.push({"": table})
    assert job.stats["rows_bad"] == 4
    assert job.stats["rows_in"] == 6
    assert job.watermark == 5_900
    alone = spark_simulator.Job(spark_simulator.plan_of(topk(), {"": good}))
    assert got["id"].to_pylist() == ["a", "a"]
    assert got == alone.push({"": good})
    # A push of only such rows does not move the watermark.
    assert job.push({"": wrong}).num_rows == 0
    assert (job.stats["rows_bad"], job.watermark) == (6, 5_900)
    for row, told in ((0, "before 1970"), (1, "too far ahead")):
        plan = spark_simulator.plan_of(topk(), {"": table})
        both = pa.concat_tables([good, wrong.slice(row, 1)])
        with pytest.raises(
            sb.DataError, match=rf"column 'ts', row 2: {told}.*\({wrong['ts'][row]}\)"
        ):
            spark_simulator.Job(plan).push({"": both})
    batch = spark_simulator.plan_of(topk(), {"": wrong}, streaming=False)
    assert spark_simulator.run_batch(batch, {"": wrong})["id"].to_pylist() == ["b", "b", "d"]


def test_rows_that_no_window_covers_still_move_the_watermark() -> None:
    window = sb.TimeWindow(2, slide=10)
    table = pa.table({"ts": [1_008, 1_013], "id": ["a", "b"], "score": [1.0, 2.0]})
    job = spark_simulator.Job(spark_simulator.plan_of(topk(window=window), {"": table}))
    assert job.push({"": table})["window_end"].to_pylist() == [1_010]
    assert job.stats["rows_unused"] == 1


def test_tables_survive_the_journey() -> None:
    table = streams.stream(1, 5).table
    assert table_from(table_to_bytes(table)) == table


def test_every_algorithm_runs_here() -> None:
    """Exact and approximate algorithms have separate tests."""
    found = [suites.pairs_of(test) for name, test in globals().items() if name[:5] == "test_"]
    assert set().union(*found) == suites.registered()


@pytest.mark.parametrize("options", [{}, {"preselect": True}])
def test_late_rows_do_not_take_the_place_of_others(options: dict[str, bool]) -> None:
    """Workers do not know the watermark, so a row that they keep may turn out to be late."""
    more = {"epsilon": 0.01, "delta": 0.999, "algorithm": "pabf"} if options else {}
    window = sb.TimeWindow(8, slide=1)
    query = sb.TopK(k=1, score="x", time="t", window=window, options=options, **more)  # type: ignore[arg-type]
    time = [t for t in range(80, 125) for _ in range(100)]
    score = [1_000.0 if t < 100 else 5.0 if t == 100 else 10.0 for t in time]
    first, rows = pa.table({"t": [100], "x": [0.0]}), pa.table({"t": time, "x": score})
    monitor = sb.Monitor(query)
    job = spark_simulator.Job(spark_simulator.plan_of(query, {"": first}))
    for batch in (first, rows):
        want = [row for answer in monitor.push(batch) for row in answer.table.to_pylist()]
        assert job.push({"": batch}).to_pylist() == want
    assert job.stats["rows_late"] == 2_000
