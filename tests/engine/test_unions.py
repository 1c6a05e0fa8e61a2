"""Queries of a board that part where they see different rows, and come together again."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_one_state import compare, queries, shown, states

import skyband as sb
from skyband.engine import unions

KINDS = ("TopK", "groups", "Skyline", "HeavyHitters")
SLIDES = [sb.TimeWindow(6, slide=2), sb.TimeWindow(9, slide=3), sb.TimeWindow(8, slide=5)]


def made(kind: str, windows: list[Any], **more: Any) -> dict[str, Any]:
    if kind != "HeavyHitters":
        return queries(kind, windows, **more)
    common: Any = {"item": "id", "time": "t"}
    return {f"q{i}": sb.HeavyHitters(k=1 + i, window=w, **common) for i, w in enumerate(windows)}


def stream(seed: int, count: int, often: float) -> pa.Table:
    """Rows in order of time, of which a few come up to nine ticks late."""
    draw = np.random.default_rng(seed)
    time = np.cumsum(draw.choice([0, 1, 2, 9], count, p=[0.5, 0.3, 0.15, 0.05]))
    late = draw.random(count) < often
    return pa.table(
        {
            "t": np.where(late, time - draw.integers(1, 9, count), time),
            "id": [f"id{n}" for n in draw.integers(0, 6, count)],
            "x": draw.integers(0, 9, count),
            "y": draw.integers(0, 9, count),
            "g": [f"g{n}" for n in draw.integers(0, 4, count) + time // 20],
        }
    )


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@given(
    seed=st.integers(0, 1000),
    often=st.sampled_from([0.01, 0.03, 0.1]),
    step=st.integers(1, 9),
    lateness=st.sampled_from([0, 1]),
    spare=st.sampled_from([0, 1 << 20]),
    again=st.sampled_from([0, 0, 40]),
)
def test_boards_answer_as_their_queries_do(
    kind: str, seed: int, often: float, step: int, lateness: int, spare: int, again: int
) -> None:
    """Also if what they collect is condensed with each batch, and if boards are restored."""
    windows = [sb.TimeWindow(w.size, slide=w.slide, lateness=lateness) for w in SLIDES]
    named = made(kind, windows)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(seed, 200, often)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unions, "_SPARE", spare)
        for low in range(0, 200, step):
            batch = table.slice(low, step)
            found = together.push(batch)
            counts = together.stats()
            for name, monitor in alone.items():
                own, mine = monitor.push(batch), monitor.stats()
                assert shown([a for a in found if a.name == name]) == shown(own), name
                for count in ("rows_late", "windows_out"):
                    assert counts[name][count] == mine[count], name
                if low % 5:
                    continue
                for last in (None, 2):
                    assert shown([together.peek(name, last)]) == shown([monitor.peek(last)]), name
            together._check()
            if again and low % again < step:
                together = sb.Monitor.restore(together.snapshot())
    found = together.flush()
    for name, monitor in alone.items():
        assert shown([a for a in found if a.name == name]) == shown(monitor.flush()), name


def disputed(times: list[int]) -> pa.Table:
    """Rows of 1,000 ticks; after some of them comes one that is late for some slides only."""
    time = np.arange(1_000).repeat(3)
    for at in times:  # a tick before a multiple of 10, which is sealed for slides of 2 and 5 only
        time = np.insert(time, 3 * (at + 1) + times.index(at), at - 1)
    draw, count = np.random.default_rng(1), len(time)
    columns = {name: draw.integers(0, 9, count) for name in ("id", "x", "y", "g")}
    return pa.table({"t": time, **columns})


@pytest.mark.parametrize("kind", KINDS)
def test_they_part_and_come_together_again_and_again(kind: str) -> None:
    named = made(kind, SLIDES)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = disputed([100, 200, 310, 400, 500, 610, 700, 800])
    for low in range(0, len(table), 10):
        compare(together, alone, table.slice(low, 10), 1)
        if low % 200 == 0:
            together = sb.Monitor.restore(together.snapshot())
    together, found = sb.Monitor(named), set()
    for low in range(len(table)):
        together.push(table.slice(low, 1))
        found.add(together.board.partings())
    assert together.board.partings() == (8, 8)
    assert len(found) == 17


def test_those_that_differ_all_the_time_wait_longer_each_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = queries("TopK", [sb.TimeWindow(10 * w.size, slide=w.slide) for w in SLIDES])
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    real, begun = unions.Union._collect, list[int]()

    def counted(union: unions.Union, since: int) -> None:
        real(union, since)
        assert union.since is not None
        begun.append(union.since)

    monkeypatch.setattr(unions.Union, "_collect", counted)
    table = disputed([at for at in range(10, 990, 10) if at % 30])
    compare(together, alone, table, 3)
    assert together.board.partings() == (1, 0)
    assert 3 <= len(begun) <= 5  # and not 65
    assert (np.diff(np.diff(begun)) > 0).all()


def test_what_is_collected_is_no_more_than_the_common_state_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unions, "_SPARE", 1 << 12)
    windows = [sb.TimeWindow(600, slide=2), sb.TimeWindow(600, slide=3)]
    named = queries("TopK", windows)
    draw, rows = np.random.default_rng(2), 36_000
    time = np.arange(rows) // 60
    columns = {"id": np.arange(rows), "x": draw.random(rows)}
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    compare(together, alone, pa.table({"t": time, **columns}), 3_000)
    late = pa.table({"t": [602, 601], "id": [1, 2], "x": [0.5, 0.6]})
    whole = together.stats()["state_bytes"]
    compare(together, alone, late, 1)
    (union,) = together.board._unions
    most = 0
    for low in range(0, rows, 600):
        batch = pa.table({"t": time + 603, **columns}).slice(low, 600)
        together.push(batch)
        most = max(most, union.nbytes)
        assert together.stats()["state_bytes"] >= union.nbytes
    assert 0 < most < 2 * whole + (1 << 13)
    assert together.board.partings() == (1, 0)
    for at in (1_300, 1_310):
        together.push(pa.table({"t": [at], "id": [1], "x": [0.1]}))
    assert together.board.partings() == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("same", [False, True])
def test_queries_that_were_given_different_rows(kind: str, same: bool) -> None:
    """Whatever they saw, they come together when their windows hold the same rows."""
    windows = [sb.TimeWindow(6, slide=2), sb.TimeWindow(8, slide=2)] if same else SLIDES
    named = made(kind, windows)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(4, 300, 0.0)
    compare(together, alone, table.slice(0, 100), 10)
    some = table.slice(100, 10)
    together.board.push_each({"q0": some})
    alone["q0"].push(some)
    assert set(states_of(together)) == {False}
    for low, high in pairwise(range(110, 300, 10)):
        compare(together, alone, table.slice(low, high - low), 10)
    assert set(states_of(together)) == {True}


def states_of(board: sb.Monitor) -> list[bool]:
    """Whether each query keeps one state with others."""
    return [
        getattr(session.synopsis, "one", None) is not None
        or type(getattr(session.synopsis, "counts", None)).__name__ in ("OwnView", "RecutView")
        for session in board.board.sessions.values()
    ]


def test_times_outside_the_limits_of_one_query() -> None:
    """They are bad for it; when it has seen enough other rows, all keep one state again."""
    windows = [sb.TimeWindow(4, slide=2), sb.TimeWindow(30, slide=3)]
    named = queries("TopK", windows)
    together = sb.Monitor(named, on_bad="skip")
    alone = {name: sb.Monitor(query, on_bad="skip") for name, query in named.items()}
    rows = {"id": ["a", "b"], "x": [1, 2], "y": [1, 2]}
    compare(together, alone, pa.table({"t": [-(2**63) + 20, 0], **rows}), 2)
    assert [together.stats()[name]["rows_bad"] for name in named] == [0, 1]
    for at in range(0, 80, 2):
        compare(together, alone, pa.table({"t": [at, at + 1], **rows}), 2)
    assert states(together)[0] is states(together)[1] is not None
