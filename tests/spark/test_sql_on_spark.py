"""Statements over DataFrames."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import skyband as sb
from support import spark_session, sql_cases, streams

pytestmark = pytest.mark.spark
RANKED = "ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY {} DESC) <= 3"
BEST = f"SELECT score AS s, *, g AS h FROM HOP(t, ts, 7, 30) QUALIFY {RANKED.format('score')}"
GROUPS = (
    "SELECT window_end, g, AVG(score) AS mean, COUNT(*) AS n FROM TUMBLE(t, ts, 30) WHERE score > 2"
    f" GROUP BY window_start, window_end, g QUALIFY {RANKED.format('mean')}"
)
WHOLE = "SELECT id, g FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY score DESC) = 1"
SKYLINE = "SELECT window_end, id, price FROM HOP(t, ts, 7, 30) SKYLINE OF price MIN, weight MAX"


@pytest.mark.parametrize("text", [BEST, GROUPS, WHOLE, SKYLINE])
def test_a_batch_is_that_of_the_embedded_engine(spark: Any, text: str) -> None:
    from skyband.spark import sql

    stream = streams.stream(7, 240, groups=5)
    want = sb.sql(text, t=stream.table)
    found = sql(spark, text, t=spark.createDataFrame(stream.table)).toArrow()
    assert found.column_names == want.column_names
    assert ordered(found) == ordered(want)
    assert want.num_rows > 4


def ordered(table: Any) -> list[str]:
    rows = [row | {"mean": round(row.get("mean") or 0, 9)} for row in table.to_pylist()]
    return sorted(map(str, rows))


def test_a_stream(spark: Any, tmp_path: Path) -> None:
    from skyband.spark import sql

    stream = streams.stream(7, 240, groups=5, batches=2)
    frame = spark_session.stream_of(spark, tmp_path / "in", stream.batches)
    found, _ = spark_session.collect(sql(spark, GROUPS, t=frame), tmp_path)
    want = sb.sql(GROUPS, t=stream.table)
    ends = found["window_end"].unique()
    assert len(ends) > 2
    assert ordered(found) == ordered(want.filter(pc.is_in(want["window_end"], ends)))
    with pytest.raises(sb.QueryError, match="a stream has no end"):
        sql(spark, WHOLE, t=frame)


def test_a_table_of_the_catalog(spark: Any) -> None:
    from skyband.spark import sql

    table = streams.stream(7, 60, groups=5).table
    spark.createDataFrame(table).createOrReplaceTempView("t")
    found = sql(spark, GROUPS).toArrow()
    assert ordered(found) == ordered(sb.sql(GROUPS, t=table))
    with pytest.raises(sb.SchemaError, match="no table of the catalog"):
        sql(spark, GROUPS.replace("(t,", "(gone,"))


@pytest.mark.parametrize("seed", [3, 5, 8, 13])
def test_a_statement_means_what_spark_says_of_a_batch(spark: Any, seed: int) -> None:
    from skyband.spark import sql

    rng = random.Random(seed)
    case = sql_cases.drawn(rng)
    while "QUALIFY" in case.text or not case.slide:  # which Spark does not read, or is not asked
        case = sql_cases.drawn(rng)
    table = sql_cases.flows(rng, 40)
    ours = sb.sql(case.statement, flows=table)
    there = spark.createDataFrame(sql_cases.windowed(table, case))
    there.createOrReplaceTempView("windowed")
    theirs = spark.sql(case.elsewhere.replace("''", "\\'")).toArrow()
    assert sql_cases.difference(case, ours, theirs) is None, case.statement
    on_spark = sql(spark, case.statement, flows=spark.createDataFrame(table)).toArrow()
    assert ordered(on_spark) == ordered(ours)
