"""What all queries can ask for, on Spark: filters and the rest of docs/asking.md."""

from __future__ import annotations

from typing import Any

import pytest

import skyband as sb
from support import streams

pytestmark = pytest.mark.spark


def topk(**asked: Any) -> sb.TopK:
    window = sb.TimeWindow(30, slide=7)
    given: dict[str, Any] = {"k": 3, "score": "score", "id": "id", "time": "ts", "window": window}
    return sb.TopK(**(given | asked))


def test_a_filter(spark: Any) -> None:
    from skyband.spark import rank

    stream = streams.stream(7, 240, groups=5)
    query = topk(where={"g": ["g1", "g3"], "kind": "a"})
    frame = spark.createDataFrame(stream.table)
    want = sb.rank(stream.table, query).to_pylist()
    assert len(want) > 20
    assert rank(frame, query).toArrow().to_pylist() == want
    with pytest.raises(sb.SchemaError, match="'gone' is missing"):
        rank(frame, topk(where={"gone": 1}))


def test_an_expression(spark: Any) -> None:
    from skyband.spark import rank

    stream = streams.stream(7, 120)
    query = topk(score="price * weight", where="kind = 'a' and not (price < 2 or weight is null)")
    want = sb.rank(stream.table, query).to_pylist()
    assert rank(spark.createDataFrame(stream.table), query).toArrow().to_pylist() == want
    assert "price * weight" in want[0]
