"""Decayed top-k across long gaps: rows that outlast better, older ones are shown."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband.kernels.topk.outlasting import outlasting
from skyband.topk import outlasting as state
from support import both_engines, conformance, spark_simulator, streams
from support.spark_cases import pushes_of
from support.unsized_cases import MODES, positive, settings_of

CASES: list[dict[str, Any]] = [
    *settings_of("TopK"),
    *(
        each | {"id": "price", "distinct": mode}
        for each, mode in itertools.product(settings_of("TopK")[:2], MODES)
    ),
    {"k": 1, "score": "weight", "id": "weight", "time": "ts", "distinct": "best"},
]
IDS = [f"{number}-{each.get('distinct')}" for number, each in enumerate(CASES)]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the reserve after nearly every pane."""
    monkeypatch.setattr(state, "_SLACK", -1_000)


def stretched(stream: streams.Stream, gaps: dict[int, int]) -> streams.Stream:
    """The same rows with some gaps between their times replaced by others."""
    times = sorted({row["ts"] for row in stream.rows})
    start = times[0] if times else 0
    steps = [gaps.get(later - time, later - time) for time, later in itertools.pairwise(times)]
    moved = dict(zip(times, itertools.accumulate(steps, initial=start), strict=False))
    rows = [row | {"ts": moved[row["ts"]]} for row in stream.rows]
    kinds = {field.name: field.type for field in stream.table.schema}
    return streams.from_rows(rows, kinds, stream.cuts)


