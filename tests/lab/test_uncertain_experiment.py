"""The reproduction of the uncertain-streams paper: it runs, and its shortcuts change nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from lab.datasets.uncertain import random_order
from lab.experiments import uncertain
from lab.experiments.uncertain_radar import rank_chances
from lab.experiments.uncertain_runs import Point, Stream, measure, needed
from skyband.cli.lab import load
from support.uncertain_cases import KINDS, RADAR, of, query

pytest.importorskip("matplotlib")


def test_it_runs_at_a_tiny_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKYBAND_DATA", raising=False)
    monkeypatch.setattr(uncertain, "WINDOWS", (200, 600))
    monkeypatch.setattr(uncertain, "KS", (2, 4))
    monkeypatch.setattr(uncertain, "K", 4)
    monkeypatch.setattr(uncertain, "KINDS", ("pk-topk", "u-topk"))
    said: list[str] = []
    uncertain.reproduce(0.0001, tmp_path, said.append)
    report = (tmp_path / "uncertain.md").read_text()
    for part in ("Figure 3", "Figures 4 and 5", "Table 2", "## Verdicts", "u-topk, synthetic"):
        assert part in report
    assert report.count("holds.") + report.count("does not hold.") == 10  # the bounds of Table 2
    for line in report.splitlines():
        if "](" in line:
            assert (tmp_path / line.partition("](")[2].rstrip(")")).exists()
    assert (tmp_path / "uncertain-radar.png").exists()
    assert said[0].startswith("1 of 35:")
    assert said[-1].startswith("35 of 35:")


@pytest.mark.parametrize("kind", KINDS)
def test_queues_filled_with_what_is_needed_are_as_if_filled_with_all(kind: str) -> None:
    size, k = 500, 4
    table = Stream(random_order(size)).table
    rows = needed(of(kind, k), table["score"].to_numpy(), table["p"].to_numpy())
    assert len(rows) < size // 2
    names = {"score": "score", "id": "seq"}
    for algorithm in ("csq", "ccsq"):
        found = []
        for some in (table, table.take(pa.array(rows))):
            window = sb.TimeWindow(size, slide=1)
            monitor = sb.Monitor(query(kind, window, k=k, algorithm=algorithm, time="seq", **names))
            monitor.push(some)
            monitor._check()
            stats = monitor.stats()
            found.append([stats[name] for name in ("retained", "compact_sets")])
        assert found[0] == found[1]


def test_points_are_what_the_paper_counts() -> None:
    point = measure(Stream(random_order(2_000)), "pk-topk", "bs", 5, 1_000, 0.0001)
    assert point.retained == 1_000
    assert point.space == 6 * 1_000 + 4 * 5 * point.largest
    assert point.micros > 0


def test_verdicts_follow_from_the_figures() -> None:
    def line(retained: int, micros: float) -> list[Point]:
        return [Point(20, size, retained, 40, micros) for size in (1_000, 100_000)]

    good = {
        "BS": line(100_000, 2), "CSQ": line(9_000, 70), "CCSQ": line(200, 80),
        "SCSQ": line(250, 15), "SCSQ-Buffer": line(300, 1),
    }  # fmt: skip
    told = uncertain.judged(good, good)
    assert all(verdict.endswith(": holds") for verdict in told.values())
    bad = good | {"SCSQ-Buffer": [Point(20, 1_000, 300, 40, 1), Point(20, 100_000, 50_000, 40, 99)]}
    told = uncertain.judged(bad, bad)
    assert told["BS is slower than SCSQ-Buffer"] == "0.0 ×: does not hold"
    assert told["no more time per row in a larger window"] == "99.00 ×: does not hold"
    assert told["the others 2 to 3 orders smaller"].endswith(": does not hold")
    noise = uncertain.judged(good, good | {"SCSQ-Buffer": line(300, 1.9)})
    assert noise["BS is slower than SCSQ-Buffer"] == "1.1 ×: undecided"


def test_the_picture_shows_what_is_answered() -> None:
    table = sb.rank(RADAR, query("pk-topk", sb.CountWindow(4), k=2))
    shown = dict(zip((8, 6, 5, 2), (sum(ranks) for ranks in rank_chances()), strict=True))
    for speed, chance in zip(table["speed"].to_pylist(), table["topk_probability"].to_pylist()):  # noqa: B905
        assert shown[speed] == pytest.approx(chance)
    winners = sb.rank(RADAR, query("u-kranks", sb.CountWindow(4), k=2))
    best = np.array(rank_chances()).max(axis=0)
    assert winners["topk_probability"].to_pylist() == pytest.approx(best.tolist())


def test_the_benchmark_sets_what_was_asked_beside_what_was_measured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    benchmark = load("benchmarks", "run", "uncertain")
    monkeypatch.setattr(benchmark, "CASES", ((400, 100, 10, 0.0), (4_000, 100, 10, 1e9)))
    rows = benchmark.run(0.005, lambda text: None)
    rates = [row for row in rows if row["group"] == "Uncertain, pk-topk"]
    assert [row["retained"] > 0 for row in rates] == [True, True]
    asked = [row for row in rows if row["group"] == "Uncertain, what was asked"]
    by_rate = [row["met"] for row in asked if "M rows/s" in row["asked"]]
    assert by_rate == [True, False]
    assert len(asked) == 6
