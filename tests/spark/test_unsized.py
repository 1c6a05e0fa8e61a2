"""Windows without a size on Spark, compared with the embedded engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import oracle
import skyband as sb
from support import spark_session, streams

pytestmark = pytest.mark.spark

DECAY = sb.DecayWindow("20 ms", slide="7 ms", lateness="5 ms")
SINCE = sb.LandmarkWindow(slide="20 ms", since="1970-01-01T00:00:01.100", lateness="5 ms")
NAMED: dict[str, Any] = {"time": "ts", "by": ("g",)}
QUERIES: list[tuple[sb.Query, int | None, bool]] = [
    (sb.TopK(k=2, score="score", id="id", window=DECAY, **NAMED), None, True),
    (sb.HeavyHitters(k=3, item="item", time="ts", window=DECAY), 3, False),
    (sb.HeavyHitters(k=3, item="item", weight="weight", window=SINCE, **NAMED), None, False),
    (sb.Skyline(prefer={"price": "min", "volume": "max"}, time="ts", window=SINCE), 2, False),
]


def flows(batches: int) -> streams.Stream:
    kind = pa.timestamp("us", tz="UTC")
    made = streams.stream(
        7, 150, lateness=5, gap=60, batches=batches, groups=3, time_type=kind, unit=1_000,
        start=1_000,
    )  # fmt: skip
    rows = [row | {"score": abs(row["score"])} for row in made.rows]
    return streams.from_rows(rows, {f.name: f.type for f in made.table.schema}, made.cuts)


def same(query: sb.Query, got: pa.Table, want: pa.Table) -> str | None:
    """The difference between two answers, if there is one."""
    found, wanted = spark_session.rows(got), spark_session.rows(want)
    key = ("window_end", *query.groups, "rank", "change", *query.key)
    for rows in (found, wanted):
        rows.sort(key=lambda row: [str(row.get(name)).rjust(30) for name in key])
    return oracle.difference(found, wanted, oracle.SUMS[query.kind])


@pytest.mark.timeout(1800)
def test_streams_and_batches(spark: Any, tmp_path: Path) -> None:
    from skyband.spark import rank

    stream = flows(2)
    frame = spark_session.stream_of(spark, tmp_path / "in", stream.batches, parts=2)
    answers = [rank(frame, query, shards=n, changes=told) for query, n, told in QUERIES]
    found, _ = spark_session.collect_all(answers, tmp_path)
    for (query, _, changes), got in zip(QUERIES, found, strict=True):
        want, _ = spark_session.embedded(query, stream.batches, changes=changes)
        assert same(query, got, want) is None, query
    for query, shards, _ in (QUERIES[0], QUERIES[3]):
        got = rank(spark.createDataFrame(stream.table), query, shards=shards).toArrow()
        assert same(query, got, sb.rank(stream.table, query)) is None


def test_a_restart(spark: Any, tmp_path: Path) -> None:
    """Half of the files, a new start from the checkpoint, the other half."""
    from skyband.spark import rank

    stream, (query, shards, _) = flows(4), QUERIES[1]
    for half in (slice(0, 2), slice(0, 4)):
        frame = spark_session.stream_of(spark, tmp_path / "in", stream.batches[half])

        def start(frame: Any = frame) -> Any:
            writer = rank(frame, query, shards=shards).writeStream.format("parquet")
            writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
            return writer.start(str(tmp_path / "out"))

        spark_session.run_out(start)
    got = pq.read_table(tmp_path / "out")
    want, _ = spark_session.embedded(query, stream.batches)
    assert same(query, got, want) is None
