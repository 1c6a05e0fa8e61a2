"""Jin et al., "Sliding-Window Top-k Queries on Uncertain Streams": Figures 3-10 and Table 2.

Do the compact set queues give the same answers as keeping the whole window in order (BS), in two to
three orders of magnitude less space? And is the buffered queue as fast as BS or faster?
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.datasets.real import data_folder
from lab.datasets.uncertain import icebergs_repeated, random_order
from lab.experiments.report import Progress, Report
from lab.experiments.uncertain_radar import draw
from lab.experiments.uncertain_runs import ALGORITHMS, Point, Stream, measure, semantics_of

__all__ = ["reproduce"]

KINDS = ("pk-topk", "pt-k", "u-kranks", "u-topk")
FIGURES = {
    ("synthetic", "pk-topk"): "Figures 4 and 5",
    ("icebergs", "pk-topk"): "Figures 6 and 7",
    ("icebergs", "pt-k"): "Figure 8",
    ("icebergs", "u-kranks"): "Figure 9",
    ("icebergs", "u-topk"): "Figure 10",
}
KS = (10, 20, 40, 60, 80, 100)
WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
K, WINDOW = 10, 100_000
"""The fixed value of each while the other one varies."""
NOISE = 1.15
"""Times that differ by a smaller factor count as equal."""
LARGE = 100_000
"""The paper's claims about large windows are judged from this size on."""

Sweep = Mapping[str, Sequence[Point]]
"""Per algorithm label, one point for each value of k or W."""


@dataclass(frozen=True)
class Study:
    """The sizes and times that a scale stands for."""

    scale: float

    @property
    def seconds(self) -> float:
        """How long an algorithm is timed in one setting."""
        return max(0.02, 0.2 * self.scale)

    @property
    def ks(self) -> Sequence[int]:
        return KS if self.scale >= 0.5 else KS[:3]

    @property
    def windows(self) -> Sequence[int]:
        return [size for size in WINDOWS if size <= max(10_000, WINDOWS[-1] * self.scale)]

    @property
    def window(self) -> int:
        """The window's size while k varies."""
        return min(WINDOW, self.windows[-1])

    @property
    def rows(self) -> int:
        return self.windows[-1] + max(20_000, int(400_000 * self.scale))


def reproduce(scale: float, out: Path, progress: Progress) -> None:
    """Write ``uncertain.md`` and its plots to ``out``; ``scale`` 1 is the paper's size."""
    study = Study(scale)
    draw(out / "uncertain-radar.png")
    streams = {"synthetic": Stream(random_order(study.rows))}
    if data_folder() is not None:
        streams["icebergs"] = Stream(icebergs_repeated(study.rows))
    report = Report("Top-k on uncertain streams")
    _set_up(report, study, streams)
    verdicts = [_figure_3(report, streams)]
    claims: dict[str, dict[str, dict[str, str]]] = {}
    # Use fewer values of k if the paper shows no figure.
    pairs = [(name, kind) for name in streams for kind in KINDS]
    ks = {pair: study.ks if pair in FIGURES else study.ks[::2] for pair in pairs}
    total = sum(len(ks[pair]) + len(study.windows) for pair in pairs) * len(ALGORITHMS)
    done = 0

    def sweep(name: str, kind: str, settings: Sequence[tuple[int, int]]) -> Sweep:
        nonlocal done
        found: dict[str, list[Point]] = {label: [] for label in ALGORITHMS}
        for k, size in settings:
            for label, algorithm in ALGORITHMS.items():
                done += 1
                progress(f"{done} of {total}: {name}, {kind}, k = {k}, W = {size:,}: {label}")
                point = measure(streams[name], kind, algorithm, k, size, study.seconds)
                found[label].append(point)
        return found

    for name, kind in pairs:
        values = ks[name, kind]
        by_k = sweep(name, kind, [(k, study.window) for k in values])
        by_size = sweep(name, kind, [(K, size) for size in study.windows])
        title = FIGURES.get((name, kind), "Not in the paper's figures")
        report.heading(f"{title}: {kind}, {name}")
        stem = f"uncertain-{name}-{kind}"
        _figures(report, "k", values, by_k, f"W = {study.window:,}", stem)
        _figures(report, "W", study.windows, by_size, f"k = {K}", stem)
        claims.setdefault(name, {})[kind] = judged(by_k, by_size)
        if (name, kind) == pairs[0]:
            growth = by_k, by_size
    bounds = _table_2(report, *growth)
    report.heading("Verdicts")
    report.bullets(verdicts)
    for name, kinds in claims.items():
        report.text(f"What section 6 claims about space and time, {name}:")
        lines = [[claim, *(kinds[kind][claim] for kind in kinds)] for claim in kinds[KINDS[0]]]
        report.table(["the paper", *kinds], lines)
    report.text("Table 2:")
    report.bullets(bounds)
    report.write(out / "uncertain.md")


