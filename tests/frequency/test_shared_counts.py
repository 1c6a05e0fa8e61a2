"""HeavyHitters of a board that keep one set of pane counts: answers equal those of each alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.engine import who_shares
from skyband.frequency.pane_sums import PaneSums
from skyband.frequency.recut_counts import RecutView
from skyband.frequency.shared_counts import OwnView, SharedLists


def stream(seed: int, count: int, items: int, skew: float) -> pa.Table:
    made = np.random.default_rng(seed)
    item = np.minimum((items * made.random(count) ** skew).astype(np.int64), items - 1)
    return pa.table(
        {
            "t": np.cumsum(made.choice([0, 1, 2, 25], count, p=[0.8, 0.1, 0.09, 0.01])),
            "n": item,
            # Long names with a common beginning: order keys do not decide between them.
            "id": [f"a long common beginning {i:03}" for i in item],
            "w": made.integers(0, 5, count),
            "f": made.random(count),
        }
    )


def board(
    sizes: list[tuple[int, int]], slide: int, counting: bool = False, **settings: Any
) -> dict[str, sb.HeavyHitters]:
    found = {}
    for k, size in sizes:
        window: Any = sb.TimeWindow(size * slide, slide=slide, lateness=1)
        if counting:
            window = sb.CountWindow(size * slide, slide=slide)
        found[f"{k} of {size}"] = sb.HeavyHitters(k=k, time="t", window=window, **settings)
    return found


def states(monitor: sb.Monitor) -> list[Any]:
    return [
        session.synopsis.counts  # type: ignore[attr-defined]
        for session in monitor.board.sessions.values()
    ]


def shown(answers: Any) -> list[Any]:
    return [
        (a.start, a.end, a.table.to_pylist(), a.changes.to_pylist(), a.total, a.bounds)
        for a in answers
    ]


SIZES = st.tuples(st.integers(1, 6), st.integers(1, 9))


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(SIZES, min_size=2, max_size=4, unique=True),
    slide=st.sampled_from([1, 3]),
    item=st.sampled_from(["n", "id"]),
    weight=st.sampled_from([None, "w"]),
    counting=st.sampled_from([False, False, True]),
    keep=st.sampled_from([(), (), ("f",)]),
    skew=st.sampled_from([1.0, 4.0]),
    items=st.sampled_from([3, 40]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 300), max_size=4),
)
def test_boards_answer_as_their_queries_do(
    sizes: list[tuple[int, int]], slide: int, item: str, weight: str | None, counting: bool,
    keep: tuple[str, ...], skew: float, items: int, seed: int, cuts: list[int],
) -> None:  # fmt: skip
    settings: Any = {"item": item, "weight": weight, "keep": keep, "proof": seed % 3 == 0}
    named = board(sizes, slide, counting, **settings)
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    together = sb.Monitor(named)
    table = stream(seed, 300, items, skew)
    edges = sorted({0, *cuts, 300})
    for low, high in pairwise(edges):
        found = together.push(table.slice(low, high - low))
        for name, monitor in alone.items():
            own = monitor.push(table.slice(low, high - low))
            assert shown([a for a in found if a.name == name]) == shown(own), name
            assert together.stats()[name]["retained"] == monitor.stats()["retained"], name
            for id_ in (table[item][low].as_py(), table[item][0].as_py()):
                assert together.position(id_, name=name) == monitor.position(id_)
            last = slide
            assert shown([together.peek(name, last=last)]) == shown([monitor.peek(last=last)])
        together._check()
        if seed % 2:
            together = sb.Monitor.restore(together.snapshot())
    end_alike(together, alone)


def end_alike(together: sb.Monitor, alone: dict[str, sb.Monitor]) -> None:
    """Assert that the last answers of a board are those of its queries alone."""
    found = together.flush()
    for name, monitor in alone.items():
        assert shown([a for a in found if a.name == name]) == shown(monitor.flush()), name


TEN = [(k, size) for k, size in zip((2, 3, 5, 8, 10), (2, 5, 7, 12, 20), strict=True)]


def rank_in_parts(table: pa.Table, queries: dict[str, Any]) -> sb.Monitor:
    """Push a table in ten parts to a board and to each query alone, and compare."""
    together = sb.Monitor(queries)
    alone = {name: sb.Monitor(query) for name, query in queries.items()}
    step = len(table) // 10
    for low in range(0, len(table), step):
        found = together.push(table.slice(low, step))
        for name, monitor in alone.items():
            own = monitor.push(table.slice(low, step))
            assert shown([a for a in found if a.name == name]) == shown(own), name
        together._check()
    return together


def test_few_items_can_win_where_counts_differ_much() -> None:
    table = stream(1, 20_000, 3_000, skew=6.0)
    together = rank_in_parts(table, board(TEN, 40, item="n"))
    views = states(together)
    assert all(isinstance(view, OwnView) for view in views)
    assert len({id(view.lists) for view in views}) == 1
    pruned = [view.pruned for view in views]
    windows = together.stats()["10 of 20"]["windows_out"]
    assert pruned[-1] > windows // 2  # windows of few entries are counted instead


def test_sums_are_kept_where_most_items_can_win() -> None:
    """No item stands out, so leaving items out does not work, and sums move with the window."""
    table = stream(2, 60_000, 9_000, skew=1.0)
    together = rank_in_parts(table, board(TEN, 400, item="n"))
    assert any(len(view.there) for view in states(together))


def test_lists_are_kept_as_long_as_the_longest_window_needs_them() -> None:
    together = rank_in_parts(stream(3, 5_000, 40, skew=2.0), board(TEN, 10, item="n"))
    (lists,) = {view.lists for view in states(together)}
    assert isinstance(lists, SharedLists)
    assert len(lists.pane) <= 20
    assert lists.base > 0
    assert together.stats()["state_bytes"] < 1 << 20


def test_queries_part_where_they_may_see_different_rows() -> None:
    queries = board([(1, 2), (2, 500)], 10, item="n")
    together = sb.Monitor(queries, on_bad="skip")
    alone = {name: sb.Monitor(query, on_bad="skip") for name, query in queries.items()}
    far = pa.table({"t": [99, 2**63 - 1_000, 100], "n": [7, 8, 9]})
    for batch in (stream(4, 200, 9, 1.0).select(["t", "n"]), far, far):
        found = together.push(batch)
        for name, monitor in alone.items():
            own = monitor.push(batch)
            assert shown([a for a in found if a.name == name]) == shown(own), name
            assert together.stats()[name]["rows_bad"] == monitor.stats()["rows_bad"]
    assert all(type(state) is PaneSums for state in states(together))


def test_who_keeps_one_state() -> None:
    window = sb.TimeWindow
    common: Any = {"item": "n", "time": "t"}
    queries = {
        "a": sb.HeavyHitters(k=1, window=window(20, slide=10), **common),
        "b": sb.HeavyHitters(k=9, window=window(60, slide=10), **common),
        "tumbling": sb.HeavyHitters(k=9, window=window(10), **common),
        "late": sb.HeavyHitters(k=9, window=window(60, slide=10, lateness=5), **common),
        "finer": sb.HeavyHitters(k=9, window=window(60, slide=5), **common),
        "gaps": sb.HeavyHitters(k=9, window=window(5, slide=10), **common),
        "groups": sb.HeavyHitters(k=9, window=window(60, slide=10), by=("w",), **common),
    }
    (family,) = who_shares.families(queries)
    assert who_shares.unions(queries, family) == [["a", "b", "finer"]]
    told = sb.explain(queries).split("\n")
    cut = ", cut wherever a window of any of them begins or ends"
    assert told[3].endswith(f"; keeps one set of pane counts with b, finer{cut}")
    assert sum("keeps its own counts: no other has the same lateness" in line for line in told) == 1
    del queries["finer"]
    assert sb.explain(queries).split("\n")[3].endswith("; keeps one set of pane counts with b")


def test_a_long_window_is_not_cut_very_often() -> None:
    common: Any = {"k": 1, "item": "n", "time": "t"}
    queries = {
        "day": sb.HeavyHitters(window=sb.TimeWindow("1 day", slide="1 hour"), **common),
        "week": sb.HeavyHitters(window=sb.TimeWindow("7 days", slide="1 hour"), **common),
        "minute": sb.HeavyHitters(window=sb.TimeWindow("1 minute", slide="1 second"), **common),
    }
    assert who_shares.unions(queries, list(queries)) == [["day", "week"]]


@pytest.mark.parametrize(("weight", "shared"), [("w", True), ("f", False)])
def test_only_whole_numbers_are_counted_together(weight: str, shared: bool) -> None:
    """Sums of fractions depend on their order, which is that of each query alone."""
    queries = board(TEN, 10, item="n", weight=weight)
    together = rank_in_parts(stream(5, 2_000, 30, 2.0), queries)
    assert all(isinstance(state, OwnView) is shared for state in states(together))
    assert "if weights are whole numbers" in sb.explain(queries)


def test_a_first_push_without_rows() -> None:
    kinds = {
        str(size): sb.HeavyHitters(k=3, item="x", time="t", window=sb.TimeWindow(size, slide=10))
        for size in (60, 30)
    }
    monitor = sb.Monitor(kinds)
    rows = pa.table({"t": [1, 2, 15], "x": ["a", "b", "a"]})
    assert list(monitor.push(rows.slice(0, 0))) == []
    monitor.push(rows)
    assert [answer.table["x"].to_pylist() for answer in monitor.flush()] == [["a", "b"]] * 2


@st.composite
def differing_windows(draw: st.DrawFn) -> tuple[sb.TimeWindow, sb.CountWindow]:
    slide = draw(st.sampled_from([2, 3, 4, 6]))
    size, offset = draw(st.integers(slide + 1, 20)), draw(st.sampled_from([0, 0, 1]))
    timed = sb.TimeWindow(size, slide=slide, lateness=2, offset=offset)
    return timed, sb.CountWindow(size, slide=slide)


@settings(max_examples=20, deadline=None)
@given(
    pairs=st.lists(differing_windows(), min_size=2, max_size=4),
    counting=st.sampled_from([False, False, True]),
    item=st.sampled_from(["n", "id"]),
    weight=st.sampled_from([None, "w"]),
    late=st.sampled_from([0, 2, 2, 9]),
    seed=st.integers(0, 1000),
    cuts=st.lists(st.integers(0, 300), max_size=4),
)
def test_boards_whose_slides_differ_answer_as_their_queries_do(
    pairs: list[tuple[sb.TimeWindow, sb.CountWindow]], counting: bool, item: str,
    weight: str | None, late: int, seed: int, cuts: list[int],
) -> None:  # fmt: skip
    """With rows that are late for some queries and not for others, they part, and go on alone."""
    named = {
        f"q{i}": sb.HeavyHitters(k=1 + i, item=item, weight=weight, time="t", window=pair[counting])
        for i, pair in enumerate(pairs)
    }
    alone = {name: sb.Monitor(query) for name, query in named.items()}
    together = sb.Monitor(named)
    table = stream(seed, 300, 9, 2.0)
    early = np.random.default_rng(seed).integers(0, late + 1, 300)
    table = table.set_column(0, "t", pa.array(table["t"].to_numpy() - early))
    edges = sorted({0, *cuts, 300})
    for low, high in pairwise(edges):
        batch = table.slice(low, high - low)
        found = together.push(batch)
        for name, monitor in alone.items():
            own = monitor.push(batch)
            assert shown([a for a in found if a.name == name]) == shown(own), name
            counts, mine = together.stats()[name], monitor.stats()
            for count in ("retained", "rows_late", "rows_unused", "windows_out"):
                assert counts[count] == mine[count], (name, count)
            id_ = table[item][low].as_py()
            assert together.position(id_, name=name) == monitor.position(id_)
            assert shown([together.peek(name)]) == shown([monitor.peek()])
        together._check()
        if seed % 2:
            together = sb.Monitor.restore(together.snapshot())
    end_alike(together, alone)


MIXED, COUNTED = (
    {
        f"{size} every {slide}": sb.HeavyHitters(
            k=3, item="n", time="t", window=make(size, slide=slide)
        )
        for size, slide in [(60, 10), (300, 15), (45, 10), (200, 25)]
    }
    for make in (sb.TimeWindow, sb.CountWindow)
)


@pytest.mark.parametrize("mixed", [MIXED, COUNTED], ids=["times", "arrivals"])
def test_slides_that_differ_keep_one_state_and_go_on_with_it(mixed: dict[str, Any]) -> None:
    table = stream(6, 3_000, 40, 2.0).select(["t", "n"])
    together = rank_in_parts(table.slice(0, 2_000), mixed)
    lists = {id(state.lists) for state in states(together)}
    assert all(isinstance(state, RecutView) for state in states(together))
    assert len(lists) == 1
    (kept,) = together.board.kept_together()
    assert kept[0] == list(mixed)
    again = sb.Monitor.restore(together.snapshot())
    alone = {name: sb.Monitor(query) for name, query in mixed.items()}
    for monitor in alone.values():
        monitor.push(table.slice(0, 2_000))
    for low in range(2_000, 3_000, 250):
        found = again.push(table.slice(low, 250))
        for name, monitor in alone.items():
            own = monitor.push(table.slice(low, 250))
            assert shown([a for a in found if a.name == name]) == shown(own), name
    again._check()
    assert len({id(state.lists) for state in states(again)}) == 1


def test_rows_that_are_late_for_one_query_only_make_them_part() -> None:
    table = stream(7, 1_000, 40, 2.0).select(["t", "n"])
    together = rank_in_parts(table, MIXED)
    assert all(isinstance(state, RecutView) for state in states(together))
    alone = {name: sb.Monitor(query) for name, query in MIXED.items()}
    newest = int(table["t"].to_numpy().max())
    later = pa.table({"t": [newest + 60 - (newest % 50)] * 3, "n": [1, 2, 3]})
    for monitor in alone.values():
        monitor.push(table)
        monitor.push(later)
    together.push(later)
    at = newest + 60 - (newest % 50)
    late = pa.table({"t": [at - 4, at + 1], "n": [1, 2]})
    found = together.push(late)
    for name, monitor in alone.items():
        own = monitor.push(late)
        assert shown([a for a in found if a.name == name]) == shown(own), name
        assert together.stats()[name]["rows_late"] == monitor.stats()["rows_late"]
    lates = {together.stats()[name]["rows_late"] for name in MIXED}
    assert len(lates) == 2
    assert not any(isinstance(state, RecutView) for state in states(together))
