"""The oracle's definitions of the queries, compared with results by hand and from the papers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from oracle import Row


def column(table: list[Row], name: str) -> list[Any]:
    return [row[name] for row in table]


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


def test_of_the_latest_rows_of_an_id_the_one_with_the_better_score_counts() -> None:
    rows = [
        {"ts": 1, "id": "a", "score": 9},
        {"ts": 2, "id": "a", "score": 3},
        {"ts": 2, "id": "a", "score": 5},
        {"ts": 1, "id": "b", "score": 4},
    ]
    for largest, scores in ((True, [5, 4]), (False, [3, 4])):
        for each in (rows, rows[::-1]):
            latest: dict[str, Any] = {"largest": largest, "distinct": "latest"}
            found = oracle.topk(each, 2, "score", time="ts", id="id", **latest)
            assert column(found, "score") == scores


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
    assert oracle.skyline([rows[2], rows[2]], prefer) == [rows[2], rows[2]]  # equal rows stay
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
