"""HeavyHitters compared with DuckDB using manual panes, and with sketches and unwindowed counts.

All read the same Arrow table in memory. Ours uses one thread, DuckDB and Polars two. DuckDB counts
the items of every pane once; then either one statement hands the counts to the windows that cover
their pane, adds them up and ranks them (`duckdb`), or one query per window does this (`duckdb, a
query a window`), which is the fastest way we found. Polars counts every window from its rows.
DuckDB's `approx_top_k`, DataSketches and Polars' counts of the whole input have no window, so they
do less. DataSketches and River take one Python object per row, and get a hundredth of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import skyband as sb
from lab.bench import Progress, compared
from lab.datasets.frequency import hour_of_items, zipf

rank = partial(sb.rank, threads=1)
ROWS = 10_000_000
THREADS = 2
WINDOW = sb.TimeWindow("10 minutes", slide="1 minute")


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(50_000, int(ROWS * scale))
    return [
        *sliding(rows, progress),
        *texts(rows, progress),
        *grouped(rows, progress),
        *sketched(rows, progress),
        *panes(rows, progress),
        *distinct(rows, progress),
    ]


def _query(algorithm: str | None = None, **more: Any) -> sb.HeavyHitters:
    settings: dict[str, Any] = {"k": 10, "item": "item", "time": "ts", "window": WINDOW}
    return sb.HeavyHitters(**settings | {"algorithm": algorithm} | more)


def _connect() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": THREADS})


PANES = """
    select epoch_us(ts) // 60000000 as pane, item, count(*) as n from rows_in group by all"""


def by_hand(connection: duckdb.DuckDBPyConnection, table: pa.Table) -> pa.Table:
    """Counts per pane, handed to the ten windows that cover the pane, in one statement."""
    connection.register("rows_in", table)
    return connection.sql(f"""
        with panes as ({PANES}),
        windows as (
            select pane + step as ending, item, sum(n) as n
            from panes, range(1, 11) steps(step) where pane + step <= 60 group by all)
        select * from (
            select *, row_number() over (partition by ending order by n desc, item) as rank
            from windows) where rank <= 10
        order by ending, rank""").to_arrow_table()


def window_by_window(connection: duckdb.DuckDBPyConnection, table: pa.Table) -> pa.Table:
    """Counts per pane, stored; then one query per window, which sorts only its ten best."""
    connection.register("rows_in", table)
    connection.sql(f"create or replace temp table panes as {PANES}")
    asked = (
        f"""(select {ending} as ending, item, sum(n) as n from panes
            where pane >= {ending - 10} and pane < {ending}
            group by item order by n desc, item limit 10)"""
        for ending in range(1, 61)
    )
    return connection.sql(" union all ".join(asked)).to_arrow_table()


def _agree(ours: pa.Table, theirs: pa.Table) -> None:
    """Raise unless the peer gave the same answers."""
    found = theirs.sort_by([("ending", "ascending"), ("n", "descending"), ("item", "ascending")])
    same = ours["count"].to_pylist() == [int(n) for n in found["n"].to_pylist()]
    if not same or ours["item"].to_pylist() != found["item"].to_pylist():
        raise AssertionError("DuckDB and Skyband disagree")


def sliding(rows: int, progress: Progress) -> list[dict[str, Any]]:
    progress("Zipf integers, 10 minutes every minute")
    table, connection = hour_of_items(rows), _connect()
    exact = _query("exact")
    answer = rank(table, exact)
    _agree(answer, by_hand(connection, table))
    _agree(answer, window_by_window(connection, table))
    found = []
    for name in ("exact", "fsw", "fsw-r", "fsw-f", "fsp"):
        progress(f"Zipf integers, {name}")
        query = exact if name == "exact" else _query(name, capacity=2_000)
        work: dict[str, Callable[[], Any]] = {"skyband": lambda q=query: rank(table, q)}
        if name in ("exact", "fsw"):
            work["duckdb"] = lambda: by_hand(connection, table)
            work["duckdb, one query per window"] = lambda: window_by_window(connection, table)
        size = dict.fromkeys(work, rows)
        if name == "fsw":
            more, fewer = _peers(connection, table, progress)
            work, size = work | more, size | fewer
        settings = {"group": "Windows of time", "case": f"{name}, Zipf 1.2 integers"}
        found.append(
            compared(settings, size, work, repeat=3)
            | {"target M rows/s": 40 if name == "fsw" else None}
            | {"target × duckdb": {"exact": 3, "fsw": 10}.get(name)}
        )
    return found


