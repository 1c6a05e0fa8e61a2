"""Nagendra and Candan's skyline-window-join: Figures 5 and 10 to 14, ours and the paper's form.

Figures 10 to 14 show gains: for two algorithms over the same windows, how much of one's time the
other saves, (1 - a / b) × 100. Times are CPU times of this process, after everything is compiled.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lab.experiments.lsj_claims import CLAIMS
from lab.experiments.lsj_common import (
    FEW_WINDOWS,
    LARGE,
    PAIRS,
    PLANS,
    ROOMS,
    Run,
)
from lab.experiments.lsj_drawn import figure_12, figure_13, figure_14
from lab.experiments.lsj_moving import draw_moving
from lab.experiments.lsj_rooms import figure_5, figure_10, figure_11
from lab.experiments.lsj_runs import AUTO, ENOUGH, ISJ, MOST, OURS, WINDOWS, Setting, Times, timed
from lab.experiments.lsj_steps import STEPS, our_steps
from lab.experiments.remarks import span
from lab.experiments.report import Progress, Report
from lab.experiments.seeds import SEEDS
from lab.experiments.verdicts import MUCH, Verdicts, at_most
from skyband.kernels.patient import hurry

__all__ = ["QUICK", "estimate", "reproduce"]

QUICK = 0.5
"""The scale of a quick run: 1,000 live rows where 2,000 are usual, and nothing above 8,000."""


def estimate(scale: float) -> float:
    """About how many seconds of processor time a run takes.

    The rooms are measured for some seconds each; that of synthetic streams, of which there are
    several, grows with the square of the rows.
    """
    return 40 * len(PLANS) * ENOUGH + 50 + 290 * scale**2


def reproduce(scale: float, out: Path, progress: Progress) -> None:
    """Write ``lsj.md`` and its plots."""
    hurry()
    size = max(200, int(2000 * scale))
    report = Report("LSJ: layered processing of skyline-window-joins")
    volume = LARGE if scale >= QUICK else 4 * size
    largest = max(volume, int(40_000 * scale)) if scale >= 1 else volume
    minutes = max(30, int(90 * scale)) if scale < QUICK else 90
    run = Run(report, Verdicts("lsj", CLAIMS), progress, size, minutes, volume, largest)
    progress("compiling")
    timed(Setting.drawn(60, 10), (*PLANS, *STEPS), most=1)
    _introduction(run)
    _noise(run)
    figures = (figure_5, figure_10, figure_11, figure_12, figure_13, figure_14)
    found: dict[str, Times] = {}
    for figure in figures:
        found |= figure(run)
    our_steps(run)
    _aims(run, found)
    run.verdicts.add_to(report)
    run.verdicts.save(out)
    report.write(out / "lsj.md")
    draw_moving(out / "lsj-moving.png")


def _aims(run: Run, found: Mapping[str, Times]) -> None:
    """Judge what we want of ``gsj`` and of the automatic choice of layers."""
    first: dict[int, str] = {}
    for name, each in found.items():
        first.setdefault(id(each), name)
    found = {name: found[name] for name in first.values()}  # figures have settings in common
    faster = {name: each.ratio(ISJ, OURS) for name, each in found.items()}
    least = min(faster, key=lambda name: faster[name].mean)
    run.verdicts.judge(
        "gsj", faster, MUCH, unit="× (ISJ's time by gsj's)",
        why=f"""In the worst case ({least}) ISJ takes {found[least].millis(ISJ):.2f} ms a window and
        `gsj` {found[least].millis(OURS):.2f}.""",
    )  # fmt: skip
    slower = {name: each.ratio(AUTO, ISJ, whole=True) for name, each in found.items()}
    most = max(slower, key=lambda name: slower[name].mean)
    share = span([each.local_share(ISJ).mean for each in found.values()])
    run.verdicts.judge(
        "auto", slower, at_most(1.0, timed=True), unit="× isj's time",
        why=f"""In the worst case ({most}) automatic lsj takes
        {found[most].millis(AUTO, whole=True):.2f} ms a window and isj
        {found[most].millis(ISJ, whole=True):.2f}. Sharing can save only local skylines, {share} %
        of isj's time, and has to keep the layers.""",
    )  # fmt: skip


def _introduction(run: Run) -> None:
    report = run.report
    report.heading("Question")
    report.text(
        """How much of the time of a skyline join over sliding windows is saved by iterating (ISJ)
        instead of joining everything (Naive), and how much more by keeping the local skylines of
        all layers of the iteration from window to window (LSJ)? And how does this compare with
        our `gsj`?"""
    )
    report.heading("Set-up")
    report.text(
        f"""Synthetic streams after Börzsönyi et al.; by default {run.size:,} live rows per side, a
        tenth of them new in each of {WINDOWS} windows ({FEW_WINDOWS} from {LARGE:,} live
        rows on), two preferred columns per side, join rate 0.02. Every setting is measured on
        {SEEDS} streams; shown are means with their 95 % intervals. Above {LARGE:,} live rows Naive
        is left out, and one corner for all independent rows. Rooms of an office building replace
        the Intel lab's sensors: even rooms with temperature and CO2 are joined by zone with odd
        rooms with humidity and light, in {ROOMS} windows. They have no seed."""
    )
    report.bullets([
        f"""Times are CPU times of this process. All algorithms take turns with every push, and a
        window's time on the rooms is the median of {MOST} repetitions (fewer for an algorithm that
        has run for {ENOUGH:g} s); a synthetic stream is run once. They are an algorithm's *own*
        time, without storing rows and writing answers, which all do alike; the tables in
        milliseconds have the time from panes to answers, too.""",
        """*The paper's form* of ISJ and LSJ, by which its claims are judged, sorts and filters
        plainly (SFS) and prunes a row with the best corner of the partners that it has, the rows of
        its own key. The paper does not say which corner; *one corner for all rows* of a side is the
        other reading. *Ours* prunes by key, too, first drops what the best row dominates, and runs
        all layers of a window in one call. Answers are the same.""",
        """Local skylines are all that sharing can save. Their share of ISJ's time is in the
        tables; for ours it is measured in a form that runs layer by layer.""",
        """Automatic lsj (`layers=None`) stops sharing from the first layer that has less than
        half of its rows in common with the previous window.""",
    ])  # fmt: skip


def _noise(run: Run) -> None:
    run.progress("noise")
    setting = Setting.drawn(run.size, run.slide, distribution="correlated")
    plans = [plan for pair in PAIRS.values() for plan in pair]
    first, second = timed(setting, plans), timed(setting, plans)
    moved = {
        name: abs((first.gain(all_, isj) - second.gain(all_, isj)).mean)
        for name, (all_, _, isj) in PAIRS.items()
    }
    run.noise = max(run.noise, *moved.values())
    told = ", ".join(f"{value:.1f} ({name})" for name, value in moved.items())
    run.report.text(
        f"""One correlated stream was measured twice: its gains over isj differ by {told} points. On
        the rooms differences of gains up to {run.noise:.0f} points decide nothing; on synthetic
        streams the intervals take their place."""
    )
