"""Decayed top-k across long gaps: rows stay until they are beaten, groups are forgotten."""

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


def query_of(**more: Any) -> sb.TopK:
    """The best row at a half-life and a slide of 1; rows are shown by id."""
    settings = {"k": 1, "score": "x", "id": "id", "time": "t", **more}
    return sb.TopK(**{"window": sb.DecayWindow(1, slide=1), **settings})


@pytest.mark.parametrize("distinct", [None, "best"])
def test_a_row_stays_until_it_is_beaten(distinct: Any) -> None:
    """However old it is: only scores of 0 come after it, until one is worth as much."""
    times = [0, 1_002, 5_000, 1_000_000, 1_000_001]
    rows = pa.table({"t": times, "x": [100.0, 0.0, 0.0, 1e-300, 0.0], "id": list("abcde")})
    got = sb.rank(rows, query_of(distinct=distinct))
    assert got["id"].to_pylist() == ["a", "a", "a", "d", "d"]
    assert got["decayed"].to_pylist() == pytest.approx(
        [50.0, 100 * 2.0**-1_003, 0.0, 5e-301, 2.5e-301]
    )


def test_rows_that_are_very_far_apart_keep_their_order() -> None:
    """Their exponents are too far apart for 64 bits, and some rows differ in the last digit only.

    times    0             1     3     7     100,000
    scores   10⁶  10⁶+0.1  8     8     0     1  1  0
    """
    times = [0, 0, 1, 2, 3, 7, 100_000, 100_000, 100_000]
    scores = [1_000_000.0, 1_000_000.1, 8.0, np.inf, 8.0, 0.0, 1.0, 1.0, 0.0]
    rows = pa.table({"t": times, "x": scores, "id": list("abcdefghi")})
    at_once = query_of(k=9, window=sb.DecayWindow(1, slide=200_000))
    assert "".join(sb.rank(rows, at_once)["id"].to_pylist()) == "dghbaecif"
    monitor = sb.Monitor(query_of(k=9))
    answers = [answer for at in range(9) for answer in monitor.push(rows.slice(at, 1))]
    assert "".join(answers[-1].table["id"].to_pylist()) == "dbaecf"
    assert "".join(monitor.flush()[-1].table["id"].to_pylist()) == "dghbaecif"


def scores_of_a(rows: list[tuple[int, float]]) -> dict[int, float]:
    """The score that group a shows at each end; group b has a row at every moment."""
    last = rows[-1][0]
    times = [*range(last + 1), *(time for time, _ in rows)]
    scores, names = [1.0] * (last + 1) + [score for _, score in rows], ["b"] * (last + 1)
    table = pa.table({"t": times, "x": scores, "g": names + ["a"] * len(rows)}).sort_by("t")
    got = sb.rank(table, query_of(by="g", id=None))
    return {row["window_end"]: row["x"] for row in got.to_pylist() if row["g"] == "a"}


def test_a_group_is_forgotten_1000_half_lives_after_its_last_row() -> None:
    """
    rows of a    0: 9     600: 0                          2,700: 0
                 ├ a shows 9 up to 1,600 ─┤  not shown    ├ starts over with 0
    """
    found = scores_of_a([(0, 9.0), (600, 0.0), (2_700, 0.0)])
    assert found == dict.fromkeys(range(1, 1_601), 9.0) | {2_701: 0.0}


def test_a_group_that_goes_on_shows_rows_of_any_age() -> None:
    """A row every 1,000 half-lives is enough, one half-life more is not."""
    found = scores_of_a([(0, 9.0), (1_000, 0.0), (2_000, 0.0)])
    assert found == dict.fromkeys(range(1, 2_002), 9.0)
    found = scores_of_a([(0, 9.0), (1_001, 0.0)])
    assert found == dict.fromkeys(range(1, 1_001), 9.0) | {1_002: 0.0}


@pytest.mark.parametrize("distinct", [None, "best"])
def test_on_spark_a_shard_knows_all_rows_of_a_group(distinct: Any) -> None:
    """
    rows    a 9    a 0      a 0        each is at most 1,000 half-lives after the last
    times   0      900      1,800
    """
    query = query_of(by="g", distinct=distinct)
    pushes = [
        # Group a has its rows in other places, and under other ids.
        pa.table({"t": [time] * 4, "x": [0.0] * at + [score] + [0.0] * (3 - at)})
        .append_column("g", pa.array(["b"] * at + ["a"] + ["b"] * (3 - at)))
        .append_column("id", pa.array([f"{time} {n}" for n in range(4)]))
        for at, (time, score) in enumerate([(0, 9.0), (900, 0.0), (1_800, 0.0), (1_801, 0.0)])
    ]
    plan = spark_simulator.plan_of(query, {"": pushes[0]}, shards=4)
    job = spark_simulator.Job(plan, forgetful=True)
    found = [streams.rows_of(job.push({"": push})) for push in pushes]
    shown = [[row["x"] for row in rows if row["g"] == "a"] for rows in found]
    assert shown == [[], [9.0], [9.0], [9.0]]


def test_an_id_is_forgotten_if_its_latest_row_counts_no_more() -> None:
    rows = pa.table({"t": [0, 999, 1_000, 1_001], "x": [9.0, 0.0, 0.0, 0.0], "id": list("abcd")})
    got = sb.rank(rows, query_of(k=2, distinct="latest"))
    found: dict[int, list[str]] = {}
    for row in got.to_pylist():
        found.setdefault(row["window_end"], []).append(row["id"])
    assert found == {1: ["a"], 1_000: ["a", "b"], 1_001: ["c", "b"], 1_002: ["d", "c"]}


@pytest.mark.parametrize("distinct", [None, "best"])
def test_the_state_is_the_answer(distinct: Any) -> None:
    """k rows of each group, however long the stream is, and no more after a restart."""
    rng = np.random.default_rng(3)
    rows, k = 20_000, 3
    time = np.sort(rng.integers(0, 2_000, rows))
    table = pa.table({"t": time, "x": rng.random(rows), "id": rng.integers(0, 500, rows)})
    window = sb.DecayWindow(50, slide=1)
    query = sb.TopK(k=k, score="x", id="id", time="t", distinct=distinct, window=window)
    monitor = sb.Monitor(query)
    for first in range(0, rows, 500):
        monitor.push(table.slice(first, 500))
        assert monitor.stats()["retained"] <= k
    monitor._check()
    restored = sb.Monitor.restore(monitor.snapshot())
    assert restored.stats()["retained"] == monitor.stats()["retained"] == k


@pytest.mark.parametrize("distinct", [None, "best", "latest"])
def test_groups_that_are_forgotten_leave_nothing(distinct: Any) -> None:
    names = [f"g{number}" for number in range(20)]
    table = pa.table({"t": [0] * 20 + [1] * 20, "x": [3.0] * 20 + [1.0] * 20, "g": names * 2})
    table = table.append_column("id", table["g"])
    query = query_of(by="g", distinct=distinct)
    monitor = sb.Monitor(query)
    monitor.push(table)
    monitor.push(pa.table({"t": [2], "x": [1.0], "g": ["g0"], "id": ["g0"]}))
    assert monitor.stats()["retained"] == 20
    monitor.push(pa.table({"t": [5_000], "x": [1.0], "g": ["new"], "id": ["new"]}))
    monitor.flush()
    assert monitor.stats()["retained"] == 1
