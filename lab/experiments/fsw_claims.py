"""A verdict on every claim of the FSW paper, and remarks on those that fail, all from the runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lab.experiments.fsw_remarks import remarks
from lab.experiments.fsw_runs import LABELS, Cells, Found, precision_of, work
from lab.experiments.report import Report
from skyband.frequency.sizing import fullest_cell

__all__ = ["conclude"]

NEAR = 0.015
"""Precisions are near each other within 1.5 points: the paper calls 1.1 points "very near"."""


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, and whether it is true in each case where it can be tried."""

    text: str
    checks: Sequence[bool]
    figures: str = ""

    @property
    def verdict(self) -> str:
        held = sum(self.checks)
        if not self.checks:
            return "not tried"
        if held == len(self.checks):
            return "holds"
        return f"holds in {held} of {len(self.checks)}" if held else "does not hold"


def conclude(report: Report, found: Found, moved: Found, crowding: dict[str, Cells]) -> None:
    """Write the verdicts and the remarks."""
    claims = [
        *_precision(found), *_operations(found), *_memory(found), *_guarantees(found, crowding)
    ]  # fmt: skip
    report.heading("Verdict")
    report.text(
        f"""A claim *holds* if it is true in every case where it can be tried, and *does not hold*
        if in none. Precisions are averages over all full windows; "near" means within
        {100 * NEAR:.1f} points."""
    )
    report.table(
        ["Claim", "Here", "Figures"],
        [[claim.text, claim.verdict, claim.figures] for claim in claims],
    )
    report.heading("Remarks")
    report.bullets(remarks(found, moved, crowding))


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


def _precision(found: Found) -> list[Claim]:
    found = {case: runs for case, runs in found.items() if runs["exact"].precision}
    p = partial(precision_of, found)
    every, texts, logs = list(found), _words(found), _logs(found)
    others = ("ss", "fsp", "fsw", "fsw-r")
    both = [d for d in ("folha", "reuters") if {f"{d}-week", f"{d}-month"} <= {*found}]
    drop = {
        name: [p(f"{data}-week", name) - p(f"{data}-month", name) for data in both]
        for name in ("ss", "fss", "fsp", "fsw", "fsw-r")
    }
    deviation = {c: {n: found[c][n].deviation or 0.0 for n in found[c]} for c in found}
    sketches = {c: [n for n in found[c] if n != "exact"] for c in found}
    return [
        Claim(
            "p × FSS is at least as precise as p × SS",
            [p(c, "fss") >= p(c, "ss") for c in every],
            _shares(found, every, "ss", "fss"),
        ),
        Claim(
            "On words, p × FSS is better than any other",
            [p(c, "fss") >= p(c, n) for c in texts for n in others],
            _shares(found, texts, "fss", "fsp", "fsw-r"),
        ),
        Claim(
            "On words, FSWr follows very near p × FSS",
            [p(c, "fsw-r") >= p(c, "fss") - NEAR for c in texts],
            _shares(found, texts, "fss", "fsw-r"),
        ),
        Claim(
            "On words, FSP follows very near p × FSS",
            [p(c, "fsp") >= p(c, "fss") - NEAR for c in texts],
            _shares(found, texts, "fss", "fsp"),
        ),
        Claim(
            "FSWr is more precise than FSW",
            [p(c, "fsw-r") >= p(c, "fsw") for c in texts],
            _shares(found, texts, "fsw", "fsw-r"),
        ),
        Claim(
            "From week to month FSW loses more precision than any other",
            [
                drop["fsw"][i] >= max(drop[n][i] for n in drop if n != "fsw")
                for i in range(len(both))
            ],
            "; ".join(
                f"{data}: " + ", ".join(f"{LABELS[n]} {100 * drop[n][i]:+.1f}" for n in drop)
                for i, data in enumerate(both)
            ),
        ),
        Claim(
            "On the log, FSP is more precise than p × FSS",
            [p(c, "fsp") >= p(c, "fss") for c in logs],
            _shares(found, logs, "fss", "fsp"),
        ),
        Claim(
            "On the log, FSWf is more precise than FSWr",
            [p(c, "fsw-f") >= p(c, "fsw-r") for c in logs],
            _shares(found, logs, "fsw-r", "fsw-f"),
        ),
        Claim(
            "On the log, FSWf is the most precise of all",
            [p(c, "fsw-f") >= p(c, n) for c in logs for n in sketches[c]],
            _shares(found, logs, "fsp", "fsw-f"),
        ),
        Claim(
            "On the log, FSWf is the most stable of all",
            [deviation[c]["fsw-f"] <= deviation[c][n] for c in logs for n in sketches[c]],
            "; ".join(
                f"{c}, deviation: "
                + ", ".join(f"{LABELS[n]} {100 * deviation[c][n]:.1f}" for n in sketches[c])
                for c in logs
            ),
        ),
        Claim(
            "FSWr or FSWf is in some cases better than p × FSS",
            [
                any(p(c, n) > p(c, "fss") for c in found for n in found[c]
                    if n in ("fsw-r", "fsw-f"))
            ],
        ),
    ]  # fmt: skip


