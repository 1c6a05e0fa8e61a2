"""What the figures of the skyline join experiments have in common: plans, columns, remarks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lab.experiments.lsj_runs import (
    AUTO,
    CORNER_ISJ,
    CORNER_LSJ,
    CORNER_LSJ1,
    ISJ,
    LSJ,
    LSJ1,
    NAIVE,
    OURS,
    PAPER_ISJ,
    PAPER_LSJ,
    PAPER_LSJ1,
    STEP_ISJ,
    WINDOWS,
    Plan,
    Times,
    over_seeds,
)
from lab.experiments.remarks import saving, span
from lab.experiments.report import Progress, Report
from lab.experiments.seeds import Sample
from lab.experiments.verdicts import Bound, Verdicts, above

__all__ = [
    "GAINS", "LARGE", "OTHERS", "PAIRS", "PAPER", "PLANS", "ROOMS", "Run", "by_form", "cells",
    "explained", "in_millis", "judge_ratios",
]  # fmt: skip

Pair = tuple[Plan, Plan, Plan]
"""LSJ, LSJ (1) and ISJ in one form."""
PAPER: Pair = (PAPER_LSJ, PAPER_LSJ1, PAPER_ISJ)
OTHERS: dict[str, Pair] = {
    "one corner for all rows": (CORNER_LSJ, CORNER_LSJ1, CORNER_ISJ),
    "ours": (LSJ, LSJ1, ISJ),
}
"""Forms that are measured, too; claims are judged by the paper's form alone."""
PAIRS = {"the paper's form": PAPER, **OTHERS}
PLANS = (
    NAIVE, *PAPER[::-1], CORNER_ISJ, CORNER_LSJ1, CORNER_LSJ, ISJ, LSJ1, LSJ, AUTO, OURS, STEP_ISJ,
)  # fmt: skip
GAINS = [
    "paper's form: lsj over naive %", "over isj %", "over lsj (1) %", "local skylines in isj %",
    "one corner: over isj %", "over lsj (1) %", "ours: over isj %", "over lsj (1) %",
    "local skylines in isj %", "gsj over isj %", "automatic lsj over isj %",
]  # fmt: skip
LARGE = 8000
"""Above so many live rows Naive is left out, and independent rows with one corner for all."""
ROOMS = 10
"""Windows of the rooms."""
FEW_WINDOWS = 5
"""Windows of a synthetic stream with many rows."""


def cells(times: Times) -> list[Any]:
    """The columns GAINS of one setting."""
    naive = [times.gain(PAPER_LSJ, NAIVE)] if NAIVE in times.own else []
    shown = [
        times.gain(PAPER_LSJ, PAPER_ISJ), times.gain(PAPER_LSJ, PAPER_LSJ1),
        times.local_share(PAPER_ISJ), times.gain(CORNER_LSJ, CORNER_ISJ),
        times.gain(CORNER_LSJ, CORNER_LSJ1), times.gain(LSJ, ISJ), times.gain(LSJ, LSJ1),
        times.local_share(ISJ), times.gain(OURS, ISJ), times.gain(AUTO, ISJ),
    ]  # fmt: skip
    return [*([] if naive else ["-"]), *(f"{value:.1f}" for value in (*naive, *shown))]


ROWS = {
    "Naive": NAIVE, "ISJ as the paper has it": PAPER_ISJ, "LSJ as the paper has it": PAPER_LSJ,
    "ISJ with one corner": CORNER_ISJ, "LSJ with one corner": CORNER_LSJ, "ISJ": ISJ, "LSJ": LSJ,
    "automatic LSJ": AUTO, "gsj": OURS,
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
    if plan not in times.own or math.isnan(times.own[plan].mean):
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
    volume: int
    """The paper's gains at many rows are judged here, too."""
    largest: int
    noise: float = 3.0
    """Of a difference of gains on the rooms, which have no seed."""
    known: dict[Any, Times] = field(default_factory=dict)

    @property
    def slide(self) -> int:
        return self.size // 10

    def drawn(
        self, how: str, size: int, slide: int = 0, dimensions: int = 2, join_rate: float = 0.02
    ) -> Times:
        """All plans on synthetic streams of several seeds; a setting is measured once.

        Above LARGE rows Naive is left out, and one corner for all independent rows.
        """
        setting = (size, slide or size // 10, dimensions)
        if (how, setting, join_rate) not in self.known:
            self.progress(f"{how}, {setting}, join rate {join_rate}")
            corner = OTHERS["one corner for all rows"] if how == "independent" else ()
            out = {NAIVE, *corner} if size > LARGE else set()
            plans = [plan for plan in PLANS if plan not in out]
            windows = FEW_WINDOWS if size >= LARGE else WINDOWS
            times = over_seeds(plans, *setting, windows, distribution=how, join_rate=join_rate)
            for plan in out - {NAIVE}:
                times.own[plan] = times.fold[plan] = times.local[plan] = Sample.of(math.nan)
            self.known[how, setting, join_rate] = times
        return self.known[how, setting, join_rate]

    def more(self) -> Bound:
        """A difference of gains that is above the noise."""
        return above(0.0, noise=self.noise)

    def why(self, times: Mapping[Any, Times]) -> str:
        """What explains the gains of these runs."""
        return explained(times, self.noise)


def explained(times: Mapping[Any, Times], noise: float) -> str:
    """How much sharing could save, which is local skylines, and how much it does save."""
    lsj, _, isj = PAPER
    share = [each.local_share(isj).mean for each in times.values()]
    gains = {_said(setting): each.gain(lsj, isj).mean for setting, each in times.items()}
    saved = saving(gains, noise)
    more = "" if "noise" in saved else f" Differences up to {noise:.0f} points are noise."
    return f"""Local skylines, which sharing saves, are {span(share)} % of ISJ's time, and LSJ
        {saved}.{more}"""


def by_form(
    run: Run, key: str, cases: Mapping[str, Sample], bound: Bound, why: str, unit: str = "points"
) -> None:
    """Judge by the paper's form; the others are shown apart."""
    judged = {name: value for name, value in cases.items() if name not in OTHERS}
    apart = {name: value for name, value in cases.items() if name in OTHERS}
    run.verdicts.judge(key, judged, bound, unit=unit, why=why, apart=apart)


def judge_ratios(
    run: Run, key: str, found: Mapping[Any, Times], other: int | Plan, bound: Bound, unit: str,
    why: str,
) -> None:  # fmt: skip
    """Judge LSJ's time as a share of another's (its place in a pair), in every setting."""

    def ratio(times: Times, pair: Pair) -> Sample:
        return times.ratio(pair[0], pair[other] if isinstance(other, int) else other)

    cases = {_said(setting): ratio(times, PAPER) for setting, times in found.items()}
    apart = {
        f"{_said(setting)}, {name}": ratio(times, pair)
        for name, pair in OTHERS.items()
        for setting, times in found.items()
        if not math.isnan(times.own[pair[0]].mean)
    }
    run.verdicts.judge(key, cases, bound, unit=unit, why=why, apart=apart)


def _said(setting: Any) -> str:
    return " / ".join(map(str, setting)) if isinstance(setting, tuple) else str(setting)
