"""Skylines of one stream: dominance graph, shorter windows, preferred values, errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.contract.capabilities import GroupForgetting
from skyband.skyline.kernels.stabsky import ALWAYS
from support.skyline_cases import best

WISH = {"x": "max", "y": "max"}


FIGURE_2 = """
    . . . 3 . . . .
    . 7 . . . . . .
    1 . . . . . . .
    . . . . . . . 4
    . . 6 . . . . .
    . 2 . . . . . .
    . . . . . . . .
    . . . . . . 5 .
"""


def drawn(picture: str) -> pa.Table:
    """The points of a drawing in the order of their digits; right and up are better."""
    lines = [line.split() for line in picture.strip().splitlines()]
    found = {
        cell: (x, len(lines) - y)
        for y, line in enumerate(lines)
        for x, cell in enumerate(line)
        if cell != "."
    }
    points = [found[name] for name in sorted(found)]
    return pa.table(
        {"name": sorted(found), "x": [p[0] for p in points], "y": [p[1] for p in points]}
    )


@pytest.mark.nojit
def test_the_intervals_of_figure_2() -> None:
    query = sb.Skyline(prefer=WISH, window=sb.CountWindow(7, slide=1), algorithm="stabsky")
    monitor = sb.Monitor(query)
    answers = monitor.push(drawn(FIGURE_2))
    graph = monitor.session.synopsis.graphs  # type: ignore[attr-defined]
    # Panes count from 0, the paper's tuples from 1; the paper's 0 stands for ALWAYS.
    edges = zip(graph.since.tolist(), graph.pane.tolist(), strict=True)
    intervals = [(0 if since == ALWAYS else since + 1, pane + 1) for since, pane in edges]
    assert sorted(intervals) == [(0, 3), (0, 4), (3, 7), (4, 5), (4, 6)]
    assert answers[-1].table["name"].to_pylist() == ["3", "4"]
    # The last four are p4 to p7; p3 is gone, so p7 shows, but p4 still dominates p5 and p6.
    assert monitor.peek(last=4).table["name"].to_pylist() == ["4", "7"]
    assert monitor.peek(last=3).table["name"].to_pylist() == ["5", "6", "7"]
    monitor._check()


@pytest.mark.parametrize("algorithm", ["sfs", "stabsky"])
@pytest.mark.parametrize(("slide", "dimensions"), [(1, 1), (1, 3), (5, 2), (7, 10)])
def test_any_shorter_window(algorithm: str, slide: int, dimensions: int) -> None:
    rng = np.random.default_rng(slide)
    values = rng.integers(0, 6, (90, dimensions))
    names = [f"x{i}" for i in range(dimensions)]
    table = pa.table({"id": np.arange(90)} | dict(zip(names, values.T, strict=True)))
    wish = {name: "max" if i % 2 else "min" for i, name in enumerate(names)}
    size = 40 // slide * slide
    window = sb.CountWindow(size, slide=slide)
    monitor = sb.Monitor(sb.Skyline(prefer=wish, id="id", window=window, algorithm=algorithm))
    signs = np.array([1 if wish[name] == "max" else -1 for name in names])
    for upto in range(slide, 91, slide):
        monitor.push(table.slice(upto - slide, slide))
        for last in rng.integers(1, size + 1, 4).tolist():
            # Only panes that lie entirely in the shorter window are part of it.
            panes = min(last, upto) // slide
            live = np.arange(upto - panes * slide, upto)
            want = live[best(values[live] * signs)] if panes else live
            got = monitor.peek(last=last).table
            assert got["id"].to_pylist() == want.tolist()
    monitor._check()


def test_shorter_windows_of_groups() -> None:
    window = sb.CountWindow(4, slide=2)
    monitor = sb.Monitor(sb.Skyline(prefer={"x": "max"}, by=("g",), window=window))
    rows = pa.table({"g": list("abababab"), "x": [9, 1, 8, 2, 3, 7, 4, 6]})
    monitor.push(rows)
    got = monitor.peek(last=2).table
    assert got.to_pydict()["x"] == [4, 7]


def test_groups_that_are_folded_move_behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever room they leave, each answer is that of a query that keeps groups apart."""
    monkeypatch.setattr("skyband.skyline.graph._SPARE", 8)
    monkeypatch.setattr("skyband.skyline.stabsky._SPARE", 8)
    rng = np.random.default_rng(4)
    window = sb.CountWindow(12, slide=4)
    query = sb.Skyline(prefer=WISH, by=("g",), window=window)
    monitor, apart = sb.Monitor(query), sb.Monitor(dataclasses.replace(query, algorithm="sfs"))
    unused = 0
    for at in range(120):
        count = int(rng.integers(1, 20))
        groups = rng.integers(0, 30, 1 + at % 4)  # few of 30 have rows
        rows = pa.table(
            {
                "g": rng.choice(groups, count),
                "x": rng.integers(0, 9, count),
                "y": rng.integers(0, 9, count),
            }
        )
        got, wanted = monitor.push(rows), apart.push(rows)
        assert [answer.table for answer in got] == [answer.table for answer in wanted]
        monitor._check()
        graphs = monitor.session.synopsis.graphs  # type: ignore[attr-defined]
        unused += graphs.used > len(graphs)
        assert graphs.used <= 2 * len(graphs) + 2 * 8 + 20
        assert len(monitor.session.synopsis.store) <= 2 * len(graphs) + 8  # type: ignore[attr-defined]
        if at % 25 == 24:
            monitor = sb.Monitor.restore(monitor.snapshot())
        assert monitor.peek(last=8).table == apart.peek(last=8).table
    assert unused > 50
    (first,) = set(apart.peek().table["g"].to_pylist()[:1])
    assert monitor.session.fold is not None
    code = monitor.session.fold.groups.ranks.argmin()
    synopsis = monitor.session.synopsis
    assert isinstance(synopsis, GroupForgetting)
    synopsis.forget(np.array([code, len(graphs.sizes)], np.int32))
    monitor._check()
    wanted = [row for row in apart.peek().table.to_pylist() if row["g"] != first]
    assert monitor.peek().table.to_pylist() == wanted


