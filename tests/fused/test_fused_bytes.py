"""State in bytes with the default settings: less with every algorithm, from small windows on."""

from __future__ import annotations

from typing import Any

import pytest

import skyband as sb
from lab.datasets.fused import correlated_reports
from lab.experiments.fused_runs import state_bytes

SMALL = 200
"""In such windows EAA has not swept yet when it has to keep the whole window."""


@pytest.mark.parametrize("window", [100, SMALL, 400, 1_000])
def test_each_algorithm_takes_less_than_the_one_before(window: int) -> None:
    reports = correlated_reports(2 * window + 200, recent=max(10, window // 10), seed=3)
    found = state_bytes(reports, window)
    total = {name: each.total.mean for name, each in found.items()}
    assert total["eaa"] < total["sla"]
    most = 1.15 if window <= SMALL else 0.8
    assert total["eaa-approx"] <= most * total["eaa"]
    assert found["eaa-approx"].sketch.mean <= 0.2 * total["eaa-approx"]


def test_small_windows_have_smaller_sketches() -> None:
    names: dict[str, Any] = {"id": "object", "stream": "stream", "value": "value"}
    names["streams"] = ("s0", "s1")
    found = []
    for window in (100, 200, 10_000):
        for options in ({}, {"bitmaps": 64}):
            query = sb.FusedTopK(
                k=10, **names, window=sb.CountWindow(window), algorithm="eaa-approx",
                options=options,
            )  # fmt: skip
            monitor = sb.Monitor(query)
            monitor.push(correlated_reports(window, seed=3))
            synopsis: Any = monitor.session.synopsis
            found.append(synopsis.sketch.stamps.shape[1])
    assert found == [16, 64, 32, 64, 64, 64]
