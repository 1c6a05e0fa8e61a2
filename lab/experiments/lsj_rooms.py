"""Figures 5, 10 and 11: layers and what they share, and the rooms in place of the sensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from lab.datasets.real import data_folder
from lab.experiments.lsj_common import (
    GAINS,
    OTHERS,
    PAIRS,
    PAPER,
    PLANS,
    ROOMS,
    Run,
    by_form,
    cells,
    judge_ratios,
)
from lab.experiments.lsj_runs import (
    AUTO,
    ISJ,
    NAIVE,
    OURS,
    Plan,
    Setting,
    Times,
    layers_of,
    lsj,
    overlaps,
    seeded,
    timed,
)
from lab.experiments.remarks import moved
from lab.experiments.seeds import Sample
from lab.experiments.verdicts import about, at_least, at_most, below, between

__all__ = ["figure_5", "figure_10", "figure_11"]


def figure_5(run: Run) -> dict[str, Times]:
    """Layers, and the rows that they share with the previous window."""
    report, verdicts = run.report, run.verdicts
    run.progress("Figure 5: overlap of layers")
    drawn = [overlaps(setting, 5) for setting in seeded(run.size, run.slide)]
    series = drawn[0]
    report.heading("Figure 5: layers, and the rows that they share with the previous window")
    report.plot(
        "lsj-overlap",
        "overlap per layer above the first, five windows of one stream (independent)",
        {f"window {i + 1}": values for i, values in enumerate(series)},
        "layer - 2",
        "% of rows",
    )
    shares, early, late = (
        Sample(tuple(float(np.mean([np.mean(values[part]) for values in each if values]))
                     for each in drawn))
        for part in (slice(None), slice(1), slice(-1, None))
    )  # fmt: skip
    rows: list[list[Any]] = []
    counted: dict[tuple[str, str], Sample] = {}
    samples = {
        f"{how} {size:,}": [*seeded(size, size // 10, 2, 3, distribution=how)]
        for size in (run.size, 4 * run.size)
        for how in ("correlated", "independent")
    }
    if data_folder() is not None:
        samples["rooms"] = [Setting.sensors(run.minutes, run.minutes // 10, 3)]
    for sample, settings in samples.items():
        for name, pair in PAIRS.items():
            counts = [layers_of(setting, pair[2], 3) for setting in settings]
            mean = Sample(tuple(float(np.mean(each)) for each in counts))
            rows.append([sample, name, int(np.min(counts)), f"{mean:.1f}", int(np.max(counts))])
            counted[sample, name] = mean
    report.table(["rows", "pruning", "fewest layers", "mean", "most layers"], rows)
    report.text(
        f"""The share of rows that were there in the previous window is {early:.0f} % in the first
        layer above the data and {late:.0f} % in the last, over {len(drawn)} streams."""
    )
    most = max(row[-1] for row in rows)
    growth = [
        moved(counted[f"{how} {run.size:,}", "the paper's form"].mean,
              counted[f"{how} {4 * run.size:,}", "the paper's form"].mean, ".1f", near=1.0)
        + f" ({how})"
        for how in ("correlated", "independent")
    ]  # fmt: skip
    verdicts.judge(
        "layers", {s: n for (s, name), n in counted.items() if name not in OTHERS},
        between(20, 35), unit="layers",
        apart={f"{s}, {name}": n for (s, name), n in counted.items() if name in OTHERS},
        why=f"""The paper does not say which rows its sample has. The most layers of a window here,
        in any form, are {most}. With four times the live rows the mean {"; ".join(growth)}.""",
    )  # fmt: skip
    verdicts.judge(
        "overlap", {"mean of all layers": shares}, at_least(50), unit="%",
        why=f"the mean over all layers is {shares:.0f} %",
    )  # fmt: skip
    verdicts.judge(
        "overlap-falls", {"first to last": late - early}, below(0.0), unit="points",
        why=f"It is {early:.0f} % in the first layer above the data, {late:.0f} % in the last.",
    )  # fmt: skip
    return {}


def _rooms(size: int, slide: int, plans: Sequence[Plan] = PLANS) -> Times:
    return timed(Setting.sensors(size, slide, ROOMS), plans)


def figure_10(run: Run) -> dict[str, Times]:
    """The number of layers that share."""
    report, verdicts = run.report, run.verdicts
    run.progress("Figure 10: number of layers")
    keys = ("naive", "grows", "more-layers", "isj")
    if data_folder() is None:
        for key in keys:
            verdicts.unmeasured(key, "the rooms are not there: set SKYBAND_DATA to their folder")
        return {}
    several = [lsj(n) for n in (2, 4, 8)]
    times = _rooms(run.minutes, run.minutes // 10, (*PLANS, *several))
    report.heading(f"Figure 10: layers that share (rooms, {run.minutes} minutes)")
    lsj_all, lsj_one, isj = PAPER
    layers = [lsj_one, *several, lsj_all]
    report.table(
        ["layers", "gain over naive %", "gain over isj %"],
        [[("all" if plan == lsj_all else plan.layers), times.gain(plan, NAIVE),
          times.gain(plan, isj)] for plan in layers]
        + [[f"ours: {name}", times.gain(plan, NAIVE), times.gain(plan, ISJ)]
           for name, plan in (("automatic", AUTO), ("gsj", OURS))],
    )  # fmt: skip
    rooms = {"rooms": times}
    why = run.why(rooms)
    gain = [times.gain(plan, isj) for plan in layers]
    verdicts.judge(
        "grows",
        {f"{a.layers} to {'all' if b == lsj_all else b.layers}": later - earlier
         for (a, b), (earlier, later) in zip(pairwise(layers), pairwise(gain), strict=True)},
        run.more(), unit="points over ISJ",
        why=f"From one layer to all the gain {moved(gain[0].mean, gain[-1].mean, '.1f')} %. {why}",
    )  # fmt: skip
    judge_ratios(
        run, "naive", rooms, NAIVE, below(0.05, timed=True), "× Naive's time",
        f"""Naive is compiled here and sorts each window's pairs once: it takes
        {times.millis(NAIVE):.2f} ms a window, LSJ {times.millis(lsj_all):.2f} ms, our `gsj`
        {times.millis(OURS):.2f}.""",
    )  # fmt: skip
    one, ours = below(1.0, timed=True), at_most(0.75, timed=True)
    judge_ratios(run, "more-layers", rooms, 1, one, "× LSJ (1)'s time", why)
    judge_ratios(run, "isj", rooms, 2, ours, "× ISJ's time", why)
    return {"Fig. 10": times}


def figure_11(run: Run) -> dict[str, Times]:
    """The sizes of the window and of the shift."""
    keys = ("real-isj", "size-best", "size-45", "size-drop", "shift-best", "shift-drop")
    if data_folder() is None:
        for key in keys:
            run.verdicts.unmeasured(key, "the rooms are not there: set SKYBAND_DATA")
        return {}
    base, found, rows = run.minutes, {}, []
    sizes = [(base // 2, base // 10), (base, base // 10), (2 * base, base // 10)]
    shifts = [(base, max(1, base // 30)), (base, base // 10), (base, base // 4)]
    for size, slide in dict.fromkeys((*sizes, *shifts)):
        run.progress(f"Figure 11: rooms, {size} / {slide} minutes")
        found[size, slide] = _rooms(size, slide)
        rows.append([size, slide, *cells(found[size, slide])])
    run.report.heading("Figure 11: window and shift in minutes (rooms)")
    run.report.table(["window", "shift", *GAINS], rows)
    why = run.why(found)
    judge_ratios(run, "real-isj", found, 2, between(0.6, 0.75, noise=0.1), "× ISJ's time", why)
    for key, chosen in (("size-best", sizes), ("shift-best", shifts)):
        best = {
            f"{size} / {slide} over {name}": found[size, slide].ratio(PAPER[0], other)
            for size, slide in chosen
            for name, other in (("naive", NAIVE), ("isj", PAPER[2]), ("lsj (1)", PAPER[1]))
        }
        run.verdicts.judge(key, best, below(1.0, timed=True), unit="× its time", why=why)
    ten = {(base, base // 10): found[base, base // 10]}
    judge_ratios(run, "size-45", ten, 2, about(0.55, noise=0.08), "× ISJ's time", why)
    for key, (far, near) in (
        ("size-drop", (sizes[2], sizes[1])),
        ("shift-drop", (shifts[0], shifts[1])),
    ):
        differences = {
            name: found[near].gain(pair[0], pair[2]) - found[far].gain(pair[0], pair[2])
            for name, pair in PAIRS.items()
        }
        by_form(run, key, differences, run.more(), why)
    return {f"Fig. 11: {size} / {slide}": each for (size, slide), each in found.items()}
