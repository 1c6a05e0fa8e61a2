"""``where`` as a text: against SQLite, with columns of every type, and what is refused."""

from __future__ import annotations

import contextlib
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from oracle.where import is_true
from skyband.data.row_filter import RowFilter
from skyband.errors import QueryError
from skyband.query.expressions import conditions_of, parse_condition

ROWS = pa.table(
    {
        "a": pa.array([3, -1, 0, None, 7, 2], pa.int32()),
        "b": [0.5, math.nan, None, 2.0, -0.0, 2.5],
        "c": pa.array([2, 0, 3, 1, None, 2], pa.uint64()),
        "s": pa.array(["x", None, "it's", "y", "", "x"]).dictionary_encode(),
        "r": ["x", "x", None, "z", "a", "y"],
        "f": [True, False, None, True, None, False],
    }
)


def matching(table: pa.Table, where: str) -> list[int]:
    (batch,) = table.combine_chunks().to_batches()
    conditions = conditions_of(where)
    mask = RowFilter(conditions, batch.schema, where).mask(batch)
    empty = RowFilter(conditions, batch.schema, where).mask(batch.slice(0, 0))
    assert not len(empty)
    return [int(row) for row in mask.nonzero()[0]]


def numbers(depth: int) -> st.SearchStrategy[str]:
    leaf = st.sampled_from(["a", "b", "c", "2", "0", "-1", "2.5", "max(a, c)", "abs(a)"])
    if not depth:
        return leaf
    pair = st.tuples(leaf, st.sampled_from("+-*"), numbers(depth - 1)).map(" ".join)
    return st.one_of(leaf, pair, pair.map("({})".format), leaf.map("b / {}".format))


def conditions(depth: int) -> st.SearchStrategy[str]:
    sign = st.sampled_from(["=", "!=", "<", "<=", ">", ">=", "<>", "=="])
    text = st.sampled_from(["s", "r", "'x'", "'it''s'", "''"])
    left = st.sampled_from(["a", "b", "c", "a + c", "s", "r"])
    negated = st.sampled_from(["", "NOT "])
    constant = {"s": "('x', 'it''s')", "r": "('a', null)"}
    leaf = st.one_of(
        st.tuples(numbers(1), sign, numbers(1)).map(" ".join),
        st.tuples(text, sign, text).map(" ".join),
        st.tuples(left, negated).map(
            lambda p: f"{p[0]} {p[1]}IN {constant.get(p[0], '(2, -1.0)')}"
        ),
        st.tuples(left, negated).map(lambda p: f"{p[0]} is {p[1]}null"),
        st.tuples(st.sampled_from(["f", "f = true", "f != false", "a < null"]), negated).map(
            lambda p: p[1] + p[0]
        ),
    )
    if not depth:
        return leaf
    inner = conditions(depth - 1)
    joined = st.tuples(inner, st.sampled_from(["and", "OR"]), inner).map(" ".join)
    return st.one_of(leaf, joined, joined.map("({})".format), joined.map("not ({})".format))


@given(conditions(2))
@settings(max_examples=300)
def test_the_rows_are_those_of_sqlite(text: str) -> None:
    try:
        got = matching(ROWS, text)
    except QueryError as problem:
        assert "constants" in str(problem)  # noqa: PT017 - other conditions are fine
        return
    rows = ROWS.to_pylist()
    assert got == [i for i, row in enumerate(rows) if is_true(text, row)]


DAYS = [date(2026, 1, 5), date(2026, 1, 6), None]
TIMES = [datetime(2026, 1, 5), datetime(2026, 1, 6, 12), None]
TYPED: list[Any] = [
    (pa.array([1, 127, None], pa.int8()), "x > 1.5", [1]),
    (pa.array([1, 127, None], pa.int8()), "x < 300 and x > -300", [0, 1]),
    (pa.array([1, 127, None], pa.int8()), "x >= 127.0 or x <= -129 or x > 1e300", [1]),
    (pa.array([(1 << 53) + 1, 1 << 53]), "x > 9007199254740992", [0]),
    (pa.array([(1 << 64) - 1, 0], pa.uint64()), "not x <= 18446744073709551614", [0]),
    (pa.array([0.1, 0.2, None], pa.float32()), "x <= 0.1", [0]),
    (pa.array([0.5, 2.0], pa.float16()), "x > 0.5 or x != x", [1]),
    (pa.array([Decimal("1.10"), Decimal("1.11"), None]), "x > 1.105 and x < 1e40", [1]),
    (pa.array([Decimal(1), None]).dictionary_encode(), "not x < 0.5", [0]),
    (pa.array([Decimal("1.10"), Decimal("1.11"), None]), "x <= 1.1 or x > 1e40", [0]),
    (pa.array([Decimal(10**37), Decimal(5)], pa.decimal128(38, 0)), "x < 10 * 10 * 10", [1]),
    (pa.array(DAYS), "x >= '2026-01-06'", [1]),
    (pa.array(TIMES, pa.timestamp("ns")), "x < '2026-01-06'", [0]),
    (pa.array(TIMES, pa.timestamp("s", "Asia/Tokyo")), "x > '2026-01-06T20:00:00+09:00'", [1]),
    (pa.array(["a", "é", None], pa.large_string()), "x > 'z'", [1]),
    (pa.array(["a", "b", None], pa.string_view()), "x in ('a', 'b') and x < 'b'", [0]),
    (pa.array([b"a", b"b", None]), "x >= 'b'", [1]),
    (pa.nulls(2), "x > 1 or x in (1) or not x = 'a'", []),
    (pa.nulls(2), "x is null and not x is not null", [0, 1]),
    (pa.array([[1], None]), "x is not null", [0]),
    (pa.array(["b", None, "a"]).dictionary_encode(), "not (x > 'a') or x is null", [1, 2]),
]


