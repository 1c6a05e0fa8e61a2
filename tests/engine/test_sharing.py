"""Queries of a board that share summaries: their answers equal those of each query alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.data import memo
from skyband.engine import chunks, shared_panes, who_shares
from skyband.window import Panes


def rows(seed: int, count: int, late: int, bad: bool) -> pa.Table:
    made = np.random.default_rng(seed)
    time = np.cumsum(made.choice([0, 0, 1, 2, 9], count)) - made.integers(0, late + 1, count)
    score = made.integers(0, 12, count).astype(float)
    if bad:
        score[made.integers(0, count, max(1, count // 15))] = np.nan
    return pa.table(
        {
            "t": time,
            "id": [f"id{n}" for n in made.integers(0, 9, count)],
            "g": [f"g{n}" for n in made.integers(0, 3, count)],
            "x": score,
            "y": made.integers(0, 9, count),
        }
    )


@st.composite
def windows(draw: st.DrawFn) -> sb.TimeWindow | sb.CountWindow:
    unit = draw(st.sampled_from([1, 3, 4]))
    size, slide = draw(st.integers(1, 12)) * unit, draw(st.integers(1, 6)) * unit
    if draw(st.sampled_from([False, False, True])):
        return sb.CountWindow(size, slide=slide)
    lateness, offset = draw(st.integers(0, 4)), draw(st.sampled_from([0, 0, 1, 3]))
    return sb.TimeWindow(size, slide=slide, lateness=lateness, offset=offset)


@st.composite
def queries(draw: st.DrawFn) -> sb.Query:
    by = draw(st.sampled_from([(), (), ("g",)]))
    where = draw(st.sampled_from([{}, {}, {"g": ["g0", "g1"]}]))
    common: Any = {"time": "t", "window": draw(windows()), "by": by, "where": where}
    kind = draw(st.sampled_from(["TopK", "TopK", "HeavyHitters", "HeavyHitters", "Skyline"]))
    k = draw(st.integers(1, 6))
    if kind == "TopK":
        largest = draw(st.sampled_from([True, True, False]))
        score = draw(st.sampled_from(["x", "x", "x * y"]))
        return sb.TopK(k=k, score=score, id="id", largest=largest, **common)
    if kind == "HeavyHitters":
        return sb.HeavyHitters(k=k, item="id", weight=draw(st.sampled_from([None, "y"])), **common)
    algorithm = draw(st.sampled_from([None, "sfs"]))
    return sb.Skyline(prefer={"x": "max", "y": "min"}, algorithm=algorithm, **common)


COUNTS = ("rows_in", "rows_late", "rows_bad", "rows_unused", "rows_filtered", "windows_out")


def shown(answers: list[sb.Answer]) -> list[Any]:
    return [
        (a.start, a.end, a.table.to_pylist(), a.changes.to_pylist(), a.total, a.exact, a.bounds)
        for a in answers
    ]


@settings(max_examples=15, deadline=None)
@given(
    board=st.lists(queries(), min_size=2, max_size=6),
    seed=st.integers(0, 1000),
    late=st.integers(0, 6),
    bad=st.booleans(),
    cut=st.integers(1, 59),
    chunk=st.sampled_from([7, 1 << 20]),
)
def test_boards_answer_as_their_queries_do(
    board: list[sb.Query], seed: int, late: int, bad: bool, cut: int, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_ROWS", chunk)
        patch.setattr(chunks, "_SMALL_CHUNK", 1)
        check_board(board, seed, late, bad, cut)


def check_board(board: list[sb.Query], seed: int, late: int, bad: bool, cut: int) -> None:
    named = {f"q{i}": query for i, query in enumerate(board)}
    alone = {name: sb.Monitor(query, on_bad="skip") for name, query in named.items()}
    together = sb.Monitor(named, on_bad="skip")
    table = rows(seed, 60, late, bad)
    for batch in (table.slice(0, cut), table.slice(cut, 20), table.slice(cut + 20)):
        found = together.push(batch)
        for name, monitor in alone.items():
            mine = [answer for answer in found if answer.name == name]
            assert shown(mine) == shown(monitor.push(batch)), name
            for count in COUNTS:
                assert together.stats()[name][count] == monitor.stats()[count], (name, count)
        together._check()
        together = sb.Monitor.restore(together.snapshot())
    found = together.flush()
    for name, monitor in alone.items():
        mine = [answer for answer in found if answer.name == name]
        assert shown(mine) == shown(monitor.flush()), name


@pytest.mark.parametrize("counting", [False, True])
@pytest.mark.parametrize("slides", [(60, 60), (60, 90)])
def test_many_rows_of_many_panes(slides: tuple[int, int], counting: bool) -> None:
    """Long batches, in which rows that no window can show are dropped block by block."""
    made = np.random.default_rng(3)
    table = pa.table({"t": np.sort(made.integers(0, 36_000, 60_000)), "x": made.random(60_000)})
    board = {}
    for k, size, slide in [(2, 3_600, slides[0]), (9, 720, 60), (5, 1_800, slides[1])]:
        window: Any = sb.TimeWindow(size, slide=slide, lateness=5)
        if counting:
            window = sb.CountWindow(2 * size, slide=2 * slide)
        board[f"{k} of {size}"] = sb.TopK(k=k, score="x", time="t", window=window)
    assert len(who_shares.families(board)) == 1
    found = sb.rank([table.slice(0, 30_000), table.slice(30_000)], board)
    for name, query in board.items():
        assert found[name].equals(sb.rank(table, query)), name


def test_late_rows_do_not_take_the_place_of_others() -> None:
    """In a long batch, rows that no window can show are dropped; a late row shows up in none."""
    board = {
        f"q{size}": sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(size, slide=1))
        for size in (8, 16)
    }
    time = np.repeat(np.arange(80, 125), 100)
    score = np.where(time < 100, 1_000, np.where(time == 100, 5, 10))
    together = sb.Monitor(board)
    alone = {name: sb.Monitor(query) for name, query in board.items()}
    for batch in (pa.table({"t": [100], "x": [0]}), pa.table({"t": time, "x": score})):
        found = together.push(batch)
        for name, monitor in alone.items():
            own = monitor.push(batch)
            assert shown([a for a in found if a.name == name]) == shown(own), name
    assert together.stats()["q8"]["rows_late"] == 2_000


def test_a_query_with_long_panes_can_be_read_over_its_last_one() -> None:
    """Rows after its last sealed pane must not have dropped any row of that pane."""
    board = {
        "often": sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(8, slide=1)),
        "rarely": sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(40, slide=4)),
    }
    for seed in range(10):
        made = np.random.default_rng(seed)
        table = pa.table({"t": np.repeat(np.arange(36), 100), "x": made.random(3_600)})
        together, alone = sb.Monitor(board), sb.Monitor(board["rarely"])
        for monitor in (together, alone):
            monitor.push(table)
        assert shown([together.peek("rarely", last=4)]) == shown([alone.peek(last=4)])


def counting(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[int]:
    calls: list[int] = []
    real = getattr(owner, name)

    def counted(*args: Any, **named: Any) -> Any:
        calls.append(1)
        return real(*args, **named)

    monkeypatch.setattr(owner, name, counted)
    return calls


def test_a_family_reads_a_batch_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from skyband.topk.base import TopKSynopsis

    board = {
        f"q{k}": sb.TopK(k=k, score="x", time="t", window=sb.TimeWindow(10 * k, slide=10))
        for k in (1, 2, 3)
    }
    table = rows(1, 60, 0, bad=False)
    validated = counting(monkeypatch, TopKSynopsis, "validate")
    summarised = counting(monkeypatch, TopKSynopsis, "summarise")
    sb.Monitor(board).push(table)
    assert (len(validated), len(summarised)) == (1, 1)


@pytest.mark.parametrize("alike", [False, True])
def test_a_query_works_once_on_small_summaries_of_many_chunks(
    alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Queries that have the same panes and keep one state do it together."""
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 20)
    monkeypatch.setattr(chunks, "_LONG_CHUNK", 1)
    monkeypatch.setattr(chunks, "_SMALL_CHUNK", 1)
    board = {
        f"q{k}": sb.TopK(
            k=k, score="x", time="t", window=sb.TimeWindow(30 * k, slide=10 if alike else 10 * k)
        )
        for k in (1, 2, 3)
    }
    given = counting(monkeypatch, shared_panes.Shared, "_of")
    table = rows(1, 60, 0, bad=False)
    sb.Monitor(board).push(table)
    assert len(given) == (1 if alike else 3)
    monkeypatch.setattr(shared_panes, "_FEW_ROWS", 1)
    given.clear()
    sb.Monitor(board).push(table)
    assert len(given) == (3 if alike else 9)


