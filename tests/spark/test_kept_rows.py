"""``keep`` on Spark: the columns travel in packed summaries and come back in Spark's types."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_session, streams

pytestmark = pytest.mark.spark
WINDOW = sb.TimeWindow("30 ms", slide="7 ms", lateness="5 ms")
KEEP = ("kind", "tags", "place")


def flows() -> streams.Stream:
    """A stream with nested columns, which are as often equal as not."""
    made = streams.stream(
        7, 160, pattern="crowded", ids=12, lateness=5, step=3, batches=2, unit=1_000, start=1_000,
        time_type=pa.timestamp("us", tz="UTC"),
    )  # fmt: skip
    tags = [None if row["price"] == 0 else [row["item"]] * (row["price"] % 3) for row in made.rows]
    place = [{"x": row["price"], "at": [(row["kind"], row["volume"])]} for row in made.rows]
    kind = pa.struct([("x", pa.int64()), ("at", pa.map_(pa.string(), pa.float64()))])
    table = made.table.append_column("tags", pa.array(tags, pa.list_(pa.string())))
    return streams.Stream(table.append_column("place", pa.array(place, kind)), [], made.cuts)


def batches_of(stream: streams.Stream) -> list[pa.Table]:
    cuts = [0, *stream.cuts, stream.table.num_rows]
    return [stream.table.slice(a, b - a) for a, b in itertools.pairwise(cuts)]


def queries() -> list[sb.Query]:
    common: dict[str, Any] = {"k": 3, "time": "ts", "window": WINDOW, "keep": KEEP}
    return [
        sb.TopK(score="score", by=("g",), **common),
        sb.HeavyHitters(item="item", **common),
    ]


def test_kept_columns_travel(spark: Any, tmp_path: Path) -> None:
    from skyband.spark import rank

    stream = flows()
    frame = spark.createDataFrame(stream.table).repartition(3)
    want = sb.rank(stream.table, queries()[0])
    got = rank(frame, queries()[0], shards=2).toArrow()
    assert got.column_names == want.column_names
    assert got.to_pylist() == want.to_pylist()
    batches = batches_of(stream)
    frame = spark_session.stream_of(spark, tmp_path / "in", batches, parts=2)
    found, _ = spark_session.collect_all([rank(frame, query) for query in queries()], tmp_path)
    for query, table in zip(queries(), found, strict=True):
        wanted, _ = spark_session.embedded(query, batches)
        assert spark_session.rows(table) == spark_session.rows(wanted), query
