"""TopK and Skyline queries of a board that keep one state: answers equal those of each alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.embedded.monitor import new_board
from skyband.embedded.snapshots import resumed, snapshot_of
from skyband.engine import who_shares
from skyband.engine.board import BoardSession

KINDS = ("TopK", "groups", "Skyline", "Skyline by group")


def stream(seed: int, count: int, late: int = 0) -> pa.Table:
    """Few different scores, so that many rows tie, and gaps longer than some windows."""
    made = np.random.default_rng(seed)
    time = np.cumsum(made.choice([0, 1, 2, 25], count, p=[0.7, 0.2, 0.09, 0.01]))
    score = made.integers(0, 9, count)
    if seed % 3 == 1:
        score = np.sort(score)[::-1]  # falling: nothing is ever dropped
    return pa.table(
        {
            "t": time - made.integers(0, late + 1, count),
            "id": [f"id{n}" for n in made.integers(0, 9, count)],
            "x": score,
            "y": made.integers(0, 9, count),
            "g": [f"g{n}" for n in made.integers(0, 5, count)],
        }
    )


Window = sb.TimeWindow | sb.CountWindow


def queries(kind: str, windows: Sequence[Window], **settings: Any) -> dict[str, Any]:
    if not kind.startswith("Skyline"):
        common: Any = {"score": "x", "id": "id", "time": "t"} | settings
        common |= {"by": ("g",)} if kind == "groups" else {}
        return {f"q{i}": sb.TopK(k=1 + 2 * i, window=w, **common) for i, w in enumerate(windows)}
    prefer = {"x": "max", "y": "min"}
    by = ("g",) if kind == "Skyline by group" else ()
    return {
        f"q{i}": sb.Skyline(prefer=prefer, time="t", window=w, by=by, **settings)
        for i, w in enumerate(windows)
    }


def shown(answers: Any) -> list[Any]:
    return [
        (a.start, a.end, a.table.to_pylist(), a.changes.to_pylist(), a.total, a.exact, a.bounds)
        for a in answers
    ]


def states(monitor: sb.Monitor) -> list[Any]:
    sessions = monitor.board.sessions.values()
    return [session.synopsis.one for session in sessions]  # type: ignore[attr-defined]


@st.composite
def differing_windows(draw: st.DrawFn, counting: bool | None = None) -> list[Window]:
    slides = draw(st.sampled_from([[3], [2, 3, 4, 6], [5, 10, 20]]))
    counting = draw(st.sampled_from([False, False, True])) if counting is None else counting
    found: list[Window] = []
    for _ in range(draw(st.integers(2, 4))):
        slide = draw(st.sampled_from(slides))
        size = draw(st.integers(slide, 24))
        offset = draw(st.sampled_from([0, 0, 1]))
        timed = sb.TimeWindow(size, slide=slide, lateness=2, offset=offset)
        found.append(sb.CountWindow(size, slide=slide) if counting else timed)
    return found


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(
    windows=differing_windows(),
    late=st.sampled_from([0, 2, 2, 9]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    step=st.sampled_from([0, 0, 4]),
    kept=st.booleans(),
    some=st.booleans(),
)
def test_boards_answer_as_their_queries_do(
    kind: str, windows: list[Window], late: int, seed: int, cuts: list[int], step: int,
    kept: bool, some: bool,
) -> None:  # fmt: skip
    """With late rows, small pushes, restores and peeks; also over windows shorter than asked."""
    more: Any = {"keep": ("y",)} if kept and not kind.startswith("Skyline") else {}
    more |= {"where": {"id": ["id0", "id1", "id5", "id7"]}} if some else {}
    named = queries(kind, windows, **more)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    together = sb.Monitor(named)
    table = stream(seed, 120, late)
    edges = sorted({0, *cuts, 120, *(range(0, 40, step) if step else ())})
    for low, high in pairwise(edges):
        batch = table.slice(low, high - low)
        found = together.push(batch)
        for name, monitor in alone.items():
            own = monitor.push(batch)
            assert shown([a for a in found if a.name == name]) == shown(own), name
            counts, mine = together.stats()[name], monitor.stats()
            for count in ("rows_late", "rows_unused", "windows_out"):
                assert counts[count] == mine[count], (name, count)
            for last in (None, 2):
                assert shown([together.peek(name, last)]) == shown([monitor.peek(last)]), name
        together._check()
        if seed % 2:
            together = sb.Monitor.restore(together.snapshot())
            for name, monitor in alone.items():
                assert shown([together.peek(name)]) == shown([monitor.peek()]), name
    found = together.flush()
    for name, monitor in alone.items():
        assert shown([a for a in found if a.name == name]) == shown(monitor.flush()), name


def pushed(monitor: sb.Monitor, table: pa.Table, step: int) -> list[Any]:
    found: list[Any] = []
    for low in range(0, len(table), step):
        found += monitor.push(table.slice(low, step))
    return found


def compare(together: sb.Monitor, alone: dict[str, sb.Monitor], table: pa.Table, step: int) -> None:
    """Push a table to a board and to each query alone, and compare all answers."""
    found = pushed(together, table, step)
    for name, monitor in alone.items():
        own = pushed(monitor, table, step)
        assert shown([a for a in found if a.name == name]) == shown(own), name
    together._check()


SIZES = [sb.TimeWindow(size, slide=20) for size in (20, 60, 100, 240)]
SLIDES = [sb.TimeWindow(60, slide=10), sb.TimeWindow(90, slide=15), sb.TimeWindow(40, slide=25)]
COUNTED = [sb.CountWindow(60, slide=10), sb.CountWindow(90, slide=15), sb.CountWindow(40, slide=25)]


FORMS = pytest.mark.parametrize(
    ("kind", "windows"),
    [(kind, SLIDES) for kind in KINDS] + [(kind, COUNTED) for kind in ("TopK", "Skyline")],
)


@pytest.mark.parametrize(("kind", "windows"), [*((kind, SIZES) for kind in KINDS), *FORMS.args[1]])
def test_one_state_is_kept_and_goes_on(kind: str, windows: Sequence[Window]) -> None:
    named = queries(kind, windows)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(5, 1_000)
    compare(together, alone, table.slice(0, 500), 100)
    assert len({id(one) for one in states(together)}) == 1
    assert states(together)[0] is not None
    again = sb.Monitor.restore(sb.Monitor.restore(together.snapshot()).snapshot())
    none = table.slice(0, 0)
    assert list(again.push(none)) == []  # they keep one state again
    for name, monitor in alone.items():
        assert shown([again.peek(name)]) == shown([monitor.peek()]), name
    again = sb.Monitor.restore(again.snapshot())
    compare(again, alone, table.slice(500), 100)
    assert len({id(one) for one in states(again)}) == 1
    assert states(again)[0] is not None


@pytest.mark.parametrize("kind", KINDS)
def test_ten_queries_keep_little_more_than_the_largest_one(kind: str) -> None:
    made = np.random.default_rng(3)
    score = made.random(20_000)
    columns: dict[str, Any] = {"x": score, "y": score + made.random(20_000) / 50}  # large skylines
    columns["g"] = made.integers(0, 3, 20_000)
    table = pa.table({"t": np.arange(20_000) // 50, "id": np.arange(20_000), **columns})
    windows = [sb.TimeWindow(30 * n, slide=30) for n in range(1, 11)]
    named = queries(kind, windows)
    together, largest = sb.Monitor(named), sb.Monitor(named["q9"])
    for monitor in (together, largest):
        pushed(monitor, table, 2_500)
    board, alone = together.stats(), largest.stats()
    assert board["retained"] <= 1.1 * alone["retained"]
    assert board["state_bytes"] <= 1.3 * alone["state_bytes"]
    assert board["retained"] == sum(board[name]["retained"] for name in named)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_are_late_for_one_query_only_make_them_part_for_a_while(kind: str) -> None:
    named = queries(kind, SLIDES)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(6, 500)
    time = table["t"].to_numpy()
    table = table.set_column(0, "t", pa.array(time + (50 - time.max()) % 150))
    compare(together, alone, table, 300)
    assert states(together)[0] is not None
    at = int(table["t"].to_numpy().max()) + 5  # that is 55, and 49 is late for a slide of 10 only
    late = pa.table(
        {"t": [at, at - 6, at + 1], "id": ["a", "b", "c"], "x": [1, 9, 2], "y": [1, 2, 3]}
    ).append_column("g", pa.array(["g1", "new", "g1"]))
    compare(together, alone, late, 1)
    assert len({together.stats()[name]["rows_late"] for name in named}) == 2
    assert states(together) == [None] * 3
    assert together.board.partings() == (1, 0)
    compare(together, alone, table.set_column(0, "t", pa.array(time + at)), 100)
    assert together.board.partings() == (1, 1)
    assert states(together)[0] is states(together)[2] is not None
    together.board.restart()  # as rank does, to sort files
    together.push(table)
    assert states(together)[0] is not None


@FORMS
def test_small_pushes_take_the_short_way(kind: str, windows: Sequence[Window]) -> None:
    named = queries(kind, windows)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    compare(together, alone, stream(8, 300), 3)
    assert states(together)[0] is not None
    for session in together.board.sessions.values():
        assert session.small is not None
        assert session.small.kept > 50
    last = int(stream(8, 300)["t"].to_numpy().max())
    more = pa.table({"t": [last] * 2, "id": ["a", "b"], "x": [10, 11], "y": [0, 0]})
    more = more.append_column("g", pa.array(["g1", "new"]))
    again = sb.Monitor.restore(together.snapshot())
    for monitor in (together, again, *alone.values()):
        monitor.push(more)
    again = sb.Monitor.restore(again.snapshot())  # with rows that wait
    rest = more.take(pa.array([0] * 150))  # ends count windows, which do not end by themselves
    for board in (together, again):
        found = shown([*board.push(rest), *board.flush()])
        assert any(row["x"] == 11 for answer in found for row in answer[2])
    each = [shown([*monitor.push(rest), *monitor.flush()]) for monitor in alone.values()]
    assert sorted(map(repr, found)) == sorted(map(repr, chain(*each)))


@FORMS
def test_queries_may_leave_and_join_a_board(kind: str, windows: Sequence[Window]) -> None:
    """Those that stay go on with one state; one that joins keeps its own."""
    named = queries(kind, windows)
    table = stream(9, 600)
    blob = sb.Monitor(named)
    alone = {name: sb.Monitor(named[name]) for name in ("q1", "q2")}
    compare(blob, alone, table.slice(0, 400), 100)
    left = {name: named[name] for name in alone} | {"new": queries(kind, windows[:1])["q0"]}
    board, changed = resumed(blob.snapshot(), left, new_board)
    assert changed.removed == ["q0"]
    again = sb.Monitor.restore(snapshot_of(board))
    compare(again, alone, table.slice(400), 100)
    one, other, new = states(again)
    assert one is other is not None
    assert new is None
    assert again.stats()["new"]["windows_out"] > 0


@FORMS
def test_a_snapshot_of_a_version_in_which_each_query_kept_its_own(
    kind: str, windows: Sequence[Window], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = queries(kind, windows)
    together = sb.Monitor(named)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(10, 900)
    compare(together, alone, table.slice(0, 400), 100)
    with monkeypatch.context() as patch:
        patch.setattr(BoardSession, "kept_together", lambda _: [])
        blob = together.snapshot()
    again = sb.Monitor.restore(blob)
    compare(again, alone, table.slice(400, 50), 50)
    assert states(again) == [None] * 3
    compare(again, alone, table.slice(450), 100)
    assert states(again)[0] is states(again)[2] is not None  # their windows hold the same rows now


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_in_another_query_changes_nothing(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other query fails when the feed has its rows already."""
    named = queries(kind, SLIDES)
    other = sb.TopK(k=1, score="y", time="t", window=sb.TimeWindow(7))
    together = sb.Monitor(named | {"other": other})
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    table = stream(11, 600)
    compare(together, alone, table.slice(0, 400), 200)
    before = together.snapshot()
    with monkeypatch.context() as patch:
        patch.setattr(together.board.sessions["other"], "taking", failing)
        with pytest.raises(sb.DataError, match="refused"):
            together.push(table.slice(400))
    assert together.snapshot() == before
    compare(together, alone, table.slice(400), 100)


