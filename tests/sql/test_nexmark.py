"""Queries of the Nexmark suite, in SQL and for Python, beside recorded answers.

The bids are those of RisingWave's end-to-end tests, and so are the answers to queries 5, 7, 18 and
19 (``e2e_test/nexmark`` and ``e2e_test/streaming/nexmark``), which it recorded over its own views.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb

pytest.importorskip("lab.datasets.nexmark")

from lab.datasets.nexmark import QUERIES, STATEMENTS

BIDS = """
1000 1001 73134520 1000
1000 1001 499920 1001
1000 1001 1940 2001
1000 1007 12655 2001
1004 1001 3992 3001
1012 1003 19269 3001
1000 1001 2419091 4001
1000 1001 43672280 4001
1008 1002 28953332 4001
1000 1010 235 4001
1001 1004 96533552 5001
1007 1001 242 5002
1000 1001 373 5002
1012 1001 71083760 6002
1000 1003 647009 6002
1009 1001 209960 6002
1000 1001 522439 7002
1003 1001 89027544 7002
1001 1008 34546 8002
1000 1002 322 8002
1006 1001 333841 9002
1000 1004 2349 9003
1003 1001 42953 9003
1011 1001 5255 10003
1000 1001 14909 10003
1000 1001 13982877 11003
1000 1003 9353 11003
1001 1001 84935 11003
1000 1006 1433650 12003
1000 1001 28676694 13003
1011 1009 12201 13003
1000 1001 1930913 14004
1004 1001 2062 14004
1000 1001 567581 15004
1000 1001 3999 15004
1010 1001 213 15004
1006 1001 3414043 16004
1006 1001 21659600 16004
1009 1001 806 17004
1012 1001 170060 18004
1001 1001 222 19004
1010 1002 2092 19005
1012 1001 3378476 20005
1012 1001 3633428 20005
1004 1000 783536 21005
1002 1001 190 21005
1000 1001 10465998 22005
1000 1001 506 23006
1000 1004 92441 24006
1000 1001 366 25006
"""
"""Auction, bidder, price and milliseconds since the first second of 2015-07-15."""
START = 1_436_918_400_000
HOT = {1000: [2, 2, 4, 4, 4, 4, 4, 5, 5, 8, 8, 10, 10, 12, 12, 13, 13]}
"""Query 5: the auctions with the most bids of each window, and their bids."""
HIGHEST = {
    (1000, 10465998, 1001, 22005),
    (1000, 28676694, 1001, 13003),
    (1001, 96533552, 1004, 5001),
}
"""Query 7: auction, price, bidder and time."""
LAST = """
1000 1001 25006 1000 1002 8002 1000 1003 11003 1000 1004 24006 1000 1006 12003 1000 1007 2001
1000 1010 4001 1001 1001 19004 1001 1004 5001 1001 1008 8002 1002 1001 21005 1003 1001 9003
1004 1000 21005 1004 1001 14004 1006 1001 16004 1007 1001 5002 1008 1002 4001 1009 1001 17004
1010 1001 15004 1010 1002 19005 1011 1001 10003 1011 1009 13003 1012 1001 20005 1012 1003 3001
"""
"""Query 18: auction, bidder and time of the last bid; of two at the same time it may be either."""
BEST = {
    1000: [
        *(73134520, 43672280, 28676694, 13982877, 10465998),
        *(2419091, 1930913, 1433650, 647009, 567581),
    ],
    1001: [96533552, 84935, 34546, 222],
    1002: [190],
    1003: [89027544, 42953],
    1004: [783536, 3992, 2062],
    1006: [21659600, 3414043, 333841],
    1007: [242],
    1008: [28953332],
    1009: [209960, 806],
    1010: [2092, 213],
    1011: [12201, 5255],
    1012: [71083760, 3633428, 3378476, 170060, 19269],
}
"""Query 19: the ten highest prices of each auction, in the order of their ranks."""


def bids() -> pa.Table:
    rows = [tuple(map(int, line.split())) for line in BIDS.split("\n")[1:-1]]
    auction, bidder, price, ms = zip(*rows, strict=True)
    table = pa.table({"auction": auction, "bidder": bidder, "price": price})
    for name in ("channel", "url", "extra"):
        table = table.append_column(name, pa.array([f"{name} of {row}" for row in rows]))
    return table.append_column("date_time", pa.array([START + each for each in ms], pa.int64()))


def answer(name: str, how: str, table: pa.Table) -> pa.Table:
    if how == "SQL":
        return sb.sql(STATEMENTS[name], bid=table)
    found = sb.rank(table, QUERIES[name])
    names = {"rank": "rank_number", "count": "num"}
    return found.rename_columns([names.get(each, each) for each in found.column_names])


@pytest.mark.parametrize("how", ["SQL", "query"])
def test_query_5(how: str) -> None:
    # RisingWave answers windows that have not ended; a bid of a later auction ends them here.
    row = {name: "" if pa.types.is_string(bids()[name].type) else 1 for name in bids().column_names}
    late = pa.Table.from_pylist([row | {"date_time": START + 60_000}])
    found = answer("q5", how, pa.concat_tables([bids(), late])).to_pylist()
    counts = defaultdict(list)
    for row in found:
        if row["auction"] != 1:
            counts[row["auction"]].append(row["num"])
    assert {auction: sorted(each) for auction, each in counts.items()} == HOT


@pytest.mark.parametrize("how", ["SQL", "query"])
def test_query_5_shows_all_that_tie(how: str) -> None:
    table = bids().filter(pc.not_equal(bids()["auction"], 1000))
    found = answer("q5", how, table)
    for end in found["window_end"].unique().to_pylist():
        times = table["date_time"].to_pylist()
        pairs = zip(table["auction"].to_pylist(), times, strict=True)
        counts = Counter(auction for auction, time in pairs if end - 10_000 <= time < end)
        most = {auction for auction, n in counts.items() if n == max(counts.values())}
        shown = found.filter(pc.equal(found["window_end"], end))["auction"].to_pylist()
        assert (set(shown), len(shown)) == (most, len(most))
    assert len(found) > len(found["window_end"].unique()) + 5


@pytest.mark.parametrize("how", ["SQL", "query"])
def test_query_7(how: str) -> None:
    found = answer("q7", how, bids()).select(["auction", "price", "bidder", "date_time"])
    rows = {tuple(row.values()) for row in found.to_pylist()}
    assert {(*row[:3], row[3] - START) for row in rows} == HIGHEST


@pytest.mark.parametrize("how", ["SQL", "query"])
def test_query_18(how: str) -> None:
    found = answer("q18", how, bids())
    plain = map(int, LAST.split())
    want = {(auction, bidder): time for auction, bidder, time in zip(*[plain] * 3, strict=True)}
    rows = found.to_pylist()
    assert len(rows) == len(want)
    assert {(row["auction"], row["bidder"]): row["date_time"] - START for row in rows} == want
    whole = {tuple(row.values()) for row in bids().to_pylist()}
    names = bids().column_names
    assert all(tuple(row[name] for name in names) in whole for row in rows)


@pytest.mark.parametrize("how", ["SQL", "query"])
def test_query_19(how: str) -> None:
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for row in answer("q19", how, bids()).to_pylist():
        found[row["auction"]][row["rank_number"]] = row["price"]
    want = {auction: dict(enumerate(prices, 1)) for auction, prices in BEST.items()}
    assert found == want


def test_statements_are_the_queries() -> None:
    for name in ("q5", "q5, every 0.1 s", "q7"):
        made: Any = sb.sql.query(STATEMENTS[name])
        want: Any = QUERIES[name]
        assert made.window.panes == want.window.panes
        alike = {"window": None, "keep": ()}
        assert made.spec() | alike == want.spec() | alike
