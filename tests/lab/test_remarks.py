"""Remarks in the reports follow from what was measured: another run says something else."""

from __future__ import annotations

from importlib import import_module

import pytest

from lab.bench.command import said_minutes
from lab.experiments.fsw_remarks import order_explains
from lab.experiments.remarks import moved, saving, span
from lab.experiments.seeds import Sample
from lab.experiments.verdicts import PAPERS


def test_what_is_said_of_two_runs() -> None:
    assert order_explains(0.04, 0.03) == "the order explains 25 % of the gap"
    assert order_explains(0.04, -0.01) == "the order explains all of the gap"
    assert order_explains(0.04, 0.06) == "the order does not explain the gap"


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ({"a": 12.0, "b": 30.0}, "saves 12 to 30 %"),
        ({"a": 12.0, "b": 3.0}, "saves up to 12 % (a) and nothing in 1 of 2 cases"),
        ({"a": 2.0, "b": -3.0}, "changes nothing beyond the noise of 5 points (-3 to 2 %)"),
        ({"a": 12.0, "b": -9.0}, "saves up to 12 % (a), but costs up to 9 % (b)"),
        ({"a": -12.0, "b": 0.0}, "costs up to 12 % (a) and nothing in 1 of 2 cases"),
        ({"a": -12.0}, "costs 12 %"),
    ],
)
def test_savings_in_words(saved: dict[str, float], said: str) -> None:
    assert saving(saved, 5) == said


def test_figures_in_words() -> None:
    assert span([4.2, 3.9]) == "4"
    assert span([1.0, 2.5, 2.0], ".1f") == "1.0 to 2.5"
    assert moved(1, 2) == "rises from 1.00 to 2.00"
    assert moved(2.0, 1.0, ".0f") == "falls from 2 to 1"
    assert moved(1.0, 1.01, near=0.05) == "stays at 1.00 to 1.01"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_experiment_says_how_long_it_takes(paper: str) -> None:
    experiment = import_module(f"lab.experiments.{paper}")
    small, usual, full = (
        experiment.estimate(scale) for scale in (0.01, getattr(experiment, "SCALE", 1.0), 1.0)
    )
    assert 0 < small < usual <= full
    assert usual < 600


def test_times_to_plan_with() -> None:
    assert [said_minutes(n) for n in (20, 400, 9000)] == ["1 minute", "7 minutes", "2.5 hours"]


def test_a_quick_run_of_all_papers_takes_under_ten_minutes() -> None:
    experiments = [import_module(f"lab.experiments.{paper}") for paper in PAPERS]
    assert sum(each.estimate(each.QUICK) for each in experiments) < 600


def test_a_mean_over_seeds_has_an_interval() -> None:
    found = Sample((0.60, 0.81, 0.70, 0.65, 0.75, 0.72, 0.68, 0.69))
    assert found.mean == pytest.approx(0.70)
    # Student's t with seven degrees of freedom: 2.365 × 0.0632 / √8
    assert found.half == pytest.approx(0.0529, abs=1e-4)
    assert (found / Sample((2.0,))).mean == pytest.approx(0.35)
    assert (found - found).half == 0
    assert Sample.of(0.5).half == 0
    assert f"{found:.2f} {Sample.of(0.5):.1f}" == "0.70 ± 0.05 0.5"
