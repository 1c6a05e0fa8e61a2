"""The algorithm that CONTRIBUTING.md shows, on Spark: workers get the class from the driver."""

from __future__ import annotations

from typing import Any

import pytest

import skyband as sb
from skyband import registry
from skyband.spark import rank
from support import contributed, spark_session, streams

pytestmark = pytest.mark.spark


def test_the_examples_of_the_page(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._ALGORITHMS, "TopK", dict(registry._ALGORITHMS["TopK"]))
    assert contributed.run_page(spark) == (0, contributed.skipped())
    assert contributed.skipped() == 2


def test_an_algorithm_of_ones_own(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._ALGORITHMS, "TopK", dict(registry._ALGORITHMS["TopK"]))
    registry.register("TopK", "all-panes", contributed.algorithm())
    table = streams.stream(5, 200, step=2).table
    window = sb.TimeWindow(30, slide=7)
    settings: dict[str, Any] = {
        "score": "score",
        "id": "id",
        "time": "ts",
        "algorithm": "all-panes",
    }
    query = sb.TopK(k=3, window=window, **settings)
    got = rank(spark.createDataFrame(table.to_pandas()), query, shards=2).toArrow()
    assert spark_session.rows(got) == spark_session.rows(sb.rank(table, query))
