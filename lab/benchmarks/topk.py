"""TopK compared with one pass of numpy.max over the scores, and with DuckDB using manual panes.

Both read the same Arrow table in memory and return an Arrow table. Ours uses one thread, DuckDB
two. DuckDB gets the best form we found: first the best k of every pane with its two ordered
aggregates; then either each pane's rows are handed to the windows that cover it and the best k are
taken again, or the aggregates run as window functions over the panes, whichever is faster on a
tenth of the stream. A form that would hand out too many rows is not tried. On scores that are not
uniform DuckDB gets a quarter of the rows, but always at least two windows.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import skyband as sb
from lab import first_answer
from lab.bench import Progress, best_of, compared

rank = partial(sb.rank, threads=1)
ROWS = 10_000_000
HOUR = 3_600_000_000
THREADS = 2
MINUTE, HOURLY = "epoch_us(ts) // 60000000", "epoch_us(ts) // 3600000000"
HANDED_OUT = 200_000_000
"""A form is tried only if DuckDB's windows read at most this many rows in total."""

PATTERNS: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {
    "uniform": lambda n, rng: rng.random(n),
    "sine": lambda n, rng: np.sin(np.arange(n) / 20_000) + 0.1 * rng.random(n),
    "falling": lambda n, rng: -np.arange(n) + rng.random(n),
    "crowded": lambda n, rng: rng.integers(0, 100, n).astype(np.float64),
}

# k, slide, window, target in millions of rows per second on uniform scores
COUNTED = (
    (10, 1, 100_000, 2),
    (10, 100, 100_000, None),
    (10, 1_000, 100_000, 400),
    (100, 1_000, 1_000_000, 150),
    (1_000, 10_000, 1_000_000, 150),
)


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(20_000, int(ROWS * scale))
    return [
        *counted(rows, progress),
        *timed(rows, progress),
        *grouped(rows, progress),
        *single(rows, progress),
        *started(progress),
    ]


# Windows of rows ----------------------------------------------------------------------------------


