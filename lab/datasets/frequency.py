"""Streams of items for HeavyHitters: skewed, drifting, and calls with many one-time items."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints

__all__ = ["calls", "drifting", "hour_of_items", "zipf"]

MOMENT = pa.timestamp("us", tz="UTC")


def zipf(rows: int, distinct: int = 1_000_000, exponent: float = 1.2, seed: int = 1) -> Ints:
    """Items whose frequency falls with a power of their rank; ranks are assigned at random.

    >>> items = zipf(10_000, distinct=100)
    >>> int(np.bincount(items).max()) > 1_500
    True
    """
    rng = np.random.default_rng(seed)
    share = np.cumsum(1.0 / np.arange(1, distinct + 1) ** exponent)
    ranks = np.searchsorted(share, rng.random(rows) * share[-1])
    return np.asarray(rng.permutation(distinct)[ranks], np.int64)


def drifting(rows: int, distinct: int = 10_000, turnover: int = 100_000, seed: int = 2) -> Ints:
    """Zipf items whose ranks shift by one place every ``turnover / distinct`` rows.

    >>> len(np.unique(drifting(1_000, distinct=50, turnover=500))) > 50
    True
    """
    moved = np.arange(rows) * distinct // turnover
    return np.asarray(zipf(rows, distinct, 1.1, seed) + moved, np.int64)


def calls(rows: int, days: int = 35, seed: int = 3) -> pa.Table:
    """Calls with a daily and weekly pattern: a third of the destinations is called only once.

    >>> calls(1_000, days=2).column_names
    ['ts', 'destination']
    """
    rng = np.random.default_rng(seed)
    hours = np.arange(24 * days)
    wave = 1.1 + np.sin((hours % 24 - 9) * np.pi / 12)
    wave *= np.where(hours // 24 % 7 < 5, 1.0, 0.4)
    hour = np.sort(rng.choice(24 * days, rows, p=wave / wave.sum()))
    ts = np.sort(hour * 3_600_000_000 + rng.integers(0, 3_600_000_000, rows))
    known = zipf(rows, max(10, rows // 12), 0.9, seed + 1)
    once = rng.random(rows) < 0.06
    destination = np.where(once, 10**9 + np.arange(rows), known)
    return pa.table({"ts": pa.array(ts).view(MOMENT), "destination": destination})


def hour_of_items(rows: int, distinct: int = 1_000_000, seed: int = 1) -> pa.Table:
    """One hour of Zipf items in time order.

    >>> hour_of_items(100, distinct=10).column_names
    ['ts', 'item']
    """
    rng = np.random.default_rng(seed + 100)
    ts = np.sort(rng.integers(0, 3_600_000_000, rows))
    return pa.table({"ts": pa.array(ts).view(MOMENT), "item": zipf(rows, distinct, seed=seed)})
