"""The skyline join experiments: the paper's form of ISJ and LSJ, and what is timed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lab.experiments import lsj, lsj_common, lsj_drawn, lsj_rooms, lsj_runs, lsj_steps
from lab.experiments.lsj_claims import CLAIMS
from lab.experiments.lsj_common import explained
from lab.experiments.lsj_runs import (
    ALL,
    AUTO,
    CORNER_ISJ,
    CORNER_LSJ,
    CORNER_LSJ1,
    ISJ,
    LSJ,
    NAIVE,
    OURS,
    PAPER_ISJ,
    PAPER_LSJ,
    PAPER_LSJ1,
    STEP_ISJ,
    WITNESS,
    Plan,
    Setting,
    Times,
    layers_of,
    settled_share,
    timed,
)
from lab.experiments.lsj_steps import STEPS, told
from lab.experiments.seeds import Sample
from skyband import registry
from skyband.skyline.lsj import LayeredJoin


@pytest.mark.parametrize("distribution", ["correlated", "independent"])
def test_the_papers_form_answers_alike_and_prunes_less(distribution: str) -> None:
    setting = Setting.drawn(40, 10, windows=3, distribution=distribution, join_rate=0.2)
    plans = (NAIVE, ISJ, LSJ, OURS, PAPER_ISJ, PAPER_LSJ1, PAPER_LSJ, CORNER_ISJ, CORNER_LSJ1,
             CORNER_LSJ)  # fmt: skip
    times = timed(setting, plans, most=1)  # raises if answers differ
    assert set(times.own) == set(plans)
    for plan in plans:
        assert 0 < times.own[plan].mean <= times.fold[plan].mean
    assert 0 < times.local_share(PAPER_ISJ).mean < 100
    ours, theirs, corner = (layers_of(setting, plan) for plan in (ISJ, PAPER_ISJ, CORNER_ISJ))
    assert theirs == ours  # both prune a row by the partners that it has
    assert all(a <= b for a, b in zip(theirs, corner, strict=True))
    assert distribution == "correlated" or theirs != corner
    # The algorithms are what they were before.
    assert registry.load("SkylineJoin", "isj") is LayeredJoin
    assert registry.load("SkylineJoin", "lsj") is LayeredJoin


def test_every_figure_has_a_claim() -> None:
    told = " ".join(claim.where for claim in CLAIMS)
    for figure in (5, 10, 11, 12, 13, 14):
        assert f"Fig. {figure}" in told


@pytest.mark.parametrize("distribution", ["correlated", "independent"])
def test_every_form_answers_like_naive(distribution: str) -> None:
    """Layer by layer, and with pruning that is shared between windows."""
    setting = Setting.drawn(60, 9, windows=9, distribution=distribution, join_rate=0.15)
    wanted = tables(setting, NAIVE)
    for plan in (*STEPS, AUTO, *(Plan("lsj", 2, form) for form in ("", "step", "paper", "corner"))):
        assert tables(setting, plan) == wanted, plan
    assert 0 < settled_share(setting) < 100


def tables(setting: Setting, plan: Plan) -> list[pa.Table]:
    monitor = setting.monitor(plan)
    return [answer.table for push in setting.pushes() for answer in monitor.push(push)]


SETTLED = {"a": Sample.of(40.0)}


def made_up(**own: float) -> Times:
    plans = {"step": STEP_ISJ, "isj": ISJ, "witness": WITNESS,
             "lsj_step": Plan("lsj", ALL, "step"), "lsj": LSJ, "gsj": OURS,
             "paper_isj": PAPER_ISJ, "paper_lsj": PAPER_LSJ}  # fmt: skip
    times = {plan: Sample.of(own.get(name, 1.0)) for name, plan in plans.items()}
    return Times(times, times, dict.fromkeys(times, Sample.of(0.3)))


def test_remarks_follow_from_what_was_measured() -> None:
    """The same code says something else of another run."""
    slow, fast = made_up(step=2.0, witness=1.5), made_up(step=1.0, witness=0.5, gsj=0.7)
    first, second = (told({"a": each}, SETTLED, 5.0) for each in (slow, fast))
    assert "`isj` saves 50 %" in first[0]
    assert "`isj` changes nothing beyond the noise" in second[0]
    third = told({"a": made_up(isj=1.25, lsj=2.0, lsj_step=8.0)}, SETTLED, 5.0)
    assert third[0].endswith("`isj` costs 25 %; `lsj` saves 75 %.")
    assert "`isj` costs 50 %" in first[1]
    assert "pays nowhere" in first[1]
    assert "`isj` saves 50 %" in second[1]
    assert "in 1 of them (a)" in " ".join(second[1].split())
    gain, none = (explained({"rooms": made_up(paper_lsj=takes)}, 5.0) for takes in (0.6, 1.02))
    assert "LSJ saves 40 %" in " ".join(gain.split())
    assert "Local skylines, which sharing saves, are 30 %" in " ".join(gain.split())
    assert "LSJ changes nothing beyond the noise" in " ".join(none.split())


def shown(*millis: int) -> str:
    """As a mean over seeds that all say the same."""
    return " / ".join(f"{value}.00 ± 0.00" for value in millis)


@pytest.mark.parametrize("with_rooms", [True, False])
def test_the_report_of_made_up_times(
    with_rooms: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs that come out otherwise give two reports with other words."""
    pytest.importorskip("matplotlib")
    place = tmp_path if with_rooms else None
    small = Setting.drawn(20, 2, windows=1)
    monkeypatch.setattr(Setting, "drawn", staticmethod(lambda *_, **__: small))
    monkeypatch.setattr(Setting, "sensors", staticmethod(lambda *_, **__: small))
    monkeypatch.setattr(lsj_rooms, "data_folder", lambda: place)
    monkeypatch.setattr(lsj_rooms, "layers_of", lambda *_: [3, 5])
    monkeypatch.setattr(lsj_rooms, "overlaps", lambda *_: [[80.0, 70.0, 60.0, 50.0]])
    monkeypatch.setattr(lsj_drawn, "local_comparisons", lambda *_: 100)
    monkeypatch.setattr(lsj_steps, "settled_share", lambda *_: 40.0)
    for module in (lsj_drawn, lsj_common):
        monkeypatch.setattr(module, "LARGE", 500)  # so that some plans are left out
    reports = []
    for lsj_takes in (0.5, 1.5):

        def timed(_: Setting, plans: Any, *__: int, takes: float = lsj_takes, **___: int) -> Times:
            own = {p: takes if p.algorithm == "lsj" else 1.0 for p in plans}
            own |= {p: 3.0 for p in plans if p == CORNER_ISJ}
            fold = {p: value + 1.0 for p, value in own.items()}
            spent, mine = ({p: Sample.of(v) for p, v in each.items()} for each in (fold, own))
            return Times(spent, mine, dict.fromkeys(own, Sample.of(0.3)), windows=10)

        for module in (lsj, lsj_rooms, lsj_runs):
            monkeypatch.setattr(module, "timed", timed)
        lsj.reproduce(0.1, tmp_path, lambda _: None)
        reports.append((tmp_path / "lsj.md").read_text())
    assert "LSJ saves 50 %" in reports[0]
    assert "LSJ costs 50 %" in reports[1]
    for report, took in zip(reports, ((50, 150), (150, 250)), strict=True):
        # A row per algorithm: its own time and that from panes to answers, at every volume.
        assert f"| LSJ | {' | '.join([shown(*took)] * 3)} |" in report
        assert f"| ISJ with one corner | {shown(300, 400)} |" in report
        assert f"| Naive | {shown(100, 200)} | {shown(100, 200)} | - |" in report
        assert "nan" not in report
    assert all(claim.says in report for claim in CLAIMS for report in reports)
    assert all(("not measured" in report) != with_rooms for report in reports)
