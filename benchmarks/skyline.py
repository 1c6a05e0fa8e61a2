"""Skylines beside paretoset recomputing each window, and joins beside the paper's and DuckDB.

``paretoset`` gets the rows of each window as one array and returns a mask; ours also builds the
answer table. DuckDB joins the rows of each window and drops what some other pair dominates. Peers
that would take minutes get a stretch of the stream, DuckDB smaller windows; rates are per row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import skyband as sb
from skyband.bench import Progress, compared
from skyband.datasets.skyline import points, two_streams

WINDOW, SLIDE = 100_000, 1_000
LIVE, STEP = 4_000, 400
SMALL = 500
FIRST = WINDOW + 5 * SLIDE
"""Rows that slow peers get."""


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    return [*single(scale, progress), *joined(scale, progress), *in_sql(scale, progress)]


def single(scale: float, progress: Progress) -> list[dict[str, Any]]:
    found = []
    for dimensions, rows in ((2, 2_000_000), (3, 1_000_000), (4, 500_000)):
        n = max(WINDOW + 20 * SLIDE, int(rows * scale))
        progress(f"skyline of {dimensions} dimensions, {n:,} rows")
        made = points("independent", n, dimensions, np.random.default_rng(1))
        names = [f"x{i}" for i in range(dimensions)]
        table = pa.table(dict(zip(names, made.T, strict=True)))
        prefer = dict.fromkeys(names, "min")
        window = sb.CountWindow(WINDOW, slide=SLIDE)
        queries = {
            name: sb.Skyline(prefer=prefer, window=window, algorithm=name)
            for name in ("stabsky", "sfs")
        }
        size = {"skyband": n, "sfs": FIRST, "paretoset": FIRST - WINDOW}
        work: dict[str, Callable[[], Any]] = {
            "skyband": lambda t=table, q=queries["stabsky"]: sb.rank(t, q),
            "sfs": lambda t=table, q=queries["sfs"]: sb.rank(t.slice(0, FIRST), q),
        }
        try:
            from paretoset import paretoset
        except ImportError:
            pass
        else:
            work["paretoset"] = lambda p=made: [
                paretoset(p[end - WINDOW : end], sense=["min"] * p.shape[1], use_numba=True)
                for end in range(WINDOW + SLIDE, FIRST + 1, SLIDE)
            ]
            paretoset(made[:1000], sense=["min"] * dimensions, use_numba=True)
        for query in queries.values():
            sb.rank(table.slice(0, 2 * SLIDE), query)
        settings = {"group": "Skyline", "case": f"{dimensions} dimensions", "slide": SLIDE}
        size = {name: size[name] for name in work}
        found.append(compared(settings, size, work, repeat=2))
    return found


def joined(scale: float, progress: Progress) -> list[dict[str, Any]]:
    found = []
    for distribution in ("correlated", "independent"):
        n = max(3 * LIVE, int(200_000 * scale))
        progress(f"join of {distribution} streams, {n:,} rows a side")
        streams = two_streams(n, distribution=distribution, join_rate=0.02)
        parts = {"skyband": n, "lsj": n // 10, "isj": n // 10, "naive": 2 * LIVE}
        parts = {name: max(size, 2 * LIVE) for name, size in parts.items()}
        names = {"skyband": "gsj"}
        work: dict[str, Callable[[], Any]] = {}
        for name, size in parts.items():
            query = _join(names.get(name, name))
            mine = {side: table.slice(0, size) for side, table in streams.items()}
            sb.rank({side: table.slice(0, 2 * STEP) for side, table in mine.items()}, query)
            work[name] = lambda m=mine, q=query: sb.rank(m, q)
        rows = {name: 2 * parts[name] for name in work}
        settings = {"group": "SkylineJoin", "case": distribution, "slide": STEP}
        found.append(compared(settings, rows, work, repeat=2))
    return found


def in_sql(scale: float, progress: Progress) -> list[dict[str, Any]]:
    """Beside DuckDB, on windows small enough for an anti-join of all pairs with all pairs."""
    n = max(4 * SMALL, int(100_000 * scale))
    progress(f"join beside DuckDB, {SMALL} live rows a side")
    streams = two_streams(n, join_rate=0.02)
    query = _join("gsj", SMALL)
    sb.rank({side: table.slice(0, SMALL) for side, table in streams.items()}, query)
    work: dict[str, Callable[[], Any]] = {
        "skyband": lambda: sb.rank(streams, query),
        "duckdb": lambda: _in_duckdb(streams),
    }
    rows = {"skyband": 2 * n, "duckdb": 2 * SMALL // 10}
    settings = {"group": "SkylineJoin", "case": "independent, small", "slide": SMALL // 10}
    return [compared(settings, rows, work, repeat=2)]


def _join(algorithm: str, live: int = LIVE) -> sb.SkylineJoin:
    return sb.SkylineJoin(
        left="left",
        right="right",
        on="key",
        time="ts",
        prefer=dict.fromkeys(("a0", "a1", "b0", "b1"), "min"),
        window=sb.TimeWindow(live, slide=live // 10),
        algorithm=algorithm,
    )


def _in_duckdb(streams: dict[str, pa.Table]) -> pa.Table:
    """One window: the join, then an anti-join with what dominates."""
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    left, right = (streams[side].slice(0, SMALL) for side in ("left", "right"))
    connection.register("l", left)
    connection.register("r", right)
    names = ("a0", "a1", "b0", "b1")
    no_worse = " and ".join(f"q.{name} <= p.{name}" for name in names)
    better = " or ".join(f"q.{name} < p.{name}" for name in names)
    return connection.sql(
        f"""with pairs as materialized (select * from l join r using (key))
        select * from pairs p anti join pairs q on {no_worse} and ({better})"""
    ).to_arrow_table()