def counted(rows: int, progress: Progress) -> list[dict[str, Any]]:
    found = []
    connection = _connect()
    for k, slide, window, target in COUNTED:
        n = rows // 10 if slide == 1 else rows
        for pattern, make in PATTERNS.items():
            progress(f"{pattern} scores, k {k:,}, slide {slide:,}, window {window:,}")
            table = _table(make(n, np.random.default_rng(1)))
            score = table["score"].to_numpy()
            query = sb.TopK(k=k, score="score", id="id", window=sb.CountWindow(window, slide=slide))
            size = {"skyband": n, "numpy.max": n}
            work: dict[str, Callable[[], Any]] = {
                "skyband": lambda t=table, q=query: rank(t, q),
                "numpy.max": lambda s=score: s.max(),
            }
            # DuckDB breaks ties differently, so only scores without ties are compared.
            fewer = n if pattern == "uniform" else max(n // 4, min(n, 2 * window))
            part, size["duckdb"] = table.slice(0, fewer), fewer
            panes = Panes(f"id // {slide}", window // slide, fewer // slide, k)
            form = _best_form(connection, part, panes)
            if pattern == "uniform":
                _agree(rank(table, query), form(connection, part, panes))
            work["duckdb"] = lambda f=form, t=part, p=panes: f(connection, t, p)
            settings = {
                "group": "Windows of rows",
                "scores": pattern, "k": k, "slide": slide, "window": window,
            }  # fmt: skip
            row = compared(settings, size, work)
            if target is not None and pattern == "uniform":
                row["target M rows/s"] = target
            found.append(row)
    return found


# DuckDB -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panes:
    """How DuckDB cuts a table: a row's pane, panes per window, the last window, k, the group."""

    pane: str
    size: int
    last: int
    k: int
    by: str = ""

    @property
    def group(self) -> str:
        return f", {self.by}" if self.by else ""

    @property
    def best(self) -> str:
        return f"""best as materialized (
            select {self.pane} as pane{self.group}, unnest(arg_max(id, score, {self.k})) as id,
                   unnest(max(score, {self.k})) as score
            from flows group by {self.pane}{self.group})"""


def handed(connection: duckdb.DuckDBPyConnection, table: pa.Table, panes: Panes) -> pa.Table:
    """Each pane's best rows, handed to the windows that cover the pane."""
    connection.register("flows", table)
    k, group = panes.k, panes.group
    return connection.sql(f"""
        with {panes.best},
        handed as (
            select pane + step as ending{group}, id, score
            from best, range(1, {panes.size + 1}) steps(step) where pane + step <= {panes.last})
        select ending{group}, arg_max(id, score, {k}) as id, max(score, {k}) as score
        from handed group by ending{group} order by ending{group}""").to_arrow_table()


def windowed(connection: duckdb.DuckDBPyConnection, table: pa.Table, panes: Panes) -> pa.Table:
    """The aggregates as window functions over the panes' best rows."""
    connection.register("flows", table)
    k = panes.k
    return connection.sql(f"""
        with {panes.best},
        everywhere as (
            select pane, row_number() over (partition by pane) as number,
                   arg_max(id, score, {k}) over w as id, max(score, {k}) over w as score
            from best
            window w as (order by pane range between {panes.size - 1} preceding and current row))
        select pane + 1 as ending, id, score from everywhere where number = 1
        order by ending""").to_arrow_table()


def _best_form(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, panes: Panes
) -> Callable[[duckdb.DuckDBPyConnection, pa.Table, Panes], pa.Table]:
    short = table.slice(0, table.num_rows // 10)
    forms = [windowed]
    if panes.last * panes.size * panes.k <= HANDED_OUT:
        forms.append(handed)
    tried = best_of({f.__name__: partial(f, connection, short, panes) for f in forms}, repeat=1)
    return min(forms, key=lambda form: tried[form.__name__])


# Windows of time ----------------------------------------------------------------------------------


def timed(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """One hour of events; every minute, an answer over the last ten minutes."""
    progress("windows of time: 10 minutes every minute, one hour")
    rng = np.random.default_rng(2)
    table = _hour(rows, rng)
    window = sb.TimeWindow("10 minutes", slide="1 minute")
    query = sb.TopK(k=10, score="score", id="id", time="ts", window=window)
    connection = _connect()

    def theirs() -> pa.Table:
        return handed(connection, table, Panes(MINUTE, 10, 60, 10))

    _agree(rank(table, query), theirs())
    score = table["score"].to_numpy()
    work = {"skyband": lambda: rank(table, query), "numpy.max": score.max, "duckdb": theirs}
    settings = {"group": "Windows of time", "case": "10 minutes every 1 minute, k 10"}
    row = compared(settings, dict.fromkeys(work, rows), work)
    return [row | {"target × duckdb": 3}]


def grouped(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """The same hour with many groups: tumbling windows and sliding ones."""
    groups = max(10, rows // 100)
    rng = np.random.default_rng(3)
    table = _hour(rows, rng).append_column("g", pa.array(rng.integers(0, groups, rows)))
    score = table["score"].to_numpy()
    connection = _connect()
    found = []
    for size, slide, cut in (
        ("1 hour", "1 hour", Panes(HOURLY, 1, 1, 5, "g")),
        ("1 minute", "1 minute", Panes(MINUTE, 1, 60, 5, "g")),
        ("10 minutes", "1 minute", Panes(MINUTE, 10, 60, 5, "g")),
        ("1 hour", "1 minute", None),  # DuckDB would hand out every row sixty times
    ):
        progress(f"{groups:,} groups, {size} every {slide}")
        window = sb.TimeWindow(size, slide=slide)
        query = sb.TopK(k=5, score="score", id="id", time="ts", by="g", window=window)
        work: dict[str, Callable[[], Any]] = {
            "skyband": lambda q=query: rank(table, q),
            "numpy.max": score.max,
        }
        if cut is not None:
            work["duckdb"] = lambda c=cut: handed(connection, table, c)
        settings = {
            "group": "Windows of time",
            "case": f"{size} every {slide}, k 5, {groups:,} groups",
        }
        row = compared(settings, dict.fromkeys(work, rows), work, repeat=2)
        row["target M rows/s"] = 10 if size == slide else 6
        row["M rows out"] = rank(table, query).num_rows / 1e6
        found.append(row)
    return found


# One row at a time, state, start ------------------------------------------------------------------


def single(rows: int, progress: Progress) -> list[dict[str, Any]]:
    progress("answers per second through push; state")
    n = min(rows, 1_000_000)
    table = _table(np.random.default_rng(4).random(n))
    batches = [table.slice(at, 1_000) for at in range(0, n, 1_000)]
    query = sb.TopK(k=10, score="score", id="id", window=sb.CountWindow(100_000, slide=1))
    found = []
    for _ in range(2):
        monitor = sb.Monitor(query)
        began = time.perf_counter()
        answers = sum(len(monitor.push(batch)) for batch in batches)
        found.append(answers / (time.perf_counter() - began) / 1e6)
    group = "Answers, state and start"
    push = {
        "group": group, "case": "M answers/s through push, slide 1, batches of 1,000",
        "measured": max(found), "target": "≥ 0.3",
    }  # fmt: skip
    query = sb.TopK(k=100, score="score", id="id", window=sb.CountWindow(1_000_000, slide=1_000))
    monitor = sb.Monitor(query)
    long = _table(np.random.default_rng(5).random(max(rows // 4, 20_000)))
    most = 0
    for at in range(0, long.num_rows, 100_000):
        monitor.push(long.slice(at, 100_000))
        most = max(most, int(monitor.stats()["state_bytes"]))
    state = {
        "group": group, "case": "state in MB, k 100, window 1 M, slide 1,000",
        "measured": most / 1e6, "target": "< 1",
    }  # fmt: skip
    return [push, state]


def started(progress: Progress) -> list[dict[str, Any]]:
    """How long a fresh process takes to import, and to give a first answer."""
    progress("import and first answer in fresh processes")
    importing = (
        "import time; t = time.perf_counter(); import skyband; print(time.perf_counter() - t)"
    )
    answering = (
        "import numpy as np, pyarrow as pa, skyband as sb\n"
        "score = np.random.default_rng(1).random({rows})\n"
        "t = pa.table({{'id': np.arange({rows}), 'score': score}})\n"
        "q = sb.TopK(k=2, score='score', id='id', window=sb.CountWindow({size}, slide={slide}))\n"
        "assert sb.rank(t, q).num_rows > 1\n"
    )
    small = answering.format(rows=3, size=3, slide=1)
    large = answering.format(rows=1_000_000, size=100_000, slide=1_000)
    plain = dict(os.environ)
    imports = [float(_process(importing, plain)[1]) for _ in range(5)]
    with tempfile.TemporaryDirectory() as folder:
        fresh = plain | {"NUMBA_CACHE_DIR": folder}
        cold, _ = _process(small, fresh)
        cold_large, _ = _process(large, fresh)
        cached = min(_process(large, fresh)[0] for _ in range(3))
    group = "Answers, state and start"
    each = []
    for name in first_answer.NAMES:
        progress(f"first answer of {name}, nothing compiled")
        with tempfile.TemporaryDirectory() as folder:
            took = [first_answer.in_fresh_process(name, folder)["wall"] for _ in range(2)]
        case = f"{name}, a million rows, {{}}, seconds after import"
        each += [
            {"group": group, "case": case.format(how), "measured": found, "target": target}
            for how, found, target in zip(
                ("nothing compiled", "cached"), took, ("< 8", "< 0.4"), strict=True
            )
        ]
    return [
        *each,
        {"group": group, "case": "import, seconds", "measured": min(imports), "target": "< 0.6"},
        {"group": group, "case": "first answer of a process, nothing cached, 3 rows, seconds",
         "measured": cold, "target": "< 5"},
        {"group": group, "case": "the same, all answers of 1,000,000 rows, seconds",
         "measured": cold_large, "target": "< 5"},
        {"group": group, "case": "the same, kernels cached, seconds",
         "measured": cached, "target": "< 1.5"},
    ]  # fmt: skip


def _process(code: str, environment: dict[str, str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return time.perf_counter() - began, done.stdout


# Parts --------------------------------------------------------------------------------------------


def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(f"set threads = {THREADS}")
    return connection


def _table(score: np.ndarray) -> pa.Table:
    return pa.table({"id": np.arange(len(score)), "score": score})


def _hour(rows: int, rng: np.random.Generator) -> pa.Table:
    moments = pa.array(np.sort(rng.integers(0, HOUR, rows))).view(pa.timestamp("us", tz="UTC"))
    return pa.table({"ts": moments, "id": np.arange(rows), "score": rng.random(rows)})


def _agree(ours: pa.Table, theirs: pa.Table) -> None:
    """Raise unless both found the same scores; ties may differ in their ids."""
    mine = ours["score"].to_numpy()
    yours = np.concatenate(theirs["score"].to_numpy(zero_copy_only=False))
    if len(mine) != len(yours) or not np.array_equal(mine, yours):
        raise AssertionError(f"answers differ: {len(mine):,} rows and {len(yours):,}")