def test_groups_without_live_rows_leave_nothing() -> None:
    """Codes of such groups are given to others."""
    query = sb.Skyline(prefer=WISH, by=("g",), time="t", window=sb.TimeWindow(4, slide=2))
    monitor, apart = sb.Monitor(query), sb.Monitor(dataclasses.replace(query, algorithm="sfs"))
    rng = np.random.default_rng(5)
    for at in range(12):
        rows = pa.table(
            {
                "t": np.sort(rng.integers(3 * at, 3 * at + 3, 900)),
                "g": rng.integers(500 * at, 500 * at + 700, 900),
                "x": rng.integers(0, 9, 900),
                "y": rng.integers(0, 9, 900),
            }
        )
        got, wanted = monitor.push(rows), apart.push(rows)
        assert [answer.table for answer in got] == [answer.table for answer in wanted]
        graphs = monitor.session.synopsis.graphs  # type: ignore[attr-defined]
        assert len(graphs) <= 2000
        assert len(graphs.sizes) < 5000
    assert monitor.session.fold is not None
    assert monitor.session.fold.groups.bound < 4000, "there were 6,200 groups"
    monitor._check()


def test_equal_rows_are_all_answers_and_cost_little() -> None:
    table = pa.table({"x": np.ones(3000), "y": np.ones(3000)})
    monitor = sb.Monitor(sb.Skyline(prefer=WISH, window=sb.CountWindow(1000, slide=500)))
    answers = monitor.push(table)
    assert [answer.table.num_rows for answer in answers] == [500, 1000, 1000, 1000, 1000, 1000]
    assert monitor.stats()["comparisons"] < 20_000


@pytest.mark.parametrize("algorithm", ["sfs", "stabsky"])
def test_times_bools_and_dictionaries_can_be_preferred(algorithm: str) -> None:
    table = pa.table(
        {
            "when": pa.array([3, 1, 2, 9], pa.timestamp("s")),
            "fresh": [True, False, True, True],
            "size": pa.array([1.5, 1.5, 2.5, 0.5]).dictionary_encode(),
            "note": pa.array(["a", None, None, "d"]),
        }
    )
    wish = {"when": "min", "fresh": "max", "size": "max"}
    query = sb.Skyline(prefer=wish, window=sb.CountWindow(4), algorithm=algorithm)
    got = sb.rank(table, query)
    assert got["size"].to_pylist() == [1.5, 2.5]
    assert got.column_names == ["window_start", "window_end", *table.column_names]


@pytest.mark.parametrize(
    ("column", "problem"),
    [([1.0, None], "null"), ([1.0, float("nan")], "not a number")],
)
def test_bad_preferred_values_are_refused(column: list[Any], problem: str) -> None:
    query = sb.Skyline(prefer={"x": "min"}, window=sb.CountWindow(2))
    with pytest.raises(sb.DataError, match=problem):
        sb.rank(pa.table({"x": column}), query)
    with pytest.warns(sb.SkybandWarning):
        assert sb.rank(pa.table({"x": column}), query, on_bad="skip").num_rows == 0


def test_a_preference_needs_values_in_order() -> None:
    query = sb.Skyline(prefer={"x": "min"}, window=sb.CountWindow(2))
    with pytest.raises(sb.SchemaError, match="number or a time"):
        sb.rank(pa.table({"x": ["a"]}), query)
    with pytest.raises(sb.SchemaError, match="cannot be kept"):
        sb.rank(pa.table({"x": [1], "many": [[1, 2]]}), query)
    with pytest.raises(sb.SchemaError, match="'x' is missing"):
        sb.rank(pa.table({"y": [1]}), query)


@pytest.mark.parametrize("rows", [3_000, 300])
@pytest.mark.parametrize("values", [20, 10_000])
def test_panes_with_many_undominated_rows(rows: int, values: int) -> None:
    random = np.random.default_rng(values)
    made = random.dirichlet(np.ones(5), 3_000) + random.normal(0, 0.02, (3_000, 1))
    columns = {f"x{n}": (made[:, n] * values).astype(np.int64) for n in range(5)}
    table = pa.table({"t": np.arange(3_000), "d": np.arange(3_000) // 7 % 2, **columns})
    prefer = dict.fromkeys(columns, "max") | {"d": "diff"}
    answers = {}
    for algorithm in ("stabsky", "sfs"):
        window = sb.TimeWindow(1_000, slide=250)
        query = sb.Skyline(prefer=prefer, time="t", window=window, algorithm=algorithm)
        monitor, found = sb.Monitor(query), []
        for first in range(0, 3_000, rows):
            found += monitor.push(table.slice(first, rows))
            if rows > 300:
                monitor._check()
        answers[algorithm] = [each.table for each in [*found, *monitor.flush()]]
    assert len(answers["sfs"]) > 10
    assert max(table.num_rows for table in answers["sfs"]) > 300
    for got, want in zip(answers["stabsky"], answers["sfs"], strict=True):
        assert got.equals(want)
