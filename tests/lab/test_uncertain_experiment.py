"""The reproduction of the uncertain-streams paper: it runs, and its shortcuts change nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from lab.bench.modules import load
from lab.datasets.uncertain import random_order
from lab.experiments import uncertain
from lab.experiments.seeds import Sample
from lab.experiments.uncertain_claims import Found, Pair, judged, proof_bounds
from lab.experiments.uncertain_paper import CLAIMS
from lab.experiments.uncertain_radar import rank_chances
from lab.experiments.uncertain_runs import (
    OURS,
    PRINTED,
    Point,
    Stream,
    measure,
    needed,
    semantics_of,
    set_size,
)
from support.uncertain_cases import KINDS, RADAR, of, query

pytest.importorskip("matplotlib")


def test_it_runs_at_a_tiny_scale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKYBAND_DATA", raising=False)
    small = {"WINDOWS": (200, 600), "KS": (2, 4), "K": 4, "KINDS": ("pk-topk", "u-topk")}
    small |= {"FIGURE_3_ROWS": 20_000, "WORST_WINDOW": 100, "CHECKED": 60}
    for name, value in small.items():
        monkeypatch.setattr(uncertain, name, value)
    said: list[str] = []
    uncertain.reproduce(0.0001, tmp_path, said.append)
    report = (tmp_path / "uncertain.md").read_text()
    parts = ("Figure 3", "Figures 4 and 5", "Table 2", "Lemmas 4.2", "worst order", "## Verdicts")
    for part in (*parts, "u-topk, synthetic"):
        assert part in report
    for claim in CLAIMS:
        assert f"| {claim.says} | {claim.where} |" in report
    for line in report.splitlines():
        if line.startswith("!["):
            assert (tmp_path / line.partition("](")[2].rstrip(")")).exists()
    assert (tmp_path / "uncertain-radar.png").exists()
    kept = {v["key"]: v for v in json.loads((tmp_path / "verdicts" / "uncertain.json").read_text())}
    for key in ("radar", "sufficient", "worst-case", "linear"):
        assert kept[key]["verdict"] == "holds"
    assert kept["real"]["verdict"] == "not measured"
    assert said[1].startswith("1 of 36:")
    assert said[-1].startswith("36 of 36:")


@pytest.mark.parametrize("kind", KINDS)
def test_queues_filled_with_what_is_needed_are_as_if_filled_with_all(kind: str) -> None:
    size, k = 500, 4
    table = Stream(random_order(size)).table
    rows = needed(of(kind, k).rule, table["score"].to_numpy(), table["p"].to_numpy())
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
    point = measure(Stream(random_order(2_000)), "pk-topk", "BS", 5, 1_000, 0.0001)
    assert point.retained == 1_000
    assert point.space == 6 * 1_000 + 4 * 5 * point.largest
    assert point.micros > 0
    assert point.rows == 975


def test_the_printed_buffer_is_emptied_every_kh_rows() -> None:
    stream = Stream(random_order(6_000))
    printed, ours = (measure(stream, "pk-topk", s, 5, 1_000, 0.0001) for s in (PRINTED, OURS))
    room = printed.k * printed.largest
    assert printed.rows == ours.rows == 4_975
    assert 4_975 / room / 2 < printed.emptied < 2 * 4_975 / room  # H changes by factors of two
    assert ours.emptied < printed.emptied / 2


def test_compact_sets_and_updates_are_those_of_csq() -> None:
    stream = Stream(random_order(700))
    point = measure(stream, "pk-topk", "CSQ", 3, 500, 10.0)
    score, p = (stream.table[name].to_numpy() for name in ("score", "p"))
    rule = semantics_of("pk-topk", 3)
    sets = set()
    for start in range(200, 700):
        order = start + np.argsort(-score[start:], kind="stable")
        end = set_size(rule, p[order])
        if end is not None:
            sets.add(tuple(order[:end]))
    assert point.sets == len(sets)
    assert point.largest == max(map(len, sets))
    allowed = proof_bounds(point)
    assert point.sets < allowed[0]
    assert 0 < point.updates < allowed[1]


def line(retained: int, micros: tuple[float, float], sets: int = 5) -> list[Point]:
    points = zip((10, 20), (1_000, 100_000), micros, strict=True)
    return [Point(k, size, retained, 2 * k, each, 100, sets, 3.0, 9) for k, size, each in points]


def found(**changed: list[Point]) -> Found:
    """Figures as the paper has them, in all that it claims."""
    good = {
        "BS": line(100_000, (2, 2.5)), "CSQ": line(9_000, (10, 80)), "CCSQ": line(200, (11, 88)),
        "SCSQ": line(250, (5, 20)), PRINTED: line(220, (1, 1)), OURS: line(230, (1, 1)),
    }  # fmt: skip
    by_k = good | changed
    by_size = {
        label: [Point(10, p.size, p.retained, 20, p.micros if label in changed else 1 / (1 + i),
                      100, p.sets, 3.0, 9) for i, p in enumerate(points)]
        for label, points in by_k.items()
    }  # fmt: skip
    rank = {"BS": 2.0, "CSQ": 70.0, "CCSQ": 80.0, "SCSQ": 15.0, PRINTED: 1.0, OURS: 1.0}
    by_size = {
        label: [replace(p, micros=p.micros * (1 if label in changed else rank[label]))
                for p in points]
        for label, points in by_size.items()
    }  # fmt: skip
    pairs = [
        Pair(stream, kind, by_k, by_size)
        for stream in ("synthetic", "icebergs")
        for kind in ("pk-topk", "u-topk")
    ]
    sizes = {"pk-topk, synthetic": [Sample.of(size) for size in (2, 20, 40)]}
    yes = {"one": True}
    return Found(pairs, sizes, (1, 10, 20), 100_000, yes, yes, {"BS": 1.0, "CSQ": 5.0})


def test_figures_like_the_papers_hold() -> None:
    verdicts = {v.key: v for v in judged(found()).all()}
    assert list(verdicts) == [claim.key for claim in CLAIMS]
    assert {key: v.verdict for key, v in verdicts.items() if v.verdict != "holds"} == {}


def test_figures_that_differ_show_as_failing() -> None:
    slow = found(**{PRINTED: line(50_000, (4, 99), sets=2_000), "SCSQ": line(250, (5, 60), 900)})
    verdicts = {v.key: v for v in judged(slow).all()}
    for key in ("fastest", "middle", "orders", "comparable", "segments", "smaller"):
        assert verdicts[key].verdict in ("does not hold", "holds in part"), key
        assert verdicts[key].why
    assert "every 11 rows" in verdicts["fastest"].why
    assert verdicts["larger-window"].verdict == "holds in part"
    wrong = replace(found(), equal={"CSQ": True, "SCSQ": False}, worst={"SCSQ": 0.5})
    verdicts = {v.key: v for v in judged(wrong).all()}
    assert verdicts["sufficient"].verdict == "holds in part"
    assert verdicts["worst-case"].verdict == "does not hold"


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