@pytest.mark.parametrize(("column", "where", "want"), TYPED)
def test_columns_of_every_type(column: pa.Array, where: str, want: list[int]) -> None:
    assert matching(pa.table({"x": column}), where) == want


def test_columns_of_different_types_are_compared_if_they_are_of_one_family() -> None:
    zoned = pa.array([datetime(2026, 1, 5), datetime(2026, 1, 6)], pa.timestamp("ms", "Asia/Tokyo"))
    table = pa.table(
        {
            "day": pa.array(DAYS[:2]),
            "at": zoned,
            "small": pa.array([1, 2], pa.int8()),
            "cost": pa.array([Decimal("1.5"), Decimal("2.0")]),
            "text": ["a", "b"],
            "long": pa.array(["a", "c"], pa.large_string()),
        }
    )
    assert matching(table, "day = at") == [0, 1]
    assert matching(table, "small < cost") == [0]
    assert matching(table, "text = long or small > cost") == [0]
    for where in ("day > small", "text = cost", "text = day", "text", "1 > text"):
        with pytest.raises(sb.SchemaError, match=r"where: column '\w+' of type .*(cast|compare)"):
            matching(table, where)


def test_names_in_any_form() -> None:
    table = pa.table({"in": [1, 2], "total bytes": [5, 6], "Null": [True, False]})
    assert matching(table, "`in` IN (2) Or `total bytes` < 6 AND `Null`") == [0, 1]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("bytes >", "a value is missing at its end"),
        ("bytes > 1 and", "a value is missing at its end"),
        ("1 < a < 3", "'and' is missing before '< 3'"),
        ("a + 1", "compare it with another value"),
        ("5 = 5", "'=' has only constants around it"),
        ("a in (b)", "must be constants"),
        ("a in ()", "a value is missing before '[)]'"),
        ("a in 5", "an opening parenthesis is missing before '5'"),
        ("name = 'it", '"\'" is not allowed there'),
        ("'a' + 1 > a", "'a' is not a number, so it cannot be computed with"),
        ("(a > 1) + 1 > 2", "a condition with '>' stands in place of a value"),
        ("a = not b", "a condition with 'not'"),
        ("a is 5", "'null' is missing before '5'"),
        ("a not 5", "'in' is missing"),
        ("(a = 1", "a closing parenthesis is missing"),
        ("a = 1; drop", "';' is not allowed"),
        ("exp(a) > 1", "no function 'exp'"),
        ("(" * 60 + "a" + ")" * 60, "nested more than 50"),
        (" or ".join(["a = 1"] * 51), "more than 100 columns and numbers"),
        ("a = " + "1" * 100_000, "longer than 100,000"),
        ("a > 1 b" + "c" * 99, r"an operator is missing before 'b{1}c{59}\.\.\.'"),
    ],
)
def test_texts_that_are_no_condition(where: str, told: str) -> None:
    with pytest.raises(QueryError, match=f"where is not a condition: .*{told}"):
        sb.TopK(k=1, score="x", window=sb.CountWindow(1), where=where)


def test_the_longest_texts() -> None:
    table = pa.table({"a": [1, 5000]})
    assert matching(table, f"a in ({', '.join(map(str, range(2, 6000)))})") == [1]
    assert matching(table, " or ".join(["a = 1"] * 50)) == [0]
    assert matching(table, "not not " * 500 + "a = 1") == [0]
    assert matching(table, "(" * 50 + "a = 1" + ")" * 50) == [0]


@given(st.text("ab1.'+-*/(), <>=!ornotisul", max_size=14))
@settings(max_examples=80)
def test_any_text_is_a_condition_or_refused(text: str) -> None:
    with contextlib.suppress(QueryError):
        parse_condition(text)
