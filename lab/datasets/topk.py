"""Streams of the PABF paper (section 7): scores in arrival order.

    TIME^U         scores unrelated to arrival
    TIME^R         sin(pi t / 2N): one period in four windows
    SKEW-I a-d     most scores crowded into the best 80, 60, 40, 20 % of the range, at random times
    SKEW-II a-d    a later row scores less than an earlier one with probability 0.1, 0.4, 0.7, 0.9
    STOCK          trades: price times volume, real trades or similar log-normal ones

The paper says no more than this; if it leaves a choice open, the function says what we chose.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from lab.datasets.real import real

__all__ = ["skew_i", "skew_ii", "stock", "stock_like", "time_r", "time_u"]

Scores = npt.NDArray[np.float64]
_CROWDED = {"a": 0.8, "b": 0.6, "c": 0.4, "d": 0.2}
_FALLING = {"a": 0.1, "b": 0.4, "c": 0.7, "d": 0.9}


def time_u(rows: int, seed: int = 0) -> Scores:
    """Uniform scores in [0, 1)."""
    return np.random.default_rng(seed).random(rows)


def time_r(rows: int, window: int) -> Scores:
    """A sine over the arrival number, one period in four windows; nothing is random."""
    scores: Scores = np.sin(np.arange(rows) * (np.pi / (2 * window)))
    return scores


def skew_i(letter: str, rows: int, seed: int = 0) -> Scores:
    """Scores in [0, 1), of which 95 % lie in the best 80, 60, 40 or 20 % of the range.

    The paper does not say where scores are crowded. Around the middle, the best k would come from
    the thin rest, and skew would change nothing; among the best scores it matters most.

    >>> values = skew_i("d", 10_000)
    >>> bool(0.94 < np.mean(values >= 0.8) < 0.98)
    True
    """
    rng = np.random.default_rng(seed)
    share = _CROWDED[letter]
    scores = rng.random(rows)
    inside = rng.random(rows) < 0.95
    scores[inside] = 1 - share * (1 - scores[inside])
    return scores


def skew_ii(letter: str, rows: int, window: int, seed: int = 0) -> Scores:
    """Normal scores around a line whose slope the letter determines.

    Of two rows half a window apart, the later one scores less with the letter's probability. The
    line restarts every ten windows, so that scores stay within a range.

    >>> values = skew_ii("d", 200_000, 10_000)
    >>> bool(0.88 < np.mean(values[5_000:50_000] < values[:45_000]) < 0.92)
    True
    """
    rng = np.random.default_rng(seed)
    # The difference of two normal scores has deviation sqrt(2).
    drop = NormalDist().inv_cdf(_FALLING[letter]) * 2**0.5
    place = np.arange(rows) % (10 * window) / (window / 2)
    return rng.standard_normal(rows) - drop * place


def stock() -> Scores:
    """Price times volume of every real trade, in their order (needs SKYBAND_DATA)."""
    table = real("us_equity_trades", ["price", "volume"])
    scores: Scores = table["price"].to_numpy() * table["volume"].to_numpy()
    return scores


def stock_like(rows: int, seed: int = 0) -> Scores:
    """Trades like the real ones: prices follow a random walk, volumes are long-tailed hundreds."""
    rng = np.random.default_rng(seed)
    prices = 100 * np.exp(np.cumsum(rng.normal(0, 1e-4, rows)))
    volumes = 100 * np.ceil(rng.lognormal(0.5, 1.4, rows))
    scores: Scores = prices * volumes
    return scores
