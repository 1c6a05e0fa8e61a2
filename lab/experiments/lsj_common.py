"""What the figures of the skyline join experiments have in common: plans, columns, remarks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.experiments.lsj_runs import (
    AUTO,
    ISJ,
    LSJ,
    LSJ1,
    NAIVE,
    OURS,
    PAPER_ISJ,
    PAPER_LSJ,
    PAPER_LSJ1,
    STEP_ISJ,
    Plan,
    Times,
)
from lab.experiments.remarks import saving, span
from lab.experiments.report import Progress, Report
from lab.experiments.verdicts import Bound, Verdicts, above

__all__ = [
    "GAINS", "LARGE", "PAIRS", "PLANS", "ROOMS", "Run", "cells", "explained", "in_millis",
    "judge_ratios",
]  # fmt: skip

PAIRS: dict[str, tuple[Plan, Plan, Plan]] = {
    "ours": (LSJ, LSJ1, ISJ),
    "the paper's form": (PAPER_LSJ, PAPER_LSJ1, PAPER_ISJ),
}
PLANS = (NAIVE, ISJ, LSJ1, LSJ, AUTO, OURS, PAPER_ISJ, PAPER_LSJ1, PAPER_LSJ, STEP_ISJ)
GAINS = [
    "lsj over naive %", "over isj %", "over isj, panes to answers %", "over lsj (1) %",
    "paper's form: over isj %", "over lsj (1) %", "local skylines in isj %", "in paper's isj %",
    "gsj over isj %", "automatic lsj over isj %",
]  # fmt: skip
LARGE = 8000
"""Above so many live rows Naive is left out, and independent rows in the paper's form."""
ROOMS = 10
"""Windows of the rooms."""


def cells(times: Times) -> list[Any]:
    """The columns GAINS of one setting."""
    naive = f"{times.gain(LSJ, NAIVE):.1f}" if NAIVE in times.own else "-"
    shown = [
        times.gain(LSJ, ISJ), times.gain(LSJ, ISJ, whole=True), times.gain(LSJ, LSJ1),
        times.gain(PAPER_LSJ, PAPER_ISJ), times.gain(PAPER_LSJ, PAPER_LSJ1),
        times.local_share(ISJ), times.local_share(PAPER_ISJ),
        times.gain(OURS, ISJ), times.gain(AUTO, ISJ),
    ]  # fmt: skip
    return [naive, *("-" if math.isnan(value) else value for value in shown)]


ROWS = {
    "Naive": NAIVE, "ISJ": ISJ, "ISJ as the paper has it": PAPER_ISJ, "LSJ": LSJ,
    "LSJ as the paper has it": PAPER_LSJ, "automatic LSJ": AUTO, "gsj": OURS,
}  # fmt: skip


def in_millis(report: Report, what: str, found: Mapping[str, Times]) -> None:
    """Add a table of milliseconds per window: a row per algorithm, a column per setting."""
    report.text(
        f"""{what}: milliseconds per window, an algorithm's own time (`pairs()`) / the whole time
        from panes to answers."""
    )
    rows = [
        [name, *(_millis(times, plan) for times in found.values())] for name, plan in ROWS.items()
    ]
    report.table(["algorithm", *found], rows)


def _millis(times: Times, plan: Plan) -> str:
    if plan not in times.own or math.isnan(times.own[plan]):
        return "-"
    return f"{times.millis(plan):,.2f} / {times.millis(plan, whole=True):,.2f}"


@dataclass
class Run:
    """One run of the experiments: where results go, the sizes, and the noise of a gain."""

    report: Report
    verdicts: Verdicts
    progress: Progress
    size: int
    minutes: int
    largest: int
    noise: float = 3.0

    @property
    def slide(self) -> int:
        return self.size // 10

    def more(self) -> Bound:
        """A difference of gains that is above the noise."""
        return above(0.0, noise=self.noise)

    def why(self, times: Sequence[Times]) -> str:
        """What explains the gains of these runs."""
        return explained(times, self.noise)


def explained(times: Sequence[Times], noise: float) -> str:
    """How much sharing could save, which is local skylines, and how much it does save."""
    told = []
    for name, (all_, _, isj) in PAIRS.items():
        known = [each for each in times if not math.isnan(each.own[all_])]
        if not known:
            continue
        share = [each.local_share(isj) for each in known]
        gains = {f"case {n}": each.gain(all_, isj) for n, each in enumerate(known, 1)}
        told.append(
            f"""{name}: local skylines, which sharing saves, are {span(share)} % of ISJ's time, and
            LSJ {saving(gains, noise)}"""
        )
    more = "" if "noise" in told[-1] else f" Differences up to {noise:.0f} points are noise."
    return "; ".join(told) + "." + more


def judge_ratios(
    run: Run, key: str, found: dict[Any, Times], other: int, bound: Bound, unit: str, why: str
) -> None:
    """Judge LSJ's time as a share of another's, in every setting, ours and the paper's form."""
    cases = {
        f"{_said(setting)}{name}": times.ratio(pair[0], pair[other])
        for setting, times in found.items()
        for name, pair in PAIRS.items()
    }
    run.verdicts.judge(key, cases, bound, unit=unit, why=why)


def _said(setting: Any) -> str:
    if isinstance(setting, tuple):
        return " / ".join(map(str, setting)) + ", "
    return f"{setting}, "
