"""The reproduction of the FSW paper: it runs, judges every claim, and all it says is computed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lab.datasets.frequency import zipf
from lab.experiments import fsw, fsw_runs
from lab.experiments.fsw_claims import Finding, judged
from lab.experiments.fsw_paper import CLAIMS
from skyband.frequency.many_groups import cells_for, fullest_cell

pytest.importorskip("matplotlib")

DAY = 86_400_000_000


def short(name: str, columns: list[str]) -> pa.Table:
    """A little data instead of the real sets."""
    rows = 60_000 if name.startswith("folha") else 6_000
    item = pa.array(zipf(rows, 3_000, 1.0, seed=len(name)), pa.int64())
    days = 9 if name.startswith("reuters") else 4
    ts = pa.array(np.arange(rows) * (days * DAY // rows)).view(pa.timestamp("us"))
    return pa.table({"ts": ts, columns[-1]: item}).select(columns)


def test_it_runs_and_judges_every_claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fsw_runs, "real", short)
    monkeypatch.setattr(fsw_runs, "K", 100)
    fsw.reproduce(1.0, tmp_path, lambda text: None)
    report = (tmp_path / "fsw.md").read_text()
    for claim in CLAIMS:
        assert f"| {claim.says} | {claim.where} |" in report
    kept = {v["key"]: v for v in json.loads((tmp_path / "verdicts" / "fsw.json").read_text())}
    assert kept["bounds"]["verdict"] == "holds"
    assert kept["fullest"]["verdict"] == "holds"
    for each in kept.values():
        assert each["why"] or each["verdict"] in ("holds", "undecided")
    assert "| Kilobytes |" in report
    assert "rows per day on average" in report
    assert report.count("exact |") == 7, "beside every table of the paper, and in the new order"


def test_what_a_verdict_says() -> None:
    checks = {"a": True, "b": False, "c": True}
    found = [Finding(claim.key, {"a": True}) for claim in CLAIMS[3:]]
    cases = [{}, {"a": False}, checks]
    found += [Finding(c.key, each, "a 3.5") for c, each in zip(CLAIMS, cases, strict=False)]
    told = {v.key: v for v in judged(found).all()}
    first, second, third = (told[claim.key] for claim in CLAIMS[:3])
    assert first.verdict == "not measured"
    assert second.verdict == "does not hold"
    assert (third.verdict, third.measured) == ("holds in part", "in 2 of 3; not in b")
    assert third.why == "True in 2 of 3 cases. a 3.5"
    assert told[CLAIMS[3].key].verdict == "holds"
    with pytest.raises(ValueError, match="without a verdict"):
        judged(found[1:]).all()


def test_blocks_change_places_and_nothing_is_lost() -> None:
    order = fsw_runs._blocks(10, 3, np.random.default_rng(1))
    assert sorted(order.tolist()) == list(range(10))
    times = pa.chunked_array([pa.array([0, 1, DAY, DAY + 5, DAY + 6, 9 * DAY])])
    order = fsw_runs._within_days(times, np.random.default_rng(2))
    assert sorted(order[:2].tolist()) == [0, 1]
    assert sorted(order[2:5].tolist()) == [2, 3, 4]
    assert order[5] == 5


class TestSizes:
    def test_the_paper_s_example(self) -> None:
        assert round(fullest_cell(100_000, 10_000), 2) == 24.28

    @pytest.mark.parametrize(
        ("distinct", "cells"), [(1, 1), (50, 10), (3_000, 100), (2_000, 5_000)]
    )
    def test_as_counted(self, distinct: int, cells: int) -> None:
        rng = np.random.default_rng(distinct)
        most = [np.bincount(rng.integers(0, cells, distinct)).max() for _ in range(400)]
        if distinct > 1:
            assert fullest_cell(distinct, cells) == pytest.approx(np.mean(most), rel=0.08)
        else:
            assert fullest_cell(1, 1) == pytest.approx(1)  # the mean of a Poisson distribution

    def test_the_least_number_of_cells(self) -> None:
        found = cells_for(100_000, k=100, capacity=2_000)
        assert fullest_cell(100_000, found) <= 20 < fullest_cell(100_000, found - 1)
        assert cells_for(10, k=1, capacity=1_000) == 2
        with pytest.raises(ValueError, match="at least twice k"):
            cells_for(100, k=10, capacity=19)
