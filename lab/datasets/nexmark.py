"""The bids of an online auction, as the Nexmark suite describes them, generated from a seed.

Of every 50 events one is a new person, three are new auctions and 46 are bids. Half of the bids go
to a hot auction, the newest whose number is a multiple of 100; the others go to one of the last 100
auctions. Prices are spread evenly over six orders of magnitude.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

__all__ = ["bids"]

_PER_ROUND = 50
_BEFORE_BIDS = 4
_AUCTIONS = 3
_BIDS = 46
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