def _operations(found: Found) -> list[Claim]:
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
        Claim(
            "FSW, FSWr and FSWf need a small part (a tenth or less) of the operations of p × FSS",
            [10 * work(found[c][last[c]]) <= work(found[c]["fss"]) for c in found],
            "; ".join(
                f"{c}: 1/{work(found[c]['fss']) / work(found[c][last[c]]):.1f}" for c in found
            ),
        ),
        Claim(
            "p × SS needs more operations than p × FSS",
            [work(found[c]["ss"]) > work(found[c]["fss"]) for c in found],
        ),
        Claim(
            "FSW's operations are of the order of those of 2 instances of FSS (at most twice them)",
            [two[c] <= 2 for c in found],
            "; ".join(f"{c}: {two[c]:.2f} ×" for c in found),
        ),
        Claim(
            "FSP needs more than twice the operations of FSW and FSWr (its hits counted twice)",
            [ratio > 2 for ratio in fsp.values()],
            "; ".join(f"{c}, {LABELS[n]}: {ratio:.2f} ×" for (c, n), ratio in fsp.items()),
        ),
        Claim(
            "FSWr needs fewer inserts than FSW",
            [found[c]["fsw-r"].stats["inserts"] < found[c]["fsw"].stats["inserts"] for c in texts],
        ),
        Claim(
            "On the log, FSWf inserts less than half as often as FSWr",
            [
                2 * found[c]["fsw-f"].stats["inserts"] < found[c]["fsw-r"].stats["inserts"]
                for c in logs
            ],
        ),
        Claim(
            "Most removed items leave in the pane in which they came (Table 3)",
            [
                2 * found[c][n].stats["stayed_0"] > found[c][n].stats["removals"]
                for c, n in stayed
            ],
        ),
    ]  # fmt: skip


RATIO = {"week": 4, "month": 16}
"""r of the experiments on words."""


def _memory(found: Found) -> list[Claim]:
    texts = _words(found)
    formulas, below, printed = [], [], []
    for case in texts:
        paper = case.split("-")[1]
        p, r, m = found[case]["fsw-r"].per_window, RATIO[paper], 1_250
        fsp, fsw = 6 * m * (p + r / 2), m * (4 + 4 * p + 3 * r)
        formulas.append(found[case]["fsp"].stats["counters_most"] == fsp)
        formulas.append(found[case]["fsw-r"].stats["counters"] == fsw)
        if p > 2 + r:
            below.append(fsw < min(3 * p * 2 * m, fsp))
            printed.append(f"{case}: p = {p}, r = {r}: FSWr {fsw:,}, p × FSS {6 * p * m:,}, "
                           f"FSP {fsp:,.0f}")  # fmt: skip
    smaller = [found[c]["fsw-r"].stats["counters"] < found[c]["fsp"].stats["counters"]
               for c in found]  # fmt: skip
    lighter = [found[c]["fsw-r"].most_bytes < found[c][n].most_bytes
               for c in found for n in ("ss", "fss", "fsp")]  # fmt: skip
    exact = [found[c][n].most_bytes < found[c]["exact"].most_bytes
             for c in found for n in found[c] if n != "exact"]  # fmt: skip
    return [
        Claim("Formulas (15) and (16) give the counters of FSP (at most) and FSWr", formulas),
        Claim(
            "With more than 2 + r panes FSWr has fewer counters than p × FSS and FSP (after (16))",
            below, "; ".join(printed),
        ),
        Claim("FSWr has fewer counters than FSP", smaller, _counters(found, "fsp", "fsw-r")),
        Claim(
            "FSWr needs fewer bytes than p × SS, p × FSS and FSP", lighter,
            _bytes(found, "ss", "fss", "fsp", "fsw-r"),
        ),
        Claim("Every sketch needs fewer bytes than exact counts", exact, _bytes(found, "exact")),
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


def _guarantees(found: Found, crowding: dict[str, Cells]) -> list[Claim]:
    sketches = [each for runs in found.values() for n, each in runs.items() if n != "exact"]
    return [
        Claim("Every known true count lies within the answer's bounds",
              [each.worst == 0 for each in sketches]),
        Claim(
            "E(D_max) = 24.28 for D = 100,000 and h = 10,000 (after Theorem 5)",
            [round(fullest_cell(100_000, 10_000), 2) == 24.28],
            f"{fullest_cell(100_000, 10_000):.4f}",
        ),
        Claim(
            "E(D_max) is what one finds in the fullest cell (within a quarter)",
            [abs(each.fullest / each.expected - 1) <= 0.25 for each in crowding.values()],
        ),
        Claim("μ ≤ N^τ (Theorem 4)", [each.mu <= each.at_tau for each in crowding.values()]),
        Claim(
            "E(τ) ≤ m / E(D_max) (Theorem 5 as printed)",
            [each.tau <= each.capacity / each.expected for each in crowding.values()],
        ),
        Claim(
            "E(τ) ≥ m / E(D_max) (Theorem 5 the other way round)",
            [each.tau >= each.capacity / each.expected for each in crowding.values()],
        ),
    ]  # fmt: skip
