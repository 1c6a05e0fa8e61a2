"""Queries of a board over count windows with groups: each group counts its own arrivals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_one_state import compare, failing, shown, states

import skyband as sb
from skyband.engine import chunks
from skyband.engine.board import BoardSession

KINDS = ("TopK", "kept", "HeavyHitters", "weighted", "Skyline")
WINDOWS = [sb.CountWindow(6, slide=2), sb.CountWindow(9, slide=3), sb.CountWindow(8, slide=5)]


def stream(seed: int, count: int, groups: int = 6) -> pa.Table:
    """A few large groups and some small ones; new ones come all the time."""
    draw = np.random.default_rng(seed)
    group = np.minimum(draw.geometric(0.4, count), groups) + np.arange(count) // 60
    return pa.table(
        {
            "id": [f"id{n}" for n in draw.integers(0, 5, count)],
            "x": draw.integers(0, 9, count),
            "y": draw.integers(0, 9, count),
            "g": [f"g{n}" for n in group],
            "h": draw.integers(0, 2, count),
        }
    )


def made(kind: str, windows: list[Any], **more: Any) -> dict[str, Any]:
    common: Any = {"by": ("g",)} | more
    found: dict[str, Any] = {}
    for i, window in enumerate(windows):
        common["window"] = window
        if kind in ("TopK", "kept"):
            kept: Any = {"keep": ("y",)} if kind == "kept" else {}
            found[f"q{i}"] = sb.TopK(k=1 + 2 * i, score="x", id="id", **kept, **common)
        elif kind == "Skyline":
            found[f"q{i}"] = sb.Skyline(prefer={"x": "max", "y": "min"}, **common)
        else:
            weight = "y" if kind == "weighted" else None
            found[f"q{i}"] = sb.HeavyHitters(k=1 + i, item="id", weight=weight, **common)
    return found


@st.composite
def count_windows(draw: st.DrawFn) -> list[Any]:
    slides = draw(st.sampled_from([[1, 2], [3], [2, 3, 5], [4, 8]]))
    found = []
    for _ in range(draw(st.integers(2, 4))):
        slide = draw(st.sampled_from(slides))
        found.append(sb.CountWindow(draw(st.integers(1, 12)), slide=slide))
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@given(
    windows=count_windows(),
    seed=st.integers(0, 1000),
    step=st.sampled_from([4, 17, 60]),
    chunk=st.sampled_from([7, 1 << 20]),
    again=st.booleans(),
    by=st.sampled_from([("g",), ("g", "h")]),
)
def test_boards_answer_as_their_queries_do(
    kind: str, windows: list[Any], seed: int, step: int, chunk: int, again: bool, by: Any
) -> None:
    """Answers, changes and totals of each group, peeks and counts; also if boards are restored."""
    named = made(kind, windows, by=by)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(seed, 120)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_ROWS", chunk)
        patch.setattr(chunks, "_SMALL_CHUNK", 1)
        for low in range(0, 120, step):
            batch = table.slice(low, step)
            found, counts = together.push(batch), together.stats()
            for name, monitor in alone.items():
                own, mine = monitor.push(batch), monitor.stats()
                assert shown([a for a in found if a.name == name]) == shown(own), name
                for count in ("rows_in", "rows_unused", "windows_out"):
                    assert counts[name][count] == mine[count], (name, count)
                if low % 20 == 0:
                    for last in (None, 1):
                        expected = shown([monitor.peek(last)])
                        assert shown([together.peek(name, last)]) == expected, name
            together._check()
            if again and low % 3 == 0:
                together = sb.Monitor.restore(together.snapshot())


@pytest.mark.parametrize("kind", KINDS)
def test_one_pass_over_the_rows_serves_all(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = made(kind, WINDOWS)
    synopsis = type(sb.Monitor(named).board.sessions["q0"].synopsis)
    calls, real = [], synopsis.summarise

    def counted(self: Any, rows: Any) -> Any:
        calls.append(1)
        return real(self, rows)

    monkeypatch.setattr(synopsis, "summarise", counted)
    sb.Monitor(named).push(stream(1, 100))
    assert len(calls) == 1


@pytest.mark.parametrize("kind", ["TopK", "kept", "Skyline"])
def test_one_state_is_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also after a restore; but not after one of a snapshot in which each kept its own."""
    named = made(kind, WINDOWS)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(3, 900)
    compare(together, alone, table.slice(0, 300), 50)
    assert states(together)[0] is states(together)[2] is not None
    together = sb.Monitor.restore(sb.Monitor.restore(together.snapshot()).snapshot())
    compare(together, alone, table.slice(300, 300), 50)
    assert states(together)[0] is states(together)[2] is not None
    together = sb.Monitor.restore(together.snapshot())
    for name, monitor in alone.items():
        assert shown([together.peek(name)]) == shown([monitor.peek()]), name
    with monkeypatch.context() as patch:
        patch.setattr(BoardSession, "kept_together", lambda _: [])
        again = sb.Monitor.restore(together.snapshot())
    compare(again, alone, table.slice(600), 50)
    assert states(again) == [None] * 3


