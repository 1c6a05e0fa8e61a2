"""Queries that are readers of one fold: each answers as it does alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.contract.capabilities import ReaderFold
from skyband.engine.fold import folds_of, model_of, widest

KINDS = ("TopK", "HeavyHitters", "Skyline")
Board = dict[str, sb.Query]


def query(kind: str, k: int, window: Any, **more: Any) -> sb.Query:
    common: Any = {"time": "t", "window": window} | more
    if kind == "TopK":
        return sb.TopK(k=k, score="x", id="id", **common)
    if kind == "HeavyHitters":
        return sb.HeavyHitters(k=k, item="id", **common)
    return sb.Skyline(prefer={"x": "max", "y": "min"}, **common)


def rows(seed: int, count: int, late: int) -> pa.Table:
    made = np.random.default_rng(seed)
    time = 1_000 + np.cumsum(made.choice([0, 1, 3, 25], count, p=[0.6, 0.2, 0.15, 0.05]))
    return pa.table(
        {
            "t": time - made.integers(0, late + 1, count),
            "id": [f"id{n}" for n in made.integers(0, 9, count)],
            "g": [f"g{n}" for n in made.integers(0, 4, count)],
            "x": made.integers(0, 12, count),
            "y": made.integers(0, 9, count),
            "w": made.integers(0, 50, count) / 4,
        }
    )


def of(answers: Sequence[sb.Answer], name: str | None) -> list[Any]:
    own = [answer for answer in answers if answer.name == name]
    return [(a.start, a.end, a.table.to_pylist(), a.changes.to_pylist(), a.total) for a in own]


@st.composite
def windows(draw: st.DrawFn) -> list[Any]:
    """Windows of one slide, and now and then one of another, which is in a fold of its own."""
    slide = draw(st.integers(1, 8))
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=5))
    more = {"lateness": draw(st.sampled_from([0, 4]))}
    kind = draw(st.sampled_from([sb.TimeWindow, sb.TimeWindow, sb.CountWindow]))
    if kind is sb.CountWindow:
        more = {}
    made = [kind(size * slide, slide=slide, **more) for size in sizes]
    if draw(st.booleans()):
        made.append(kind(3 * slide + 1, slide=slide + 1, **more))
    return made


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(
    windows=windows(),
    late=st.sampled_from([0, 0, 6, 40]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 90), max_size=8),
    by=st.sampled_from([(), ("g",)]),
    restores=st.sets(st.integers(0, 8), max_size=2),
    weight=st.sampled_from([None, "y", "w"]),
    keep=st.booleans(),
)
def test_each_query_answers_as_it_does_alone(
    kind: str, windows: list[Any], late: int, seed: int, cuts: list[int], by: tuple[str, ...],
    restores: set[int], weight: str | None, keep: bool,
) -> None:  # fmt: skip
    more: dict[str, Any] = {"by": by} | ({"keep": ("y",)} if keep and kind != "Skyline" else {})
    more |= {"weight": weight} if kind == "HeavyHitters" else {}
    board: Board = {
        f"q{i}": query(kind, (7 * i + seed) % 5 + 1, window, **more)
        for i, window in enumerate(windows)
    }
    table = rows(seed, 90, late)
    monitor, alone = sb.Monitor(board), {name: sb.Monitor(each) for name, each in board.items()}
    for at, (low, high) in enumerate(pairwise(sorted({0, 90, *cuts}))):
        batch = table.slice(low, high - low)
        answers = monitor.push(batch)
        monitor._check()
        for name, own in alone.items():
            assert of(answers, name) == of(own.push(batch), None), name
        if at in restores:
            monitor = sb.Monitor.restore(monitor.snapshot())
    for name, own in alone.items():
        try:
            want = own.peek()
        except sb.EngineError:
            continue
        seen = monitor.peek(name)
        assert (seen.start, seen.end, seen.total) == (want.start, want.end, want.total)
        assert seen.table.equals(want.table), name
        counts = ("rows_in", "rows_late", "rows_unused", "windows_out")
        stats, wanted = monitor.stats()[name], own.stats()
        assert [stats[count] for count in counts] == [wanted[count] for count in counts]
    answers = monitor.flush()
    for name, own in alone.items():
        assert of(answers, name) == of(own.flush(), None), name


@pytest.mark.parametrize("kind", KINDS)
def test_a_board_has_one_fold_for_queries_that_differ_in_k_and_size(kind: str) -> None:
    def window(size: int, slide: int = 5, **more: Any) -> sb.TimeWindow:
        return sb.TimeWindow(size, slide=slide, **more)

    board: Board = {
        "short": query(kind, 2, window(5)),
        "long": query(kind, 3, window(40)),
        "late": query(kind, 2, window(20, lateness=3)),
        "other cuts": query(kind, 2, window(7)),
        "other slide": query(kind, 2, window(20, 4)),
        "gaps": query(kind, 2, window(3)),
        "filtered": query(kind, 2, window(10), where={"g": "g1"}),
        "again": query(kind, 9, window(15)),
    }
    assert issubclass(model_of(board["short"]), ReaderFold)
    together = ["short", "long", "again"]
    assert folds_of(board) == [together, *([n] for n in board if n not in together)]
    served: Any = widest([board[name] for name in together])
    assert served.window.panes.size == 40
    assert kind == "Skyline" or served.k == 9
    text = sb.explain(board)
    assert "shares one state with short, long" in text


@pytest.mark.parametrize("kind", KINDS)
def test_queries_that_go_leave_the_others_as_they_were(kind: str) -> None:
    board: Board = {
        f"q{i}": query(kind, i + 1, sb.TimeWindow(size, slide=5))
        for i, size in enumerate((20, 60, 35))
    }
    table = rows(7, 240, 0)
    monitor, alone = sb.Monitor(board), sb.Monitor(board["q2"])
    for low in range(0, 120, 20):
        monitor.push(table.slice(low, 20))
        alone.push(table.slice(low, 20))
    left = {"q2": board["q2"], "new": query(kind, 4, sb.TimeWindow(10, slide=5))}
    monitor, diff = sb.Monitor.resume(monitor.snapshot(), left)
    assert (list(diff.added), diff.removed) == (["new"], ["q0", "q1"])
    joined = 0
    for low in range(120, 240, 20):
        answers = monitor.push(table.slice(low, 20))
        monitor._check()
        assert of(answers, "q2") == of(alone.push(table.slice(low, 20)), None)
        joined += len(of(answers, "new"))
    assert joined > 5
    again = sb.Monitor.restore(monitor.snapshot())
    assert of(again.flush(), "q2") == of(alone.flush(), None)


@pytest.mark.parametrize("sizes", [(5, 5), (20, 20), (60, 20), (20, 60)])
@pytest.mark.parametrize("kind", ["TopK", "HeavyHitters"])
def test_a_query_that_is_left_alone_shows_no_more_than_its_k(
    kind: str, sizes: tuple[int, int]
) -> None:
    windows = [sb.TimeWindow(size, slide=5) for size in sizes]
    board: Board = {"gone": query(kind, 6, windows[0]), "left": query(kind, 2, windows[1])}
    table = rows(8, 240, 0)
    monitor, alone = sb.Monitor(board), sb.Monitor(board["left"])
    for each in (monitor, alone):
        each.push(table.slice(0, 120))
    monitor, _ = sb.Monitor.resume(monitor.snapshot(), {"left": board["left"]})
    for low in range(120, 240, 20):
        batch = table.slice(low, 20)
        assert of(monitor.push(batch), "left") == of(alone.push(batch), None)
        assert monitor.peek("left").table.equals(alone.peek().table)
        monitor._check()
        monitor = sb.Monitor.restore(monitor.snapshot())
