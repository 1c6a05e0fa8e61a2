"""The units of an answer's columns: said by the user, or seen in the names."""

from __future__ import annotations

from typing import Any

import pytest

import skyband as sb
from skyband.answers.units import unit_of, units_of

WINDOW = sb.TimeWindow(10)


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("bytes", "bytes"), ("bytes_read", "bytes"), ("srcBytes", "bytes"), ("ms", "ms"),
        ("op_time_s", "s"), ("s", None), ("price_usd", "USD"), ("kbytes", None), ("volume", None),
    ],
)  # fmt: skip
def test_units_that_names_say(name: str, unit: str | None) -> None:
    assert unit_of(name) == unit


@pytest.mark.parametrize(
    ("query", "given", "units"),
    [
        (sb.TopK(k=1, score="bytes", id="id", time="ts", window=WINDOW), None, {"bytes": "bytes"}),
        (sb.TopK(k=1, score="n", id="id", time="ts", window=WINDOW), "EUR", {"n": "EUR"}),
        (sb.HeavyHitters(k=1, item="id", time="ts", window=WINDOW), None, {}),
        (
            sb.HeavyHitters(k=1, item="id", time="ts", window=WINDOW),
            "hits",
            {"count": "hits", "error": "hits"},
        ),
        (
            sb.HeavyHitters(
                k=1, item="id", weight="bytes", aggregate="mean", time="ts", window=WINDOW
            ),
            None,
            {"value": "bytes", "error": "bytes"},
        ),
    ],
)
def test_units_of_a_query(query: Any, given: str | None, units: dict[str, str]) -> None:
    score = getattr(query, "score", None)
    names = ["id", *query.extra_columns, *([score] if score else [])]
    assert units_of(query, names, given) == units
