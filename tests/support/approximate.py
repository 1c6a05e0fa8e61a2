"""Checks the guarantees of approximate answers against exact answers over the same pushes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import spark_session, streams

Rows = list[dict[str, Any]]


def check(kind: str, query: Any, got: pa.Table, pushes: Sequence[Any]) -> None:
    """Assert that every answer keeps the guarantees in its columns ``exact`` and ``bounds``.

    A new kind of query needs an entry in ``CHECKS``. An empty answer fails, as it checks nothing.
    """
    exact = replace(query, algorithm=EXACT[kind], options={}, **WIDER.get(kind, {}))
    want, _ = spark_session.embedded(exact, pushes)
    assert want.num_rows > 0
    found, truth = answers(query, streams.rows_of(got)), answers(query, streams.rows_of(want))
    assert found.keys() == truth.keys()
    for place, rows in found.items():
        (proven,) = {row["exact"] for row in rows}
        (bounds,) = {tuple(row["bounds"]) for row in rows}
        assert len(rows) == min(query.k, len(truth[place])), place
        CHECKS[kind](query, rows, truth[place], dict(bounds))
        if proven:
            names = (*NAMES[kind](query), "rank")
            for row, true in zip(rows, truth[place], strict=False):
                assert {n: row[n] for n in names} == pytest.approx({n: true[n] for n in names}), row


def answers(query: sb.Query, rows: Rows) -> dict[tuple[Any, ...], Rows]:
    """Rows by window and group, best first."""
    found: dict[tuple[Any, ...], Rows] = {}
    for row in sorted(rows, key=lambda row: row["rank"]):
        place = tuple(row[name] for name in ("window_end", *query.groups))
        found.setdefault(place, []).append(row)
    return found


def _counts(query: sb.HeavyHitters, got: Rows, truth: Rows, bounds: Mapping[str, float]) -> None:
    counts = {row[str(query.item)]: row["count"] for row in truth}
    assert {*bounds} == {"mu"}  # each row has its own error
    shown = {row[str(query.item)] for row in got}
    left_out = [count for item, count in counts.items() if item not in shown]
    assert max(left_out, default=0) <= bounds["mu"] * (1 + 1e-9)
    for row in got:
        count = counts.get(row[str(query.item)], 0)
        # Decayed counts are products, which are equal up to the last digits.
        slack = 1e-9 * row["count"] if isinstance(query.window, sb.DecayWindow) else 0
        assert row["count"] - row["error"] - slack <= count <= row["count"] + slack, row


def _scores(query: sb.TopK, got: Rows, truth: Rows, bounds: Mapping[str, float]) -> None:
    assert bounds == {"epsilon": query.epsilon, "delta": query.delta}
    for row, true in zip(got, truth[: query.k], strict=True):
        found, score = row[query.score], true[query.score]
        assert found == score or abs(found - score) <= bounds["epsilon"], row  # or both infinite


def _fused(query: sb.FusedTopK, got: Rows, truth: Rows, bounds: Mapping[str, float]) -> None:
    """No score is too high; no object that is left out or shown too low can exceed ``missed``."""
    missed = bounds["missed"]
    shown: dict[Any, float] = {row[query.id]: row["score"] for row in got}
    last = min(shown.values()) if len(shown) == query.k else -math.inf
    for row in truth:
        true, score = row["score"], shown.get(row[query.id], last)
        slack = 1e-9 * max(1.0, abs(true))
        assert true <= max(missed, score) + slack, row
        if row[query.id] in shown:
            assert score <= true + slack, row


EXTRA: dict[str, dict[str, Any]] = {"pabf": {"epsilon": 0.5}}
"""Settings that an algorithm requires."""
EXACT = {"HeavyHitters": "exact", "TopK": "skyband", "FusedTopK": "sla"}
WIDER: dict[str, dict[str, Any]] = {
    "HeavyHitters": {"k": 10_000, "capacity": None, "cells": None, "ratio": None}
    | {"filter_bits": None},
    "TopK": {"epsilon": 0.0},
    "FusedTopK": {"k": 10_000},
}
NAMES: dict[str, Callable[[Any], tuple[str, ...]]] = {
    "HeavyHitters": lambda query: (query.item, "count"),
    "TopK": lambda query: tuple(name for name in (query.id, query.score) if name),
    "FusedTopK": lambda query: (query.id, "score"),
}
"""Columns in which an answer proven exact must equal the definition's answer."""
CHECKS: dict[str, Callable[[Any, Rows, Rows, Mapping[str, float]], None]] = {
    "HeavyHitters": _counts,
    "TopK": _scores,
    "FusedTopK": _fused,
}
