"""Points for skylines, and pairs of streams to join: generated, and real if the data is there.

Börzsönyi et al.'s three distributions over the unit cube. Less is better in every dimension:

    correlated          independent         anti-correlated
    .         ..        . . .   .   .       ..
         ....             .  .  .  .          ....
      .....             .   .  . .   .           .....
    ...                  .  .   .  .                 ...     few, some, many on the skyline
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lab.datasets.real import real

__all__ = ["DISTRIBUTIONS", "air", "points", "rooms", "trades_and_risks", "two_streams"]

Points = npt.NDArray[np.float64]
DISTRIBUTIONS = ("correlated", "independent", "anti-correlated")


def points(distribution: str, rows: int, dimensions: int, rng: np.random.Generator) -> Points:
    """Points of the unit cube.

    A correlated point lies near the diagonal, normally distributed along it. An anti-correlated
    one lies near the plane across the middle of the diagonal, uniformly spread on it.

    >>> points("independent", 3, 2, np.random.default_rng(1)).shape
    (3, 2)
    """
    if distribution == "independent":
        return rng.random((rows, dimensions))
    if distribution not in DISTRIBUTIONS:
        raise ValueError(f"unknown distribution {distribution!r}; use one of {DISTRIBUTIONS}")
    found = np.empty((0, dimensions))
    while len(found) < rows:
        size = 2 * (rows - len(found)) + 16
        if distribution == "correlated":
            middle = rng.normal(0.5, 0.18, size)
            moved = rng.normal(0.0, 0.06, (size, dimensions))
        else:
            middle = rng.normal(0.5, 0.05, size)
            moved = rng.uniform(-0.5, 0.5, (size, dimensions))
        # Offsets that sum to zero keep a point on its plane across the diagonal.
        moved -= moved.mean(axis=1, keepdims=True)
        made = middle[:, None] + moved
        inside = ((made >= 0) & (made <= 1)).all(axis=1)
        found = np.concatenate([found, made[inside]])
    return found[:rows]


def two_streams(
    rows: int,
    *,
    distribution: str = "independent",
    dimensions: int = 2,
    join_rate: float = 0.02,
    seed: int = 1,
) -> dict[str, pa.Table]:
    """Streams ``left`` and ``right``: ``ts`` counts rows, ``key`` joins, then the dimensions.

    A row of one side and a row of the other join with probability ``join_rate``: keys are uniform
    over ``1 / join_rate`` values.

    >>> streams = two_streams(4, join_rate=0.5)
    >>> streams["left"].column_names, streams["right"].column_names
    (['ts', 'key', 'a0', 'a1'], ['ts', 'key', 'b0', 'b1'])
    """
    rng = np.random.default_rng(seed)
    keys = max(1, round(1 / join_rate))
    found = {}
    for side, letter in (("left", "a"), ("right", "b")):
        made = points(distribution, rows, dimensions, rng)
        columns: dict[str, npt.NDArray[Any]] = {"ts": np.arange(rows)}
        columns["key"] = rng.integers(0, keys, rows)
        columns |= {f"{letter}{i}": made[:, i] for i in range(dimensions)}
        found[side] = pa.table(columns)
    return found


def rooms() -> dict[str, pa.Table]:
    """An office building's sensors, split as in the paper into even and odd rooms.

    Even rooms report temperature and CO2, odd ones humidity and light; ``zone`` is a part of a
    floor, ``ts`` the minutes since the first reading.
    """
    table = real("berkeley_rooms_minute")
    table = table.filter(pc.is_valid(table["room"]))
    ts = table["ts"].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
    room = table["room"].to_numpy()
    minute, zone = (ts - ts.min()) // 60, room // 10
    found = {}
    for side, parity, names in (
        ("even", 0, ("temperature_c", "co2_ppm")),
        ("odd", 1, ("humidity_pct", "light")),
    ):
        columns = {"ts": minute, "zone": zone, "room": room} | {n: table[n] for n in names}
        mine = pa.table(columns).filter(pa.array(room % 2 == parity))
        good = pc.and_(pc.is_valid(mine[names[0]]), pc.is_valid(mine[names[1]]))
        found[side] = mine.filter(good)
    return found


def trades_and_risks(seed: int = 1) -> dict[str, pa.Table]:
    """Trades of four shares, and risk and cost figures for each share, one per second.

    The trades are real; the figures are synthetic, random walks between 0 and 1.
    """
    table = real("us_equity_trades", ("ts", "symbol", "price", "volume"))
    table = table.set_column(1, "symbol", table["symbol"].cast(pa.string()))
    ts = table["ts"].cast(pa.timestamp("us", tz="UTC"))
    trades = table.set_column(0, "ts", ts)
    rng = np.random.default_rng(seed)
    symbols = sorted(set(trades["symbol"].unique().to_pylist()))
    ticks = ts.cast(pa.int64()).to_numpy()
    seconds = np.unique(ticks // 1_000_000)
    walks = []
    for symbol in symbols:
        steps = rng.normal(0, 0.01, (2, len(seconds)))
        risk, cost = np.abs((rng.random((2, 1)) + steps.cumsum(axis=1) + 1) % 2 - 1)
        moments = pa.array(seconds * 1_000_000).cast(pa.timestamp("us", tz="UTC"))
        columns = {"ts": moments, "symbol": [symbol] * len(seconds), "risk": risk, "cost": cost}
        walks.append(pa.table(columns))
    return {"trades": trades, "risks": pa.concat_tables(walks).sort_by("ts")}


def air() -> pa.Table:
    """Pollutants at twelve stations of a city, one row per hour; hours with gaps are left out."""
    names = ("ts", "station", "pm25", "pm10", "so2", "no2", "co", "o3")
    return real("beijing_air_hourly", names).drop_null()