def _set_up(report: Report, study: Study, streams: Mapping[str, Stream]) -> None:
    report.heading("Question")
    report.text((__doc__ or "").partition("\n\n")[2])
    report.heading("Set-up")
    report.bullets(
        [
            "Synthetic: distinct scores in random order, uniform probabilities. Icebergs: "
            "sightings of 2014-2021 drawn at random into a long stream, as the paper did with "
            "1998-2007; the score is days since the first sighting, because these seasons do not "
            "record days drifted.",
            f"Every slide is one row. Scale {study.scale:g}: windows of up to "
            f"{study.windows[-1]:,} rows, k up to {study.ks[-1]}; once the window is full, each "
            f"synopsis is timed for about {study.seconds:g} s (CPU time).",
            "Space is counted as in the paper: 6 bytes per row in every list that contains it, and "
            "4 bytes per entry of the array r. The memory that our program uses is a different "
            "figure (`state_bytes`).",
            "CSQ, CCSQ and SCSQ are filled only with the rows of the first window that they would "
            "hold; the other rows would leave no trace.",
            f"A verdict is undecided if times differ by less than a factor of {NOISE:g}, or if a "
            f"claim is about large windows and no window of {LARGE:,} rows was measured.",
        ]
    )
    if "icebergs" not in streams:
        report.text(
            "Figures 6-10 are missing: set SKYBAND_DATA to a folder with the sightings to get them."
        )
    report.heading("Result")


def _figure_3(report: Report, streams: Mapping[str, Stream]) -> str:
    ks = (1, *range(10, 101, 10))
    columns: dict[str, list[float]] = {}
    for name, stream in streams.items():
        score, p = (stream.table[column].to_numpy()[:20_000] for column in ("score", "p"))
        ordered = p[np.argsort(-score, kind="stable")]
        for kind in KINDS:
            sizes = [semantics_of(kind, k).end(ordered) or len(p) for k in ks]
            columns[f"{kind}, {name}"] = [float(size) for size in sizes]
    report.heading("Figure 3: the size of the compact set")
    lines = [[k, *(int(column[i]) for column in columns.values())] for i, k in enumerate(ks)]
    report.table(["k", *columns], lines)
    report.plot("uncertain-figure-3", "Compact set", columns, "k = 1, 10, 20, …, 100", "rows")
    pk = columns["pk-topk, synthetic"]
    fit = pk[-1] / pk[-6]
    told = _told(1.6 < fit < 2.4)
    return f"Figure 3, linear in k: {told}; pk-topk grows {fit:.2f} × from k = 50 to 100."


def _figures(
    report: Report, axis: str, values: Sequence[int], found: Sweep, fixed: str, stem: str
) -> None:
    quantities: tuple[tuple[str, str, Callable[[Point], float]], ...] = (
        ("Space", "kB", lambda point: point.space / 1000),
        ("Time per row", "µs", lambda point: point.micros),
    )
    for what, unit, of in quantities:
        data = {label: [of(point) for point in points] for label, points in found.items()}
        report.text(f"{what} ({unit}), {fixed}:")
        lines = [[value, *(data[label][i] for label in data)] for i, value in enumerate(values)]
        report.table([axis, *data], lines)
        report.plot(
            f"{stem}-{axis.lower()}-{what.split()[0].lower()}",
            f"{what}, {fixed}",
            {label: [math.log10(max(y, 1e-6)) for y in line] for label, line in data.items()},
            f"{axis} = {', '.join(f'{value:,}' for value in values)}",
            f"log10 {unit}",
        )


def _told(holds: bool, can_be_told: bool = True) -> str:
    if not can_be_told:
        return "undecided"
    return "holds" if holds else "does not hold"


def _slower(ratio: float) -> str:
    """The verdict on "slower" for something that takes ``ratio`` times as long."""
    return _told(ratio > 1, not 1 / NOISE < ratio < NOISE)


