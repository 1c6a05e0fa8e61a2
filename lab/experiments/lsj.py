"""Nagendra and Candan's skyline-window-join: Figures 5 and 10 to 14, ours and the paper's form.

Figures 10 to 14 show gains: for two algorithms over the same windows, how much of one's time the
other saves, (1 - a / b) × 100. Times are CPU times of this process, after everything is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lab.datasets.real import data_folder
from lab.datasets.skyline import DISTRIBUTIONS
from lab.experiments.lsj_claims import CLAIMS
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
    WINDOWS,
    Plan,
    Setting,
    Times,
    draw_moving,
    layers_of,
    local_comparisons,
    lsj,
    overlaps,
    timed,
)
from lab.experiments.report import Progress, Report
from lab.experiments.verdicts import (
    MUCH,
    TRUE,
    Bound,
    Verdicts,
    about,
    above,
    at_least,
    at_most,
    below,
    between,
)
from skyband.kernels.core.patient import hurry

__all__ = ["reproduce"]

PAIRS: dict[str, tuple[Plan, Plan, Plan]] = {
    "ours": (LSJ, LSJ1, ISJ),
    "the paper's form": (PAPER_LSJ, PAPER_LSJ1, PAPER_ISJ),
}
PLANS = (NAIVE, ISJ, LSJ1, LSJ, AUTO, OURS, PAPER_ISJ, PAPER_LSJ1, PAPER_LSJ)
GAINS = [
    "lsj over naive %", "over isj %", "over isj, panes to answers %", "over lsj (1) %",
    "paper's form: over isj %", "over lsj (1) %", "local skylines in isj %", "in paper's isj %",
    "gsj over isj %", "automatic lsj over isj %",
]  # fmt: skip
LARGE = 8000
"""Above so many live rows Naive is left out, and independent rows in the paper's form."""
ROOMS = 10
"""Windows of the rooms."""


def _cells(times: Times) -> list[Any]:
    naive = f"{times.gain(LSJ, NAIVE):.1f}" if NAIVE in times.own else "-"
    return [
        naive, times.gain(LSJ, ISJ), times.gain(LSJ, ISJ, whole=True), times.gain(LSJ, LSJ1),
        times.gain(PAPER_LSJ, PAPER_ISJ), times.gain(PAPER_LSJ, PAPER_LSJ1),
        times.local_share(ISJ), times.local_share(PAPER_ISJ),
        times.gain(OURS, ISJ), times.gain(AUTO, ISJ),
    ]  # fmt: skip


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
        """What explains small gains: sharing saves nothing but local skylines."""
        ours = [each.local_share(ISJ) for each in times]
        theirs = [each.local_share(PAPER_ISJ) for each in times]
        return f"""Sharing can save only local skylines: {min(ours):.0f} to {max(ours):.0f} % of our
            ISJ's time, {min(theirs):.0f} to {max(theirs):.0f} % of the ISJ as the paper has it
            (differences of gains below {self.noise:.0f} points are noise)."""


