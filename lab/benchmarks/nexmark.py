"""Queries 5 (hot items) and 7 (highest bid) of the Nexmark suite, beside DuckDB.

Query 5 asks for the auctions with the most bids in the last 10 seconds, every 2 seconds; query 7
for the highest bid of every 10 seconds. Bids come at the suite's rate of 10,000 events per second
of event time. DuckDB counts panes of 2 seconds and adds up five of them per window (query 5), or
takes the greatest bid per window (query 7), on two threads; ours uses as many. The table is in
memory, and the answers are compared before anything is timed.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

import skyband as sb
from lab.bench import Progress, compared
from lab.datasets.nexmark import bids

ROWS = 10_000_000
THREADS = 2
HOT = sb.HeavyHitters(
    k=1, item="auction", time="ts", window=sb.TimeWindow("10 s", slide="2 s"), ties="share"
)
HIGHEST = sb.TopK(
    k=1, score="price", id="auction", time="ts", keep=("bidder",), window=sb.TimeWindow("10 s")
)
HOT_SQL = """
    with panes as (
        select epoch_us(ts) // 2000000 as pane, auction, count(*) as n from rows_in group by all
    ), windows as (
        select pane + step as last, auction, sum(n) as n
        from panes, unnest(range(5)) as steps(step)
        where pane + step <= (select max(pane) from panes) group by all
    )
    select last, max(n) as n from windows group by all order by last"""
HIGHEST_SQL = """
    select epoch_us(ts) // 10000000 as last, max(price) as n, arg_max(auction, price) as auction
    from rows_in group by all order by last"""


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(20_000, int(ROWS * scale))
    table = bids(rows)
    connection = duckdb.connect(config={"threads": THREADS})
    connection.register("rows_in", table)
    found = []
    for case, query, text, shown in (
        ("query 5, hot items", HOT, HOT_SQL, "count"),
        ("query 7, highest bid", HIGHEST, HIGHEST_SQL, "price"),
    ):
        progress(case)
        _check(table, query, connection, text, shown)
        work = {
            "skyband": lambda query=query: sb.rank(table, query, threads=THREADS),
            "duckdb": lambda text=text: connection.sql(text).to_arrow_table(),
        }
        found.append(compared({"case": case}, dict.fromkeys(work, rows), work))
    return found


def _check(
    table: pa.Table, query: sb.Query, connection: duckdb.DuckDBPyConnection, text: str, shown: str
) -> None:
    """Raise AssertionError unless both give the same greatest value of each window."""
    ours = sb.rank(table, query)
    theirs = connection.sql(text).to_arrow_table()["n"].to_pylist()
    if ours[shown].to_pylist() != [int(value) for value in theirs]:
        raise AssertionError(f"{query.kind} and DuckDB disagree")
