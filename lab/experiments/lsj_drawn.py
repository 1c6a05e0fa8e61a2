"""Figures 12 to 14: synthetic streams by correlation, join rate, shift, volume and dimensions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from lab.datasets.skyline import DISTRIBUTIONS
from lab.experiments.lsj_common import (
    GAINS,
    LARGE,
    PAIRS,
    PLANS,
    Run,
    cells,
    in_millis,
    judge_ratios,
)
from lab.experiments.lsj_runs import (
    AUTO,
    ISJ,
    LSJ,
    LSJ1,
    NAIVE,
    PAPER_ISJ,
    PAPER_LSJ,
    PAPER_LSJ1,
    WINDOWS,
    Setting,
    Times,
    local_comparisons,
    timed,
)
from lab.experiments.verdicts import TRUE, at_least, at_most, below, between

__all__ = ["figure_12", "figure_13", "figure_14"]


def figure_12(run: Run) -> dict[str, Times]:
    """Correlation."""
    found: dict[str, Times] = {}
    rows: list[list[Any]] = []
    counts: list[list[Any]] = []
    for how in DISTRIBUTIONS:
        run.progress(f"Figure 12: {how}")
        # On anti-correlated rows all answers are large, so a quarter of the rows is enough.
        mine = run.size // 4 if how == "anti-correlated" else run.size
        setting = Setting.drawn(mine, mine // 10, distribution=how)
        found[how] = timed(setting, PLANS)
        rows.append([how, mine, *cells(found[how])])
        counts.append([how, *(local_comparisons(setting, p) for p in (ISJ, LSJ1, LSJ))])
        counts[-1].append((1 - counts[-1][3] / counts[-1][1]) * 100)
    run.report.heading("Figure 12: correlation")
    run.report.table(["distribution", "live rows", *GAINS], rows)
    run.report.text("Comparisons for local skylines (the paper gives only times):")
    run.report.table(["distribution", "isj", "lsj (1)", "lsj (all)", "saved %"], counts)
    why = run.why(list(found.values()))
    _distributions(run, found, why)
    return {f"Fig. 12: {how}": times for how, times in found.items()}


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
    judge_ratios(run, "anti-one", anti, 1, between(0.9, 1.1, noise=0.03), "× LSJ (1)'s time", why)
    others = {how: found[how] for how in ("correlated", middle)}
    judge_ratios(run, "layers-30", others, 1, at_most(0.7, timed=True), "× LSJ (1)'s time", why)
    # Four times as many correlated rows must be faster still.
    faster = {
        f"{plan.algorithm} ({'all' if plan == LSJ else 1})":
            found["correlated"].own[plan] < found["anti-correlated"].own[plan]
        for plan in (LSJ, LSJ1)
    }  # fmt: skip
    ratio = found["anti-correlated"].own[LSJ] / found["correlated"].own[LSJ]
    judge("one-correlated", faster, TRUE, why=f"anti-correlated takes {ratio:.1f} times as long")


def figure_13(run: Run) -> dict[str, Times]:
    """The join rate."""
    rates = (0.005, 0.02, 0.1)
    found: dict[tuple[str, float], Times] = {}
    rows: list[list[Any]] = []
    for how in ("correlated", "independent"):
        for rate in rates:
            run.progress(f"Figure 13: {how}, join rate {rate}")
            setting = Setting.drawn(run.size, run.slide, distribution=how, join_rate=rate)
            found[how, rate] = timed(setting, PLANS)
            rows.append([how, str(rate), *cells(found[how, rate])])
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
    return {f"Fig. 13: {how}, {rate}": times for (how, rate), times in found.items()}


def figure_14(run: Run) -> dict[str, Times]:
    """Shift, volume and dimensions."""
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
            shown = cells(found[what, how, window, slide, d])
            rows.append([what, how, window, slide, d, *shown])
    run.report.heading("Figure 14: shift, volume and dimensions")
    names = ["varied", "distribution", "window", "shift", "dimensions per side"]
    run.report.table([*names, *GAINS], rows)
    for how in ("correlated", "independent"):
        by_volume = {n: found["volume", how, n, n // 10, 2] for n, _, _ in volumes}
        in_millis(run.report, f"Volume, {how}", {f"{n:,} rows": t for n, t in by_volume.items()})
        _plot_volume(run, how, by_volume)
    _judge_14(run, found, shifts, volumes)
    return {
        f"Fig. 14, {what}: {how}, {window:,} / {slide:,}, {d} per side": times
        for (what, how, window, slide, d), times in found.items()
    }


def _sized(how: str, window: int, slide: int, dimensions: int) -> Times:
    """Large volumes run fewer windows."""
    if window <= LARGE:
        windows = WINDOWS if window <= LARGE // 4 else 10
        setting = Setting.drawn(window, slide, dimensions, windows, distribution=how)
        return timed(setting, PLANS)
    setting = Setting.drawn(window, slide, dimensions, windows=5, distribution=how)
    plans = [plan for plan in PLANS if plan != NAIVE]
    if how == "correlated":
        return timed(setting, plans)
    times = timed(setting, [plan for plan in plans if plan.form != "paper"])
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
