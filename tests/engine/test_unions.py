"""Queries of a board that part where they see different rows, and come together again."""

from __future__ import annotations

from collections.abc import Sequence
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


def stream(seed: int, ticks: int, disputed: Sequence[int] = ()) -> pa.Table:
    """Three rows of each tick, in order; and good ones that come late for some slides only.

    For each ``at`` that is disputed a row of ``at - 1`` follows those of ``at + 1``. If ``at`` is 4
    more than a multiple of 6, it is late for slides of 2, but not for slides of 3.
    """
    time = np.arange(ticks).repeat(3)
    places = [3 * (at + 2) for at in disputed]
    time = np.insert(time, places, [at - 1 for at in disputed])
    draw, count = np.random.default_rng(seed), len(time)
    columns = {name: draw.integers(0, 9, count) for name in ("id", "x", "y")}
    late = np.array(places, np.int64) + np.arange(len(places))
    columns["x"][late], columns["y"][late] = 20, -1
    return pa.table({"t": time, **columns, "g": draw.integers(0, 4, count) + time // 20})


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5, deadline=None)
@given(
    seed=st.integers(0, 1000),
    often=st.sets(st.integers(3, 14), max_size=6),
    step=st.sampled_from([2, 3, 3]),
    lateness=st.sampled_from([0, 0, 1]),
    spare=st.sampled_from([0, 1 << 20]),
    again=st.sampled_from([0, 0, 40]),
)
def test_boards_answer_as_their_queries_do(
    kind: str, seed: int, often: set[int], step: int, lateness: int, spare: int, again: int
) -> None:
    """Also if what they collect is condensed with each batch, and if boards are restored."""
    windows = [sb.TimeWindow(w.size, slide=w.slide, lateness=lateness) for w in SLIDES]
    named = made(kind, windows)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(seed, 100, [6 * at + 4 for at in sorted(often)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unions, "_SPARE", spare)
        for low in range(0, len(table), step):
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


@pytest.mark.parametrize("kind", KINDS)
def test_they_part_and_come_together_again_and_again(kind: str) -> None:
    named = made(kind, SLIDES)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(1, 320, range(40, 300, 36))
    found = []
    for low in range(0, len(table), 3):
        compare(together, alone, table.slice(low, 3), 3)
        found.append(together.board.partings())
    assert list(dict.fromkeys(found)) == sorted(
        [(n, n) for n in range(9)] + [(n + 1, n) for n in range(8)]
    )
    assert states_of(together) == [True] * 3


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
    table = stream(1, 1_000, range(10, 990, 12))
    compare(together, alone, table, 3)
    assert together.board.partings() == (1, 0)
    assert 3 <= len(begun) <= 5  # and not 82
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
        compare(together, alone, batch, 600)
        most = max(most, union.nbytes)
        assert together.stats()["state_bytes"] >= union.nbytes
    assert 0 < most < 2 * whole + (1 << 13)
    assert together.board.partings() == (1, 0)
    for at in (1_300, 1_310):
        compare(together, alone, pa.table({"t": [at], "id": [1], "x": [0.1]}), 1)
    assert together.board.partings() == (1, 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("same", [False, True])
def test_queries_that_were_given_different_rows(kind: str, same: bool) -> None:
    """Whatever they saw, they come together when their windows hold the same rows."""
    windows = [sb.TimeWindow(6, slide=2), sb.TimeWindow(8, slide=2)] if same else SLIDES
    named = made(kind, windows)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(4, 100)
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
