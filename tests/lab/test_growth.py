"""How cost grows: slopes, tables, and the page that a command writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import skyband as sb
from lab import growth
from lab.growth import Cost, Sweep, cost_of, slope, stream, table

SWEEP = Sweep("k", "Greater k.", (1, 10, 100), {"a": growth.of_k(growth.top)})


def test_slopes_are_those_of_the_last_two_values() -> None:
    costs = {1: Cost(5.0, 10, 8), 10: Cost(1.0, 10, 8), 100: Cost(100.0, 10, 80)}
    assert slope(costs, lambda cost: cost.seconds) == pytest.approx(2.0)
    assert slope(costs, lambda cost: cost.state) == pytest.approx(1.0)
    assert slope({1: Cost(1.0, 1, 1)}, lambda cost: cost.seconds) is None
    assert slope({1: Cost(1.0, 1, 0), 2: Cost(1.0, 1, 0)}, lambda cost: cost.state) is None


def test_what_grows_faster_than_linearly_is_bold() -> None:
    many = {1: Cost(1e-6, 1, 10**6), 10: Cost(20e-6, 1, 2 * 10**6)}
    text = table(SWEEP, {"a": many, "b": {1: Cost(2e-6, 2, 0), 10: Cost(4e-6, 2, 0)}})
    assert text.splitlines() == [
        "| k | a | b |",
        "|---:|---:|---:|",
        "| 1 | 1 µs, 1 MB | 1 µs, 0 MB |",
        "| 10 | 20 µs, 2 MB | 2 µs, 0 MB |",
        "| 100 |  |  |",
        "| slope | **1.30** | 0.30 |",
    ]


def test_a_cost_is_of_all_rows() -> None:
    window = sb.TimeWindow(60)
    found = cost_of(stream(1_000), growth.top(window))
    assert found.seconds > 0
    assert found.rows == 1_000
    assert found.state > 0
    sides, query = growth.joined(3, 1_000)
    assert cost_of(sides, query).rows == 1_000
    assert isinstance(query, sb.SkylineJoin)
    assert sorted(query.prefer) == ["left0", "left1", "right0"]
    assert len(np.unique(growth.items(10_000, 10))) == 9


@pytest.mark.tools
def test_the_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(growth, "hurry", lambda: None)
    monkeypatch.setitem(growth.SWEEPS, "k", SWEEP)
    growth.page(["k"], 0.002, tmp_path)
    growth.page(["k"], 0.002, tmp_path)
    text = (tmp_path / "growth.md").read_text(encoding="utf-8")
    assert text.startswith("# How cost grows")
    assert text.count("## k") == 1
    assert "| slope |" in text
    assert (tmp_path / "growth_k.png").stat().st_size > 1_000


def test_every_sweep_has_cases_for_its_values() -> None:
    for sweep in growth.SWEEPS.values():
        assert sweep.least.keys() <= sweep.cases.keys()
        assert list(sweep.values) == sorted(set(sweep.values))
