"""What a query asks, in a line."""

from __future__ import annotations

import pytest

import skyband as sb
from skyband.query import Query
from skyband.serve.page import asks

DAY = sb.TimeWindow("1 day")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (sb.TopK(k=3, score="x * 2", time="t", window=DAY), "Top 3 by x * 2 · each day"),
        (
            sb.TopK(k=1, score="x", largest=False, by=("g",), time="t", window=DAY),
            "Lowest 1 by x, for each g · each day",
        ),
        (
            sb.HeavyHitters(
                k=2, item=("a", "b"), time="t", window=sb.TimeWindow("10 s", slide="1 s")
            ),
            "Top 2 a, b by number of rows · last 10 s, every 1 s",
        ),
        (
            sb.HeavyHitters(k=2, item="a", weight="w", aggregate="mean", time="t", window=DAY),
            "Top 2 a by mean of w · each day",
        ),
        (
            sb.HeavyHitters(k=2, item="a", against="previous", time="t", window=DAY),
            "Top 2 a by growth of number of rows · each day",
        ),
        (
            sb.HeavyHitters(
                k=2, item="a", time="t", window=sb.DecayWindow("6 hours", slide="1 hour")
            ),
            "Top 2 a by number of rows · half-life of 6 hours, every hour",
        ),
        (
            sb.UncertainTopK(k=4, score="x", probability="p", window=sb.CountWindow(5_000, 1_000)),
            "The 4 likeliest to be highest by x · last 5,000 rows, every 1,000 rows",
        ),
        (
            sb.Skyline(
                prefer={"x": "min", "y": "max"}, time="t", window=sb.LandmarkWindow(slide="1 day")
            ),
            "Skyline of low x, high y · everything so far, every day",
        ),
        (
            sb.SkylineJoin(
                left="l", right="r", on="id", prefer={"x": "min", "y": "max"}, time="t", window=DAY
            ),
            "Skyline of l and r: low x, high y · each day",
        ),
    ],
)
def test_words(query: Query, words: str) -> None:
    assert asks(query) == words