def _peers(
    connection: duckdb.DuckDBPyConnection, table: pa.Table, progress: Progress
) -> tuple[dict[str, Callable[[], Any]], dict[str, int]]:
    """The competing libraries that are installed, and how many rows each of them gets."""
    connection.register("rows_in", table)
    rows = table.num_rows
    item = table["item"].to_numpy()
    work: dict[str, Callable[[], Any]] = {
        "approx_top_k": lambda: connection.sql(
            "select approx_top_k(item, 10) from rows_in"
        ).fetchall()
    }
    size = {"approx_top_k": rows}
    try:
        import polars as pl
    except ImportError:
        progress("polars is not installed: left out")
    else:
        frame = pl.from_arrow(table).lazy()
        short = pl.from_arrow(table.slice(0, rows // 10)).lazy()
        best = pl.col("item").value_counts(sort=True).head(10)
        rolling = short.group_by_dynamic("ts", every="1m", period="10m", closed="left").agg(best)
        whole = frame.group_by("item").agg(pl.len().alias("n")).top_k(10, by="n")
        work |= {"polars, rolling": rolling.collect, "polars, whole": whole.collect}
        size |= {"polars, rolling": rows // 10, "polars, whole": rows}
    few = item[: rows // 100].tolist()
    try:
        from datasketches import frequent_items_error_type, frequent_items_sketch
    except ImportError:
        progress("datasketches is not installed: left out")
    else:

        def sketch() -> Any:
            made = frequent_items_sketch(12)
            for value in few:
                made.update(value)
            return made.get_frequent_items(frequent_items_error_type.NO_FALSE_NEGATIVES)

        work["datasketches"], size["datasketches"] = sketch, len(few)
    try:
        from river.sketch import HeavyHitters as Counter
    except ImportError:
        progress("river is not installed: left out")
    else:

        def count() -> Any:
            counter = Counter(support=0.001, epsilon=0.005)
            for value in few:
                counter.update(value)
            return counter.most_common(10)

        work["river"], size["river"] = count, len(few)
    return work, size


def texts(rows: int, progress: Progress) -> list[dict[str, Any]]:
    found = []
    table = hour_of_items(rows)
    names = pa.array([f"host-{i:x}.example"[:20] for i in range(1_000_000)])
    for kind in ("string", "dictionary"):
        progress(f"Zipf items of type {kind}")
        item = names.take(table["item"].combine_chunks())
        if kind == "dictionary":
            item = item.dictionary_encode()
        worded = table.set_column(1, "item", item)
        for name in ("fsw", "exact"):
            query = _query(name, **({"capacity": 2_000} if name == "fsw" else {}))
            work = {"skyband": lambda q=query, t=worded: rank(t, q)}
            settings = {"group": "Items of text", "case": f"{name}, {kind}"}
            row = compared(settings, {"skyband": rows}, work, repeat=2)
            found.append(row | {"target M rows/s": 15 if kind == "string" else None})
    return found


def grouped(rows: int, progress: Progress) -> list[dict[str, Any]]:
    found = []
    rng = np.random.default_rng(4)
    groups = max(100, rows // 100)
    table = hour_of_items(rows, distinct=1_000)
    table = table.append_column("g", pa.array(rng.integers(0, groups, rows)))
    for size in ("1 minute", "10 minutes"):
        progress(f"{groups:,} groups, windows of {size}")
        window = sb.TimeWindow(size, slide="1 minute")
        query = _query(k=5, by=("g",), window=window)
        work = {"skyband": lambda q=query: rank(table, q)}
        settings = {"group": "Groups", "case": f"{groups:,} groups, k 5, {size} every minute"}
        row = compared(settings, {"skyband": rows}, work, repeat=1)
        found.append(row | {"answers": rank(table, query).num_rows, "target M rows/s": 5})
    return found


def sketched(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """Sketches of 2,000 groups: an hour by minutes, so that windows have 60 panes.

    ``ss`` and ``fss`` count every row once for each of 60 instances, so they get fewer rows.
    """
    found = []
    groups = max(20, rows // 5_000)
    window = sb.TimeWindow("1 hour", slide="1 minute")
    for name in ("fsw", "fsw-r", "fsw-f", "ss", "fss"):
        progress(f"{groups:,} groups, {name}")
        n = rows if name.startswith("fsw") else rows // 20
        table = hour_of_items(n)
        codes = np.random.default_rng(4).integers(0, groups, n)
        table = table.append_column("g", pa.array(codes))
        query = _query(name, k=5, by=("g",), window=window)
        work = {"skyband": lambda q=query, t=table: rank(t, q)}
        settings = {"group": "Sketches with groups", "case": f"{name}, {groups:,} groups, 60 panes"}
        row = compared(settings, {"skyband": n}, work, repeat=2)
        state = most_state(query, table.slice(0, rows // 20)) / groups
        found.append(row | {"target M rows/s": 3, "kB per group": state / 1e3})
    return found


def panes(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """The cost per row must not grow with the number of panes per window."""
    found: list[dict[str, Any]] = []
    table = hour_of_items(rows)
    for slide, count in (("100 s", 6), ("10 s", 60), ("1 s", 600)):
        progress(f"{count} panes per window")
        window = sb.TimeWindow("10 minutes", slide=slide)
        query = _query("fsw", capacity=2_000, window=window)
        work = {"skyband": lambda q=query: rank(table, q)}
        settings = {"group": "Panes", "case": f"fsw, {count} panes"}
        row = compared(settings, {"skyband": rows}, work, repeat=3)
        row |= {"state MB": most_state(query, table.slice(0, 2_000_000)) / 1e6}
        if count == 600:
            rate = "skyband M rows/s"
            row |= {"of the speed at 60 panes": row[rate] / found[-1][rate], "target": 0.5}
        found.append(row)
    return found


def most_state(query: sb.Query, table: pa.Table) -> int:
    """The greatest ``state_bytes`` that a user sees, including the rows of open panes."""
    monitor, found = sb.Monitor(query), 0
    for start in range(0, table.num_rows, 20_000):
        monitor.push(table.slice(start, 20_000))
        found = max(found, int(monitor.stats()["state_bytes"]))
    return found


def distinct(rows: int, progress: Progress) -> list[dict[str, Any]]:
    """The cost per row must not grow with the number of distinct items."""
    found: list[dict[str, Any]] = []
    for many in (10_000, 100_000, 1_000_000, 10_000_000):
        progress(f"{many:,} distinct items")
        table = hour_of_items(rows, distinct=10)
        table = table.set_column(1, "item", pa.array(zipf(rows, many, 1.0)))
        query = _query("fsw", capacity=2_000)
        work = {"skyband": lambda q=query, t=table: rank(t, q)}
        settings = {"group": "Distinct items", "case": f"fsw, {many:,} items, Zipf 1.0"}
        row = compared(settings, {"skyband": rows}, work, repeat=3)
        if found:
            rate = "skyband M rows/s"
            row |= {"time, × that of 10,000 items": found[0][rate] / row[rate], "target": 1.5}
        found.append(row)
    return found
