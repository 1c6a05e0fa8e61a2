"""Scores, weights, values and preferences that are computed from columns."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from oracle.expressions import value
from skyband.data.computed import ComputedColumn
from skyband.errors import QueryError
from skyband.query.expressions import parse
from support import conformance, spark_session, streams

TOPK = {"k": 2, "id": "id", "time": "ts"}
UNCERTAIN = {"k": 2, "probability": "p", "id": "id", "time": "ts"}
CASES: list[Any] = [
    ("TopK", TOPK | {"score": "price * weight - volume"}),
    ("TopK", TOPK | {"score": "price*2 + weight", "largest": False, "by": ("g",)}),
    ("HeavyHitters", {"k": 2, "item": "item", "weight": "weight * (1 + price)", "time": "ts"}),
    ("UncertainTopK", UNCERTAIN | {"score": "max(price, weight)"}),
    ("UncertainTopK", UNCERTAIN | {"score": "score", "largest": False, "semantics": "u-topk"}),
    (
        "UncertainTopK",
        UNCERTAIN | {"score": "p", "largest": False, "by": ("g",), "probability": "p * 50 / 100"},
    ),
    ("FusedTopK", conformance.FUSED | {"k": 2, "value": "value / 2 + 0.25"}),
    ("FusedTopK", conformance.FUSED | {"k": 2, "value": "1 - value", "stream": None}),
    ("Skyline", {"prefer": {"price / weight": "min", "volume": "max"}, "time": "ts"}),
    (
        "Skyline",
        {"prefer": {"-price": "max", "abs(weight - 2)": "min"}, "time": "ts", "by": ("g",)},
    ),
    (
        "SkylineJoin",
        {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
        | {"prefer": {"abs(price - 2)": "min", "risk": "max"}},
    ),
]


@pytest.mark.parametrize(("kind", "asked"), CASES)
@given(data=st.data())
@settings(max_examples=15)
def test_time_windows(kind: str, asked: dict[str, Any], data: st.DataObject) -> None:
    window = data.draw(streams.time_windows())
    stream = data.draw(conformance.small_streams(kind, asked, window, window.lateness))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare(kind, window, asked, stream, restarts, peeks)


@pytest.mark.parametrize(("kind", "asked"), CASES[:6])
@given(data=st.data())
@settings(max_examples=8)
def test_count_windows(kind: str, asked: dict[str, Any], data: st.DataObject) -> None:
    window = data.draw(streams.count_windows())
    stream = data.draw(conformance.small_streams(kind, asked, window))
    conformance.compare(kind, window, asked, stream, data.draw(st.booleans()))


# Values -------------------------------------------------------------------------------------------

ROW: dict[str, Any] = {"a": 7, "b": -2, "c": 2.5}
TEXTS = [
    "a + b * c",
    "(a + b) * c",
    "a - b - c",
    "a / b / c",
    "-a * -b",
    "+a - -b",
    "2 * -(a - b)",
    "min(a, b, c)",
    "max(a, b)",
    "min(a)",
    "abs(b) + log(a) - sqrt(c)",
    "1.5e1 * a + .5",
    "a*b",
    "a / 2",
    "3 * 4 + a",
]


def computed(text: str, **columns: pa.Array) -> pa.Array:
    batch = pa.record_batch(columns)
    found = ComputedColumn(text, parse(text), batch.schema)
    result = found.of(batch.column)
    assert result.type == found.type
    return result


@pytest.mark.parametrize("text", TEXTS)
def test_values_are_those_of_python(text: str) -> None:
    (got,) = computed(text, **{name: pa.array([each]) for name, each in ROW.items()}).to_pylist()
    want = value(text, ROW)
    assert math.isclose(got, want, rel_tol=1e-15)
    whole = "c" not in text and not set(text) & set("/.")
    assert isinstance(got, int if whole else float)


def test_a_column_may_be_named_like_a_function() -> None:
    assert computed("max * max(max, 5)", max=pa.array([4])).to_pylist() == [20]


def test_what_is_no_number_is_a_bad_row() -> None:
    a, b = pa.array([1, 2, 3, None]), pa.array([1.0, 0.0, -1.0, 1.0])
    told = {
        "a / b": [1.0, math.nan, -3.0, None],
        "log(b)": [0.0, math.nan, math.nan, 0.0],
        "sqrt(b)": [1.0, 0.0, math.nan, 1.0],
        "max(a / b, 5)": [5.0, math.nan, 5.0, None],
        "min(a, 2)": [1, 2, 2, None],
    }
    for text, want in told.items():
        assert str(computed(text, a=a, b=b).to_pylist()) == str(want), text
    table = pa.table({"a": a, "b": b})
    query = sb.TopK(k=5, score="a / b", window=sb.CountWindow(2))
    with pytest.raises(sb.DataError, match=r"'a / b', row 3: .* null.*'a / b', row 1: .* number"):
        sb.Monitor(query).push(table)
    monitor = sb.Monitor(query, on_bad="skip")
    (answer,) = monitor.push(table)
    assert answer.table["a / b"].to_pylist() == [1.0, -3.0]
    assert monitor.stats()["rows_bad"] == 2
    chances = sb.UncertainTopK(k=5, score="b", probability="a / b", window=sb.CountWindow(2))
    with pytest.raises(sb.DataError, match=r"'a / b', row 1: .* outside \(0, 1\] \(nan\)"):
        sb.Monitor(chances).push(table)
    # Together with a filter, too, rows are named by their place in the batch.
    query = sb.TopK(k=5, score="a / b", window=sb.CountWindow(2), where={"a": [2]})
    with pytest.raises(sb.DataError, match=r"1 bad row: column 'a / b', row 1"):
        sb.Monitor(query).push(table)


def test_integers_beyond_64_bits_are_null() -> None:
    most = (1 << 63) - 1
    big = pa.array([most, 5, -most - 1])
    assert computed("a + 1", a=big).to_pylist() == [None, 6, -most]
    assert computed("a * 2", a=big).to_pylist() == [None, 10, None]
    assert computed("abs(a)", a=pa.array([5, -most - 1])).to_pylist() == [5, None]
    assert computed("a * 1.0", a=pa.array([1 << 63], pa.uint64())).to_pylist() == [float(1 << 63)]


def test_encoded_columns() -> None:
    a = pa.array([3, 4, 3]).dictionary_encode()
    assert computed("a * 2", a=a).to_pylist() == [6, 8, 6]


# Names --------------------------------------------------------------------------------------------

TRADES = pa.table({"id": ["u", "v"], "price": [2.0, 3.0], "volume": [9, 4], "total bytes": [1, 2]})


def topk(score: str) -> sb.TopK:
    return sb.TopK(k=1, score=score, id="id", window=sb.CountWindow(2))


def test_the_answer_shows_the_value_under_its_text() -> None:
    table = sb.rank(TRADES, topk("price * volume"))
    assert table.column_names == ["window_start", "window_end", "rank", "id", "price * volume"]
    assert table.select(["id", "price * volume"]).to_pylist() == [
        {"id": "u", "price * volume": 18.0}
    ]
    # Only the columns that are used have to be there after a restart.
    monitor = sb.Monitor.restore(sb.Monitor(topk("price * volume")).snapshot())
    monitor.push(TRADES.select(["volume", "price", "id"]).slice(0, 1))
    monitor = sb.Monitor.restore(monitor.snapshot())
    (answer,) = monitor.push(TRADES.select(["id", "price", "volume"]).slice(1))
    assert answer.table["id"].to_pylist() == ["u"]


def test_a_column_of_that_name_wins() -> None:
    table = TRADES.append_column("price * volume", pa.array([1, 2]))
    assert sb.rank(table, topk("price * volume"))["id"].to_pylist() == ["v"]


def test_names_between_backticks() -> None:
    assert sb.rank(TRADES, topk("`total bytes` * 2"))["id"].to_pylist() == ["v"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("price * gone", r"column 'gone' of the expression 'price \* gone' is missing.*id, price"),
        ("price * id", "column 'id' of the expression .* has type string"),
        ("price *", "not an expression either: a value is missing at its end"),
        ("price volume", "an operator is missing before 'volume'"),
        ("(price", "a closing parenthesis is missing at its end"),
        ("exp(price)", "no function 'exp'; choose from abs, log, sqrt, min, max"),
        ("abs(price, volume)", "2 values"),
        ("price % 2", "'%' is not allowed there"),
        ("price.real", "'.' is not allowed there|not an expression"),
        ("__import__('os')", "no function|is not allowed there"),
        ("()", "a value is missing"),
        ("(" * 60 + "price" + ")" * 60, "nested more than 50"),
        (" + ".join(["price"] * 600), "more than 100 columns and numbers"),
        (f"price * {'9' * 5_000}", r"the number 9999999999\.\.\. is too large"),
        ("price * 1e999", "the number 1e999 is too large"),
        ("gone", "column 'gone' is missing; the columns are"),
        ("1 + 2", "column '1 . 2' is missing"),
    ],
)
def test_what_cannot_be_computed_is_refused_when_columns_are_known(text: str, told: str) -> None:
    for source in (TRADES, TRADES.slice(0, 0)):
        with pytest.raises(sb.SchemaError, match=told):
            sb.rank(source, topk(text))


def test_the_largest_expressions() -> None:
    hundred = " + ".join(["price"] * 100)
    assert sb.rank(TRADES, topk(hundred))[hundred].to_pylist() == [300.0]
    assert computed(f"a * {'0' * 5_000}7", a=pa.array([3])).to_pylist() == [21]
    assert computed("a * 9223372036854775807", a=pa.array([1])).to_pylist() == [(1 << 63) - 1]
    assert computed(f"a * {'9' * 300}", a=pa.array([2])).to_pylist() == [2e300]
    nested = "-abs(" * 50 + "price" + ")" * 50
    assert computed(nested, price=pa.array([2.0])).to_pylist() == [-2.0]


@given(st.text("ab1.+-*/(), `mxin", max_size=12))
@settings(max_examples=60)
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with contextlib.suppress(QueryError):
        parse(text)


def test_an_empty_file_without_types() -> None:
    empty = pa.table({name: pa.nulls(0) for name in TRADES.column_names})
    table = sb.rank(empty, topk("price * volume"))
    assert table.column_names[-1] == "price * volume"


def test_a_join_prefers_a_value_of_one_side() -> None:
    trades = pa.table({"t": [1, 2], "stock": ["u", "v"], "price": [9, 2], "volume": [1, 3]})
    risks = pa.table({"t": [1, 2], "stock": ["u", "v"], "risk": [2, 1]})
    sides: dict[str, Any] = {"left": "trades", "right": "risks", "on": "stock", "time": "t"}
    prefer = {"price * volume": "min", "risk": "min"}
    query = sb.SkylineJoin(**sides, prefer=prefer, window=sb.TimeWindow(10))
    table = sb.rank({"trades": trades, "risks": risks}, query)
    assert table["price * volume"].to_pylist() == [6]
    wrong = sb.SkylineJoin(**sides, prefer={"price * risk": "min"}, window=sb.TimeWindow(10))
    with pytest.raises(sb.SchemaError, match=r"'price \* risk' is missing"):
        sb.rank({"trades": trades, "risks": risks}, wrong)


def test_the_command_line() -> None:
    fields = pytest.importorskip("skyband.cli.fields")
    prefer = ["max(price, 2)=min,volume / 2=max"]
    query = fields.query_of(sb.Skyline, sb.CountWindow(1), {"prefer": prefer})
    assert query.prefer == {"max(price, 2)": "min", "volume / 2": "max"}


def test_summaries_on_spark() -> None:
    pytest.importorskip("pyspark")
    from support import spark_simulator

    stream = streams.stream(7, 120, step=9, batches=4)
    query = sb.TopK(k=2, score="price / weight", id="id", time="ts", window=sb.TimeWindow(20))
    sources = spark_simulator.first_tables(stream.batches)
    job = spark_simulator.Job(spark_simulator.plan_of(query, sources, shards=2), 2)
    got = pa.concat_tables([job.push({"": batch}) for batch in stream.batches])
    want, _ = spark_session.embedded(query, stream.batches)
    assert got.to_pylist() == want.to_pylist()
    assert want.num_rows > 5
