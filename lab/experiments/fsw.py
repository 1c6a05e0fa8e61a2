"""Homem and Carvalho, "Finding top-k elements in a time-sliding window": Tables 1–5, Figures 6–9.

Their newspaper texts and call records are not available. A Portuguese newspaper corpus and a
newswire replace the first; the access log of a data federation, where most objects are read once or
twice, replaces the second. Parameters are the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.datasets.real import real
from lab.experiments.fsw_paper import DESTINATIONS, NOTES, PAPER, STAYS, words
from lab.experiments.report import Progress, Report

__all__ = ["reproduce"]

K = 500
ROW_BY_ROW = {"raw_rows": 1 << 40}
LABELS = {"ss": "SS", "fss": "FSS", "fsp": "FSP", "fsw": "FSW", "fsw-r": "FSWr", "fsw-f": "FSWf"}


@dataclass(frozen=True)
class Case:
    """One table of the paper on one of our data sets."""

    name: str
    title: str
    paper: str
    table: pa.Table
    item: str
    time: str | None
    window: sb.TimeWindow | sb.CountWindow
    settings: dict[str, dict[str, int]]
    panes: str


@dataclass(frozen=True)
class Measured:
    """What one algorithm did in one case."""

    precision: list[float]
    stats: dict[str, int | float]
    worst: float
    """The greatest share of an answer's items whose true count is out of bounds; must be 0."""


def reproduce(scale: float, out: Path, progress: Progress) -> None:
    """Write ``fsw.md`` and its plots under ``out``; ``scale`` shortens the streams."""
    report = Report("FSW: most frequent items in a sliding window")
    _opening(report)
    found: dict[str, dict[str, Measured]] = {}
    for case in _cases(scale):
        found[case.name] = _run(case, progress)
        _section(report, case, found[case.name])
    _stays(report, found)
    _verdicts(report, found)
    report.write(out / "fsw.md")


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
            """The paper's texts and call records are not available. MAC-MORPHO (Folha de S. Paulo,
            1994) is cut into "days" of 8,277 tokens, the paper's average; Reuters-21578 has
            real days, seven times as long; the OSDF access log (objects of a data federation)
            replaces the calls.""",
        ]
    )
    report.heading("Result")


def _cases(scale: float) -> list[Case]:
    folha = _first(real("folha_words_pt", ["word"]), scale)
    reuters = _first(real("reuters21578_words", ["ts", "word"]), scale)
    log = _first(real("osdf_access_log", ["ts", "object_id"]), scale)
    day = 8_277
    return [
        Case("folha-week", "Weekly top-500 words, Folha (Table 1, Figure 6)", "week", folha, "word",
             None, sb.CountWindow(7 * day, slide=day), words(4), "day"),
        Case("reuters-week", "Weekly top-500 words, Reuters (Table 1, Figure 6)", "week", reuters,
             "word", "ts", sb.TimeWindow("7 days", slide="1 day"), words(4), "day"),
        Case("folha-month", "Monthly top-500 words, Folha (Table 2, Figure 7)", "month", folha,
             "word", None, sb.CountWindow(30 * day, slide=day), words(16), "day"),
        Case("reuters-month", "Monthly top-500 words, Reuters (Table 2, Figure 7)", "month",
             reuters, "word", "ts", sb.TimeWindow("30 days", slide="1 day"), words(16), "day"),
        Case("osdf-day", "Daily top-500 objects, OSDF (Table 4, Figure 8)", "day", log, "object_id",
             "ts", sb.TimeWindow("1 day", slide="1 hour"), DESTINATIONS, "hour"),
        Case("osdf-3-days", "3-day top-500 objects, OSDF (Table 5, Figure 9)", "3 days", log,
             "object_id", "ts", sb.TimeWindow("3 days", slide="4 hours"), DESTINATIONS, "4 hours"),
    ]  # fmt: skip