def judged(by_k: Sweep, by_size: Sweep) -> dict[str, str]:
    """The paper's claims for one stream and semantics: what was measured, and the verdict."""
    first, last = ({n: line[end] for n, line in by_size.items()} for end in (0, -1))
    space = {label: point.space for label, point in last.items()}
    micros = {label: point.micros for label, point in last.items()}
    small = [space[label] for label in ("CCSQ", "SCSQ", "SCSQ-Buffer")]
    least, most = (math.log10(space["BS"] / end) for end in (max(small), min(small)))
    over_k = by_k["BS"][-1].space / by_k["BS"][0].space
    csq = space["BS"] / space["CSQ"]
    slowest = min(micros["CSQ"], micros["CCSQ"]) / micros["SCSQ"]
    middle = micros["SCSQ"] / max(micros["BS"], micros["SCSQ-Buffer"])
    buffered = micros["BS"] / micros["SCSQ-Buffer"]
    growth = micros["SCSQ-Buffer"] / first["SCSQ-Buffer"].micros
    large = last["BS"].size >= LARGE
    return {
        "BS does not depend on k": f"{over_k:.2f} × over k: {_told(over_k < 2, large)}",
        "CSQ is considerably smaller": f"{csq:.1f} ×: {_told(csq > 2, large)}",
        "the others 2 to 3 orders smaller":
            f"{least:.1f} to {most:.1f} orders: {_told(least >= 2, large)}",
        "and comparable": f"within {10 ** (most - least):.1f} ×: {_told(most - least < 0.5)}",
        "CSQ and CCSQ are slower than SCSQ": f"{slowest:.1f} ×: {_slower(slowest)}",
        "SCSQ is slower than BS and SCSQ-Buffer": f"{middle:.1f} ×: {_slower(middle)}",
        "BS is slower than SCSQ-Buffer": f"{buffered:.1f} ×: {_slower(buffered)}",
        "no more time per row in a larger window": f"{growth:.2f} ×: {_told(growth < NOISE)}",
    }  # fmt: skip


# Table 2: the bounds on a synopsis' space and time; a sum grows like its fastest term.
Term = Callable[[Point], float]
_ARRAY: Term = lambda at: at.k * at.largest  # noqa: E731
_LOG: Term = lambda at: math.log2(at.size)  # noqa: E731
_LISTS: Term = lambda at: at.largest * math.log2(at.size)  # noqa: E731
_REBUILT: Term = lambda at: at.k * at.largest**2 / at.size  # noqa: E731
_CUBIC: Term = lambda at: at.k * at.largest**2  # noqa: E731
TABLE_2: dict[str, tuple[str, Sequence[Term], str, Sequence[Term]]] = {
    "BS": ("W + kH", (lambda at: at.size, _ARRAY), "kH²/W + log W", (_REBUILT, _LOG)),
    "CSQ": ("H² log W", (lambda at: at.largest**2 * math.log2(at.size),), "kH²", (_CUBIC,)),
    "CCSQ": ("H(k + log W)", (_ARRAY, _LISTS), "kH²", (_CUBIC,)),
    "SCSQ": ("H(k + log W)", (_ARRAY, _LISTS), "kH log W", (lambda at: at.k * _LISTS(at),)),
    "SCSQ-Buffer": ("H(k + log W)", (_ARRAY, _LISTS), "kH²/W + log W", (_REBUILT, _LOG)),
}


def exponent(values: Sequence[float], over: Sequence[int]) -> float:
    """The power of ``over`` with which values grow, by least squares on logarithms.

    >>> round(exponent([3.0, 12.0, 48.0], [1, 2, 4]), 6)
    2.0
    """
    x, y = np.log(over), np.log(values)
    return float(np.polyfit(x, y, 1)[0]) if len(over) > 1 else 0.0


def _table_2(report: Report, by_k: Sweep, by_size: Sweep) -> list[str]:
    """The powers of k and W with which space and time grow, compared with those of Table 2."""
    report.heading("Table 2: growth with k and W")
    report.text(
        "pk-topk, synthetic. Each cell gives the power of k (or W) with which our space (or time "
        "per row) grows along the sweep, then the power with which the bound's fastest term grows, "
        "using the measured H. A bound holds if our power is at most 0.25 above that of the bound."
    )
    verdicts, lines = [], []
    for label, (space, space_terms, time, time_terms) in TABLE_2.items():
        cells: list[str] = [label]
        for what, bound, terms in (("space", space, space_terms), ("time", time, time_terms)):
            worst, told = -math.inf, []
            for axis, points in (("k", by_k[label]), ("W", by_size[label])):
                over = [point.k if axis == "k" else point.size for point in points]
                ours = exponent(
                    [point.space if what == "space" else point.micros for point in points], over
                )
                allowed = max(exponent([term(point) for point in points], over) for term in terms)
                worst = max(worst, ours - allowed)
                told.append(f"{ours:.2f} / {allowed:.2f}")
            cells += told
            verdicts.append(f"{label}, {what} O({bound}): {_told(worst <= 0.25)}.")
        lines.append(cells)
    header = ["ours / bound", "space, k", "space, W", "time, k", "time, W"]
    report.table(header, lines)
    return verdicts
