"""How the work on Spark grows with shards, groups and machines, and how long an answer takes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import skyband as sb
from lab.benchmarks.spark_cases import WINDOW, queries, ranking

if TYPE_CHECKING:
    from lab.benchmarks.spark import Benchmark
    from lab.benchmarks.spark_told import Told

GROWTH = "Growth: score top-k over shards and groups, batches of 1 M rows"
NODES = "A hundred nodes of eight cores, estimated from these figures"
CORES, MANY_CORES = 2, 800
LATENCY_SECONDS = 25


def grouped(groups: int) -> sb.Query:
    """The ten best rows of every group."""
    by = (f"g{groups}",)
    return sb.TopK(k=10, score="bytes", id="key", by=by, time="ts", window=WINDOW)


def growth(bench: Benchmark) -> Iterator[dict[str, Any]]:
    """Speed by shards and by groups, in batches of a million rows."""
    query = queries()["score top-k"]
    settings: list[tuple[str, sb.Query, int]] = [
        ("1 shard", query, 1),
        ("4 shards", query, 4),
        ("10 groups", grouped(10), 1),
        ("1,000 groups", grouped(1_000), 1),
    ]
    for name, asked, shards in settings:
        told = bench.measure(name, ("flows",), ranking(asked, shards=shards), files=2, upto=4)
        yield {
            "group": GROWTH,
            "case": name,
            "M rows/s": told.mega,
            "s per batch": told.batch_seconds,
            "MB shuffled": told.shuffled / 1e6,
            "state MB": told.state_bytes / 1e6,
        }


def hundred_nodes(found: Mapping[str, Told]) -> Iterator[dict[str, Any]]:
    """What the measured speeds and bytes come to on many more cores.

    A row costs a core what it cost here, the fixed time of a batch included. Every task has as many
    rows per batch as it had here, so its summaries have as many bytes; they meet in the state.
    """
    from skyband.spark.plan import buckets_of
    from skyband.spark.sharding import choose_shards

    asked = queries() | {"score top-k of 100,000 groups": grouped(100_000)}
    for name, told in found.items():
        task = told.packed / (told.batches * CORES)
        query = asked[name]
        yield {
            "group": NODES,
            "case": name,
            "µs of a core per row": CORES / told.speed * 1e6,
            "M rows/s": told.mega / CORES * MANY_CORES,
            "bytes per row": told.packed / told.rows,
            "kB per task and batch": task / 1e3,
            "MB per batch": task * MANY_CORES / 1e6,
            "buckets": buckets_of(query),
            "shards": choose_shards(task * MANY_CORES, buckets_of(query)).shards,
        }


def latency(bench: Benchmark) -> dict[str, Any]:
    """Seconds from a window's end to its rows in the sink, with a trigger of one second."""
    bench.progress("latency")
    window = sb.TimeWindow("5 seconds", slide="1 second")
    query = sb.TopK(k=10, score="value", time="timestamp", window=window)
    frame = bench.spark.readStream.format("rate").option("rowsPerSecond", 10_000).load()
    waits: list[float] = []

    def sink(answers: Any, _: int) -> None:
        ends = {row.window_end for row in answers.select("window_end").distinct().collect()}
        now = datetime.now(UTC).timestamp()
        waits.extend(now - end.timestamp() for end in ends)

    writer = ranking(query)({"": frame}).writeStream.foreachBatch(sink)
    writer = writer.trigger(processingTime="1 second").outputMode("append")
    stream = writer.option("checkpointLocation", bench.checkpoint()).start()
    stream.awaitTermination(LATENCY_SECONDS)
    batches = [each.batchDuration / 1000 for each in stream.recentProgress]
    for _ in range(500):
        if not stream.status["isTriggerActive"]:
            break  # between two batches, so that none is cut short
        time.sleep(0.01)
    stream.stop()
    steady = waits[len(waits) // 3 :] or [float("nan")]
    batch = statistics.median(batches[len(batches) // 3 :] or [float("nan")])
    # The source delivers rows at the end of their second, so a window's last rows come later.
    bound = 1 + 2 * batch + 1
    return {
        "group": "Latency: trigger 1 s, 10,000 rows/s, window 5 s every second",
        "case": "from a window's end to its rows in the sink",
        "windows": len(waits),
        "median s": statistics.median(steady),
        "greatest s": max(steady),
        "target median s": 4,
        "s per batch": batch,
        "% within a trigger and two batches": 100
        * sum(wait <= bound for wait in steady)
        / len(steady),
    }
