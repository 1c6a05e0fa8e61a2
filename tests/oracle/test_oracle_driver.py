"""The oracle's changes and driver, on which all comparisons rely, and the streams of tests."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from oracle import CountWindow, Row, TimeWindow
from support import streams


def at(*times: int) -> list[Row]:
    return [{"ts": time} for time in times]


def column(table: list[Row], name: str) -> list[Any]:
    return [row[name] for row in table]


# ---------------------------------------------------------------------------------------------
# Changes


def ranked(*ids: Any, by: str | None = None) -> list[Row]:
    return [{"rank": rank, "id": id, **({"g": by} if by else {})} for rank, id in enumerate(ids, 1)]


def log(*entries: tuple[str, Any, int | None, int | None]) -> list[Row]:
    return [
        dict(zip(("change", "id", "from_rank", "to_rank"), entry, strict=True)) for entry in entries
    ]


def test_changes() -> None:
    assert oracle.changes([], ranked("a", "b"), (), ["id"]) == log(
        ("enter", "a", None, 1), ("enter", "b", None, 2)
    )
    assert oracle.changes(ranked("a", "b", "c", "d"), ranked("c", "b", "e"), (), ["id"]) == log(
        ("move", "c", 3, 1),
        ("enter", "e", None, 3),
        ("leave", "a", 1, None),
        ("leave", "d", 4, None),
    )
    assert oracle.changes(ranked("a"), [], (), ["id"]) == log(("leave", "a", 1, None))


def test_repeated_keys_are_numbered_in_rank_order() -> None:
    # The first a stays the first a, and the second one leaves.
    assert oracle.changes(ranked("a", "b", "a"), ranked("b", "a"), (), ["id"]) == log(
        ("move", "b", 2, 1), ("move", "a", 1, 2), ("leave", "a", 3, None)
    )


def test_changes_by_group_and_without_ranks() -> None:
    before, after = ranked("a", by="x"), ranked("b", by="w") + ranked("a", "c", by="x")
    assert [tuple(c.values()) for c in oracle.changes(before, after, ["g"], ["id"])] == [
        ("w", "enter", "b", None, 1),
        ("x", "enter", "c", None, 2),
    ]
    skylines = [{"price": 1, "volume": 2}], [{"price": 0, "volume": 1}, {"price": 1, "volume": 2}]
    assert oracle.changes(*skylines, (), ["price", "volume"]) == [
        {"change": "enter", "price": 0, "volume": 1, "from_rank": None, "to_rank": None}
    ]


@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
def test_changes_lead_from_one_answer_to_the_next(old: list[str], new: list[str]) -> None:
    held = dict(enumerate(old, 1))
    changes = oracle.changes(ranked(*old), ranked(*new), (), ["id"])
    for change in changes:
        if change["from_rank"] is not None:
            assert held.pop(change["from_rank"]) == change["id"]
    for change in changes:
        if change["to_rank"] is not None:
            assert change["to_rank"] not in held
            held[change["to_rank"]] = change["id"]
    assert held == dict(enumerate(new, 1))


# ---------------------------------------------------------------------------------------------
# The driver, with the examples that also check the public interface

QUERY = {"k": 2, "score": "score", "id": "id", "time": "ts"}
FOUR = [
    {"ts": ts, "id": id, "score": score, "g": g}
    for ts, id, score, g in [
        (0, "a", 1.0, "x"),
        (1, "b", 4.0, "x"),
        (2, "c", 4.0, "y"),
        (3, "d", 2.0, "y"),
    ]
]


def test_driver_topk() -> None:
    run = oracle.answers("TopK", TimeWindow(10), [FOUR], **QUERY)
    assert column(run.table, "id") == ["c", "b"]
    assert list(run.table[0]) == ["window_start", "window_end", "rank", "id", "score", "ts"]
    grouped = oracle.answers("TopK", TimeWindow(10), [FOUR], **{**QUERY, "k": 1, "by": ("g",)})
    assert [(row["g"], row["rank"], row["id"]) for row in grouped.table] == [
        ("x", 1, "b"),
        ("y", 1, "c"),
    ]
    assert [answer.total for answer in grouped.answers] == [4]

    count = {"k": 1, "score": "score", "id": "id", "largest": False}
    run = oracle.answers("TopK", CountWindow(2, 1), [FOUR[:3], FOUR[3:]], **count)
    assert column(run.table, "window_end") == [1, 2, 3, 4]
    assert column(run.table, "window_start") == [0, 0, 1, 2]
    assert column(run.table, "id") == ["a", "a", "c", "d"]
    assert [answer.push for answer in run.answers] == [0, 0, 0, 1]


def test_driver_count_windows_by_group() -> None:
    rows = [FOUR[0], FOUR[2], FOUR[3], FOUR[1]]  # x y y x
    count = {"k": 1, "score": "score", "by": ("g",)}
    run = oracle.answers("TopK", CountWindow(2, 1), [rows], **count)
    got = [(a.end, a.table[0]["g"], a.table[0]["score"], len(a.changes)) for a in run.answers]
    assert got == [(1, "x", 1.0, 1), (1, "y", 4.0, 1), (2, "x", 4.0, 2), (2, "y", 4.0, 0)]
    hopping = oracle.answers("TopK", CountWindow(1, 2), [rows], **count)
    assert hopping.rows_unused == 2
    assert [row["score"] for row in hopping.table] == [4.0, 2.0]


def test_driver_heavy_hitters() -> None:
    rows = [
        {"ts": n, "item": i, "w": w}
        for n, (i, w) in enumerate(zip("abbc", (9, 1, 1, 1), strict=True))
    ]
    run = oracle.answers("HeavyHitters", TimeWindow(10), [rows], k=2, item="item", time="ts")
    assert [(row["item"], row["count"]) for row in run.table] == [("b", 2), ("a", 1)]
    assert list(run.table[0])[2:] == ["rank", "item", "count", "error"]
    run = oracle.answers(
        "HeavyHitters", TimeWindow(10), [rows], k=1, item="item", time="ts", weight="w"
    )
    assert column(run.table, "item") == ["a"]
    assert run.answers[0].total == 12


@pytest.mark.parametrize(
    ("semantics", "cars"),
    [("pk-topk", [1, 2]), ("u-kranks", [3, 1]), ("u-topk", [2, 1]), ("pt-k", [1, 2, 3])],
)
def test_driver_uncertain(semantics: str, cars: list[int]) -> None:
    cars_of_table_1 = [(5.0, 0.8), (6.0, 0.5), (8.0, 0.4), (2.0, 0.4)]
    rows = [{"speed": speed, "p": p, "car": n} for n, (speed, p) in enumerate(cars_of_table_1, 1)]
    query = {"k": 2, "score": "speed", "probability": "p", "id": "car", "semantics": semantics}
    run = oracle.answers("UncertainTopK", CountWindow(4), [rows], **query, threshold=0.3)
    assert column(run.table, "car") == cars
    assert list(run.table[0])[2:] == ["rank", "car", "speed", "p", "topk_probability"]


def test_driver_fused() -> None:
    query: Row = {"k": 1, "id": "car", "stream": "camera", "value": "v", "time": "ts"}
    query |= {"streams": ("n", "s"), "combine": "sum"}
    north = [{"ts": 0, "car": "a", "v": 0.3}, {"ts": 2, "car": "b", "v": 0.6}]
    south = [{"ts": 1, "car": "a", "v": 0.4}]
    table = [row | {"camera": "n"} for row in north] + [row | {"camera": "s"} for row in south]
    one = oracle.answers("FusedTopK", TimeWindow(10), [table], **query)
    two = oracle.answers("FusedTopK", TimeWindow(10), {"n": [north], "s": [south]}, **query)
    assert one.table == two.table
    assert column(one.table, "car") == ["a"]
    assert list(one.table[0])[2:] == ["rank", "car", "score"]


def test_driver_skyline() -> None:
    rows = [
        {"ts": n, "tx": n + 1, "price": p, "volume": v}
        for n, (p, v) in enumerate([(3, 5), (2, 5), (2, 9)])
    ]
    prefer = {"price": "min", "volume": "max"}
    for window in (TimeWindow(10), CountWindow(3)):
        run = oracle.answers("Skyline", window, [rows], prefer=prefer, id="tx", time="ts")
        assert column(run.table, "tx") == [3]
        assert list(run.table[0]) == ["window_start", "window_end", "ts", "tx", "price", "volume"]
    run = oracle.answers(
        "Skyline", TimeWindow(10), [rows], prefer=prefer, by=("volume",), time="ts"
    )
    assert list(run.table[0])[2:] == ["volume", "ts", "tx", "price"]
    assert column(run.table, "tx") == [2, 3]


def test_driver_skyline_join() -> None:
    trades = [{"ts": n, "stock": s, "price": n + 1} for n, s in enumerate("xy")]
    risks = [{"ts": n, "stock": s, "risk": n + 1} for n, s in enumerate("xy")]
    query: Row = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
    query["prefer"] = {"price": "min", "risk": "min"}
    batches = {"trades": [trades], "risks": [risks]}
    run = oracle.answers("SkylineJoin", TimeWindow(10), batches, **query)
    assert list(run.table[0])[2:] == ["stock", "trades_ts", "price", "risks_ts", "risk"]
    assert column(run.table, "stock") == ["x"]
    assert len(run.answers[0].changes) == 1
    only_left = oracle.answers(
        "SkylineJoin", TimeWindow(10), {"trades": [trades], "risks": []}, **query
    )
    assert [(a.table, a.total, a.push) for a in only_left.answers] == [([], 2, None)]


def test_driver_monitor() -> None:
    def rows(*triples: tuple[int, int, float]) -> list[Row]:
        return [{"ts": ts, "id": id, "score": score} for ts, id, score in triples]

    pushes = [rows((0, 1, 1.0), (3, 2, 2.0), (11, 3, 3.0)), rows((2, 4, 9.0))]
    run = oracle.answers("TopK", TimeWindow(10, 5), pushes, **{**QUERY, "k": 1})
    assert [column(a.table, "id") for a in run.answers] == [[2], [2], [3]]
    assert [a.push for a in run.answers] == [0, 0, None]
    assert [len(a.changes) for a in run.answers] == [1, 0, 2]
    assert (run.rows_in, run.rows_late) == (4, 1)
    assert list(run.answers[0].changes[0]) == ["change", "id", "from_rank", "to_rank"]


def test_driver_answers_when_the_watermark_reaches_the_end() -> None:
    # Watermark 9, then 10: end 10 is answered after the second push, end 20 after the input ends.
    rows = [{"ts": ts, "score": 1} for ts in (9, 10)]
    run = oracle.answers("TopK", TimeWindow(10), [[r] for r in rows], k=1, score="score", time="ts")
    assert [(a.end, a.push) for a in run.answers] == [(10, 1), (20, None)]


def test_driver_empty_window_brings_the_leaves() -> None:
    rows = [{"ts": 5, "score": 1}, {"ts": 35, "score": 1}]
    run = oracle.answers("TopK", TimeWindow(10), [rows], k=1, score="score", time="ts")
    got = [(a.end, column(a.table, "ts"), column(a.changes, "change")) for a in run.answers]
    assert got == [(10, [5], ["enter"]), (20, [], ["leave"]), (40, [35], ["enter"])]
    assert list(run.answers[1].changes[0]) == ["change", "score", "ts", "from_rank", "to_rank"]


def test_sources_are_read_from_the_one_behind() -> None:
    sources = {"a": [at(1), at(9), at(10)], "b": [at(4), at(5), at(20)]}
    order = [next(iter(push.items())) for push in oracle.interleave(sources, "ts")]
    assert order == [
        ("a", at(1)),
        ("b", at(4)),
        ("a", at(9)),
        ("b", at(5)),
        ("b", at(20)),
        ("a", at(10)),
    ]


def test_difference() -> None:
    assert oracle.difference([{"a": 1, "s": 0.1 + 0.2}], [{"a": 1, "s": 0.3}], sums=["s"]) is None
    assert oracle.difference([{"s": 0.1 + 0.2}], [{"s": 0.3}]) is not None
    assert oracle.difference([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]) is not None
    assert oracle.difference([], [{"a": 1}]) == "0 rows, want 1"


# ---------------------------------------------------------------------------------------------
# The streams used in tests


@pytest.mark.parametrize(
    ("pattern", "score_type", "id_type"),
    list(itertools.product(streams.PATTERNS, streams.SCORE_TYPES, streams.ID_TYPES)),
)
def test_streams_agree_with_their_rows(pattern: str, score_type: str, id_type: str) -> None:
    look: Row = {"pattern": pattern, "score_type": score_type, "id_type": id_type}
    look |= {"time_type": streams.MICROSECONDS, "unit": 10**6, "gap": 50, "lateness": 4}
    s = streams.stream(3, 40, **look, batches=5)
    assert streams.rows_of(s.table) == s.rows
    assert [streams.rows_of(batch) for batch in s.batches] == s.row_batches
    assert (len(s.rows), len(s.batches)) == (40, 5)
    assert len(set(column(s.rows, "id"))) == 40
    late = oracle.late_rows(s.row_batches, "ts", 10**7, 10**6, lateness=4 * 10**6)
    assert not any(push.late for push in late)
    assert s.rows == streams.stream(3, 40, **look).rows


@pytest.mark.parametrize("recurrences", [1, 2])
@pytest.mark.parametrize("window", [TimeWindow(8, 3, lateness=5), CountWindow(8, 3)])
def test_reports_keep_their_recurrences(window: TimeWindow | CountWindow, recurrences: int) -> None:
    count = isinstance(window, CountWindow)
    s = streams.reports(1, 200, size=8, recurrences=recurrences, lateness=5, count=count, batches=6)
    query: Row = {"k": 3, "id": "object", "stream": "stream", "value": "value", "time": "ts"}
    query |= {"streams": ("a", "b", "c"), "recurrences": recurrences}
    run = oracle.answers(
        "FusedTopK", window, s.row_batches, **query
    )  # raises if there is a report too many
    assert len(run.answers) > 20
    assert run.rows_late == 0
    if recurrences == 2:
        with pytest.raises(ValueError, match="2 live reports"):
            oracle.answers("FusedTopK", window, s.row_batches, **{**query, "recurrences": 1})


@given(st.data(), streams.time_windows())
def test_drawn_streams_run_through_every_query(data: st.DataObject, w: TimeWindow) -> None:
    s = data.draw(streams.streams(lateness=w.lateness))
    assert streams.rows_of(s.table) == s.rows
    queries: dict[str, Row] = {
        "HeavyHitters": {"k": 2, "item": "item", "weight": "weight"},
        "UncertainTopK": {"k": 2, "score": "score", "probability": "p", "semantics": "u-topk"},
        "Skyline": {"prefer": {"price": "min", "volume": "max", "kind": "diff"}},
    }
    for kind, query in queries.items():
        run = oracle.answers(kind, w, s.row_batches, **query, time="ts")
        assert run.rows_unused == 0 or w.step > w.size
    told = data.draw(streams.report_streams(size=w.size, lateness=w.lateness))
    query = {"k": 2, "id": "object", "stream": "stream", "value": "value", "streams": ("a", "b")}
    oracle.answers("FusedTopK", w, told.row_batches, **query, time="ts")
    both = data.draw(streams.sides(lateness=w.lateness))
    join = {
        "left": "trades",
        "right": "risks",
        "on": "stock",
        "prefer": {"price": "min", "risk": "min"},
    }
    batches = {side: stream.row_batches for side, stream in both.items()}
    run = oracle.answers("SkylineJoin", w, batches, **join, time="ts")
    assert run.rows_late == 0