@pytest.mark.parametrize("few", [1, 1 << 20])
def test_arrivals_are_counted_through_all_chunks(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 20)
    monkeypatch.setattr(chunks, "_LONG_CHUNK", 1)
    monkeypatch.setattr(chunks, "_SMALL_CHUNK", 1)
    monkeypatch.setattr(shared_panes, "_FEW_ROWS", few)
    board = {
        f"q{k}": sb.TopK(k=k, score="x", window=sb.CountWindow(7 * k, slide=5), where={"y": [1, 2]})
        for k in (1, 2, 3)
    }
    table = rows(1, 400, 0, bad=True)
    together = sb.Monitor(board, on_bad="skip")
    found = [answer for low in (0, 200) for answer in together.push(table.slice(low, 200))]
    for name, query in board.items():
        alone = sb.Monitor(query, on_bad="skip")
        own = [answer for low in (0, 200) for answer in alone.push(table.slice(low, 200))]
        assert shown([a for a in found if a.name == name]) == shown(own)
        assert len(own) > 5


def test_columns_are_looked_at_once_by_queries_that_do_not_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from skyband.contract import checks
    from skyband.data import keys
    from skyband.data.time_axis import TimeAxis

    window = sb.TimeWindow(10)
    board = {
        "often": sb.HeavyHitters(k=2, item="id", time="t", window=window),
        "groups": sb.HeavyHitters(k=2, item=("id", "g"), time="t", window=window),
        "best": sb.TopK(k=2, score="x", id="id", time="t", window=window),
        "worst": sb.TopK(k=2, score="x", id="id", time="t", largest=False, window=window),
    }
    hashed = counting(monkeypatch, keys, "_hash_values")
    ticks = counting(monkeypatch, TimeAxis, "_ticks_of")
    nans = counting(monkeypatch, checks, "nan_mask")
    pieces = pa.concat_tables([rows(1, 60, 0, bad=False), rows(1, 60, 0, bad=False)])
    sb.Monitor(board).push(pieces)  # in two chunks, which are joined once
    assert (len(hashed), len(ticks), len(nans)) == (2, 1, 1)