def _first(table: pa.Table, scale: float) -> pa.Table:
    rows = table.num_rows if scale >= 1 else max(1, int(table.num_rows * scale))
    return table.slice(0, rows).combine_chunks()


# Running ------------------------------------------------------------------------------------------


def _run(case: Case, progress: Progress) -> dict[str, Measured]:
    progress(f"{case.title}: exact")
    truth = _answers(case, "exact", 4 * K, {})[0]
    found = {}
    for name, sizes in case.settings.items():
        progress(f"{case.title}: {LABELS[name]}")
        answers, stats = _answers(case, name, K, sizes)
        precision, worst = [], 0.0
        for true, got in zip(truth, answers, strict=True):
            right, outside = _judged(true, got)
            precision.append(right)
            worst = max(worst, outside)
        found[name] = Measured(precision, stats, worst)
    return found


def _answers(
    case: Case, algorithm: str, k: int, sizes: dict[str, Any]
) -> tuple[list[pa.Table], dict[str, int | float]]:
    """The answers of all full windows, and the operation counts."""
    options = {} if algorithm == "exact" else ROW_BY_ROW
    query = sb.HeavyHitters(
        k=k, item=case.item, time=case.time, window=case.window, algorithm=algorithm,
        options=options, **sizes,
    )  # fmt: skip
    monitor = sb.Monitor(query)
    panes, full, tables = case.window.panes, None, []
    for batch in case.table.to_batches(max_chunksize=1 << 17):
        for answer in [*monitor.push(batch)]:
            if full is None:
                full = panes.per_window // panes.per_slide - 1
            if full > 0:
                full -= 1
            else:
                tables.append(answer.table)
    return tables, monitor.stats()


def _judged(true: pa.Table, got: pa.Table) -> tuple[float, float]:
    """The share of correct items, and of items whose known true count is out of bounds."""
    counts = dict(zip(true["rank"].to_pylist(), true["count"].to_pylist(), strict=True))
    least = counts.get(K, 0)
    item = true.column_names[3]
    known = dict(zip(true[item].to_pylist(), true["count"].to_pylist(), strict=True))
    right = outside = 0
    shown = zip(*(got[n].to_pylist() for n in (item, "count", "error")), strict=True)
    for value, count, error in shown:
        real_count = known.get(value)
        right += real_count is not None and real_count >= least
        outside += real_count is not None and not count - error <= real_count <= count
    wanted = min(K, true.num_rows)
    return right / wanted if wanted else 1.0, outside / max(1, got.num_rows)


# Reporting ----------------------------------------------------------------------------------------

ROWS = (
    "Precision average (%)", "Precision deviation (%)", "μ", "Counters", "Inserts", "Removals",
    "Hits and updates", "Bucket updates",
)  # fmt: skip


def _figures(run: Measured) -> tuple[Any, ...]:
    stats = run.stats
    share = 100 * np.array(run.precision)
    return (
        round(float(share.mean()), 1) if len(share) else None,
        round(float(share.std()), 1) if len(share) else None,
        round(float(stats["mu"]), 2) if "mu" in stats else None,
        int(stats["counters"]),
        int(stats["inserts"]),
        int(stats["removals"]),
        int(stats["hits"] + stats.get("updates", 0)),
        int(stats["bucket_updates"]) if "bucket_updates" in stats else None,
    )


def _section(report: Report, case: Case, found: dict[str, Measured]) -> None:
    report.heading(case.title)
    windows = len(next(iter(found.values())).precision)
    report.text(f"{case.table.num_rows:,} rows, {windows} full windows. Ours / the paper's:")
    ours = {name: _figures(run) for name, run in found.items()}
    paper = PAPER[case.paper]
    rows = []
    for at, label in enumerate(ROWS):
        cells = [f"{_cell(ours[name][at])} / {_cell(paper[name][at])}" for name in found]
        rows.append([label, *cells])
    report.table(["", *(LABELS[name] for name in found)], rows)
    series = {LABELS[name]: [100 * p for p in run.precision] for name, run in found.items()}
    title = f"{case.title}: precision"
    report.plot(f"fsw-{case.name}", title, series, f"window, one per {case.panes}", "precision (%)")


