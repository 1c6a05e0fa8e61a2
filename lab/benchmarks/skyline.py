"""Skylines compared with paretoset, and skyline joins with the paper's algorithms and DuckDB.

``paretoset`` recomputes each window: it gets the window's rows as one array and returns a mask;
ours also builds the answer table. DuckDB joins the rows of each window and drops dominated pairs by
anti-joins: first with the 50 pairs of the smallest sums, then among the rest (a single anti-join of
all pairs with all pairs takes minutes per window). Peers that would take minutes get only a part of
the stream, DuckDB three windows; rates count the rows that are new in a window. The benchmark takes
about three minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import skyband as sb
from lab.bench import Progress, compared
from lab.datasets.skyline import points, two_streams

WINDOW, SLIDE = 100_000, 1_000
LIVE, STEP = 4_000, 400
NAMES = ("a0", "a1", "b0", "b1")
SINGLE_TARGETS = {2: 2.0, 4: 0.2}
"""Millions of rows per second, by number of dimensions."""
JOIN_TARGETS = {
    "target M rows/s": 0.5,
    "target, × lsj": 3,
    "target, × naive": 20,
}
FIRST = WINDOW + 5 * SLIDE
"""Rows that slow peers get."""


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    return [*single(scale, progress), *joined(scale, progress), *layered(scale, progress)]


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
        targets = {"target M rows/s": SINGLE_TARGETS.get(dimensions), "target, × paretoset": 10}
        found.append(compared(settings, size, work, repeat=2) | targets)
    return found


def joined(scale: float, progress: Progress) -> list[dict[str, Any]]:
    found = []
    for distribution in ("correlated", "independent"):
        n = max(3 * LIVE, int(200_000 * scale))
        progress(f"join of {distribution} streams, {n:,} rows per side")
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
        ends = range(LIVE, LIVE + 3 * STEP, STEP)
        _agree(streams)
        work["duckdb"] = lambda s=streams, e=ends: [_in_duckdb(s, end) for end in e]
        rows["duckdb"] = 2 * STEP * len(ends)
        settings = {"group": "SkylineJoin", "case": distribution, "slide": STEP}
        found.append(compared(settings, rows, work, repeat=2) | JOIN_TARGETS)
    return found


def layered(scale: float, progress: Progress) -> list[dict[str, Any]]:
    """Lsj compared with isj, repeated often enough to show a small difference.

    By default lsj shares nothing between windows of fewer than 1,536 live rows per side, where it
    is the same as isj; "shared" is lsj that shares at every size.
    """
    found = []
    for live in (1_000, LIVE, 10_000):
        n = max(2 * live, int(8 * live * scale))
        progress(f"lsj compared with isj, {live:,} live rows per side")
        streams = two_streams(n, distribution="correlated", join_rate=0.02)
        queries = {
            "skyband": _join("lsj", live),
            "shared": _join("lsj", live, {"share_from": 0}),
            "isj": _join("isj", live),
        }
        for query in queries.values():
            sb.rank({side: table.slice(0, live // 5) for side, table in streams.items()}, query)
        work: dict[str, Callable[[], Any]] = {
            name: lambda q=query, s=streams: sb.rank(s, q) for name, query in queries.items()
        }
        settings = {
            "group": "lsj (here as skyband; shared: at every size) against isj, correlated",
            "case": f"{live:,} live rows per side",
        }
        rows = dict.fromkeys(work, 2 * n)
        found.append(compared(settings, rows, work, repeat=5) | {"target, × isj": 1})
    return found


def _join(
    algorithm: str, live: int = LIVE, options: dict[str, Any] | None = None
) -> sb.SkylineJoin:
    return sb.SkylineJoin(
        left="left",
        right="right",
        on="key",
        time="ts",
        prefer=dict.fromkeys(NAMES, "min"),
        window=sb.TimeWindow(live, slide=live // 10),
        algorithm=algorithm,
        options=options or {},
    )


def _in_duckdb(streams: dict[str, pa.Table], end: int) -> pa.Table:
    """One window: the join, then anti-joins that drop dominated pairs."""
    connection = duckdb.connect()
    connection.execute("set threads = 1")
    for name, side in (("l", "left"), ("r", "right")):
        connection.register(name, streams[side].slice(end - LIVE, LIVE))
    no_worse = " and ".join(f"q.{name} <= p.{name}" for name in NAMES)
    better = " or ".join(f"q.{name} < p.{name}" for name in NAMES)
    dominated = f"anti join {{}} q on {no_worse} and ({better})"
    return connection.sql(
        f"""with pairs as materialized (select * from l join r using (key)),
        best as materialized (select * from pairs order by {" + ".join(NAMES)} limit 50),
        near as materialized (select * from pairs p {dominated.format("best")})
        select * from near p {dominated.format("near")}"""
    ).to_arrow_table()


def _agree(streams: dict[str, pa.Table]) -> None:
    first = {side: table.slice(0, LIVE) for side, table in streams.items()}
    ours = sb.rank(first, _join("gsj"))
    ours = ours.filter(pa.compute.equal(ours["window_end"], LIVE)).select(NAMES)
    order = [(name, "ascending") for name in NAMES]
    theirs = _in_duckdb(streams, LIVE).select(NAMES)
    assert ours.sort_by(order).equals(theirs.sort_by(order))
