"""What a streaming query tells about itself, and how long after a window's end its rows come."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import skyband as sb
from lab.benchmarks.spark_cases import ranking


class Bench(Protocol):
    spark: Any
    progress: Callable[[str], Any]

    def checkpoint(self) -> str: ...


@dataclass
class Told:
    """What one run of a streaming query reported about itself."""

    rows: int
    speed: float
    """Rows per second after the first batch."""
    batch_seconds: float
    shuffled: int
    state_bytes: int
    parts: dict[str, float] = field(default_factory=dict)
    """Milliseconds per batch, by phase."""


def spent(batches: list[Any]) -> dict[str, float]:
    """Where the milliseconds of a batch went, on average."""

    def mean(*names: str) -> float:
        total = sum(b.durationMs.get(n, 0) for b in batches for n in names)
        return float(total / len(batches))

    commits = [sum(o.commitTimeMs for o in batch.stateOperators) for batch in batches]
    return {
        "all": mean("triggerExecution"),
        "finding files": mean("latestOffset", "getBatch"),
        "planning": mean("queryPlanning"),
        "logs": mean("walCommit", "commitOffsets"),
        "work": mean("addBatch"),
        "of it state commits (all tasks)": sum(commits) / len(commits),
    }


def latency(bench: Bench) -> dict[str, Any]:
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
    stream.awaitTermination(45)
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
