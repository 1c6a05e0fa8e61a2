"""What approximate answers promise, checked against the exact answer over the same pushes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

import clusters
import skyband as sb
import streams

Rows = list[dict[str, Any]]


def check(kind: str, query: Any, got: pa.Table, pushes: Sequence[Any]) -> None:
    """Assert that every answer keeps its bounds; a new kind has to say here what it promises."""
    exact = replace(query, algorithm=EXACT[kind], options={}, **WIDER.get(kind, {}))
    want, _ = clusters.embedded(exact, pushes)
    truth = streams.rows_of(want) if want.num_rows else []
    CHECKS[kind](query, streams.rows_of(got), truth)


def _counts(query: sb.HeavyHitters, got: Rows, truth: Rows) -> None:
    names = ("window_end", *query.groups, str(query.item))
    counts = {tuple(row[name] for name in names): row["count"] for row in truth}
    assert {row["window_end"] for row in got} == {row["window_end"] for row in truth}
    for row in got:
        count = counts.get(tuple(row[name] for name in names), 0)
        assert row["count"] - row["error"] <= count <= row["count"], row


def _scores(query: sb.TopK, got: Rows, truth: Rows) -> None:
    names = ("window_end", *query.groups, "rank")
    scores = {tuple(row[name] for name in names): row[query.score] for row in truth}
    assert {tuple(row[name] for name in names) for row in got} == set(scores)
    for row in got:
        got_score, true = row[query.score], scores[tuple(row[name] for name in names)]
        assert got_score == true or abs(got_score - true) <= query.epsilon, row  # or both infinite


def _fused(query: sb.FusedTopK, got: Rows, truth: Rows) -> None:
    """No score is above the object's true one: what was dropped of it may be missing."""
    names = ("window_end", *query.groups, query.id)
    scores = {tuple(row[name] for name in names): row["score"] for row in truth}
    for row in got:
        true = scores[tuple(row[name] for name in names)]
        assert row["score"] <= true + 1e-9 * max(1.0, abs(true)), row


EXTRA: dict[str, dict[str, Any]] = {"pabf": {"epsilon": 0.5}}
"""Settings without which an algorithm is refused."""
EXACT = {"HeavyHitters": "exact", "TopK": "skyband", "FusedTopK": "sla"}
WIDER: dict[str, dict[str, Any]] = {
    "HeavyHitters": {"k": 10_000, "capacity": None, "cells": None, "ratio": None}
    | {"filter_bits": None},
    "TopK": {"epsilon": 0.0},
    "FusedTopK": {"k": 10_000},
}
CHECKS: dict[str, Callable[[Any, Rows, Rows], None]] = {
    "HeavyHitters": _counts,
    "TopK": _scores,
    "FusedTopK": _fused,
}
