"""The oracle is what everything else is compared with; here it is compared with hand and paper."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import streams
from oracle import CountWindow, Row, TimeWindow


def at(*times: int) -> list[Row]:
    return [{"ts": time} for time in times]


def windows(rows: list[Row], size: int, slide: int, offset: int = 0) -> list[tuple[int, ...]]:
    """(start, end, times of the rows in it...)"""
    live = oracle.time_windows(rows, "ts", size, slide, offset)
    return [(start, end, *(row["ts"] for row in inside)) for start, end, inside in live]


def column(table: list[Row], name: str) -> list[Any]:
    return [row[name] for row in table]


# ---------------------------------------------------------------------------------------------
# Windows


def test_sliding_windows_fill_at_the_start_and_stop_at_the_first_end_after_the_last_row() -> None:
    #   0    5    10   15   20
    #   a  b |    | c  |    |        a = 0, b = 3, c = 11
    # ──────)|    |    |    |        end 5   a b       still filling
    #   [─────────)    |    |        end 10  a b       [0, 10) has its start, not its end
    #        [─────────)    |        end 15  c         first end after the last row
    #             [ ─ ─ ─ ─ )        end 20  would hold c, but comes after that end
    assert windows(at(0, 3, 11), 10, 5) == [(-5, 5, 0, 3), (0, 10, 0, 3), (5, 15, 11)]


def test_a_row_on_an_edge_belongs_to_the_window_that_starts_there() -> None:
    #   0         10        20
    #   |         r         |        r = 10
    #   [─────────)         |        end 10  nothing
    #             [─────────)        end 20  r
    assert windows(at(10), 10, 10) == [(10, 20, 10)]


def test_a_gap_gives_one_empty_window() -> None:
    #   0    10   20   30   40
    #   | a  |    |    | b  |        a = 5, b = 35
    #   [────)    |    |    |        end 10  a
    #        [────)    |    |        end 20  empty: what was there leaves
    #             [ ─ ─)    |        end 30  empty again: no answer
    #                  [────)        end 40  b
    live = oracle.time_windows(at(5, 35), "ts", 10, 10)
    assert [(w.end, w.empty) for w in live] == [(10, False), (20, True), (40, False)]


def test_slide_not_dividing_size() -> None:
    #   0  2 3  5 6  8 9            size 4, slide 3: panes end at 3j and, as 4 mod 3 = 1, at 3j − 1
    #   |  ¦ |  ¦ |  ¦ |
    #  ─────)|  ¦ |  ¦ |            end 3   [−1, 3)
    #      [──────)  ¦ |            end 6   [2, 6)
    #           [──────)            end 9   [5, 9)
    assert windows(at(1, 2, 5, 6), 4, 3) == [(-1, 3, 1, 2), (2, 6, 2, 5), (5, 9, 5, 6)]
    assert [oracle.pane_end(t, 4, 3) for t in range(-2, 6)] == [-1, 0, 2, 2, 3, 5, 5, 6]


def test_slide_beyond_size_leaves_rows_unused() -> None:
    #   0      7  10     17 20      size 3, slide 10
    #   | u    a  |  v      |       u = 4, a = 7, v = 12
    #          [──)         |       end 10  a
    #                    [──)       end 20  empty, and v is the last row
    assert windows(at(4, 7, 12), 3, 10) == [(7, 10, 7), (17, 20)]
    assert [oracle.is_unused(t, 3, 10) for t in (4, 6, 7, 9, 12)] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert [oracle.pane_end(t, 3, 10) for t in (4, 6, 7, 9, 10)] == [7, 7, 10, 10, 17]
    assert windows(at(4), 3, 10) == []


def test_offset_moves_the_ends_and_times_may_be_negative() -> None:
    assert windows(at(-1, 1, 2), 5, 5, offset=2) == [(-3, 2, -1, 1), (2, 7, 2)]
    assert windows(at(-11), 5, 5) == [(-15, -10, -11)]
    assert windows([], 5, 5) == []


def test_count_windows() -> None:
    #   arrivals  0 1 2 3 4         size 3, slide 2
    #            [───)              end 2   0 1      still filling
    #              [─────)          end 4   1 2 3
    #                               arrival 4 waits for a full slide
    live = oracle.count_windows([{"n": n} for n in range(5)], 3, 2)
    assert [(w.start, w.end, column(w.rows, "n")) for w in live] == [
        (0, 2, [0, 1]),
        (1, 4, [1, 2, 3]),
    ]
    rare = oracle.count_windows([{"n": n} for n in range(9)], 1, 4)
    assert [column(w.rows, "n") for w in rare] == [[3], [7]]


@given(streams.streams(), streams.time_windows())
def test_time_windows_are_those_of_the_definition(s: streams.Stream, w: TimeWindow) -> None:
    times = column(s.rows, "ts")
    expected = []
    was_empty = True
    for end in range(min(times, default=0) - 30, max(times, default=0) + 30):
        if (end - w.offset) % w.step == 0 and any(end - w.step <= t for t in times):
            inside = [t for t in times if end - w.size <= t < end]
            if inside or not was_empty:
                expected.append((end - w.size, end, *inside))
            was_empty = not inside
    assert windows(s.rows, w.size, w.step, w.offset) == expected


# ---------------------------------------------------------------------------------------------
# Late rows


def fates(batches: list[Any], **window: Any) -> list[tuple[list[int], list[int], int | None]]:
    """Per push: times taken, times late, watermark after it."""
    return [
        (
            [row["ts"] for rows in push.taken.values() for row in rows],
            [row["ts"] for rows in push.late.values() for row in rows],
            push.watermark,
        )
        for push in oracle.late_rows(batches, "ts", **window)
    ]


def test_a_row_is_late_when_its_pane_is_sealed() -> None:
    #   0    5    10   15           size 10, slide 5, lateness 0
    #   1st push: 0, 3, 11   ─► watermark 11: panes [0, 5) and [5, 10) are sealed
    #   2nd push: 2 late, 9 late, 10 in time: pane [10, 15) is open though 10 < 11
    assert fates([at(0, 3, 11), at(2, 9, 10)], size=10, slide=5) == [
        ([0, 3, 11], [], 11),
        ([10], [2, 9], 11),
    ]


def test_a_push_is_judged_against_the_watermark_before_it() -> None:
    # In one push nothing is late, in whichever order its rows stand.
    assert fates([at(11, 0)], size=5, slide=5) == [([11, 0], [], 11)]
    assert fates([at(11), at(0)], size=5, slide=5) == [([11], [], 11), ([], [0], 11)]


def test_lateness_holds_the_watermark_back() -> None:
    # watermark 11 − 6 = 5 seals [0, 5) exactly; with lateness 7 it is 4 and the pane stays open
    assert fates([at(11), at(4)], size=5, slide=5, lateness=6)[1] == ([], [4], 5)
    assert fates([at(11), at(4)], size=5, slide=5, lateness=7)[1] == ([4], [], 4)


def test_an_inner_cut_seals_earlier() -> None:
    # size 4, slide 3: panes [0, 2), [2, 3), [3, 5) ...; watermark 2 seals only the first
    assert fates([at(2), at(0), at(1), at(2)], size=4, slide=3) == [
        ([2], [], 2),
        ([], [0], 2),
        ([], [1], 2),
        ([2], [], 2),
    ]


def test_the_slowest_source_holds() -> None:
    pushes = [
        {"a": at(20)},
        {"a": at(1)},
        {"b": at(7)},
        {"a": at(4, 5)},
        {"b": at(12)},
        {"a": at(9)},
    ]
    assert fates(pushes, size=5, slide=5, sources=["a", "b"]) == [
        ([20], [], None),  # b is unseen
        ([1], [], None),
        ([7], [], 7),
        ([5], [4], 7),
        ([12], [], 12),
        ([], [9], 12),
    ]


def test_an_unused_row_is_not_late_and_moves_the_watermark() -> None:
    # size 3, slide 10: 12 lies in no window; it seals [7, 10), so that 8 is late; 4 is unused
    pushes = list(oracle.late_rows([at(12), at(8, 4)], "ts", 3, 10))
    assert pushes[0].watermark == 12
    assert (pushes[1].late, pushes[1].unused) == ({None: at(8)}, {None: at(4)})


@given(st.data(), streams.time_windows())
def test_no_row_is_late_within_the_lateness(data: st.DataObject, w: TimeWindow) -> None:
    s = data.draw(streams.streams(lateness=w.lateness))
    query = {"k": 2, "score": "score", "id": "id", "time": "ts", "by": ("g",)}
    cut = oracle.answers("TopK", w, s.row_batches, **query)
    whole = oracle.answers("TopK", w, [s.rows], **query)
    assert cut.rows_late == 0
    assert cut.table == whole.table
    assert [a.changes for a in cut.answers] == [a.changes for a in whole.answers]


# ---------------------------------------------------------------------------------------------
# Definitions


def test_topk_orders_by_score_then_later_then_smaller_id() -> None:
    rows = [
        {"ts": 1, "id": "z", "score": 5},
        {"ts": 2, "id": "b", "score": 4},
        {"ts": 2, "id": "a", "score": 4},
        {"ts": 3, "id": "c", "score": 4},
        {"ts": 9, "id": "d", "score": 3},
    ]
    assert column(oracle.topk(rows, 4, "score", time="ts", id="id"), "id") == ["z", "c", "a", "b"]
    best = oracle.topk(rows, 2, "score", time="ts", id="id", largest=False)
    assert best == [{"id": "d", "score": 3, "ts": 9}, {"id": "c", "score": 4, "ts": 3}]
    assert oracle.topk(rows, 1, "score") == [{"score": 5}]
    infinite = [{"score": s} for s in (1.0, float("-inf"), float("inf"))]
    assert column(oracle.topk(infinite, 3, "score"), "score") == [float("inf"), 1.0, float("-inf")]


def test_heavy_hitters() -> None:
    rows = [
        {"item": item, "w": w} for item, w in (("b", 1), ("a", 9), ("c", 1), ("b", 1), ("c", 1))
    ]
    best = oracle.heavy_hitters(rows, 2, "item")
    assert best == [{"item": "b", "count": 2, "error": 0}, {"item": "c", "count": 2, "error": 0}]
    assert oracle.heavy_hitters(rows, 1, "item", "w") == [{"item": "a", "count": 9, "error": 0}]


CARS: list[Row] = [
    {"speed": speed, "p": Fraction(p)}
    for speed, p in ((5, "0.8"), (6, "0.5"), (8, "0.4"), (2, "0.4"))
]  # Table 1 of the paper on uncertain streams


@pytest.mark.parametrize("define", [oracle.uncertain, oracle.uncertain_by_worlds])
@pytest.mark.parametrize(
    ("semantics", "speeds", "chances"),
    [
        ("pk-topk", [5, 6], ["0.64", "0.5"]),
        ("pt-k", [5, 6, 8], ["0.64", "0.5", "0.4"]),
        ("u-kranks", [8, 5], ["0.4", "0.4"]),
        ("u-topk", [6, 5], ["0.24", "0.24"]),
    ],
)
def test_table_1(define: Any, semantics: str, speeds: list[int], chances: list[str]) -> None:
    query = {"k": 2, "score": "speed", "probability": "p", "semantics": semantics}
    answer = define(CARS, threshold=Fraction("0.3"), **query)
    assert column(answer, "speed") == speeds
    assert column(answer, "topk_probability") == [Fraction(c) for c in chances]
    assert list(answer[0]) == ["speed", "p", "topk_probability"]


def uncertain(pairs: list[tuple[int, Any]], semantics: str, k: int, **more: Any) -> list[Row]:
    rows = [{"id": n, "s": s, "p": p} for n, (s, p) in enumerate(pairs)]
    query = {"k": k, "score": "s", "probability": "p", "id": "id", "semantics": semantics, **more}
    answer = oracle.uncertain(rows, **query)
    assert answer == oracle.uncertain_by_worlds(rows, **query)
    return answer


def test_a_row_may_win_two_ranks() -> None:
    # rank 1: .5 (9), .25 (8), .25 (7); rank 2: 7 comes second with .5; rank 3: 7 with .25
    answer = uncertain([(9, 0.5), (8, 0.5), (7, 1.0)], "u-kranks", 5)
    assert column(answer, "s") == [9, 7, 7]
    assert column(answer, "topk_probability") == [0.5, 0.5, 0.25]


def test_ties_go_to_the_first_in_row_order() -> None:
    # Equal score and time: the smaller id. Both are first with probability 1/2.
    assert column(uncertain([(1, 0.5), (1, 1.0)], "u-kranks", 1), "id") == [0]
    # {9}, {8 without 9}: both 1/2
    assert column(uncertain([(8, 1.0), (9, 0.5)], "u-topk", 1), "s") == [9]
    assert column(uncertain([(3, 0.5), (4, 0.5)], "pk-topk", 2), "s") == [4, 3]


def test_the_larger_probability_comes_before_the_smaller() -> None:
    rows = [{"s": 1, "p": 0.25}, {"s": 1, "p": 0.5}]
    ordered = oracle.in_row_order(rows, "s", probability="p")
    assert column(ordered, "p") == [0.5, 0.25]


def test_threshold_is_included_and_few_rows_have_no_vector() -> None:
    assert column(uncertain([(2, 0.5), (1, 0.5)], "pt-k", 2, threshold=0.5), "s") == [2, 1]
    assert uncertain([(2, 0.5), (1, 0.5)], "pt-k", 2, threshold=0.75) == []
    assert uncertain([(2, 0.5), (1, 0.5)], "u-topk", 3) == []
    assert len(uncertain([(2, 0.5), (1, 0.5)], "u-kranks", 3)) == 2


probabilities = st.sampled_from([Fraction(n, 5) for n in (1, 2, 3, 4, 5)])


@given(
    st.lists(st.tuples(st.integers(0, 3), probabilities), max_size=7),
    st.integers(1, 4),
    st.sampled_from(["pk-topk", "pt-k", "u-kranks", "u-topk"]),
)
def test_recursion_is_enumeration(rows: list[tuple[int, Any]], k: int, semantics: str) -> None:
    answer = uncertain(rows, semantics, k, threshold=Fraction(2, 5))  # compares the two
    quarters = [(score, 0.25 * min(4, p * 5)) for score, p in rows]
    exact = uncertain(quarters, semantics, k, threshold=0.25)
    floats = uncertain(quarters, semantics, k, threshold=0.25, number=float)
    assert exact == floats
    assert len(answer) <= max(k, len(rows))


def test_fused() -> None:
    reports = [("n", "a", 0.3), ("s", "a", 0.4), ("n", "b", 0.6), ("s", "c", 0.7)]
    rows = [{"stream": s, "id": i, "v": v} for s, i, v in reports]

    def best(**more: Any) -> list[tuple[str, float]]:
        query = {
            "k": 3,
            "id": "id",
            "stream": "stream",
            "value": "v",
            "streams": ("n", "s"),
            **more,
        }
        return [(row["id"], row["score"]) for row in oracle.fused(rows, **query)]

    assert best() == [("a", 0.7), ("c", 0.7), ("b", 0.6)]
    assert best(combine="max") == [("c", 0.7), ("b", 0.6), ("a", 0.4)]
    assert best(combine="min", bounds=(0.1, 1)) == [("a", 0.3), ("b", 0.1), ("c", 0.1)]
    assert best(combine="product", bounds=(0.5, 1)) == [("c", 0.35), ("b", 0.3), ("a", 0.12)]
    assert best(combine={"s": 0, "n": 10}) == [("b", 6.0), ("a", 3.0), ("c", 0.0)]
    assert best(combine=[0, 10])[0] == ("c", 7.0)
    assert best(combine=lambda v: v[0] + 2 * v[1])[0] == ("c", 1.4)
    assert best(bounds={"n": (0.5, 1), "s": (0, 1)})[0] == ("c", 1.2)
    assert best(bounds=((0, 1), (0.5, 1)))[0] == ("b", 1.1)

    rows.append({"stream": "n", "id": "b", "v": 0.2})
    assert best(recurrences=2)[0] == best(recurrences="estimate")[0] == ("b", 0.8)
    with pytest.raises(ValueError, match="'b' has 2 live reports in stream 'n'"):
        best()


def test_skyline() -> None:
    rows = [{"price": p, "volume": v, "kind": k} for p, v, k in [(3, 5, 1), (2, 5, 1), (2, 9, 2)]]
    prefer = {"price": "min", "volume": "max"}
    assert oracle.skyline(rows, prefer) == [rows[2]]
    assert oracle.skyline(rows, {**prefer, "kind": "diff"}) == [rows[1], rows[2]]
    assert oracle.skyline([rows[2], rows[2]], prefer) == [rows[2], rows[2]]  # equals stay
    assert oracle.skyline(rows, {"kind": "diff"}) == [rows[1], rows[2], rows[0]]


def test_skyline_join_names_columns_of_both_sides() -> None:
    left = [{"ts": 0, "stock": "x", "price": 1}, {"ts": 1, "stock": "y", "price": 1}]
    right = [{"risk": 2, "stock": "x", "ts": 5}, {"risk": 3, "stock": "y", "ts": 6}]
    prefer = {"price": "min", "risk": "min"}
    sides = {"on": "stock", "left": "trades", "right": "risks"}
    pair = {"stock": "x", "trades_ts": 0, "price": 1, "risk": 2, "risks_ts": 5}
    assert oracle.skyline_join(left, right, prefer=prefer, **sides) == [pair]
    assert list(oracle.join(left, right, **sides)[0]) == list(pair)
    latest = oracle.skyline_join(left, right, prefer={"trades_ts": "max"}, **sides)
    assert column(latest, "stock") == ["y"]


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
    # The first a stays the first a and the second goes.
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
# The driver: the examples that the public interface is checked with

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
    rows = [
        {"speed": float(car["speed"]), "p": float(car["p"]), "car": n}
        for n, car in enumerate(CARS, 1)
    ]
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
    # Watermark 9, then 10: the second push brings end 10; the end of the input brings end 20.
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
# The streams that tests are fed with


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
    )  # raises at one report too many
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
