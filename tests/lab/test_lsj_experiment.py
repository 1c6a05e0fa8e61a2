"""The skyline join experiments: the paper's form of ISJ and LSJ, and what is timed."""

from __future__ import annotations

import pytest

from lab.experiments.lsj_claims import CLAIMS
from lab.experiments.lsj_runs import (
    ISJ,
    LSJ,
    NAIVE,
    OURS,
    PAPER_ISJ,
    PAPER_LSJ,
    PAPER_LSJ1,
    Setting,
    layers_of,
    timed,
)
from skyband import registry
from skyband.skyline.isj import Isj
from skyband.skyline.lsj import Lsj


@pytest.mark.parametrize("distribution", ["correlated", "independent"])
def test_the_papers_form_answers_alike_and_prunes_less(distribution: str) -> None:
    setting = Setting.drawn(40, 10, windows=3, distribution=distribution, join_rate=0.2)
    plans = (NAIVE, ISJ, LSJ, OURS, PAPER_ISJ, PAPER_LSJ1, PAPER_LSJ)
    times = timed(setting, plans, repeat=1)  # raises if answers differ
    assert set(times.own) == set(plans)
    for plan in plans:
        assert 0 < times.own[plan] <= times.fold[plan]
    assert 0 < times.local_share(PAPER_ISJ) < 100
    ours, theirs = layers_of(setting, ISJ), layers_of(setting, PAPER_ISJ)
    assert all(a <= b for a, b in zip(ours, theirs, strict=True))
    assert distribution == "correlated" or ours != theirs
    # The algorithms are what they were before.
    assert registry.load("SkylineJoin", "isj") is Isj
    assert registry.load("SkylineJoin", "lsj") is Lsj


def test_every_figure_has_a_claim() -> None:
    told = " ".join(claim.where for claim in CLAIMS)
    for figure in (5, 10, 11, 12, 13, 14):
        assert f"Fig. {figure}" in told
