"""Deliberate mistakes: each has a clear message or a defined answer."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

GOOD = pa.table({"t": [1, 2, 3], "id": ["a", "b", "c"], "x": [1.0, 3.0, 2.0], "g": [1, 1, 2]})
WINDOW = sb.TimeWindow(10, slide=5)


def topk(**changed: Any) -> sb.TopK:
    given: dict[str, Any] = {"k": 2, "score": "x", "id": "id", "time": "t", "window": WINDOW}
    return sb.TopK(**(given | changed))


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"k": 0}, "k must be"),
        ({"k": 2.5}, "k must be"),
        ({"k": True}, "k must be"),
        ({"score": ""}, "score must be the name"),
        ({"score": 7}, "score must be the name"),
        ({"id": 7}, "id must be the name"),
        ({"time": None}, "TimeWindow needs time"),
        ({"window": "10 minutes"}, "window must be a TimeWindow"),
        ({"by": ("g", "g")}, "twice"),
        ({"by": 3}, "by must be column names"),
        ({"epsilon": -1.0}, "epsilon"),
        ({"epsilon": math.nan}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"algorithm": "quicksort"}, "choose one of skyband"),
        ({"options": 5}, "options must be a mapping"),
    ],
)
def test_queries_that_make_no_sense(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(sb.QueryError, match=told):
        topk(**changed)


def test_specs_take_keywords_only() -> None:
    with pytest.raises(TypeError):
        sb.TopK(2, "x")  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize("role", ["score", "id", "time", "by"])
def test_a_missing_column_is_named_with_those_there_are(role: str) -> None:
    with pytest.raises(sb.SchemaError, match=r"'gone'.*: t, id, x, g"):
        sb.rank(GOOD, topk(**{role: "gone"}))


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("x", pa.array(["1", "2", "3"]), "integer or a float"),
        ("x", pa.array([True, False, True]), "integer or a float"),
        ("x", pa.array([[1], [2], [3]]), "integer or a float"),
        ("x", pa.array([1, 2, 3]).cast(pa.decimal128(20)), "integer or a float"),
        ("t", pa.array(["1", "2", "3"]), "must be a timestamp, a date or an integer"),
        ("t", pa.array([1.0, 2.0, 3.0]), "must be a timestamp, a date or an integer"),
        ("t", pa.array([1, 2, 3], pa.timestamp("s")), "give durations"),
        ("id", pa.array([[1], [2], [3]]), "plain column"),
    ],
)
def test_columns_of_the_wrong_type(name: str, values: pa.Array, told: str) -> None:
    table = GOOD.set_column(GOOD.column_names.index(name), name, values)
    with pytest.raises(sb.SchemaError, match=told):
        sb.rank(table, topk())


def test_a_window_of_durations_over_integers() -> None:
    with pytest.raises(sb.SchemaError, match="size and slide as integers"):
        sb.rank(GOOD, topk(window=sb.TimeWindow("10 s")))


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("x", None, "'x', row 1: the score is null"),
        ("x", math.nan, "'x', row 1: the score is not a number"),
        ("id", None, "'id', row 1: the id is null"),
        ("t", None, "'t', row 1: the time is null"),
    ],
)
def test_bad_rows(name: str, value: Any, told: str) -> None:
    values = GOOD[name].to_pylist()
    values[1] = value
    kind = GOOD.schema.field(name).type
    table = GOOD.set_column(GOOD.column_names.index(name), name, pa.array(values, kind))
    with pytest.raises(sb.DataError, match=told):
        sb.rank(table, topk())
    with pytest.warns(sb.SkybandWarning):
        skipped = sb.rank(table, topk(), on_bad="skip")
    assert skipped["id"].to_pylist() == ["c", "a"]


def test_several_kinds_of_bad_rows_are_all_told() -> None:
    table = pa.table({"t": [1, None, 3], "id": ["a", "b", None], "x": [math.nan, 1.0, math.nan]})
    with pytest.raises(sb.DataError, match=r"3 bad rows.*'x', row 0.*1 more.*'t', row 1"):
        sb.rank(table, topk())


def test_infinity_is_a_legal_score() -> None:
    table = GOOD.set_column(2, "x", pa.array([-math.inf, 0.0, math.inf]))
    assert sb.rank(table, topk(k=3))["x"].to_pylist() == [math.inf, 0.0, -math.inf]
    assert sb.rank(table, topk(k=1, largest=False))["x"].to_pylist() == [-math.inf]


def test_zeros_of_both_signs_are_equal() -> None:
    table = GOOD.set_column(2, "x", pa.array([0.0, -0.0, 0.0]))
    assert sb.rank(table, topk(k=3))["id"].to_pylist() == ["c", "b", "a"]
    assert sb.rank(table, topk(k=3, largest=False))["id"].to_pylist() == ["c", "b", "a"]


def test_large_integers_are_compared_exactly() -> None:
    big = 1 << 60
    table = GOOD.set_column(2, "x", pa.array([big, big + 1, big - 1]))
    assert sb.rank(table, topk(k=1))["x"].to_pylist() == [big + 1]
    unsigned = GOOD.set_column(2, "x", pa.array([1, 1 << 63, 5], pa.uint64()))
    assert sb.rank(unsigned, topk(k=3))["x"].to_pylist() == [1 << 63, 5, 1]


@pytest.mark.parametrize("name", ["window_start", "window_end", "rank"])
def test_columns_named_like_the_answers_are_refused(name: str) -> None:
    table = GOOD.rename_columns({"id": name})
    with pytest.raises(sb.SchemaError, match="rename it"):
        sb.rank(table, topk(id=name))


def test_other_columns_may_have_any_name() -> None:
    table = GOOD.append_column("rank", pa.array([0, 0, 0]))
    assert sb.rank(table, topk())["id"].to_pylist() == ["b", "c"]


def test_a_column_that_is_there_twice() -> None:
    table = pa.table([GOOD["t"], GOOD["id"], GOOD["x"], GOOD["x"]], names=["t", "id", "x", "x"])
    with pytest.raises(sb.SchemaError, match="twice"):
        sb.rank(table, topk())


def test_k_larger_than_the_window() -> None:
    assert sb.rank(GOOD, topk(k=1_000))["id"].to_pylist() == ["b", "c", "a"]


def test_a_slide_larger_than_the_size() -> None:
    #  windows [3, 5), [8, 10): rows at 1 and 2 are in none
    monitor = sb.Monitor(topk(window=sb.TimeWindow(2, slide=5)))
    monitor.push(GOOD)
    (answer,) = monitor.flush()
    assert answer.table["id"].to_pylist() == ["c"]
    assert monitor.stats()["rows_unused"] == 2


def test_times_before_1970() -> None:
    at = pa.array([-3_000_001, -1, 0], pa.timestamp("us"))
    table = GOOD.set_column(0, "t", at)
    answers = list(sb.watch(table, topk(k=3, window=sb.TimeWindow("2 s"))))
    assert [a.end.isoformat()[:19] for a in answers] == [
        "1969-12-31T23:59:58",
        "1970-01-01T00:00:00",
        "1970-01-01T00:00:02",
    ]
    assert [a.table["id"].to_pylist() for a in answers] == [["a"], ["b"], ["c"]]


def test_a_schema_that_changes_between_batches() -> None:
    monitor = sb.Monitor(topk())
    monitor.push(GOOD)
    with pytest.raises(sb.SchemaError, match="'x' had type double"):
        monitor.push(GOOD.set_column(2, "x", pa.array([1, 2, 3])))
    with pytest.raises(sb.SchemaError, match="missing now"):
        monitor.push(GOOD.drop_columns(["id"]))
    monitor.push(GOOD.select(["x", "g", "id", "t"]))
    dictionary = GOOD.set_column(1, "id", GOOD["id"].dictionary_encode())
    monitor.push(dictionary)
    assert monitor.stats()["rows_in"] == 9


def test_a_first_batch_that_does_not_fit_leaves_the_monitor_unbound() -> None:
    monitor = sb.Monitor(topk())
    with pytest.raises(sb.SchemaError):
        monitor.push(GOOD.set_column(2, "x", pa.array(["?", "?", "?"])))
    monitor.push(GOOD)
    assert monitor.flush()[0].table["id"].to_pylist() == ["b", "c"]


def test_a_first_batch_with_bad_rows_leaves_the_monitor_unbound() -> None:
    query = sb.TopK(k=1, score="x", id="id", time="t", distinct="best", window=sb.TimeWindow(5))
    bad = pa.table({"t": [1, None], "id": ["a", "b"], "x": [1, 2]})
    good = pa.table({"t": [1, 9], "id": ["a", "b"], "x": [1.5, 2.5]})
    boards: list[Any] = [query, {"alone": query}, {"a": query, "b": query}]
    for board in boards:
        monitor = sb.Monitor(board)
        before = monitor.snapshot()
        with pytest.raises(sb.DataError, match="the time is null"):
            monitor.push(bad)
        assert monitor.snapshot() == before
        names = [None] if board is query else list(board)
        found = [answer.table["x"].to_pylist() for answer in monitor.push(good)]
        assert found == [[1.5]] * len(names)
        assert [monitor.position("a", name=name) for name in names] == [(1, 1.5, 1)] * len(names)


def test_columns_of_an_empty_batch_survive_a_batch_with_bad_rows() -> None:
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(5))
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"t": pa.array([], pa.int64()), "x": pa.array([], pa.int64())}))
    before = monitor.snapshot()
    with pytest.raises(sb.DataError, match="the time is null"):
        monitor.push(pa.table({"t": [None, 1], "x": [1, 2]}))
    assert monitor.snapshot() == before
    with pytest.raises(sb.SchemaError, match="had type int64 in earlier batches"):
        monitor.push(pa.table({"t": [1], "x": [1.5]}))


def test_batches_that_do_not_speak_arrow() -> None:
    with pytest.raises(sb.SchemaError, match="Arrow interface"):
        sb.Monitor(topk()).push([1, 2, 3])


def test_empty_batches_are_nothing() -> None:
    monitor = sb.Monitor(topk())
    assert monitor.push(GOOD.slice(0, 0)) == []
    assert monitor.push(GOOD) == []
    assert monitor.push(GOOD.slice(0, 0)) == []
    assert monitor.flush()[0].table.num_rows == 2


def test_a_time_that_does_not_fit_microseconds() -> None:
    at = pa.array([np.iinfo(np.int64).max // 10] * 3, pa.timestamp("s"))
    with pytest.raises(sb.DataError, match="out of range"):
        sb.rank(GOOD.set_column(0, "t", at), topk(window=sb.TimeWindow("1 s")))