@pytest.mark.parametrize("kind", ["TopK", "Skyline"])
def test_ten_queries_keep_little_more_than_the_largest_one(kind: str) -> None:
    draw, rows = np.random.default_rng(3), 40_000
    columns = {"g": draw.integers(0, 20, rows), "x": draw.random(rows), "y": draw.random(rows)}
    table = pa.table(columns | {"id": np.arange(rows)})
    named = made(kind, [sb.CountWindow(100 * n, slide=100) for n in range(1, 11)])
    together, largest = sb.Monitor(named), sb.Monitor(named["q9"])
    for low in range(0, rows, 2_000):
        for monitor in (together, largest):
            monitor.push(table.slice(low, 2_000))
    board, alone = together.stats(), largest.stats()
    assert board["retained"] <= 1.2 * alone["retained"]
    assert board["retained"] == sum(board[name]["retained"] for name in named)


def test_operations_are_counted_on_when_boards_are_restored_or_part() -> None:
    names = ("comparisons", "redundant", "expired", "edges")
    named = made("Skyline", WINDOWS)
    together, table = sb.Monitor(named), stream(3, 600)
    together.push(table)

    def counted(monitor: sb.Monitor) -> Any:
        return {n: {count: monitor.stats()[n][count] for count in names} for n in named}

    done = counted(together)
    assert min(done["q0"].values()) > 0
    again = sb.Monitor.restore(together.snapshot())
    assert counted(again) == done
    again.push(table.slice(0, 0))  # they keep one state again
    assert states(again)[0] is not None
    assert counted(again) == done
    (family,) = together.board._families.values()
    family.part()
    assert states(together) == [None] * 3
    assert counted(together) == done
    together._check()


@pytest.mark.parametrize("kind", KINDS)
def test_a_push_that_fails_changes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = made(kind, WINDOWS)
    other = sb.TopK(k=1, score="y", window=sb.CountWindow(7))
    together = sb.Monitor(named | {"other": other})
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(2, 900)
    compare(together, alone, table.slice(0, 60), 20)
    before = [shown([together.peek(name)]) for name in named]
    with monkeypatch.context() as patch:
        patch.setattr(together.board.sessions["other"], "taking", failing)
        with pytest.raises(sb.DataError, match="refused"):
            together.push(table)
    assert [shown([together.peek(name)]) for name in named] == before
    compare(together, alone, table.slice(60), 100)


@pytest.mark.parametrize("kind", KINDS)
def test_queries_that_were_given_different_rows(kind: str) -> None:
    """They have counted different arrivals, so each goes on by itself."""
    named = made(kind, WINDOWS)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(4, 300)
    compare(together, alone, table.slice(0, 100), 10)
    together.board.push_each({"q0": table.slice(100, 10)})
    alone["q0"].push(table.slice(100, 10))
    compare(together, alone, table.slice(110, 100), 10)
    assert [getattr(s.synopsis, "one", None) for s in together.board.sessions.values()] == [
        None
    ] * 3
    together = sb.Monitor.restore(together.snapshot())
    compare(together, alone, table.slice(210), 10)