def reproduce(scale: float, out: Path, progress: Progress) -> None:
    """Write ``lsj.md`` and its plots."""
    hurry()
    size = max(200, int(2000 * scale))
    report = Report("LSJ: layered processing of skyline-window-joins")
    largest = max(4 * size, int(40_000 * scale))
    run = Run(report, Verdicts("lsj", CLAIMS), progress, size, max(30, int(90 * scale)), largest)
    progress("compiling")
    timed(Setting.drawn(60, 10), PLANS)
    _introduction(run)
    _noise(run)
    figures = (_figure_5, _figure_10, _figure_11, _figure_12, _figure_13, _figure_14)
    found: list[Times] = []
    for figure in figures:
        found += figure(run)
    faster = {str(n): each.ratio(ISJ, OURS) for n, each in enumerate(found, 1)}
    run.verdicts.judge("gsj", faster, MUCH, unit="× (ISJ's time by gsj's)", why=run.why(found))
    slower = {str(n): each.ratio(AUTO, ISJ, whole=True) for n, each in enumerate(found, 1)}
    run.verdicts.judge(
        "auto", slower, at_most(1.0, timed=True), unit="× isj's time", why=run.why(found)
    )
    run.verdicts.add_to(report)
    run.verdicts.save(out)
    report.write(out / "lsj.md")
    draw_moving(out / "lsj-moving.png")


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
        tenth of them new in each of {WINDOWS} windows, two preferred columns per side, join rate
        0.02. Rooms of an office building replace the Intel lab's sensors: even rooms with
        temperature and CO2 are joined by zone with odd rooms with humidity and light, ten windows
        of them. Larger synthetic windows have ten or five windows, too; above {LARGE:,} live rows
        Naive is left out."""
    )
    report.bullets([
        """Times are CPU times of this process, the least of two runs in turns (Naive runs once,
        which flatters gains over it). They are an algorithm's *own* time, without storing rows and
        writing answers, which all do alike; one column has the time from panes to answers.""",
        """*The paper's form* of ISJ and LSJ sorts and filters plainly, and prunes with one best
        corner for all rows of a side. Ours first drops what the best row dominates, and prunes a
        row with the best corner of its own key. Both do much of what sharing could save. Answers
        are the same.""",
        """Local skylines are all that sharing can save. Their share of ISJ's time, in the
        tables, is therefore the most that LSJ can gain by it.""",
        """Automatic lsj (`layers=None`) stops sharing from the first layer that has less than
        half of its rows in common with the previous window.""",
    ])  # fmt: skip


def _noise(run: Run) -> None:
    run.progress("noise")
    setting = Setting.drawn(run.size, run.slide, distribution="correlated")
    plans = [plan for pair in PAIRS.values() for plan in pair]
    first, second = timed(setting, plans), timed(setting, plans)
    moved = {
        name: abs(first.gain(all_, isj) - second.gain(all_, isj))
        for name, (all_, _, isj) in PAIRS.items()
    }
    run.noise = max(run.noise, *moved.values())
    told = ", ".join(f"{value:.1f} ({name})" for name, value in moved.items())
    run.report.text(
        f"""The default correlated setting was measured twice: its gains over isj differ by {told}
        points. Differences of gains up to {run.noise:.0f} points decide nothing here."""
    )


def _figure_5(run: Run) -> list[Times]:
    report, verdicts = run.report, run.verdicts
    run.progress("Figure 5: overlap of layers")
    series = overlaps(Setting.drawn(run.size, run.slide), 5)
    report.heading("Figure 5: layers, and the rows that they share with the previous window")
    report.plot(
        "lsj-overlap",
        "overlap per layer above the first, five windows (independent)",
        {f"window {i + 1}": values for i, values in enumerate(series)},
        "layer - 2",
        "% of rows",
    )
    shares = [value for values in series for value in values]
    early = float(np.mean([np.mean(values[:3]) for values in series if values]))
    late = float(np.mean([np.mean(values[-3:]) for values in series if values]))
    rows: list[list[Any]] = []
    counted: dict[str, float] = {}
    samples = {
        f"{how} {size:,}": Setting.drawn(size, size // 10, distribution=how, windows=3)
        for size in (run.size, 4 * run.size)
        for how in ("correlated", "independent")
    }
    if data_folder() is not None:
        samples["rooms"] = Setting.sensors(run.minutes, run.minutes // 10, 3)
    for sample, setting in samples.items():
        for name, pair in PAIRS.items():
            counts = layers_of(setting, pair[2], 3)
            rows.append([sample, name, min(counts), max(counts)])
            counted[f"{sample}, {name}"] = float(np.mean(counts))
    report.table(["rows", "pruning", "fewest layers", "most layers"], rows)
    report.text(
        f"""The first three layers above the data share {early:.0f} % of their rows with the
        previous window, the last three {late:.0f} %."""
    )
    most = max(row[-1] for row in rows)
    verdicts.judge(
        "layers", counted, between(20, 35), unit="layers",
        why=f"""The paper does not say which rows its sample has. The most layers of a window here
        are {most}; they grow with the live rows and are fewer where pruning is stronger.""",
    )  # fmt: skip
    verdicts.judge(
        "overlap", {"mean of all layers": float(np.mean(shares))}, at_least(50), unit="%",
        why=f"the mean over {len(shares)} layers is {np.mean(shares):.0f} %",
    )  # fmt: skip
    verdicts.judge(
        "overlap-falls", {"first three to last three": late - early}, below(0.0), unit="points",
        why=f"{early:.0f} % and {late:.0f} %",
    )  # fmt: skip
    return []


def _rooms(size: int, slide: int, plans: Sequence[Plan] = PLANS) -> Times:
    return timed(Setting.sensors(size, slide, ROOMS), plans, repeat=1)


def _figure_10(run: Run) -> list[Times]:
    report, verdicts = run.report, run.verdicts
    run.progress("Figure 10: number of layers")
    keys = ("naive", "more-layers", "isj")
    if data_folder() is None:
        for key in keys:
            verdicts.unmeasured(key, "the rooms are not there: set SKYBAND_DATA to their folder")
        return []
    several = [lsj(n) for n in (2, 4, 8)]
    times = _rooms(run.minutes, run.minutes // 10, (*PLANS, *several))
    report.heading(f"Figure 10: layers that share (rooms, {run.minutes} minutes)")
    rows: list[list[Any]] = []
    for name, plan in (
        ("1", LSJ1), *((str(p.layers), p) for p in several), ("all", LSJ), ("automatic", AUTO),
        ("gsj", OURS),
    ):  # fmt: skip
        rows.append([name, times.gain(plan, NAIVE), times.gain(plan, ISJ)])
    report.table(["layers", "gain over naive %", "gain over isj %"], rows)
    report.text(
        f"""In the paper's form, sharing all layers gains
        {times.gain(PAPER_LSJ, PAPER_ISJ):.1f} % over its ISJ."""
    )
    why = run.why([times])
    verdicts.judge(
        "naive", {name: times.ratio(pair[0], NAIVE) for name, pair in PAIRS.items()},
        below(0.05, timed=True), unit="× Naive's time",
        why=f"""Naive is compiled here and sorts each window's pairs once: it takes
        {1000 * times.own[NAIVE] / ROOMS:.2f} ms a window, our LSJ
        {1000 * times.own[LSJ] / ROOMS:.2f} ms, `gsj` {1000 * times.own[OURS] / ROOMS:.2f}.""",
    )  # fmt: skip
    verdicts.judge(
        "more-layers",
        {name: times.ratio(pair[0], pair[1]) for name, pair in PAIRS.items()},
        below(1.0, timed=True), unit="× LSJ (1)'s time", why=why,
    )  # fmt: skip
    verdicts.judge(
        "isj", {name: times.ratio(pair[0], pair[2]) for name, pair in PAIRS.items()},
        at_most(0.75, timed=True), unit="× ISJ's time", why=why,
    )  # fmt: skip
    return [times]


def _figure_11(run: Run) -> list[Times]:
    keys = ("real-isj", "size-best", "size-45", "size-drop", "shift-best", "shift-drop")
    if data_folder() is None:
        for key in keys:
            run.verdicts.unmeasured(key, "the rooms are not there: set SKYBAND_DATA")
        return []
    base, found, rows = run.minutes, {}, []
    sizes = [(base // 2, base // 10), (base, base // 10), (2 * base, base // 10)]
    shifts = [(base, max(1, base // 30)), (base, base // 10), (base, base // 4)]
    for size, slide in dict.fromkeys((*sizes, *shifts)):
        run.progress(f"Figure 11: rooms, {size} / {slide} minutes")
        found[size, slide] = _rooms(size, slide)
        rows.append([size, slide, *_cells(found[size, slide])])
    run.report.heading("Figure 11: window and shift in minutes (rooms)")
    run.report.table(["window", "shift", *GAINS], rows)
    all_ = list(found.values())
    why = run.why(all_)
    _judge_ratios(run, "real-isj", found, 2, between(0.6, 0.75, noise=0.1), "× ISJ's time", why)
    for key, chosen in (("size-best", sizes), ("shift-best", shifts)):
        best = {
            f"{size} / {slide} over {_name(other)}": found[size, slide].ratio(LSJ, other)
            for size, slide in chosen
            for other in (NAIVE, ISJ, LSJ1)
        }
        run.verdicts.judge(key, best, below(1.0, timed=True), unit="× its time", why=why)
    ten = {(base, base // 10): found[base, base // 10]}
    _judge_ratios(run, "size-45", ten, 2, about(0.55, noise=0.08), "× ISJ's time", why)
    for key, (far, near) in (
        ("size-drop", (sizes[2], sizes[1])),
        ("shift-drop", (shifts[0], shifts[1])),
    ):
        differences = {
            name: found[near].gain(pair[0], pair[2]) - found[far].gain(pair[0], pair[2])
            for name, pair in PAIRS.items()
        }
        run.verdicts.judge(key, differences, run.more(), unit="points", why=why)
    return all_


def _judge_ratios(
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


def _name(plan: Plan) -> str:
    return {NAIVE: "naive", ISJ: "isj", LSJ1: "lsj (1)"}[plan]


def _figure_12(run: Run) -> list[Times]:
    found: dict[str, Times] = {}
    rows: list[list[Any]] = []
    counts: list[list[Any]] = []
    for how in DISTRIBUTIONS:
        run.progress(f"Figure 12: {how}")
        # On anti-correlated rows all answers are large, so a quarter of the rows is enough.
        mine = run.size // 4 if how == "anti-correlated" else run.size
        setting = Setting.drawn(mine, mine // 10, distribution=how)
        found[how] = timed(setting, PLANS)
        rows.append([how, mine, *_cells(found[how])])
        counts.append([how, *(local_comparisons(setting, p) for p in (ISJ, LSJ1, LSJ))])
        counts[-1].append((1 - counts[-1][3] / counts[-1][1]) * 100)
    run.report.heading("Figure 12: correlation")
    run.report.table(["distribution", "live rows", *GAINS], rows)
    run.report.text("Comparisons for local skylines (the paper gives only times):")
    run.report.table(["distribution", "isj", "lsj (1)", "lsj (all)", "saved %"], counts)
    why = run.why(list(found.values()))
    _distributions(run, found, why)
    return list(found.values())


def _distributions(run: Run, found: dict[str, Times], why: str) -> None:
    judge = run.verdicts.judge
    gains = {
        name: {how: times.gain(pair[0], pair[2]) for how, times in found.items()}
        for name, pair in PAIRS.items()
    }
    middle = "independent"
    judge("correlation", {n: g["correlated"] - g[middle] for n, g in gains.items()}, run.more(),
          unit="points above independent", why=why)  # fmt: skip
    judge("anti-least", {n: g[middle] - g["anti-correlated"] for n, g in gains.items()},
          run.more(), unit="points below independent", why=why)  # fmt: skip
    judge("up-to-80", {n: 1 - g["correlated"] / 100 for n, g in gains.items()},
          at_most(0.25, timed=True), unit="× ISJ's time", why=why)  # fmt: skip
    anti = {"anti-correlated": found["anti-correlated"]}
    _judge_ratios(run, "anti-one", anti, 1, between(0.9, 1.1, noise=0.03), "× LSJ (1)'s time", why)
    others = {how: found[how] for how in ("correlated", middle)}
    _judge_ratios(run, "layers-30", others, 1, at_most(0.7, timed=True), "× LSJ (1)'s time", why)
    # Four times as many correlated rows must be faster still.
    faster = {
        f"{plan.algorithm} ({'all' if plan == LSJ else 1})":
            found["correlated"].own[plan] < found["anti-correlated"].own[plan]
        for plan in (LSJ, LSJ1)
    }  # fmt: skip
    ratio = found["anti-correlated"].own[LSJ] / found["correlated"].own[LSJ]
    judge("one-correlated", faster, TRUE, why=f"anti-correlated takes {ratio:.1f} times as long")


def _figure_13(run: Run) -> list[Times]:
    rates = (0.005, 0.02, 0.1)
    found: dict[tuple[str, float], Times] = {}
    rows: list[list[Any]] = []
    for how in ("correlated", "independent"):
        for rate in rates:
            run.progress(f"Figure 13: {how}, join rate {rate}")
            setting = Setting.drawn(run.size, run.slide, distribution=how, join_rate=rate)
            found[how, rate] = timed(setting, PLANS)
            rows.append([how, str(rate), *_cells(found[how, rate])])
    run.report.heading("Figure 13: join rate")
    run.report.table(["distribution", "join rate", *GAINS], rows)
    why = run.why(list(found.values()))
    naive = {
        f"{how}, {a} to {b}": found[how, b].gain(LSJ, NAIVE) - found[how, a].gain(LSJ, NAIVE)
        for how in ("correlated", "independent")
        for a, b in pairwise(rates)
    }
    run.verdicts.judge("rate-naive", naive, run.more(), unit="points", why=why)
    for key, how, bound in (
        ("rate-correlated", "correlated", below(0.0, noise=run.noise)),
        ("rate-independent", "independent", between(-2 * run.noise, 2 * run.noise)),
    ):
        change = {
            name: found[how, rates[-1]].gain(pair[0], pair[1])
            - found[how, rates[0]].gain(pair[0], pair[1])
            for name, pair in PAIRS.items()
        }
        run.verdicts.judge(key, change, bound, unit="points", why=why)
    return list(found.values())


def _figure_14(run: Run) -> list[Times]:
    size = run.size
    shifts = [(size, max(1, size // part), 2) for part in (40, 10, 4)]
    volumes = [(n, n // 10, 2) for n in sorted({size // 4, size, 4 * size, run.largest})]
    found: dict[tuple[str, str, int, int, int], Times] = {}
    rows: list[list[Any]] = []
    for what, how, cases in (
        ("shift", "correlated", shifts),
        ("shift", "independent", shifts),
        ("volume", "correlated", volumes),
        ("volume", "independent", volumes),
        ("dimensions", "correlated", [(size // 2, size // 20, d) for d in (1, 2, 3)]),
    ):
        for window, slide, d in cases:
            run.progress(f"Figure 14: {what}, {how}, {window} / {slide}, {d} dimensions per side")
            found[what, how, window, slide, d] = _sized(how, window, slide, d)
            cells = _cells(found[what, how, window, slide, d])
            rows.append([what, how, window, slide, d, *cells])
    run.report.heading("Figure 14: shift, volume and dimensions")
    names = ["varied", "distribution", "window", "shift", "dimensions per side"]
    run.report.table([*names, *GAINS], rows)
    for how in ("correlated", "independent"):
        _plot_volume(run, how, {n: found["volume", how, n, n // 10, 2] for n, _, _ in volumes})
    _judge_14(run, found, shifts, volumes)
    return list(found.values())


def _sized(how: str, window: int, slide: int, dimensions: int) -> Times:
    """Large volumes run fewer windows."""
    if window <= LARGE:
        windows = WINDOWS if window <= LARGE // 4 else 10
        setting = Setting.drawn(window, slide, dimensions, windows, distribution=how)
        return timed(setting, PLANS, repeat=2 if windows == WINDOWS else 1)
    setting = Setting.drawn(window, slide, dimensions, windows=5, distribution=how)
    plans = [plan for plan in PLANS if plan != NAIVE]
    if how == "correlated":
        return timed(setting, plans, repeat=1)
    times = timed(setting, [plan for plan in plans if not plan.paper], repeat=1)
    for plan in (PAPER_ISJ, PAPER_LSJ1, PAPER_LSJ):
        times.own[plan] = times.fold[plan] = times.local[plan] = float("nan")
    return times


def _plot_volume(run: Run, how: str, found: dict[int, Times]) -> None:
    run.report.plot(
        f"lsj-volume-{how}",
        f"gain of LSJ over ISJ as the window grows ({how})",
        {name: [t.gain(pair[0], pair[2]) for t in found.values()] for name, pair in PAIRS.items()}
        | {"automatic": [t.gain(AUTO, ISJ) for t in found.values()]},
        "live rows per side",
        "%",
        [f"{n:,}" for n in found],
    )


def _judge_14(run: Run, found: dict[Any, Times], shifts: list[Any], volumes: list[Any]) -> None:
    judge, why = run.verdicts.judge, run.why([t for k, t in found.items() if k[2] <= LARGE])
    for key, how, sign in (
        ("shift-correlated", "correlated", 1), ("shift-independent", "independent", -1),
    ):  # fmt: skip
        small, great = (found["shift", how, *shifts[n]] for n in (0, 2))
        cases = {
            name: sign * (small.gain(pair[0], pair[2]) - great.gain(pair[0], pair[2]))
            for name, pair in PAIRS.items()
        }
        judge(key, cases, run.more(), unit="points", why=why)
    least = found["volume", "correlated", *volumes[0]]
    low = {name: least.ratio(pair[0], pair[2]) for name, pair in PAIRS.items()}
    judge("volume-low", low, at_least(0.95, noise=0.05), unit="× ISJ's time", why=why)
    more = {
        f"{how}, {name}": found["volume", how, *volumes[b]].gain(pair[0], pair[2])
        - found["volume", how, *volumes[a]].gain(pair[0], pair[2])
        for how in ("correlated", "independent")
        for name, pair in PAIRS.items()
        for a, b in ((0, 2),)
    }
    judge("volume", more, run.more(), unit="points", why=why)
    one, three = (
        found["dimensions", "correlated", run.size // 2, run.size // 20, d] for d in (1, 3)
    )
    for key, plans in (("dimensions-naive", {"ours": (LSJ, NAIVE)}), ("dimensions-one", None)):
        chosen = plans or {name: (pair[0], pair[1]) for name, pair in PAIRS.items()}
        cases = {name: three.gain(*pair) - one.gain(*pair) for name, pair in chosen.items()}
        judge(key, cases, run.more(), unit="points", why=why)
    largest = {how: found["volume", how, *volumes[-1]] for how in ("correlated", "independent")}
    auto = {how: times.ratio(AUTO, ISJ, whole=True) for how, times in largest.items()}
    judge("auto-40000", auto, below(1.0, timed=True), unit="× isj's time", why=why)
