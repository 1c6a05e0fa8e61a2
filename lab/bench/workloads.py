"""Short embedded workloads that every version since 0.2 can run, for ``lab.bench.against``.

Run as a script, it runs the workloads with whatever ``skyband`` Python finds, and prints one line
of JSON per workload: its name, and the least processor time and wall time of the runs in seconds.
It uses only what was public in 0.2 and nothing else of ``lab``.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb

__all__ = ["WORKLOADS"]

Work = Callable[[], Any]


def rows_of(count: int, **columns: Any) -> pa.Table:
    """A table of ``count`` rows with a time column of one hour, in seconds, and ``columns``."""
    return pa.table({"t": np.arange(count) * 3600 // count, **columns})


def keys(count: int, most: int, seed: int = 1) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Skewed keys below ``most``, few of them frequent."""
    random = np.random.default_rng(seed)
    return (most ** random.random(count)).astype(np.int64) - 1


def scores(count: int, seed: int = 2) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Uniform scores in [0, 1)."""
    return np.random.default_rng(seed).random(count)


SLIDING = sb.TimeWindow(600, slide=60)
COUNTED = sb.CountWindow(100_000, slide=1_000)


def ranked(table: Any, query: Any) -> Work:
    """``sb.rank`` of a table."""
    return lambda: sb.rank(table, query)


def pushed(table: pa.Table, query: Any, rows: int) -> Work:
    """Pushes of ``rows`` rows each to a new monitor."""
    batches = [table.slice(first, rows) for first in range(0, table.num_rows, rows)]

    def run() -> None:
        monitor = sb.Monitor(query)
        for batch in batches:
            monitor.push(batch)
        monitor.flush()

    return run


def topk_time() -> Work:
    table = rows_of(5_000_000, x=scores(5_000_000))
    return ranked(table, sb.TopK(k=10, score="x", time="t", window=SLIDING))


def topk_count() -> Work:
    table = rows_of(2_000_000, x=scores(2_000_000))
    return ranked(table, sb.TopK(k=10, score="x", window=COUNTED))


def topk_groups() -> Work:
    table = rows_of(1_000_000, x=scores(1_000_000), g=keys(1_000_000, 1_000))
    return ranked(table, sb.TopK(k=10, score="x", time="t", by=("g",), window=SLIDING))


def heavy_exact() -> Work:
    table = rows_of(2_000_000, item=keys(2_000_000, 100_000))
    return ranked(table, sb.HeavyHitters(k=10, item="item", time="t", window=SLIDING))


def heavy_text() -> Work:
    names = pa.array([f"item {number}" for number in range(10_000)])
    table = rows_of(1_000_000, item=names.take(pa.array(keys(1_000_000, 10_000))))
    return ranked(table, sb.HeavyHitters(k=10, item="item", time="t", window=SLIDING))


def heavy_fsw() -> Work:
    table = rows_of(1_000_000, item=keys(1_000_000, 100_000))
    query = sb.HeavyHitters(
        k=10, item="item", time="t", window=SLIDING, algorithm="fsw", capacity=1_000
    )
    return ranked(table, query)


def uncertain() -> Work:
    count = 200_000
    table = rows_of(count, x=scores(count), p=1 - scores(count, 3))
    query = sb.UncertainTopK(
        k=10, score="x", probability="p", window=sb.CountWindow(10_000, slide=500)
    )
    return ranked(table, query)


def fused() -> Work:
    count = 60_000
    table = rows_of(
        count,
        id=np.random.default_rng(4).permutation(np.tile(np.arange(count // 4), 4)),
        s=np.arange(count) % 4,
        v=scores(count),
    )
    table = table.set_column(2, "s", table["s"].cast(pa.string()))
    query = sb.FusedTopK(
        k=10,
        id="id",
        stream="s",
        value="v",
        streams=("0", "1", "2", "3"),
        time="t",
        recurrences=100,
        window=SLIDING,
    )
    return ranked(table, query)


def skyline() -> Work:
    count = 500_000
    table = rows_of(count, a=scores(count), b=scores(count, 3), c=scores(count, 4))
    query = sb.Skyline(prefer={"a": "min", "b": "max", "c": "min"}, time="t", window=SLIDING)
    return ranked(table, query)


def join() -> Work:
    count = 50_000
    prices = rows_of(count, stock=keys(count, 100), price=scores(count), volume=scores(count, 3))
    risks = rows_of(count, stock=keys(count, 100, 5), risk=scores(count, 6), cost=scores(count, 7))
    query = sb.SkylineJoin(
        left="prices",
        right="risks",
        on="stock",
        prefer={"price": "min", "volume": "max", "risk": "min", "cost": "min"},
        time="t",
        window=SLIDING,
    )
    return ranked({"prices": prices, "risks": risks}, query)


def push_rows() -> Work:
    table = rows_of(500, x=scores(500))
    return pushed(table, sb.TopK(k=10, score="x", time="t", window=SLIDING), 1)


def push_batches() -> Work:
    table = rows_of(500_000, x=scores(500_000))
    return pushed(table, sb.TopK(k=10, score="x", time="t", window=SLIDING), 1_000)


def tops_of(windows: list[sb.TimeWindow]) -> dict[str, Any]:
    """A ``TopK`` per window, each with a k of its own."""
    queries = enumerate(windows, start=1)
    return {f"q{k}": sb.TopK(k=k, score="x", time="t", window=window) for k, window in queries}


def board_equal() -> Work:
    table = rows_of(2_000_000, x=scores(2_000_000))
    return ranked(table, tops_of([sb.TimeWindow(60 * n, slide=60) for n in range(1, 11)]))


def board_mixed() -> Work:
    table = rows_of(2_000_000, x=scores(2_000_000))
    slides = [10, 15, 20, 30, 45, 60, 90, 120, 180, 300]
    return ranked(table, tops_of([sb.TimeWindow(10 * slide, slide=slide) for slide in slides]))


def board_different() -> Work:
    count = 300_000
    table = rows_of(
        count, x=scores(count), y=scores(count, 3), p=1 - scores(count, 4),
        item=keys(count, 10_000), g=keys(count, 50, 5),
    )  # fmt: skip
    when: dict[str, Any] = {"time": "t", "window": SLIDING}
    board = {
        "best": sb.TopK(k=10, score="x", **when),
        "best of groups": sb.TopK(k=10, score="x", by=("g",), **when),
        "each once": sb.TopK(k=10, score="x", id="item", distinct="best", **when),
        "latest": sb.TopK(k=10, score="x", id="item", distinct="latest", **when),
        "frequent": sb.HeavyHitters(k=10, item="item", **when),
        "frequent of groups": sb.HeavyHitters(k=10, item="item", by=("g",), **when),
        "sketched": sb.HeavyHitters(k=10, item="item", algorithm="fsw", capacity=500, **when),
        "likely": sb.UncertainTopK(k=5, score="x", probability="p", **when),
        "undominated": sb.Skyline(prefer={"x": "min", "y": "max"}, **when),
        "undominated of groups": sb.Skyline(prefer={"x": "min", "y": "max"}, by=("g",), **when),
    }
    return ranked(table, board)


def skyline_groups() -> Work:
    count = 200_000
    table = rows_of(count, a=scores(count), b=scores(count, 3), g=keys(count, 100, 5))
    query = sb.Skyline(prefer={"a": "min", "b": "max"}, by=("g",), time="t", window=SLIDING)
    return ranked(table, query)


WORKLOADS: dict[str, Callable[[], Work]] = {
    "TopK, time window": topk_time,
    "TopK, count window": topk_count,
    "TopK, 1,000 groups": topk_groups,
    "HeavyHitters, exact": heavy_exact,
    "HeavyHitters, text": heavy_text,
    "HeavyHitters, fsw": heavy_fsw,
    "UncertainTopK": uncertain,
    "FusedTopK": fused,
    "Skyline": skyline,
    "SkylineJoin": join,
    "Skyline, 100 groups": skyline_groups,
    "board of ten, equal slides": board_equal,
    "board of ten, mixed slides": board_mixed,
    "board of ten different queries": board_different,
    "pushes of 1 row": push_rows,
    "pushes of 1,000 rows": push_batches,
}


def measured(names: list[str], repeat: int) -> Iterator[dict[str, Any]]:
    """The least times of each workload, after a run that compiles and warms up; none of 0 runs."""
    for name in names:
        work = WORKLOADS[name]()
        work()
        processor, wall = [], []
        for _ in range(repeat):
            gc.collect()
            began, cpu = time.perf_counter(), time.process_time()
            work()
            processor.append(time.process_time() - cpu)
            wall.append(time.perf_counter() - began)
        if repeat:
            yield {"name": name, "processor": min(processor), "wall": min(wall)}


if __name__ == "__main__":
    for line in measured(sys.argv[2:], int(sys.argv[1])):
        print(json.dumps(line), flush=True)
