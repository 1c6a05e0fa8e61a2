"""FusedTopK: its three algorithms on one stream, and DuckDB recomputing every window.

All read the same Arrow table in memory. Ours use one thread, DuckDB two. DuckDB joins each
window's end with its rows, sums them by object and takes the best k; it gets fewer rows, since its
cost per row grows with the window. The benchmark takes about two minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

import skyband as sb
from lab.bench import Progress, compared
from lab.datasets.fused import correlated_reports

rank = partial(sb.rank, threads=1)
ROWS = 2_000_000
SLIDE = 100
K = 10
TARGETS = {"eaa": 1.0, "eaa-approx": 2.0}


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(40_000, int(ROWS * scale))
    return [
        *algorithms(rows, progress),
        *windows(rows, progress),
        *streams(rows, progress),
        *functions(rows, progress),
    ]


def query(window: int, algorithm: str, count: int = 2, **settings: Any) -> sb.FusedTopK:
    return sb.FusedTopK(
        k=K,
        id="object",
        stream="stream",
        value="value",
        streams=tuple(f"s{i}" for i in range(count)),
        window=sb.CountWindow(window, slide=SLIDE),
        algorithm=algorithm,
        **settings,
    )


def algorithms(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """Two streams, with the window that the targets are set for."""
    window = 10_000
    table = correlated_reports(rows, recent=window // 4, seed=1)
    short = table.slice(0, min(rows, 3 * window))
    slow = table.slice(0, min(rows, 200_000))
    connection = duckdb.connect(config={"threads": 2})
    _agree(rank(short, query(window, "eaa")), recompute(connection, short, window))
    found = []
    for algorithm, target in TARGETS.items():
        progress(f"{algorithm}, window {window:,}")
        work: dict[str, Callable[[], Any]] = {
            "skyband": partial(sb.rank, table, query(window, algorithm)),
            "sla": partial(sb.rank, slow, query(window, "sla")),
            "duckdb": partial(recompute, connection, short, window),
        }
        size = {"skyband": rows, "sla": slow.num_rows, "duckdb": short.num_rows}
        settings = {"group": "Two streams, k 10, slide 100, window 10,000", "case": algorithm}
        found.append(compared(settings, size, work) | {"target M rows/s": target})
    return found


def windows(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """How the cost per row grows with the window: it should grow less than its square root."""
    found = []
    for algorithm in TARGETS:
        base = 0.0
        for window in (1_000, 10_000, 100_000):
            progress(f"{algorithm}, window {window:,}")
            table = correlated_reports(max(rows // 2, 3 * window), recent=window // 4, seed=2)
            work = {"skyband": partial(sb.rank, table, query(window, algorithm))}
            settings = {
                "group": "The window's size",
                "case": f"{algorithm}, window {window:,}",
                "retained": retained(table, query(window, algorithm)),
            }
            row = compared(settings, {"skyband": table.num_rows}, work)
            base = base or row["skyband M rows/s"]
            row["cost a row, of that at 1,000"] = base / row["skyband M rows/s"]
            row["target, below"] = (window / 1_000) ** 0.5 if window > 1_000 else None
            found.append(row)
    return found


def streams(rows: int, progress: Progress) -> list[dict[str, Any]]:
    found = []
    for count in (2, 4, 8):
        progress(f"{count} streams")
        table = correlated_reports(rows // 4, streams=count, recent=1000, seed=3)
        work = {
            "skyband": partial(sb.rank, table, query(10_000, "eaa-approx", count)),
            "eaa": partial(sb.rank, table, query(10_000, "eaa", count)),
        }
        settings = {"group": "The number of streams (eaa-approx against eaa)", "streams": count}
        found.append(compared(settings, dict.fromkeys(work, table.num_rows), work))
    return found


def functions(rows: int, progress: Progress) -> list[dict[str, Any]]:
    table = correlated_reports(rows // 4, recent=1000, seed=4)
    found = []
    own: dict[str, Any] = {
        "sum": "sum",
        "min": "min",
        "max": "max",
        "weights": {"s0": 1.0, "s1": 2.0},
        "a user's function": lambda values: (values**2).sum(axis=1),
    }
    for name, combine in own.items():
        progress(f"combine: {name}")
        work = {"skyband": partial(sb.rank, table, query(10_000, "eaa", combine=combine))}
        settings = {"group": "Score functions (eaa, window 10,000)", "case": name}
        found.append(compared(settings, {"skyband": table.num_rows}, work))
    return found


def retained(table: pa.Table, asked: sb.FusedTopK) -> int:
    monitor = sb.Monitor(asked)
    monitor.push(table)
    if asked.algorithm != "sla":  # right after a sweep, the count is that of the paper
        monitor.session.synopsis.sweep()  # type: ignore[attr-defined]
    return int(monitor.stats()["retained"])


def recompute(connection: duckdb.DuckDBPyConnection, table: pa.Table, window: int) -> pa.Table:
    """Recompute every window from its rows: a value per stream, their sum, the best k."""
    connection.register("reports", table)
    return connection.sql(f"""
        with ends as (select unnest(range({SLIDE}, {table.num_rows + 1}, {SLIDE})) as ending),
        scored as (
            select ending, object, sum(value) as score
            from ends join reports on seq >= ending - {window} and seq < ending
            group by ending, object),
        ranked as (
            select *, row_number() over (
                partition by ending order by score desc, object) as rank
            from scored)
        select ending, rank, object, score from ranked where rank <= {K}
        order by ending, rank""").to_arrow_table()


def _agree(ours: pa.Table, theirs: pa.Table) -> None:
    assert ours["window_end"].to_pylist() == theirs["ending"].to_pylist()
    assert ours["object"].to_pylist() == theirs["object"].to_pylist()