@st.composite
def windows_and_streams(draw: st.DrawFn) -> tuple[oracle.DecayWindow, streams.Stream]:
    window = oracle.DecayWindow(
        half_life=draw(st.sampled_from((1, 2, 3))),
        slide=draw(st.sampled_from((1, 2, 7, 300, 2_500))),
        lateness=draw(st.sampled_from((0, 0, 3))),
        offset=draw(st.integers(-3, 3)),
    )
    memory = oracle.unsized.GONE * window.half_life
    gaps = {
        40: memory + draw(st.integers(-4, 4)),
        7: memory // 2 + draw(st.integers(-4, 4)),
        3: draw(st.sampled_from((3, memory // 3))),
    }
    stream = draw(streams.streams(max_rows=16, lateness=window.lateness))
    return window, positive(stretched(stream, gaps))


@pytest.mark.nojit
@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("chosen", CASES, ids=IDS)
@given(data=st.data())
@settings(max_examples=12)
def test_long_gaps(chosen: dict[str, Any], data: st.DataObject) -> None:
    window, stream = data.draw(windows_and_streams())
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare("TopK", window, chosen, stream, restarts, peeks)


def sparse(seed: int, rows: int, half_life: int, **more: Any) -> streams.Stream:
    """Some ten rows in the time after which they are gone, in bursts."""
    memory = 1_000 * half_life
    made = streams.stream(seed, rows, step=memory // 8, gap=memory, ids=5, **more)
    return positive(stretched(made, {1: memory, 2: memory - 1, 3: memory + 1}))


@pytest.mark.parametrize("slide", [7, 125, 700])
@pytest.mark.parametrize("chosen", CASES, ids=IDS)
def test_sparse_streams(chosen: dict[str, Any], slide: int) -> None:
    for seed, pattern in enumerate(("uniform", "crowded", "falling")):
        window = oracle.DecayWindow(1, slide, lateness=5)
        stream = sparse(seed, 100, 1, pattern=pattern, batches=15)
        conformance.compare("TopK", window, chosen, stream, restarts=seed == 1, peeks=True)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("chosen", CASES, ids=IDS)
def test_on_spark(chosen: dict[str, Any]) -> None:
    """Both engines agree; each state is read from the store again after every batch."""
    window = oracle.DecayWindow(1, 300, lateness=5)
    stream = sparse(4, 60, 1, pattern="uniform", batches=15)
    query = conformance.query_of("TopK", window, chosen, stream.table)
    how: Any = {"parts": 2, "changes": False, "forgetful": True, "least": 5}
    for shards in (1, 3):
        both_engines.compare("TopK", query, pushes_of(stream, chosen), shards=shards, **how)
    whole = stream.table
    plan = spark_simulator.plan_of(query, {"": whole}, shards=3, streaming=False)
    got = spark_simulator.run_batch(plan, {"": whole})
    problem = oracle.difference(
        streams.rows_of(got), streams.rows_of(sb.rank(whole, query)), oracle.SUMS["TopK"]
    )
    assert problem is None, problem


@pytest.mark.parametrize("distinct", [None, "best"])
def test_on_spark_a_row_comes_up_that_was_stored_batches_ago(distinct: Any) -> None:
    """
    rows    a 100     b 10            c 0       d 0
    times   1,000     1,002           3,001     9,000; rows are gone after 2,000
    """
    window = sb.DecayWindow(2, slide=1)
    query = sb.TopK(k=1, score="x", id="id", time="t", distinct=distinct, window=window)
    rows = zip([1_000, 1_002, 3_001, 9_000], [100.0, 10.0, 0.0, 0.0], "abcd", strict=True)
    pushes = [pa.table({"t": [time], "x": [score], "id": [name]}) for time, score, name in rows]
    job = spark_simulator.Job(spark_simulator.plan_of(query, {"": pushes[0]}), forgetful=True)
    found = [job.push({"": push})["id"].to_pylist() for push in pushes]
    assert found == [[], ["a"], ["a"], ["b"]]


def test_a_board_shows_what_its_queries_show() -> None:
    window = oracle.DecayWindow(1, 300)
    stream = sparse(5, 200, 1)
    board = {
        name: conformance.query_of("TopK", window, chosen, stream.table)
        for name, chosen in zip(IDS, CASES, strict=True)
    }
    found = sb.rank(stream.table, board)
    for name, query in board.items():
        assert found[name].equals(sb.rank(stream.table, query))


def test_a_state_without_a_reserve_has_none_to_read() -> None:
    """As a snapshot of 0.2, which had the best k rows only: it goes on from those."""
    query = sb.TopK(k=1, score="x", id="id", time="t", window=sb.DecayWindow(1, slide=1))
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"t": [0, 1, 2], "x": [100.0, 10.0, 0.0], "id": ["a", "b", "c"]}))
    synopsis: Any = monitor.session.synopsis
    synopsis.reserve = state.Reserve()
    monitor = sb.Monitor.restore(monitor.snapshot())
    monitor.push(pa.table({"t": [1_002], "x": [0.0], "id": ["d"]}))
    assert monitor.flush()[-1].table["id"].to_pylist() == ["d"]


@pytest.mark.parametrize("distinct", [None, "best"])
def test_the_reserve_is_bounded(distinct: Any) -> None:
    """After 2,000 panes in steady flow it holds rows of a few half-lives, and all that may count.

    The k-skyband of random scores in n panes has about k (1 + ln n) rows.
    """
    rng = np.random.default_rng(3)
    rows, k = 40_000, 3
    time = np.sort(rng.integers(0, 2_000, rows))
    table = pa.table({"t": time, "x": rng.random(rows), "id": rng.integers(0, 500, rows)})
    window = sb.DecayWindow(50, slide=1)
    query = sb.TopK(k=k, score="x", id="id", time="t", distinct=distinct, window=window)
    monitor, most = sb.Monitor(query), 0
    for first in range(0, rows, 500):
        monitor.push(table.slice(first, 500))
        most = max(most, int(monitor.stats()["retained"]))
    synopsis: Any = monitor.session.synopsis
    assert most <= state._SLACK + 4 * k * (1 + np.log(200)) + k
    synopsis._reduce(2_000)
    monitor._check()
    assert k < synopsis.reserve.rows < 2 * k * (1 + np.log(200))
    assert monitor.stats()["retained"] == synopsis.reserve.rows + k
    restored = sb.Monitor.restore(monitor.snapshot())
    assert restored.stats()["retained"] == monitor.stats()["retained"]


def test_equal_rows_do_not_fill_the_reserve() -> None:
    """A million rows of one moment and score are k rows, whatever comes later."""
    rows = 20_000
    table = pa.table({"t": [5] * rows, "x": [1.0] * rows, "id": range(rows)})
    query = sb.TopK(k=2, score="x", id="id", time="t", window=sb.DecayWindow(7, slide=10))
    monitor = sb.Monitor(query)
    monitor.push(table)
    monitor.push(pa.table({"t": [15, 15], "x": [9.0, 8.0], "id": [-1, -2]}))
    monitor.flush()
    assert monitor.stats()["retained"] <= 4


def test_groups_that_are_gone_leave_nothing() -> None:
    groups = [f"g{number}" for number in range(20)]
    table = pa.table({"t": [0] * 20 + [1] * 20, "x": [3.0] * 20 + [1.0] * 20, "g": groups * 2})
    query = sb.TopK(k=1, score="x", time="t", by=("g",), window=sb.DecayWindow(1, slide=1))
    monitor = sb.Monitor(query)
    monitor.push(table)
    monitor.push(pa.table({"t": [2], "x": [1.0], "g": ["g0"]}))
    assert monitor.stats()["retained"] == 40
    monitor.push(pa.table({"t": [5_000], "x": [1.0], "g": ["new"]}))
    monitor.flush()
    assert monitor.stats()["retained"] == 1


@pytest.mark.nojit
@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 4), max_size=25),
    st.integers(1, 3),
    st.booleans(),
)
def test_the_kernel_keeps_what_the_definition_keeps(
    rows: list[tuple[int, ...]], k: int, owned: bool
) -> None:
    """Key, tie, last end, owner: the better of two equal keys is the one with the later tie."""
    made = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    key, tie, last, owner = made
    last = last + 5 * tie  # a later row lasts as long at least
    runs = np.array([0, len(rows) // 3, len(rows)])
    order = np.concatenate([
        low + np.lexsort((~tie[low:high], ~key[low:high]))
        for low, high in itertools.pairwise(runs)
    ])  # fmt: skip
    arguments = order.astype(np.int64), key, tie, last, owner if owned else owner[:0], runs, k
    found, _ = outlasting(*arguments)
    for low, high in itertools.pairwise(runs):
        for row in range(low, high):
            better = [
                other
                for other in range(low, high)
                if (key[other], tie[other]) > (key[row], tie[row]) and last[other] >= last[row]
            ]
            owners = {owner[other] for other in better} if owned else better
            own = owned and owner[row] in {owner[other] for other in better}
            assert found[row] == (len(owners) < k and not own)
