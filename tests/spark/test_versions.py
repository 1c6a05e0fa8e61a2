"""What every supported version of Spark has to do; ``make spark-versions`` runs it on each of them.

``make slow`` runs that too. The other tests run on the version that is installed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_session, streams

pytestmark = [pytest.mark.spark, pytest.mark.slow]
WINDOW = sb.TimeWindow("30 ms", slide="10 ms", lateness="3 ms")
BEST = sb.TopK(k=2, score="score", id="id", time="ts", by=("g",), window=WINDOW)
OFTEN = sb.HeavyHitters(k=2, item="id", time="ts", window=WINDOW)


@pytest.fixture(scope="module")
def flows() -> streams.Stream:
    moment = pa.timestamp("us", tz="UTC")
    return streams.stream(9, 160, batches=3, time_type=moment, unit=1_000, start=1_000)


def test_batches(spark: Any, flows: streams.Stream) -> None:
    from skyband.spark import rank

    for query, shards in ((BEST, None), (OFTEN, 2)):
        got = rank(spark.createDataFrame(flows.table), query, shards=shards).toArrow()
        assert spark_session.rows(got) == spark_session.rows(sb.rank(flows.table, query))


def test_streams(spark: Any, tmp_path: Path, flows: streams.Stream) -> None:
    """A query by itself, with changes and shards, and a board over files that workers read."""
    from skyband.spark import files, rank
    from skyband.spark.finishing import schema_from_text, typed_rows

    spark_session.write_batches(tmp_path / "in", flows.batches)
    read = files(spark, tmp_path / "in", files_per_batch=1)
    board = {"best": BEST, "often": OFTEN}
    frames = [rank(read, OFTEN, shards=2, changes=True), rank(read, board)]
    (changes, rows), _ = spark_session.collect_all(frames, tmp_path)
    want, _ = spark_session.embedded(OFTEN, flows.batches, changes=True)
    assert spark_session.rows(changes) == spark_session.rows(want)
    for name, query in board.items():
        schema = schema_from_text(frames[1].schema["answer"].metadata[name])
        own = rows.filter(pa.compute.equal(rows["query"], name)).combine_chunks()
        got = pa.Table.from_batches(typed_rows(schema)(iter(own.to_batches())), schema)
        want, _ = spark_session.embedded(query, flows.batches)
        assert spark_session.rows(got) == spark_session.rows(want), name
