"""Scores, ids, times and groups of every Arrow type."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb

SCORES = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64()),
]
IDS: list[pa.Array] = [
    pa.array([3, 1, 2], pa.int16()),
    pa.array([3, 1, 2], pa.uint64()),
    pa.array(["c", "a", "b"]),
    pa.array(["c", "a", "b"], pa.large_string()),
    pa.array(["c", "a", "b"], pa.string_view()),
    pa.array(["c", "a", "b"]).dictionary_encode(),
    pa.array([b"c", b"a", b"b"]),
    pa.array([b"c", b"a", b"b"], pa.binary(1)),
    pa.array([True, False, False]),
    pa.array([3.0, -1.0, 2.0]),
    pa.array([dt.date(2020, 1, day) for day in (3, 1, 2)]),
    pa.array([dt.datetime(2020, 1, day) for day in (3, 1, 2)], pa.timestamp("ms", "Asia/Tokyo")),
    pa.array([dt.timedelta(days=day) for day in (3, 1, 2)]),
    pa.array([decimal.Decimal(day) for day in (3, 1, 2)], pa.decimal128(9, 2)),
]


@pytest.mark.parametrize("kind", SCORES, ids=str)
@pytest.mark.parametrize("largest", [True, False])
def test_scores(kind: pa.DataType, largest: bool) -> None:
    table = pa.table({"x": pa.array([2, 1, 3], kind), "id": ["a", "b", "c"]})
    query = sb.TopK(k=2, score="x", id="id", window=sb.CountWindow(3), largest=largest)
    got = sb.rank(table, query)
    assert got["id"].to_pylist() == (["c", "a"] if largest else ["b", "a"])
    assert got.schema.field("x").type == kind


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: str(ids.type))
def test_ids_break_ties_of_score_and_time(ids: pa.Array) -> None:
    table = pa.table({"t": [1, 1, 1], "x": [7, 7, 7], "id": ids})
    query = sb.TopK(k=2, score="x", id="id", time="t", window=sb.TimeWindow(10))
    want = sorted(ids.to_pylist())[:2]
    assert sb.rank(table, query)["id"].to_pylist() == want
    rows = [table.slice(i, 1) for i in range(3)]
    assert sb.rank(rows, query)["id"].to_pylist() == want


@pytest.mark.parametrize(
    "kind",
    [
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        *(pa.timestamp(unit, "America/New_York") for unit in ("s", "ns")),
    ],
    ids=str,
)
def test_timestamps_of_any_unit_and_zone(kind: pa.DataType) -> None:
    seconds = [10, 50, 70]
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]
    times = pa.array([s * scale for s in seconds], pa.int64()).cast(kind)
    table = pa.table({"t": times, "x": [1, 2, 3]})
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow("1 minute"))
    got = sb.rank(table, query)
    assert got["x"].to_pylist() == [2, 3]
    assert got["window_end"].cast(pa.int64()).to_pylist() == [60 * 10**6, 120 * 10**6]
    assert got.schema.field("t").type == kind
    assert got["t"].to_pylist() == times.take([1, 2]).to_pylist()


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_dates_count_as_utc(kind: pa.DataType) -> None:
    days = pa.array([dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1970, 1, 2)]).cast(kind)
    table = pa.table({"t": days, "x": [1, 2, 3]})
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow("2 days", slide="1 day"))
    got = sb.rank(table, query)
    assert got["x"].to_pylist() == [1, 2, 3]
    assert got["window_end"].cast(pa.int64()).to_pylist() == [d * 86_400 * 10**6 for d in range(3)]


def test_nanoseconds_order_rows_though_panes_are_cut_in_microseconds() -> None:
    times = pa.array([1, 3, 2], pa.timestamp("ns"))
    table = pa.table({"t": times, "x": [7, 7, 7], "id": ["a", "b", "c"]})
    query = sb.TopK(k=3, score="x", id="id", time="t", window=sb.TimeWindow("1 s"))
    assert sb.rank(table, query)["id"].to_pylist() == ["b", "c", "a"]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.uint16(), pa.uint64()], ids=str)
def test_integer_times(kind: pa.DataType) -> None:
    table = pa.table({"t": pa.array([1, 5, 6], kind), "x": [1, 2, 3]})
    got = sb.rank(table, sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(5, offset=1)))
    assert got["window_end"].to_pylist() == [6, 11]
    assert got["t"].to_pylist() == [5, 6]


@pytest.mark.parametrize("keys", IDS, ids=lambda keys: str(keys.type))
def test_groups_of_any_type_come_sorted(keys: pa.Array) -> None:
    table = pa.table({"g": keys, "x": [1, 2, 3]})
    got = sb.rank(table, sb.TopK(k=1, score="x", by=("g",), window=sb.CountWindow(1)))
    ends = got["window_end"].to_pylist()
    groups: list[Any] = got["g"].to_pylist()
    assert list(zip(ends, groups, strict=True)) == sorted(zip(ends, groups, strict=True))
    assert set(groups) == set(keys.to_pylist())


def test_null_is_a_group_and_comes_last() -> None:
    table = pa.table({"t": [1, 1, 1], "g": ["b", None, "a"], "x": [1, 2, 3]})
    got = sb.rank(table, sb.TopK(k=1, score="x", time="t", by=("g",), window=sb.TimeWindow(5)))
    assert got["g"].to_pylist() == ["a", "b", None]


def test_a_column_may_have_two_roles() -> None:
    table = pa.table({"t": [1, 2, 3], "id": ["a", "b", "c"]})
    got = sb.rank(table, sb.TopK(k=2, score="t", id="id", time="t", window=sb.TimeWindow(5)))
    assert got.column_names == ["window_start", "window_end", "rank", "id", "t"]
    assert got["t"].to_pylist() == [3, 2]
