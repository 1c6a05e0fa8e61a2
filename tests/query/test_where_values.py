"""``where`` with values and columns of every type, and those that cannot be compared."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb

DAY = datetime(2026, 1, 5, tzinfo=UTC)
TYPED: list[Any] = [
    (pa.array(["a", "b", None]), "a"),
    (pa.array(["a", "b", None], pa.large_string()), ["a", "c"]),
    (pa.array(["a", "b", None], pa.string_view()), "a"),
    (pa.array(["a", "b", None]).dictionary_encode(), "a"),
    (pa.DictionaryArray.from_arrays(pa.array([1, 0, 2]), pa.array(["b", "a", None])), ["a"]),
    (pa.array([b"a", b"b", None]), "a"),
    (pa.array([1, 2, None], pa.int8()), [1, 300, 1.5]),
    (pa.array([1, 2, None], pa.uint64()), [1.0, -1]),
    (pa.array([1, 2, None]), np.int32(1)),
    (pa.array([0.1, 0.2, None], pa.float32()), 0.1),
    (pa.array([-0.0, 0.2, None]), 0),
    (pa.array([math.inf, math.nan, None]), [math.inf, math.nan]),
    (pa.array([True, False, None]), True),
    (pa.array([1, 2, None]).cast(pa.decimal128(22, 2)), [1, 0.001]),
    (pa.array([DAY, DAY.replace(day=6), None], pa.timestamp("us", "UTC")), DAY),
    (pa.array([DAY, DAY.replace(day=6), None], pa.timestamp("ns", "UTC")), "2026-01-05"),
    (pa.array([DAY, DAY.replace(day=6), None], pa.timestamp("s")), "2026-01-05T01:00:00+01:00"),
    (pa.array([DAY.date(), date(2026, 1, 6), None]), DAY.date()),
]


@pytest.mark.parametrize(("column", "wanted"), TYPED)
def test_values_of_every_type(column: pa.Array, wanted: Any) -> None:
    table = pa.table({"x": [1.0, 2.0, 3.0], "s": column})
    query = sb.TopK(k=3, score="x", window=sb.CountWindow(1), where={"s": wanted})
    assert sb.rank(table, query)["x"].to_pylist() == [1.0]
    # The same after a restart.
    monitor = sb.Monitor.restore(sb.Monitor(query).snapshot())
    assert [a.table["x"].to_pylist() for a in monitor.push(table)] == [[1.0]]
    assert repr(monitor.query.where) == repr(query.where)


def test_null_matches_nothing() -> None:
    table = pa.table({"x": [1.0, 2.0], "s": ["a", None], "n": pa.nulls(2)})
    for where in ({"s": None}, {"n": "a"}, {"s": ["b", None]}):
        query = sb.TopK(k=3, score="x", window=sb.CountWindow(1), where=where)
        assert sb.rank(table, query).num_rows == 0
    query = sb.TopK(k=3, score="x", window=sb.CountWindow(1), where={"s": ["a", None]})
    assert sb.rank(table, query)["x"].to_pylist() == [1.0]


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pa.array(["1"]), 1),
        (pa.array([1]), "1"),
        (pa.array([1]), True),
        (pa.array([1.0]), "a"),
        (pa.array([True]), 1),
        (pa.array([DAY]), "yesterday"),
        (pa.array([DAY]), 5),
        (pa.array([[1]]), 1),
        (pa.array(["a"]).dictionary_encode(), [2.5]),
    ],
)
def test_types_that_cannot_be_compared(column: pa.Array, wanted: Any) -> None:
    table = pa.table({"x": [1.0], "s": column})
    query = sb.TopK(k=3, score="x", window=sb.CountWindow(1), where={"s": wanted})
    with pytest.raises(sb.SchemaError, match=r"column 's' of type .* cannot be compared with"):
        sb.Monitor(query).push(table)
    with pytest.raises(sb.SchemaError, match="cannot be compared"):
        sb.rank(table.slice(0, 0), query)
