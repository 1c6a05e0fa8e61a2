"""A verdict on every claim of the FSW paper, and remarks on those that fail, all from the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from lab.experiments.fsw_paper import CLAIMS
from lab.experiments.fsw_remarks import remarks
from lab.experiments.fsw_runs import LABELS, Cells, Found, Moved, precision_of, work
from lab.experiments.report import Report
from lab.experiments.verdicts import TRUE, Verdicts
from skyband.frequency.many_groups import fullest_cell

__all__ = ["conclude"]

NEAR = 0.015
"""Precisions are near each other within 1.5 points: the paper calls 1.1 points "very near"."""


class Finding(NamedTuple):
    """Whether a claim is true in each case where it can be tried, and the figures behind it."""

    key: str
    checks: Mapping[str, bool]
    figures: str = ""


def conclude(report: Report, found: Found, moved: Moved, crowding: dict[str, Cells]) -> Verdicts:
    """Write the verdicts and the remarks."""
    verdicts = judged([
        *_precision(found), *_operations(found), *_memory(found), *_guarantees(found, crowding)
    ])  # fmt: skip
    report.text(
        f"""For the verdicts, precisions are averages over all full windows, and "near" means within
        {100 * NEAR:.1f} points."""
    )
    verdicts.add_to(report)
    report.heading("Remarks")
    report.bullets(remarks(found, moved, crowding))
    return verdicts


def judged(findings: Sequence[Finding]) -> Verdicts:
    """Judge by the rule of all papers; a claim that could not be tried says so."""
    verdicts = Verdicts("fsw", CLAIMS)
    for key, checks, figures in findings:
        if not checks:
            verdicts.unmeasured(key, "There is no data of this kind, or no full window.")
            continue
        held = f"True in {sum(checks.values())} of {len(checks)} cases."
        verdicts.judge(key, checks, TRUE, why=f"{held} {figures}")
    return verdicts


def _words(found: Found) -> list[str]:
    return [case for case in found if not case.startswith("osdf")]


def _logs(found: Found) -> list[str]:
    return [case for case in found if case.startswith("osdf")]


def _shares(found: Found, cases: Sequence[str], *names: str) -> str:
    """Precisions of these algorithms, case by case."""
    shown = []
    for case in cases:
        each = ", ".join(f"{LABELS[n]} {100 * precision_of(found, case, n):.1f}" for n in names)
        shown.append(f"{case}: {each}")
    return "; ".join(shown)


def _precision(found: Found) -> list[Finding]:
    found = {case: runs for case, runs in found.items() if runs["exact"].precision}
    p = partial(precision_of, found)
    every, texts = list(found), _words(found)
    others = ("ss", "fsp", "fsw", "fsw-r")
    both = [d for d in ("folha", "reuters") if {f"{d}-week", f"{d}-month"} <= {*found}]
    drop = {
        name: [p(f"{data}-week", name) - p(f"{data}-month", name) for data in both]
        for name in ("ss", "fss", "fsp", "fsw", "fsw-r")
    }
    return [
        Finding(
            "fss-ss",
            {c: p(c, "fss") >= p(c, "ss") for c in every},
            _shares(found, every, "ss", "fss"),
        ),
        Finding(
            "words-fss",
            {f"{c}, {LABELS[n]}": p(c, "fss") >= p(c, n) for c in texts for n in others},
            _shares(found, texts, "fss", "fsp", "fsw-r"),
        ),
        Finding(
            "words-fswr",
            {c: p(c, "fsw-r") >= p(c, "fss") - NEAR for c in texts},
            _shares(found, texts, "fss", "fsw-r"),
        ),
        Finding(
            "words-fsp",
            {c: p(c, "fsp") >= p(c, "fss") - NEAR for c in texts},
            _shares(found, texts, "fss", "fsp"),
        ),
        Finding(
            "fswr-fsw",
            {c: p(c, "fsw-r") >= p(c, "fsw") for c in texts},
            _shares(found, texts, "fsw", "fsw-r"),
        ),
        Finding(
            "month-fsw",
            {
                data: drop["fsw"][i] >= max(drop[n][i] for n in drop if n != "fsw")
                for i, data in enumerate(both)
            },
            "; ".join(
                f"{data}: " + ", ".join(f"{LABELS[n]} {100 * drop[n][i]:+.1f}" for n in drop)
                for i, data in enumerate(both)
            ),
        ),
        Finding(
            "month-stable",
            {
                f"{c}, {LABELS[n]}": _deviation(found, c, "fsw") >= _deviation(found, c, n)
                for c in texts if c.endswith("month") for n in found[c] if n not in ("fsw", "exact")
            },
            "; ".join(
                f"{c}, deviation: " + ", ".join(
                    f"{LABELS[n]} {100 * _deviation(found, c, n):.1f}" for n in found[c]
                    if n != "exact"
                )
                for c in texts if c.endswith("month")
            ),
        ),
        *_precision_of_logs(found),
    ]  # fmt: skip


def _deviation(found: Found, case: str, name: str) -> float:
    return found[case][name].deviation or 0.0


def _calm(found: Found) -> Finding:
    """Precision of the windows of a day: of the half with fewer rows, and of the other."""
    runs = found.get("osdf-day", {})
    means = {}
    for name, each in runs.items():
        busy = np.array(each.rows) > (np.median(each.rows) if each.rows else 0)
        if name == "exact" or not busy.any():
            continue
        precision = np.array(each.precision)
        means[name] = float(precision[~busy].mean()), float(precision[busy].mean())
    told = ", ".join(
        f"{LABELS[n]} {100 * calm:.1f} in the half of the windows with fewer rows and "
        f"{100 * busy:.1f} in the other"
        for n, (calm, busy) in means.items()
    )
    return Finding("calm", {LABELS[n]: calm > busy for n, (calm, busy) in means.items()}, told)


def _precision_of_logs(found: Found) -> list[Finding]:
    """Precision on logs; and, last, whether a window ever helps on any of the data."""
    p = partial(precision_of, found)
    logs = _logs(found)
    deviation = {c: {n: _deviation(found, c, n) for n in found[c]} for c in found}
    sketches = {c: [n for n in found[c] if n != "exact"] for c in found}
    return [
        _calm(found),
        Finding(
            "log-fsp",
            {c: p(c, "fsp") >= p(c, "fss") for c in logs},
            _shares(found, logs, "fss", "fsp"),
        ),
        Finding(
            "log-fswf",
            {c: p(c, "fsw-f") >= p(c, "fsw-r") for c in logs},
            _shares(found, logs, "fsw-r", "fsw-f"),
        ),
        Finding(
            "log-best",
            {
                f"{c}, {LABELS[n]}": p(c, "fsw-f") >= p(c, n) for c in logs for n in sketches[c]
            },
            _shares(found, logs, "fsp", "fsw-f"),
        ),
        Finding(
            "log-stable",
            {
                f"{c}, {LABELS[n]}": deviation[c]["fsw-f"] <= deviation[c][n]
                for c in logs
                for n in sketches[c]
            },
            "; ".join(
                f"{c}, deviation: "
                + ", ".join(f"{LABELS[n]} {100 * deviation[c][n]:.1f}" for n in sketches[c])
                for c in logs
            ),
        ),
        Finding(
            "ss-unstable",
            {
                LABELS[n]: deviation[c]["ss"] >= deviation[c][n]
                for c in logs if c == "osdf-3-days" for n in sketches[c] if n != "ss"
            },
            "Deviations over 3 days: " + "; ".join(
                f"{LABELS[n]} {100 * deviation[c][n]:.1f}"
                for c in logs if c == "osdf-3-days" for n in sketches[c]
            ),
        ),
        Finding(
            "sometimes-better",
            {
                "any": any(p(c, n) > p(c, "fss") for c in found for n in found[c]
                           if n in ("fsw-r", "fsw-f"))
            } if found else {},
        ),
    ]  # fmt: skip


def _operations(found: Found) -> list[Finding]:
    texts, logs = _words(found), _logs(found)
    last = {c: "fsw-f" if c in logs else "fsw-r" for c in found}
    two = {c: work(found[c][last[c]]) * found[c]["fss"].per_window / (2 * work(found[c]["fss"]))
           for c in found}  # fmt: skip
    fsp = {
        (c, n): work(found[c]["fsp"], lists=2) / work(found[c][n])
        for c in texts
        for n in ("fsw", "fsw-r")
    }
    stayed = [(c, n) for c in texts for n in ("fsw", "fsw-r")]
    return [
        Finding(
            "operations-fss",
            {c: 10 * work(found[c][last[c]]) <= work(found[c]["fss"]) for c in found},
            "; ".join(
                f"{c}: 1/{work(found[c]['fss']) / work(found[c][last[c]]):.1f}" for c in found
            ),
        ),
        Finding(
            "operations-ss",
            {c: work(found[c]["ss"]) > work(found[c]["fss"]) for c in found},
        ),
        Finding(
            "operations-two",
            {c: two[c] <= 2 for c in found},
            "; ".join(f"{c}: {two[c]:.2f} ×" for c in found),
        ),
        Finding(
            "operations-fsp",
            {f"{c}, {LABELS[n]}": ratio > 2 for (c, n), ratio in fsp.items()},
            "; ".join(f"{c}, {LABELS[n]}: {ratio:.2f} ×" for (c, n), ratio in fsp.items()),
        ),
        Finding(
            "inserts-fswr",
            {
                c: found[c]["fsw-r"].stats["inserts"] < found[c]["fsw"].stats["inserts"]
                for c in texts
            },
        ),
        Finding(
            "inserts-fswf",
            {
                c: 2 * found[c]["fsw-f"].stats["inserts"] < found[c]["fsw-r"].stats["inserts"]
                for c in logs
            },
        ),
        Finding(
            "stays",
            {
                f"{c}, {LABELS[n]}": 2 * found[c][n].stats["stayed_0"]
                > found[c][n].stats["removals"]
                for c, n in stayed
            },
        ),
    ]  # fmt: skip


RATIO = {"week": 4, "month": 16}
"""r of the experiments on words."""


def _memory(found: Found) -> list[Finding]:
    texts = _words(found)
    formulas, below, printed = {}, {}, []
    for case in texts:
        paper = case.split("-")[1]
        p, r, m = found[case]["fsw-r"].per_window, RATIO[paper], 1_250
        fsp, fsw = 6 * m * (p + r / 2), m * (4 + 4 * p + 3 * r)
        formulas[f"{case}, FSP"] = found[case]["fsp"].stats["counters_most"] == fsp
        formulas[f"{case}, FSWr"] = found[case]["fsw-r"].stats["counters"] == fsw
        if p > 2 + r:
            below[case] = fsw < min(3 * p * 2 * m, fsp)
            printed.append(f"{case}: p = {p}, r = {r}: FSWr {fsw:,}, p × FSS {6 * p * m:,}, "
                           f"FSP {fsp:,.0f}")  # fmt: skip
    smaller = {c: found[c]["fsw-r"].stats["counters"] < found[c]["fsp"].stats["counters"]
               for c in found}  # fmt: skip
    lighter = {f"{c}, {LABELS[n]}": found[c]["fsw-r"].most_bytes < found[c][n].most_bytes
               for c in found for n in ("ss", "fss", "fsp")}  # fmt: skip
    exact = {f"{c}, {LABELS[n]}": found[c][n].most_bytes < found[c]["exact"].most_bytes
             for c in found for n in found[c] if n != "exact"}  # fmt: skip
    return [
        Finding("formulas", formulas),
        Finding(
            "counters-panes",
            below, "; ".join(printed),
        ),
        Finding("counters-fsp", smaller, _counters(found, "fsp", "fsw-r")),
        Finding(
            "bytes", lighter,
            _bytes(found, "ss", "fss", "fsp", "fsw-r"),
        ),
        Finding("bytes-exact", exact, _bytes(found, "exact")),
    ]  # fmt: skip


def _counters(found: Found, *names: str) -> str:
    return "; ".join(
        f"{c}: " + ", ".join(f"{LABELS[n]} {found[c][n].stats['counters']:,}" for n in names)
        for c in found
    )


def _bytes(found: Found, *names: str) -> str:
    return "; ".join(
        f"{c}: " + ", ".join(f"{LABELS[n]} {found[c][n].most_bytes / 1e6:.1f} MB" for n in names)
        for c in found
    )


def _guarantees(found: Found, crowding: dict[str, Cells]) -> list[Finding]:
    sketches = {
        f"{case}, {LABELS[n]}": each
        for case, runs in found.items()
        for n, each in runs.items()
        if n != "exact"
    }
    return [
        Finding("bounds",
              {name: each.worst == 0 for name, each in sketches.items()}),
        Finding(
            "fullest",
            {"the example": round(fullest_cell(100_000, 10_000), 2) == 24.28},
            f"{fullest_cell(100_000, 10_000):.4f}",
        ),
        Finding(
            "fullest-found",
            {c: abs(each.fullest / each.expected - 1) <= 0.25 for c, each in crowding.items()},
        ),
        Finding("mu", {c: each.mu <= each.at_tau for c, each in crowding.items()}),
        Finding(
            "tau",
            {c: each.tau <= each.capacity / each.expected for c, each in crowding.items()},
            "; ".join(
                f"{c}: τ = {each.tau}, m / E(D_max) = {each.capacity / each.expected:.0f}"
                for c, each in crowding.items()
            ),
        ),
        Finding(
            "tau-mended",
            {c: each.tau >= each.capacity / each.expected for c, each in crowding.items()},
        ),
    ]  # fmt: skip
