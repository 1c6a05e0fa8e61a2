"""The rows and queries of the Spark benchmark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.datasets.skyline import two_streams

HOUR = 3_600_000_000
START = 1_700_000_000_000_000
WINDOW = sb.TimeWindow("10 minutes", slide="1 minute")


def moments(rows: int) -> pa.Array:
    """The times of one hour of events, in order."""
    ticks = START + np.arange(rows) * (HOUR // rows)
    return pa.array(ticks).cast(pa.timestamp("us", tz="UTC"))


GROUPS = (10, 1_000, 100_000)


def flows(rows: int, seed: int = 1, groups: tuple[int, ...] = GROUPS) -> pa.Table:
    """Zipf keys, uniform scores, and columns with so many groups each."""
    rng = np.random.default_rng(seed)
    keys = np.minimum(rng.zipf(1.2, rows), 2**31 - 1)
    columns = {
        "ts": moments(rows),
        "key": pa.array(keys.astype(np.int64)),
        "bytes": pa.array(rng.random(rows)),
        "p": pa.array(rng.integers(1, 101, rows) / 100),
        "price": pa.array(rng.random(rows)),
    }
    columns |= {f"g{n}": pa.array(rng.integers(0, n, rows)) for n in groups}
    return pa.table(columns)


def reports(rows: int, seed: int = 2) -> pa.Table:
    """Objects on two streams; half of the objects of one stream report on the other too."""
    rng = np.random.default_rng(seed)
    number = np.arange(rows)
    other = (number % 2 == 1) & (rng.random(rows) < 0.5)
    columns = {
        "ts": moments(rows),
        "object": pa.array(number // 2 + np.where(other, rows, 0)),
        "router": pa.array(np.where(number % 2 == 1, "r2", "r1")),
        "load": pa.array(rng.random(rows)),
    }
    return pa.table(columns)


def sides(rows: int) -> dict[str, pa.Table]:
    """Two streams of half the rows each; two rows, one of each side, join with probability 2 %."""
    made = two_streams(rows // 2, join_rate=0.02)
    return {side: t.set_column(0, "ts", moments(rows // 2)) for side, t in made.items()}


def queries() -> dict[str, sb.Query]:
    every: dict[str, Any] = {"window": WINDOW, "time": "ts"}
    return {
        "count top-k": sb.HeavyHitters(k=10, item="key", **every),
        "score top-k": sb.TopK(k=10, score="bytes", id="key", **every),
        "uncertain top-k": sb.UncertainTopK(
            k=10, score="bytes", probability="p", id="key", **every
        ),
        "skyline": sb.Skyline(prefer={"bytes": "max", "price": "min"}, id="key", **every),
        "fused top-k": sb.FusedTopK(
            k=10, id="object", stream="router", value="load", streams=("r1", "r2"), **every
        ),
        "skyline join": sb.SkylineJoin(
            left="left",
            right="right",
            on="key",
            prefer=dict.fromkeys(("a0", "a1", "b0", "b1"), "min"),
            **every,
        ),
    }


def counting(frame: Any) -> Any:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = sum(batch.num_rows for batch in batches)
        yield pa.record_batch([pa.array([rows])], names=["rows"])

    return frame.select("ts", "key", "bytes").mapInArrow(count, "rows bigint")


def native_count(frame: Any) -> Any:
    return _by_key(frame).count().withColumnRenamed("count", "score")


def _by_key(frame: Any) -> Any:
    from pyspark.sql import functions as F  # noqa: N812

    marked = frame.withWatermark("ts", "0 seconds")
    return marked.groupBy(F.window("ts", "10 minutes", "1 minute"), "key")


def native_max_by(frame: Any) -> Any:
    """The k best rows themselves, which ``max_by`` can return since Spark 4.2."""
    from pyspark.sql import functions as F  # noqa: N812

    marked = frame.withWatermark("ts", "0 seconds")
    best = F.max_by(F.struct("bytes", "ts", "key"), "bytes", 10)
    return marked.groupBy(F.window("ts", "10 minutes", "1 minute")).agg(best.alias("best"))


def numbered(frame: Any, _: int) -> None:
    """The step that a sink must add to a native aggregation: the ten best of each window."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812

    rank = F.row_number().over(Window.partitionBy("window").orderBy(F.desc("score"), "key"))
    best = frame.withColumn("rank", rank).where("rank <= 10")
    best.write.format("noop").mode("overwrite").save()


def sources_of(query: sb.Query) -> tuple[str, ...]:
    if query.needs_mapping:
        return tuple(query.sources)
    return ("reports",) if query.kind == "FusedTopK" else ("flows",)


def columns_of(query: sb.Query, schema: pa.Schema, source: str) -> tuple[str, ...]:
    from skyband.engine.per_group import make_synopsis

    name = source if query.needs_mapping else ""
    return tuple(make_synopsis(query).columns(name, schema))


def ranking(query: sb.Query, **settings: Any) -> Callable[[dict[str, Any]], Any]:
    from skyband.spark import rank

    def build(frames: dict[str, Any]) -> Any:
        given = frames if query.needs_mapping else next(iter(frames.values()))
        return rank(given, query, **settings)

    return build
