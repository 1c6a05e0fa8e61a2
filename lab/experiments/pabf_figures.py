"""The verdicts on section 7.2 of the PABF paper: Figures 9 to 12."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.experiments.pabf_runs import Quality, Run, Study
from lab.experiments.remarks import moved, span
from lab.experiments.seeds import Sample
from lab.experiments.verdicts import (
    MUCH,
    MUCH_TIME,
    SAME_TIME,
    TIMED,
    Bound,
    Verdicts,
    above,
    at_least,
    at_most,
    below,
)

__all__ = ["LETTERS", "Found", "Sweep", "judge_figures", "median_of", "spread_of"]

Sweep = Mapping[str, Mapping[int, Mapping[str, Run]]]
"""Runs by axis, value and algorithm."""
LETTERS = "abcd"


@dataclass(frozen=True)
class Found:
    """All measurements of a study."""

    quality: Mapping[str, Mapping[str, Sequence[Quality]]]
    sweeps: Mapping[str, Sweep]
    skew: Mapping[str, Sweep]
    filters: Mapping[tuple[str, str], Run]
    false_pruning: Mapping[tuple[str, float], Sample]
    falling: Mapping[tuple[int, float], Mapping[str, Run]]

    def points(self, *names: str) -> Iterator[tuple[str, Mapping[str, Run]]]:
        """The points of Figures 9 to 11 of these streams, each once."""
        for name in names:
            seen = set()
            for axis, points in self.sweeps[name].items():
                for value, runs in points.items():
                    if runs["pabf"].case not in seen:  # the default is a point on every axis
                        seen.add(runs["pabf"].case)
                        yield f"{name}, {axis} = {value:,}", runs


def judge_figures(verdicts: Verdicts, study: Study, found: Found) -> None:
    """Judge what section 7.2 says, and our own aims."""
    _stock(verdicts, found)
    _related_to_time(verdicts, study, found)
    _skew_figures(verdicts, found)
    _ours(verdicts, found)


def _over(runs: Mapping[str, Run], other: str) -> float:
    return runs["pabf"].seconds / runs[other].seconds


def _stock(verdicts: Verdicts, found: Found) -> None:
    points = dict(found.points("STOCK"))
    fastest = {
        name: max(_over(runs, a) for a in ("mintopk", "sma")) for name, runs in points.items()
    }
    scan = _scans(points)
    verdicts.judge(
        "stock-fastest",
        fastest,
        below(1.0, timed=True),
        unit="× the faster of the others",
        why=scan,
    )
    by_size = found.sweeps["STOCK"]["N"]
    for key, other, limit in (("stock-mintopk", "mintopk", 0.4), ("stock-sma", "sma", 0.2)):
        each = {f"N = {n:,}": _over(runs, other) for n, runs in by_size.items()}
        mean = float(np.mean(list(each.values())))
        worst = max(each, key=lambda name: each[name])
        verdicts.judge(
            key, {"mean over N": mean}, at_most(limit, timed=True), unit="× its time",
            why=f"At {worst} the ratio is {each[worst]:.2f}. " + (scan if other == "sma" else ""),
        )  # fmt: skip
    _memory(verdicts, "stock-memory", points, at_least(1.6))


def _scans(points: Mapping[str, Mapping[str, Run]]) -> str:
    """Why SMA is as fast as it is: how few rows it reads again."""
    shares = [
        runs["sma"].stats["rows_rescanned"] / runs["sma"].stats["rows_in"]
        for runs in points.values()
    ]
    return f"""SMA here has one score, so its grid is a list of cells sorted by it, and a rescan
    reads only the best ones: per row of input it reads {float(np.median(shares)):.3f} rows again
    (median; {max(shares):.2f} at most)."""


def _memory(
    verdicts: Verdicts, key: str, points: Mapping[str, Mapping[str, Run]], bound: Bound
) -> None:
    points = {name: runs for name, runs in points.items() if runs["mintopk"].filled}
    ratio = {
        name: runs["mintopk"].candidates / runs["pabf"].candidates for name, runs in points.items()
    }
    merged = [
        runs["mintopk"].candidates / max(1.0, runs["pabf"].candidates - runs["pabf"].fresh)
        for runs in points.values()
    ]
    waiting = [runs["pabf"].fresh / runs["pabf"].candidates for runs in points.values()]
    verdicts.judge(
        key, ratio, bound, unit="× PABF's rows",
        why=f"""{100 * float(np.median(waiting)):.0f} % of PABF's rows (median) wait for a merge.
        Without them the ratio would be {float(np.median(merged)):.2f} (median). Rows keep their own
        scores and ids here, so a node takes as much room as its members.""",
    )  # fmt: skip


def _related_to_time(verdicts: Verdicts, study: Study, found: Found) -> None:
    points = dict(found.points("TIME^U", "TIME^R"))
    fastest = {
        name: max(_over(runs, a) for a in ("mintopk", "sma")) for name, runs in points.items()
    }
    scan = _scans(points)
    verdicts.judge(
        "time-fastest", fastest, below(1.0, timed=True), unit="× the faster of the others", why=scan
    )
    verdicts.judge(
        "time-significant", fastest, at_most(0.5, timed=True), unit="× the faster of the others",
        why=scan,
    )  # fmt: skip
    _memory(verdicts, "time-memory", points, above(1.0))
    _memory(verdicts, "time-memory-much", points, MUCH)
    period = 4 * study.size
    sizes = [n for n in study.sizes if n < period]
    curve, random = (found.sweeps[name]["N"] for name in ("TIME^R", "TIME^U"))
    for algorithm, bound in (("sma", MUCH_TIME), ("pabf", SAME_TIME)):
        ratio = {
            f"N = {n:,}": curve[n][algorithm].seconds / random[n][algorithm].seconds for n in sizes
        }
        read = [curve[n]["sma"].stats["rows_rescanned"] / curve[n]["sma"].stats["rows_in"]
                for n in sizes]  # fmt: skip
        kept = [curve[n]["pabf"].candidates / random[n]["pabf"].candidates for n in sizes]
        verdicts.judge(
            f"{algorithm}-period", ratio, bound, unit="× its time on TIME^U",
            why=f"""SMA reads {max(read):.2f} rows again per row of input at most. PABF keeps
            {span(kept, ".1f")} times as many rows on TIME^R as on TIME^U"""
            + (": while the curve falls, every slide has k rows that later windows will show."
               if min(kept) > 1 else "."),
        )  # fmt: skip


def _skew_figures(verdicts: Verdicts, found: Found) -> None:
    def times(kind: str, algorithm: str) -> dict[str, list[float]]:
        """Per point of Figure 12, the seconds for the four letters."""
        sweeps = [found.skew[f"{kind}({letter})"] for letter in LETTERS]
        runs = {
            f"{axis} = {value:,}": [sweep[axis][value][algorithm] for sweep in sweeps]
            for axis, points in sweeps[0].items()
            for value in points
        }
        # A window that is still filling costs less, so such times cannot be compared.
        full = {name: row for name, row in runs.items() if all(run.filled for run in row)}
        return {name: [run.seconds for run in row] for name, row in (full or runs).items()}

    pabf, sma = times("SKEW-I", "pabf"), times("SKEW-I", "sma")
    gap = {
        name: (sma[name][-1] - pabf[name][-1] - (sma[name][0] - pabf[name][0])) / sma[name][0]
        for name in pabf
        if name in sma
    }
    ends = found.skew["SKEW-I(a)"], found.skew["SKEW-I(d)"]
    value = next(iter(ends[0]["N"]))
    again = [end["N"][value]["sma"].stats["rows_rescanned"] for end in ends]
    verdicts.judge(
        "skew1-sma", gap, above(0.0, noise=TIMED), unit="of SMA's time on a, from a to d",
        why=f"""The grid is laid out again over the live scores. At N = {value:,} the number of rows
        that SMA reads again {moved(again[0], again[1], ",.0f", near=0.1 * again[0])} from a to
        d.""",
    )  # fmt: skip
    usual = found.skew["SKEW-II(a)"], found.skew["SKEW-II(d)"]
    kept = {
        f"{axis} = {v:,}": usual[1][axis][v]["mintopk"].candidates
        / usual[0][axis][v]["mintopk"].candidates
        for axis, points in usual[0].items()
        for v in points
        if all(each[axis][v]["mintopk"].filled for each in usual)
    }
    spread = {name: spread_of(row) for name, row in times("SKEW-II", "pabf").items()}
    rows = [each["N"][value]["pabf"].candidates for each in usual]
    verdicts.judge(
        "skew2-pabf", spread, SAME_TIME, unit="× between a and d",
        why=f"At N = {value:,} PABF keeps {rows[0]:,.0f} rows on a and {rows[1]:,.0f} on d.",
    )  # fmt: skip
    scanned = [
        each["N"][value]["sma"].stats["rows_rescanned"] / each["N"][value]["sma"].stats["rows_in"]
        for each in usual
    ]
    slides = found.sweeps["STOCK"]["s"]
    few, many = max(slides), min(slides)
    for algorithm in ("sma", "mintopk"):
        rise = {name: row[-1] / row[0] for name, row in times("SKEW-II", algorithm).items()}
        verdicts.judge(
            f"skew2-{algorithm}", rise, MUCH_TIME, unit="× from a to d",
            why=f"""From a to d MinTopK keeps {min(kept.values()):.1f} to {max(kept.values()):.1f}
            times as many rows, and its time changes by a factor of {min(rise.values()):.2f} to
            {max(rise.values()):.2f}. With the number of coming windows, whose predicted results
            are as many for a as for d, it changes by a factor of
            {slides[many]["mintopk"].seconds / slides[few]["mintopk"].seconds:.1f}: on STOCK, if
            windows slide by {few:,} rows and not by {many:,}."""
            if algorithm == "mintopk" else
            f"""From a to d its time changes by a factor of {min(rise.values()):.2f} to
            {max(rise.values()):.2f}. At N = {value:,} it reads {scanned[0]:.2f} rows again per row
            of input on a and {scanned[1]:.2f} on d.""",
        )  # fmt: skip
    verdicts.judge(
        "skew2-kept", kept, MUCH, unit="× from a to d",
        why=f"It keeps {min(kept.values()):.1f} times as many at least.",
    )  # fmt: skip


def _ours(verdicts: Verdicts, found: Found) -> None:
    points = dict(found.points(*found.sweeps))
    ratio = {name: _over(runs, "skyband") for name, runs in points.items()}
    kept = {
        name: runs["pabf"].candidates / runs["skyband"].candidates for name, runs in points.items()
    }
    share = [100 * runs["pabf"].fresh / runs["pabf"].candidates for runs in points.values()]
    verdicts.judge(
        "over-skyband", ratio, below(1.0, timed=True), unit="× its time",
        why=f"""`skyband` sweeps a whole batch at once and leaves out what no window can show before
        anything is sorted; PABF takes {median_of(ratio):.2f} times as long (median) and at best
        {min(ratio.values()):.2f} times.""",
    )  # fmt: skip
    verdicts.judge(
        "less-than-skyband", kept, below(1.0), unit="× its rows",
        why=f"{float(np.median(share)):.0f} % of PABF's rows (median) wait for a merge.",
    )  # fmt: skip


def spread_of(values: Sequence[float]) -> float:
    """The greatest by the least; 1 if all are zero."""
    least, most = min(values), max(values)
    return 1.0 if most == least else most / least if least else math.inf


def median_of(values: Mapping[str, float]) -> float:
    """The median of all cases."""
    return float(np.median(list(values.values())))
