"""Homem and Carvalho, "Finding top-k elements in a time-sliding window": Tables 1–5, Figures 6–9.

Their newspaper texts and call records are not available. A Portuguese newspaper corpus and a
newswire replace the first; the access log of a data federation, where most objects are read once or
twice, replaces the second. Parameters are the paper's. ``fsw_runs`` measures, ``fsw_claims`` judges
every claim of the paper by these measurements.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lab.experiments.fsw_claims import conclude
from lab.experiments.fsw_paper import PAPER, STAYS
from lab.experiments.fsw_runs import (
    ARTICLE,
    LABELS,
    Case,
    Cells,
    Found,
    Measured,
    Moved,
    cases,
    cells_of,
    in_other_orders,
    mean,
    precision_of,
    run,
)
from lab.experiments.report import Progress, Report
from lab.experiments.seeds import SEEDS

__all__ = ["QUICK", "estimate", "reproduce"]

QUICK = 1.0
"""All rows of the real data, even in a quick run: they are few."""


def estimate(scale: float) -> float:
    """About how many seconds of processor time a run takes: that of the rows of the real data."""
    return 15 + (25 + 9 * SEEDS) * min(scale, 1.0)


def reproduce(scale: float, out: Path, progress: Progress) -> None:
    """Write ``fsw.md`` and its plots under ``out``; ``scale`` shortens the streams."""
    report = Report("FSW: most frequent items in a sliding window")
    _opening(report)
    found: Found = {}
    crowding: dict[str, Cells] = {}
    for case in cases(scale):
        found[case.name] = run(case, progress)
        crowding[case.name] = cells_of(case, found[case.name])
        _section(report, case, found[case.name])
    _stays(report, found)
    moved = in_other_orders(scale, progress)
    _order(report, found, moved)
    _cells(report, crowding)
    verdicts = conclude(report, found, moved, crowding)
    report.write(out / "fsw.md")
    verdicts.save(out)


def _opening(report: Report) -> None:
    report.heading("Question")
    report.text(
        """Does one sketch with histograms (FSW, FSWr, FSWf) answer a sliding window about as
        well as p sketches restarted in turn (p × SS, p × FSS) and as one list per pane (FSP), for
        a fraction of their operations?"""
    )
    report.heading("Set-up")
    report.bullets(
        [
            """k = 500; m, h, r and f are the paper's. Every algorithm sees the rows one by one
            in arrival order.""",
            """Precision is the share of an answer's items whose true count is at least the 500th
            greatest true count (of tied items, any counts as right), over all full windows.""",
            """Operations are counted under the paper's names. *Hits and updates* adds hits in
            the list and the items changed when a pane expires; FSP does everything in two lists,
            and both count; *bucket updates* are the buckets merged into a cell at removals.""",
            """*Counters* are counted as the paper does. *Kilobytes* is the greatest `state_bytes`
            that a user sees, with hash tables, items and the rows of the open pane. `exact` counts
            every item, without bounds on its memory.""",
            """*μ* is the paper's: for FSW, FSWr and FSWf the last least count of the list, and for
            SS and FSS the mean of the last least counts of the instances.""",
            """The paper's texts and call records are not available. MAC-MORPHO (Folha de S. Paulo,
            1994) is cut into "days" of 8,277 tokens, the paper's average; Reuters-21578 has
            real days; the OSDF access log (objects of a data federation) replaces the calls. All
            of this is real data without a seed, and the hash function is fixed. A section below
            has the precision in other orders of the rows.""",
        ]
    )
    report.heading("Result")


ROWS = (
    "Precision average (%)", "Precision deviation (%)", "μ", "Counters", "Inserts", "Removals",
    "Hits and updates", "Bucket updates", "Kilobytes",
)  # fmt: skip


def _figures(each: Measured) -> tuple[Any, ...]:
    stats = each.stats
    average, deviation = mean(each.precision), each.deviation
    return (
        None if average is None else round(100 * average, 1),
        None if deviation is None else round(100 * deviation, 1),
        round(float(stats["mu"]), 2) if "mu" in stats else None,
        int(stats["counters"]) if "counters" in stats else None,
        int(stats["inserts"]),
        int(stats["removals"]),
        int(stats.get("hits", 0) + stats.get("updates", 0)),
        int(stats["bucket_updates"]) if "bucket_updates" in stats else None,
        each.most_bytes // 1000,
    )


def _section(report: Report, case: Case, found: dict[str, Measured]) -> None:
    report.heading(case.title)
    windows = len(next(iter(found.values())).precision)
    panes = max(1, windows + case.window.panes.per_window - 1)
    report.text(
        f"""{case.table.num_rows:,} rows, {windows} full windows, {case.table.num_rows / panes:,.0f}
        rows per {case.panes} on average. Ours / the paper's:"""
    )
    paper = PAPER[case.paper] | {"exact": (None,) * 8}
    rows = []
    for at, label in enumerate(ROWS):
        cells = []
        for name, each in found.items():
            theirs = paper[name][at] if at < 8 else None
            cells.append(f"{_cell(_figures(each)[at])} / {_cell(theirs)}")
        rows.append([label, *cells])
    report.table(["", *(LABELS[name] for name in found)], rows)
    sketches = {name: each for name, each in found.items() if name != "exact"}
    series = {LABELS[name]: [100 * p for p in each.precision] for name, each in sketches.items()}
    title = f"{case.title}: precision"
    report.plot(f"fsw-{case.name}", title, series, f"window, one per {case.panes}", "precision (%)")


