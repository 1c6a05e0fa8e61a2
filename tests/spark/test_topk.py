"""The Spark engine compared with the embedded one, for TopK."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_session, streams

pytestmark = pytest.mark.spark
MOMENT = pa.timestamp("us", tz="UTC")


def topk(**settings: Any) -> sb.TopK:
    window = sb.TimeWindow("30 ms", slide="7 ms", lateness="5 ms")
    given: dict[str, Any] = {"k": 3, "score": "score", "id": "id", "time": "ts", "window": window}
    return sb.TopK(**(given | settings))


def flows(
    seed: int = 7, lateness: int = 5, time_type: pa.DataType = MOMENT, batches: int = 5
) -> streams.Stream:
    return streams.stream(
        seed,
        240,
        lateness=lateness,
        step=3,
        gap=60,
        batches=batches,
        groups=5,
        time_type=time_type,
        unit=1_000 if pa.types.is_timestamp(time_type) else 1,
        start=1_000,
    )


@pytest.mark.parametrize("shards", [None, 3])
@pytest.mark.parametrize("by", [(), ("g", "kind")])
def test_batch_is_rank(spark: Any, by: tuple[str, ...], shards: int | None) -> None:
    from skyband.spark import rank

    stream, query = flows(), topk(by=by)
    frame = spark.createDataFrame(stream.table).repartition(3)
    want = sb.rank(stream.table, query).to_pylist()
    assert len(want) > 100
    assert rank(frame, query, shards=shards).toArrow().to_pylist() == want


@pytest.mark.parametrize("changes", [False, True])
def test_a_batch_with_its_promise(spark: Any, changes: bool) -> None:
    from skyband.spark import rank

    stream, query = flows(), topk(by=("g",), algorithm="pabf", epsilon=0.5)
    frame = spark.createDataFrame(stream.table)
    plain = rank(frame, query, changes=changes)
    told = rank(frame, query, shards=2, changes=changes, bounds=True)
    added = told.schema.fields[len(plain.schema.fields) :]
    kinds = [(field.name, field.dataType.simpleString()) for field in added]
    assert kinds == [("exact", "boolean"), ("bounds", "map<string,double>")]
    found = told.toArrow()
    assert found.num_rows > 50
    assert False in found["exact"].to_pylist()
    promise = {"epsilon": 0.5, "delta": 1.0}
    assert all(dict(bounds) == promise for bounds in found["bounds"].to_pylist())


EVERY = list(product(((), ("g",)), (None, 3), (False, True)))
PAIRS = [((), None, True), (("g",), None, False), ((), 3, False), (("g",), 3, True)]
"""Every two settings meet in one of these."""


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("cases", "batches"), [(PAIRS, 2), pytest.param(EVERY, 5, marks=pytest.mark.slow)]
)
def test_streaming_is_monitor(spark: Any, tmp_path: Path, cases: Any, batches: int) -> None:
    """With and without groups, one shard and three, tables and changes: all in one query."""
    from skyband.spark import rank

    stream = flows(21, lateness=12, batches=batches)  # more than the window's: some rows are late
    frame = spark_session.stream_of(spark, tmp_path / "in", stream.batches, parts=2)
    answers = [
        rank(frame, topk(by=by), shards=shards, changes=changes, bounds=changes)
        for by, shards, changes in cases
    ]
    found, _ = spark_session.collect_all(answers, tmp_path)
    for (by, shards, changes), got in zip(cases, found, strict=True):
        want, stats = spark_session.embedded(topk(by=by), stream.batches, changes=changes)
        assert stats["rows_late"] > 0
        if changes:  # the algorithm is exact, and says so
            assert set(got["exact"].to_pylist()) == {True}
            assert not any(got["bounds"].to_pylist())
            got = got.drop_columns(["exact", "bounds"])  # noqa: PLW2901
        assert got.column_names == want.column_names
        assert spark_session.rows(got) == spark_session.rows(want), (by, shards, changes)


@pytest.mark.parametrize("kind", [MOMENT, pa.timestamp("us"), pa.date32()], ids=str)
def test_window_edges_have_the_type_of_the_time_column(spark: Any, kind: pa.DataType) -> None:
    from skyband.spark import rank

    days = pa.array([20_000, 20_001, 20_003], pa.int32()).cast(pa.date32())
    table = pa.table({"ts": days.cast(pa.timestamp("us")).cast(kind), "x": [1.0, 2.0, 3.0]})
    query = sb.TopK(k=1, score="x", time="ts", window=sb.TimeWindow("2 days", slide="1 day"))
    frame = spark.createDataFrame(table)
    if kind == pa.timestamp("us"):  # Spark takes it for a time in the session's zone
        frame = frame.withColumn("ts", frame["ts"].cast("timestamp_ntz"))
    want = "timestamp" if kind == MOMENT else "timestamp_ntz"
    for changes in (False, True):
        found = dict(rank(frame, query, changes=changes).dtypes)
        assert (found["window_start"], found["window_end"]) == (want, want)
    got = rank(frame, query).toArrow()
    assert spark_session.rows(got) == spark_session.rows(sb.rank(table, query))
    assert got.schema.field("window_end").type.tz is None or kind == MOMENT