def test_what_was_computed_is_kept_for_one_batch_only() -> None:
    column = pa.array([1, 2, 3])
    made: list[int] = []

    def compute() -> int:
        made.append(1)
        return len(made)

    with memo.one_batch():
        assert memo.once("length", column, compute) == memo.once("length", column, compute) == 1
        assert memo.once("other", column, compute) == 2
        assert memo.once("length", column.slice(1), compute) == 3
    assert memo.once("length", column, compute) == 4


def test_times_that_do_not_fit_every_window() -> None:
    far = pa.table({"t": [1, 2**63 - 200, 3], "x": [1.0, 2.0, 3.0]})
    board = {
        f"q{size}": sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(size, lateness=10))
        for size in (10, 100)
    }
    monitor = sb.Monitor(board, on_bad="skip")
    found = monitor.push(far)
    assert [monitor.stats()[name]["rows_bad"] for name in board] == [0, 1]
    for name, query in board.items():
        alone = sb.Monitor(query, on_bad="skip")
        assert shown([a for a in found if a.name == name]) == shown(alone.push(far))


WINDOW = sb.TimeWindow(10)


def test_count_windows_share() -> None:
    common: Any = {"k": 1, "score": "x"}
    board: dict[str, sb.Query] = {
        "a": sb.TopK(window=sb.CountWindow(10), **common),
        "b": sb.TopK(window=sb.CountWindow(20, slide=5), **common),
        "g1": sb.TopK(window=sb.CountWindow(10), by=("g",), **common),
        "g2": sb.TopK(window=sb.CountWindow(20, slide=5), by=("g",), **common),
    }
    board |= {
        f"h{size}": sb.HeavyHitters(k=1, item="x", window=sb.CountWindow(size, slide=5), by=("g",))
        for size in (10, 20)
    }
    assert who_shares.families(board) == [["a", "b"], ["g1", "g2"], ["h10", "h20"]]
    told = sb.explain(board)
    assert told.count("shares one pass over the rows") == 6
    assert told.count("keeps one skyband with g") == 2
    assert told.count("keeps one set of pane counts with h") == 2


@pytest.mark.parametrize(
    ("changed", "shares"),
    [
        ({"k": 9, "window": sb.TimeWindow(30, slide=7, lateness=2)}, True),
        ({"algorithm": "skyband"}, True),
        ({"algorithm": "mintopk"}, False),
        ({"largest": False}, False),
        ({"id": "id"}, False),
        ({"by": ("g",)}, False),
        ({"window": sb.CountWindow(10)}, False),
        ({"window": sb.DecayWindow(10, slide=5)}, False),
        ({"window": sb.TimeWindow("10 s")}, False),
    ],
)
def test_which_queries_share(changed: dict[str, Any], shares: bool) -> None:
    common: Any = {"k": 1, "score": "x", "time": "t", "window": WINDOW}
    board = {"a": sb.TopK(**common), "b": sb.TopK(**(common | changed))}
    assert who_shares.families(board) == ([["a", "b"]] if shares else [])


def test_panes_that_have_the_cuts_of_all() -> None:
    assert who_shares.finest([Panes(60, 10), Panes(30, 5), Panes(45, 15)]) == 1
    assert who_shares.finest([Panes(60, 10), Panes(30, 4)]) is None
    assert who_shares.finest([Panes(60, 10), Panes(30, 10, 5)]) is None
    assert who_shares.finest([Panes(65, 10), Panes(30, 10)]) is None
