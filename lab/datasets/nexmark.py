"""The Nexmark suite: its bids, generated from a seed, and those of its queries that rank.

Of every 50 events one is a new person, three are new auctions and 46 are bids. Half of the bids go
to a hot auction, the newest whose number is a multiple of 100; the others go to one of the last 100
auctions. Prices are spread evenly over six orders of magnitude.

``STATEMENTS`` are the queries in SQL, and ``QUERIES`` the same for Python, both over the columns of
``records``. Queries 18 and 19 rank everything so far, which ``QUERIES`` does over a landmark.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb

__all__ = ["EVENTS_PER_BID", "QUERIES", "STATEMENTS", "bids", "records"]

_PER_ROUND = 50
_BEFORE_BIDS = 4
_AUCTIONS = 3
_BIDS = 46
EVENTS_PER_BID = _PER_ROUND / _BIDS
_IN_FLIGHT = 100
_FIRST = 1_000
_START = 1_700_000_000_000_000
MOMENT = pa.timestamp("us", tz="UTC")


def bids(rows: int, events_per_second: int = 10_000, seed: int = 1) -> pa.Table:
    """The first bids of a stream, in time order.

    >>> table = bids(1_000)
    >>> table.column_names, table.num_rows
    (['ts', 'auction', 'bidder', 'price'], 1000)
    """
    rng = np.random.default_rng(seed)
    order = np.arange(rows, dtype=np.int64)
    round_, place = order // _BIDS, order % _BIDS
    event = round_ * _PER_ROUND + _BEFORE_BIDS + place
    newest = (round_ + 1) * _AUCTIONS - 1
    hot = newest // _IN_FLIGHT * _IN_FLIGHT
    other = newest - rng.integers(0, _IN_FLIGHT, rows)
    auction = np.where(rng.random(rows) < 0.5, hot, np.maximum(other, 0)) + _FIRST
    price = np.round(10 ** (6 * rng.random(rows)) * 100).astype(np.int64)
    ts = _START + event * 1_000_000 // events_per_second
    return pa.table(
        {
            "ts": pa.array(ts).view(MOMENT),
            "auction": auction,
            "bidder": rng.integers(0, round_ + 1) + _FIRST,
            "price": price,
        }
    )


def records(rows: int, seed: int = 1) -> pa.Table:
    """Bids with all columns of the suite; times are milliseconds.

    >>> records(3).column_names
    ['auction', 'bidder', 'price', 'channel', 'url', 'date_time', 'extra']
    """
    rng = np.random.default_rng(seed)
    table = bids(rows, seed=seed)
    letters = rng.integers(97, 123, (1_000, 80), np.uint8)
    texts = [bytes(line).decode() for line in letters]
    channel, extra = rng.integers(0, 1_000, rows), rng.integers(0, 1_000, rows)
    urls = [f"https://www.nexmark.com/{text[:12]}/item.htm?query=1" for text in texts]
    return pa.table(
        {
            **{name: table[name] for name in ("auction", "bidder", "price")},
            "channel": pa.array([f"channel-{n}" for n in range(1_000)]).take(pa.array(channel)),
            "url": pa.array(urls).take(pa.array(channel)),
            "date_time": table["ts"].cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64()),
            "extra": pa.array(texts).take(pa.array(extra)),
        }
    )


_HOT = """
    SELECT window_end, auction, COUNT(*) AS num
    FROM HOP(TABLE bid, DESCRIPTOR(date_time), {}, 10000)
    GROUP BY window_start, window_end, auction
    QUALIFY RANK() OVER (PARTITION BY window_start, window_end ORDER BY COUNT(*) DESC) <= 1"""
STATEMENTS = {
    "q5": _HOT.format(2_000),
    "q5, every 0.1 s": _HOT.format(100),
    "q7": """
    SELECT auction, price, bidder, date_time FROM TUMBLE(TABLE bid, DESCRIPTOR(date_time), 10000)
    QUALIFY RANK() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) <= 1""",
    "q18": """
    SELECT auction, bidder, price, channel, url, date_time, extra FROM bid
    QUALIFY ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) <= 1""",
    "q19": """
    SELECT * FROM (
      SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS rank_number FROM bid
    ) WHERE rank_number <= 10""",
}
"""Hot items, also with more windows; the highest bids; the last bids; the ten best of auctions."""
_HOUR = 3_600_000
_HITTERS: dict[str, Any] = {"k": 1, "item": "auction", "time": "date_time", "ties": "all"}
_SHOWN = ("channel", "url", "extra")
QUERIES: dict[str, sb.Query] = {
    "q5": sb.HeavyHitters(**_HITTERS, window=sb.TimeWindow(10_000, slide=2_000)),
    "q5, every 0.1 s": sb.HeavyHitters(**_HITTERS, window=sb.TimeWindow(10_000, slide=100)),
    "q7": sb.TopK(
        k=1,
        score="price",
        time="date_time",
        keep=("auction", "bidder"),
        ties="all",
        window=sb.TimeWindow(10_000),
    ),
    "q18": sb.TopK(
        k=1,
        score="date_time",
        time="date_time",
        by=("bidder", "auction"),
        keep=("price", *_SHOWN),
        window=sb.LandmarkWindow(slide=_HOUR),
    ),
    "q19": sb.TopK(
        k=10,
        score="price",
        time="date_time",
        by=("auction",),
        keep=("bidder", *_SHOWN),
        window=sb.LandmarkWindow(slide=_HOUR),
    ),
}