def _cell(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else f"{value:,}"


def _stays(report: Report, found: Found) -> None:
    report.heading("How long an item stays in the list (Table 3)")
    stayed = [(c, n) for c in found if "osdf" not in c for n in ("fsw", "fsw-r")]
    labels = ("less than 1 pane", "1 pane", "2 panes", "more than 2 panes")
    rows = []
    for at, label in enumerate(labels):
        cells = []
        for case, name in stayed:
            stats = found[case][name].stats
            share = 100 * stats[("stayed_0", "stayed_1", "stayed_2", "stayed_more")[at]]
            paper = STAYS["week" if case.endswith("week") else "month"][name][at]
            cells.append(f"{share / max(1, stats['removals']):.1f} / {paper}")
        rows.append([label, *cells])
    report.text("Percentage of removals, ours / the paper's:")
    report.table(["Removals after", *(f"{LABELS[n]}, {c}" for c, n in stayed)], rows)


def _order(report: Report, found: Found, moved: Moved) -> None:
    report.heading("The order of the rows")
    report.text(
        f"""The files of the Folha corpus have one section of the newspaper each, so one of our
        "days" is all sport or all politics, whereas a day of the paper has all sections. With
        blocks of {ARTICLE} words (the paper's average article) in random order every day has all of
        them. In the log, objects are read in bursts; there, the rows of each day are shuffled.
        Precision in per cent, in the order of the data / in {SEEDS} random orders (mean with its
        95 % interval):"""
    )
    names = list(dict.fromkeys(name for each in moved.values() for name in each))
    rows = []
    for case, runs in moved.items():
        cells = []
        for name in names:
            before = 100 * precision_of(found, case, name) if name in runs else 0.0
            cells.append(f"{before:.1f} / {runs[name] * 100:.1f}" if name in runs else "")
        rows.append([case, *cells])
    report.table(["", *(LABELS[name] for name in names)], rows)


def _cells(report: Report, crowding: dict[str, Cells]) -> None:
    report.heading("How full the cells are (Theorems 4 and 5)")
    report.text(
        """Over the last window: D distinct items fall into the h cells of FSWr. E(D_max) is the
        expected number of items in the fullest cell, by the formula in the proof of Theorem 5, and
        D_max is the number that we count. τ is how many of the fullest cells together have m items;
        Theorem 4 says that μ is at most N^τ, the rows in the τ-th fullest cell."""
    )
    header = ["", "D", "h", "m", "E(D_max)", "D_max", "m / E(D_max)", "τ", "N^τ", "μ of FSWr"]
    rows = []
    for name, each in crowding.items():
        rows.append(
            [
                name, each.distinct, each.cells, each.capacity, round(each.expected, 2),
                each.fullest, round(each.capacity / each.expected, 1), each.tau, each.at_tau,
                each.mu,
            ]
        )  # fmt: skip
    report.table(header, rows)
