"""Ten queries over one stream of files beside ten jobs, and two queries of the Nexmark suite."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import skyband as sb
from lab.benchmarks.boards import KS, MINUTES, nine
from lab.benchmarks.nexmark import HIGHEST, HOT
from lab.benchmarks.spark_cases import WINDOW, ranking
from lab.datasets.nexmark import bids

if TYPE_CHECKING:
    from lab.benchmarks.spark import Benchmark

TEN = "Ten queries over one stream of Parquet files"
NEXMARK = "Nexmark on Spark"
BOARD_FILES = 8
BIDS_SHARE = 2
"""Bids are this part of the other rows: Spark's own forms take long over all of them."""
LEAST_BIDS = 1_000_000
"""With fewer, Spark's own query reads less than a window."""


def board() -> dict[str, sb.Query]:
    """Ten queries over the flows of the benchmark."""
    every: dict[str, Any] = {"time": "ts", "window": WINDOW}
    likely = sb.UncertainTopK(k=10, score="bytes", probability="p", id="key", **every)
    return nine("key", "bytes", "bytes", every) | {"likely": likely}


def alike() -> dict[str, sb.Query]:
    """Ten queries that differ only in k and window, so that they keep one state."""
    return {
        f"{k} of {m} minutes": sb.HeavyHitters(
            k=k, item="key", time="ts", window=sb.TimeWindow(f"{m} minutes", slide="1 minute")
        )
        for k, m in zip(KS, MINUTES, strict=True)
    }


def ten_queries(bench: Benchmark) -> Iterator[dict[str, Any]]:
    """Seconds of a board of ten queries, and of ten jobs one after the other, from start to end."""
    for case, queries, target in (
        ("ten different queries", board(), 5),
        ("ten HeavyHitters of one item", alike(), None),
    ):
        alone, rows = 0.0, 0
        for name, query in queries.items():
            seconds, rows = timed(bench, f"{case}: {name}", query)
            alone += seconds
        together, same = timed(bench, f"{case}, together", queries)
        assert rows == same, "the board read another number of rows"
        yield {
            "group": TEN,
            "case": case,
            "rows": rows,
            "ten jobs s": alone,
            "one board s": together,
            "target × ten jobs": target,
            "× ten jobs": alone / together,
        }


def timed(bench: Benchmark, name: str, query: Any) -> tuple[float, int]:
    """Seconds from the start of a stream to its end, and its rows."""
    from skyband.spark import rank

    bench.progress(name)
    source = bench.files(bench.folder / "flows", BOARD_FILES // 2, BOARD_FILES)
    began = time.perf_counter()
    told = bench.told(rank(source, query))
    return time.perf_counter() - began, told.rows


# Nexmark ------------------------------------------------------------------------------------------


def nexmark(bench: Benchmark) -> Iterator[dict[str, Any]]:
    """Queries 5 and 7, ours and Spark's own; windows that both answered must agree."""
    bench.progress("writing bids")
    bench.write("bids", bids(max(LEAST_BIDS, bench.rows // BIDS_SHARE)))
    for case, query, shown, native in (
        ("query 5, hot items", HOT, "count", hot_items),
        ("query 7, highest bid", HIGHEST, "price", highest_bid),
    ):
        ours, own = Answers(shown), Answers("n")
        told = bench.measure(case, ("bids",), ranking(query), sink=ours)
        theirs = bench.native_run(f"{case}, Spark's own", "bids", native, own)
        both = ours.found.keys() & own.found.keys()
        assert both, "no window was answered by both"
        assert all(ours.found[end] == own.found[end] for end in both), f"{case}: answers differ"
        yield {
            "group": NEXMARK,
            "case": case,
            "rows": told.rows,
            "M rows/s": told.mega,
            "rows of Spark's own": theirs.rows,
            "Spark's own M rows/s": theirs.mega,
            "windows compared": len(both),
            "× Spark's own": told.speed / theirs.speed,
        }


class Answers:
    """A sink that keeps the greatest value of each window."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.found: dict[Any, int] = {}

    def __call__(self, frame: Any, _: int) -> None:
        from pyspark.sql import functions as F  # noqa: N812

        end = F.col("window.end") if "window" in frame.columns else F.col("window_end")
        best = frame.groupBy(end.alias("end")).agg(F.max(self.column).alias("n"))
        for row in best.collect():
            self.found[row["end"]] = int(row["n"])


def hot_items(frame: Any) -> Any:
    """Bids of every auction in windows of 10 seconds every 2; the sink takes the greatest."""
    from pyspark.sql import functions as F  # noqa: N812

    marked = frame.withWatermark("ts", "0 seconds")
    counted = marked.groupBy(F.window("ts", "10 seconds", "2 seconds"), "auction").count()
    return counted.withColumnRenamed("count", "n")


def highest_bid(frame: Any) -> Any:
    """The greatest bid of every 10 seconds, with its auction and bidder."""
    from pyspark.sql import functions as F  # noqa: N812

    marked = frame.withWatermark("ts", "0 seconds")
    best = F.max(F.struct("price", "auction", "bidder")).alias("best")
    found = marked.groupBy(F.window("ts", "10 seconds")).agg(best)
    return found.select("window", F.col("best.price").alias("n"), "best")