def failing(*_: Any) -> None:
    raise sb.DataError("refused")


def test_who_keeps_one_state() -> None:
    window = sb.TimeWindow
    common: Any = {"score": "x", "time": "t"}
    board = {
        "a": sb.TopK(k=1, window=window(20, slide=10), **common),
        "tumbling": sb.TopK(k=9, window=window(10), **common),
        "finer": sb.TopK(k=9, window=window(60, slide=5), **common),
        "late": sb.TopK(k=9, window=window(60, slide=10, lateness=5), **common),
        "gaps": sb.TopK(k=9, window=window(5, slide=10), **common),
        "g1": sb.TopK(k=9, window=window(60, slide=10), by=("y",), **common),
        "g2": sb.TopK(k=9, window=window(50, slide=10), by=("y",), **common),
        "s1": sb.Skyline(prefer={"x": "max"}, window=window(20, slide=10), time="t"),
        "s2": sb.Skyline(prefer={"x": "max"}, window=window(50, slide=10), time="t"),
        "e1": sb.Skyline(prefer={"x": "max"}, window=window(9), by=("y",), time="t"),
        "e2": sb.Skyline(prefer={"x": "max"}, window=window(5), by=("y",), time="t"),
        "f1": sb.Skyline(prefer={"x": "max"}, window=window(9), time="t", algorithm="sfs"),
        "f2": sb.Skyline(prefer={"x": "max"}, window=window(5), time="t", algorithm="sfs"),
    }
    found = [who_shares.unions(board, names) for names in who_shares.families(board)]
    assert found == [
        [["a", "tumbling", "finer"]],
        [["g1", "g2"]],
        [["s1", "s2"]],
        [["e1", "e2"]],
        [],
    ]
    lines = sb.explain(board).split("\n")
    told = {name: lines[3 * i + 3].partition("; ")[2] for i, name in enumerate(board)}
    cut = ", cut wherever a window of any of them begins or ends"
    assert told == {
        "a": f"keeps one skyband with tumbling, finer{cut}",
        "tumbling": f"keeps one skyband with a, finer{cut}",
        "finer": f"keeps one skyband with a, tumbling{cut}",
        "late": "keeps its own skyband: no other has the same lateness and panes that fit",
        "gaps": "keeps its own skyband, as its window has gaps between its slides",
        "g1": "keeps one skyband with g2",
        "g2": "keeps one skyband with g1",
        "s1": "keeps one dominance graph with s2",
        "s2": "keeps one dominance graph with s1",
        "e1": f"keeps one dominance graph with e2{cut}",
        "e2": f"keeps one dominance graph with e1{cut}",
        "f1": "keeps its own state, as each query by sfs does",
        "f2": "keeps its own state, as each query by sfs does",
    }
