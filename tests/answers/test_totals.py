"""``rank(..., total=True)``: the rows or the weight of each answer's window and group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from oracle.totals import total
from support import conformance, streams

SLIDING, GAPS = sb.TimeWindow(25, slide=7), sb.TimeWindow(6, slide=10)
WINDOWS = [SLIDING, GAPS, sb.DecayWindow(9, slide=4), sb.LandmarkWindow(6), sb.CountWindow(9, 4)]
TOPK: dict[str, Any] = {"k": 3, "score": "score", "id": "id", "time": "ts"}
HEAVY: dict[str, Any] = {"k": 2, "item": "item", "time": "ts"}
CASES: list[Any] = [
    *(("TopK", TOPK | {"by": ("g", "kind")}, window) for window in WINDOWS),
    *(("HeavyHitters", HEAVY | {"by": ("g",), "weight": "weight"}, window) for window in WINDOWS),
    *(("HeavyHitters", HEAVY | {"weight": "volume"}, window) for window in WINDOWS),
    ("HeavyHitters", HEAVY | {"weight": "weight", "algorithm": "fss"}, SLIDING),
    ("HeavyHitters", HEAVY | {"where": "kind = 'a'", "by": ("g",)}, SLIDING),
    ("UncertainTopK", conformance.SETTINGS["UncertainTopK"][3], SLIDING),
    ("Skyline", conformance.SETTINGS["Skyline"][1], SLIDING),
]


ON_SPARK = [CASES[0], CASES[5], CASES[10], CASES[-1]]


def rows_that_count(stream: streams.Stream, settings: Any) -> list[Any]:
    rows = [row for row in stream.rows if "where" not in settings or row["kind"] == "a"]
    return sorted(rows, key=lambda row: row["ts"])


@pytest.mark.parametrize(("kind", "settings", "window"), CASES)
def test_totals_are_those_of_the_definition(kind: str, settings: Any, window: Any) -> None:
    stream = streams.stream(3, 200, groups=3, gap=60)
    query = getattr(sb, kind)(window=window, **settings)
    table = sb.rank(stream.table, query, total=True)
    assert table.drop_columns("total").equals(sb.rank(stream.table, query))
    assert table.column_names[-1] == "total"
    rows = rows_that_count(stream, settings)
    if isinstance(window, sb.CountWindow):
        rows = [{name: row[name] for name in row if name != "ts"} for row in stream.rows]
    weight, by = settings.get("weight"), settings.get("by", ())
    answered = table.to_pylist()
    wanted = [total(row, rows, by, weight, getattr(window, "half_life", None)) for row in answered]
    assert np.allclose(table["total"].to_pylist(), wanted, rtol=1e-9, atol=0)
    whole = not isinstance(window, sb.DecayWindow) and weight != "volume"
    assert table.schema.field("total").type == (pa.int64() if whole else pa.float64())
    assert len(answered) > 15


def test_the_total_of_several_sources_and_of_windows_per_side() -> None:
    sides = streams.two_sides(5, 90)
    tables = {name: side.table for name, side in sides.items()}
    given: dict[str, Any] = {"left": "trades", "right": "risks", "on": "stock", "time": "ts"}
    given["prefer"] = {"price": "min", "risk": "max"}
    both = sb.SkylineJoin(window=sb.TimeWindow(30, slide=10), **given)
    table = sb.rank(tables, both, total=True)
    rows = [row for side in sides.values() for row in side.rows]
    assert table["total"].to_pylist() == [total(r, rows, (), None, None) for r in table.to_pylist()]
    windows = {"trades": sb.TimeWindow(40, slide=10), "risks": sb.TimeWindow(10)}
    answers = list(sb.watch(tables, sb.SkylineJoin(window=windows, **given)))
    table = sb.rank(tables, sb.SkylineJoin(window=windows, **given), total=True)
    by_end = {answer.end: answer.total for answer in answers}
    assert table["total"].to_pylist() == [by_end[e] for e in table["window_end"].to_pylist()]


def test_boards_and_sources_without_rows() -> None:
    stream = streams.stream(4, 60)
    queries = {
        "best": sb.TopK(window=SLIDING, **TOPK),
        "wide": sb.TopK(window=sb.TimeWindow(70, slide=7), **TOPK),
    }
    tables = sb.rank(stream.table, queries, total=True)
    for name, query in queries.items():
        assert tables[name].equals(sb.rank(stream.table, query, total=True))
    empty = sb.rank(stream.table.slice(0, 0), queries["best"], total=True)
    assert empty.schema.equals(tables["best"].schema)
    assert sb.rank([], queries["best"], total=True).column_names[-1] == "total"


def test_an_answer_that_already_has_such_a_column() -> None:
    table = pa.table({"total": [1.0], "id": [1]})
    query = sb.TopK(k=1, score="total", window=sb.CountWindow(1))
    assert sb.rank(table, query)["total"].to_pylist() == [1.0]
    with pytest.raises(sb.SchemaError, match="already has one; rename that column"):
        sb.rank(table, query, total=True)


# Spark --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("kind", "settings", "window"), ON_SPARK)
def test_on_spark(kind: str, settings: Any, window: Any, shards: int) -> None:
    pytest.importorskip("pyspark")
    from support import spark_simulator as simulator

    stream = streams.stream(8, 240, groups=3, gap=60, batches=6)
    query = getattr(sb, kind)(window=window, **settings)
    want = sb.rank(stream.table, query, total=True)
    sources = simulator.first_tables(stream.batches)
    given: dict[str, Any] = {"shards": shards, "total": True}
    plan = simulator.plan_of(query, sources, **given, bounds=True)
    job = simulator.Job(plan, 2, forgetful=True)
    got = pa.concat_tables([job.push({"": batch}) for batch in stream.batches])
    assert got.column_names == [*want.column_names[:-1], "exact", "bounds", "total"]
    ends = got["window_end"].to_pylist()
    before = want.filter(pa.compute.less_equal(want["window_end"], max(ends)))
    assert totals_of(got, query) == totals_of(before, query)
    assert len(ends) > 40
    whole = simulator.run_batch(
        simulator.plan_of(query, sources, **given, streaming=False), {"": stream.table}, 2
    )
    assert totals_of(whole, query) == totals_of(want, query)


def totals_of(table: pa.Table, query: sb.Query) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for row in table.to_pylist():
        key = (row["window_end"], *(row[name] for name in query.groups))
        assert found.setdefault(key, round(row["total"], 9)) == round(row["total"], 9)
    return found


def test_what_spark_refuses() -> None:
    pytest.importorskip("pyspark")
    from skyband.spark.ranking import _query_plan

    class Frame:
        isStreaming = True  # noqa: N815 - Spark's name

    query = sb.TopK(window=sb.LandmarkWindow(6), **TOPK)
    with pytest.raises(sb.QueryError, match="leave out changes="):
        _query_plan({"": Frame()}, query, total=True, changes=True)
    with pytest.raises(sb.EngineError, match="over a LandmarkWindow, streams on Spark keep no"):
        _query_plan({"": Frame()}, query, total=True)
