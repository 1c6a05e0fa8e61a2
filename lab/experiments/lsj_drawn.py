"""Figures 12 to 14: synthetic streams by correlation, join rate, shift, volume and dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from lab.datasets.skyline import DISTRIBUTIONS
from lab.experiments.lsj_common import (
    GAINS,
    LARGE,
    OTHERS,
    PAIRS,
    PAPER,
    Run,
    by_form,
    cells,
    in_millis,
)
from lab.experiments.lsj_runs import AUTO, ISJ, LSJ, LSJ1, NAIVE, Times, local_comparisons, seeded
from lab.experiments.seeds import Sample
from lab.experiments.verdicts import Bound, above, at_least, at_most, below, between

__all__ = ["figure_12", "figure_13", "figure_14"]


def figure_12(run: Run) -> dict[str, Times]:
    """Correlation."""
    found: dict[tuple[str, int], Times] = {}
    counts: list[list[Any]] = []
    for how in DISTRIBUTIONS:
        # On anti-correlated rows all answers are large, so a quarter of the rows is enough.
        mine = run.size // 4 if how == "anti-correlated" else run.size
        for size in (mine,) if how == "anti-correlated" else (mine, run.volume):
            found[how, size] = run.drawn(how, size)
        isj, one, every = (
            Sample(tuple(local_comparisons(setting, plan)
                         for setting in seeded(mine, mine // 10, distribution=how)))
            for plan in (ISJ, LSJ1, LSJ)
        )  # fmt: skip
        saved = (Sample.of(1) - every / isj) * 100
        counts.append([how, *(f"{each:,.0f}" for each in (isj, one, every)), f"{saved:.1f}"])
    run.report.heading("Figure 12: correlation")
    run.report.table(
        ["distribution", "live rows", *GAINS],
        [[how, size, *cells(times)] for (how, size), times in found.items()],
    )
    run.report.text("Comparisons for local skylines (the paper gives only times):")
    run.report.table(["distribution", "isj", "lsj (1)", "lsj (all)", "saved %"], counts)
    _distributions(run, found)
    return {f"Fig. 12: {how}, {size:,} rows": times for (how, size), times in found.items()}


def _distributions(run: Run, found: Mapping[tuple[str, int], Times]) -> None:
    judge, size, middle, anti = run.verdicts.judge, run.size, "independent", "anti-correlated"
    why = run.why({f"{how}, {n:,} rows": times for (how, n), times in found.items()})

    def gains(how: str, size: int) -> dict[str, Sample]:
        """Over ISJ, by form of the algorithm."""
        return {name: found[how, size].gain(pair[0], pair[2]) for name, pair in PAIRS.items()}

    def judged(key: str, cases: Mapping[str, Mapping[str, Sample]], bound: Bound,
               unit: str) -> None:  # fmt: skip
        """Cases by setting and form."""
        judge(
            key, {name: each["the paper's form"] for name, each in cases.items()}, bound,
            unit=unit, why=why,
            apart={f"{name}, {form}": v[form] for form in OTHERS for name, v in cases.items()},
        )  # fmt: skip

    def left(how: str, size: int, other: int) -> dict[str, Sample]:
        """The time of LSJ as a share of the other's."""
        times = found[how, size]
        return {name: times.ratio(pair[0], pair[other]) for name, pair in PAIRS.items()}

    def minus(a: Mapping[str, Sample], b: Mapping[str, Sample]) -> dict[str, Sample]:
        return {name: a[name] - b[name] for name in a}

    sizes = {f"{n:,} rows": n for n in (size, run.volume)}
    more = {name: minus(gains("correlated", n), gains(middle, n)) for name, n in sizes.items()}
    judged("correlation", more, run.more(), "points above independent")
    less = {f"{size // 4:,} rows": minus(gains(middle, size), gains(anti, size // 4))}
    judged("anti-least", less, run.more(), "points below independent")
    judged("up-to-80", {name: left("correlated", n, 2) for name, n in sizes.items()},
           at_most(0.25, timed=True), "× ISJ's time")  # fmt: skip
    judged("anti-one", {anti: left(anti, size // 4, 1)}, between(0.9, 1.1, noise=0.03),
           "× LSJ (1)'s time")  # fmt: skip
    others = {
        f"{how}, {name}": left(how, n, 1)
        for how in ("correlated", middle) for name, n in sizes.items()
    }  # fmt: skip
    judged("layers-30", others, at_most(0.7, timed=True), "× LSJ (1)'s time")
    # Four times as many correlated rows must be faster still.
    ratio = {
        name: found[anti, size // 4].own[plan] / found["correlated", size].own[plan]
        for name, plan in (("LSJ", PAPER[0]), ("LSJ (1)", PAPER[1]))
    }
    judge("one-correlated", ratio, above(1.0, timed=True), unit="× on anti-correlated rows",
          why=why)  # fmt: skip


def figure_13(run: Run) -> dict[str, Times]:
    """The join rate."""
    rates = (0.005, 0.02, 0.1)
    found: dict[tuple[str, float], Times] = {}
    rows: list[list[Any]] = []
    for how in ("correlated", "independent"):
        for rate in rates:
            found[how, rate] = run.drawn(how, run.size, join_rate=rate)
            rows.append([how, str(rate), *cells(found[how, rate])])
    run.report.heading("Figure 13: join rate")
    run.report.table(["distribution", "join rate", *GAINS], rows)
    why = run.why(found)
    naive = {
        f"{how}, {a} to {b}": found[how, b].gain(PAPER[0], NAIVE)
        - found[how, a].gain(PAPER[0], NAIVE)
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
        by_form(run, key, change, bound, why)
    return {f"Fig. 13: {how}, {rate}": times for (how, rate), times in found.items()}


def figure_14(run: Run) -> dict[str, Times]:
    """Shift, volume and dimensions."""
    size = run.size
    shifts = [(size, max(1, size // part), 2) for part in (40, 10, 4)]
    volumes = [(n, n // 10, 2) for n in sorted({size // 4, size, run.volume, run.largest})]
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
            found[what, how, window, slide, d] = run.drawn(how, window, slide, d)
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


def _plot_volume(run: Run, how: str, found: dict[int, Times]) -> None:
    pairs = {name: (pair[0], pair[2]) for name, pair in PAIRS.items()} | {"automatic": (AUTO, ISJ)}
    lines = {name: [t.gain(*pair) for t in found.values()] for name, pair in pairs.items()}
    run.report.plot(
        f"lsj-volume-{how}",
        f"gain of LSJ over ISJ as the window grows ({how})",
        {name: [each.mean for each in line] for name, line in lines.items()},
        "live rows per side",
        "%",
        [f"{n:,}" for n in found],
        halves={name: [each.half for each in line] for name, line in lines.items()},
    )


def _judge_14(run: Run, found: dict[Any, Times], shifts: list[Any], volumes: list[Any]) -> None:
    judge, why = run.verdicts.judge, run.why({k: t for k, t in found.items() if k[2] <= LARGE})
    for key, how, sign in (
        ("shift-correlated", "correlated", 1), ("shift-independent", "independent", -1),
    ):  # fmt: skip
        small, great = (found["shift", how, *shifts[n]] for n in (0, 2))
        cases = {
            name: (small.gain(pair[0], pair[2]) - great.gain(pair[0], pair[2])) * sign
            for name, pair in PAIRS.items()
        }
        by_form(run, key, cases, run.more(), why)
    least = found["volume", "correlated", *volumes[0]]
    low = {name: least.ratio(pair[0], pair[2]) for name, pair in PAIRS.items()}
    by_form(run, "volume-low", low, at_least(0.95, noise=0.05), why, "× ISJ's time")
    more = {
        how: found["volume", how, *volumes[2]].gain(*PAPER[::2])
        - found["volume", how, *volumes[0]].gain(*PAPER[::2])
        for how in ("correlated", "independent")
    }
    judge("volume", more, run.more(), unit="points", why=why)
    one, three = (
        found["dimensions", "correlated", run.size // 2, run.size // 20, d] for d in (1, 3)
    )
    for key, other in (("dimensions-naive", NAIVE), ("dimensions-one", None)):
        cases = {
            name: three.gain(pair[0], other or pair[1]) - one.gain(pair[0], other or pair[1])
            for name, pair in PAIRS.items()
        }
        by_form(run, key, cases, run.more(), why)
    largest = {how: found["volume", how, *volumes[-1]] for how in ("correlated", "independent")}
    auto = {how: times.ratio(AUTO, ISJ, whole=True) for how, times in largest.items()}
    judge("auto-40000", auto, below(1.0, timed=True), unit="× isj's time", why=why)