def _cell(value: Any) -> str:
    return "–" if value is None else f"{value:,}"


def _stays(report: Report, found: dict[str, dict[str, Measured]]) -> None:
    report.heading("How long an item stays in the list (Table 3)")
    header = ["Removals after", *(f"{LABELS[n]}, {c}" for c, n in _stayed(found))]
    labels = ("less than 1 pane", "1 pane", "2 panes", "more than 2 panes")
    rows = []
    for at, label in enumerate(labels):
        cells = []
        for case, name in _stayed(found):
            stats = found[case][name].stats
            all_of_them = max(1, stats["removals"])
            share = 100 * stats[("stayed_0", "stayed_1", "stayed_2", "stayed_more")[at]]
            paper = STAYS["week" if case.endswith("week") else "month"][name][at]
            cells.append(f"{share / all_of_them:.1f} / {paper}")
        rows.append([label, *cells])
    report.text("Percentage of removals, ours / the paper's:")
    report.table(header, rows)


def _stayed(found: dict[str, dict[str, Measured]]) -> list[tuple[str, str]]:
    cases = [case for case in found if not case.startswith("osdf")]
    return [(case, name) for case in cases for name in ("fsw", "fsw-r")]


def _mean(run: Measured) -> float:
    return float(np.mean(run.precision)) if run.precision else 1.0


def _operations(run: Measured, lists: int = 1) -> float:
    """Operations, with each insert and removal counted once; stats count both lists of FSP."""
    stats = run.stats
    changed = (stats["inserts"] + stats["removals"]) / lists
    return changed + stats["hits"] + stats.get("updates", 0)


def _verdicts(report: Report, found: dict[str, dict[str, Measured]]) -> None:
    report.heading("Verdict")
    words_cases = [case for case in found if not case.startswith("osdf")]
    logs = [case for case in found if case.startswith("osdf")]
    claims: list[tuple[str, Sequence[bool]]] = [
        (
            "p × FSS is at least as precise as p × SS",
            [_mean(found[c]["fss"]) >= _mean(found[c]["ss"]) for c in found],
        ),
        (
            "FSWr is more precise than FSW",
            [_mean(found[c]["fsw-r"]) >= _mean(found[c]["fsw"]) for c in words_cases],
        ),
        (
            "FSW and FSWr need less than half the operations of FSP, with its hits counted twice",
            [
                2 * _operations(found[c][name]) < _operations(found[c]["fsp"], lists=2)
                for c in words_cases
                for name in ("fsw", "fsw-r")
            ],
        ),
        (
            "FSWr needs fewer inserts than FSW",
            [
                found[c]["fsw-r"].stats["inserts"] < found[c]["fsw"].stats["inserts"]
                for c in words_cases
            ],
        ),
        (
            "Most removed items leave in the pane in which they came (Table 3)",
            [
                2 * found[c][n].stats["stayed_0"] > found[c][n].stats["removals"]
                for c, n in _stayed(found)
            ],
        ),
        (
            "On the log, FSWf is more precise than FSWr",
            [_mean(found[c]["fsw-f"]) >= _mean(found[c]["fsw-r"]) for c in logs],
        ),
        (
            "On the log, FSWf inserts less than half as often as FSWr",
            [
                2 * found[c]["fsw-f"].stats["inserts"] < found[c]["fsw-r"].stats["inserts"]
                for c in logs
            ],
        ),
        (
            "Every known true count lies within the answer's bounds",
            [run.worst == 0 for case in found.values() for run in case.values()],
        ),
    ]
    rows = []
    for claim, checks in claims:
        held = sum(checks)
        verdict = "holds" if held == len(checks) else f"holds in {held} of {len(checks)}"
        rows.append([claim, verdict if held else "does not hold"])
    report.table(["Claim", "Here"], rows)
    report.bullets(NOTES)
