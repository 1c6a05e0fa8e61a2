"""The experiments of the fused paper: how large the dominance set is, what approximating costs.

Every algorithm reads the same stream, one slide at a time. After each slide EAA and its
approximation sweep, so that they hold only what they need. The answers of SLA are the reference.
"""

from __future__ import annotations

from pathlib import Path

from lab.experiments.fused_claims import CLAIMS
from lab.experiments.fused_common import Run
from lab.experiments.fused_figures import (
    approximation,
    figure_4,
    figure_5_correlation,
    figure_5_size,
    table_1_and_2,
)
from lab.experiments.fused_open import bitmaps, bytes_kept, recent, recurrences, table_3_and_4
from lab.experiments.fused_runs import SLIDE
from lab.experiments.report import Progress, Report
from lab.experiments.seeds import SEEDS
from lab.experiments.verdicts import Verdicts
from skyband.kernels.patient import hurry

__all__ = ["QUICK", "estimate", "reproduce"]

QUICK = 0.1
"""Five evaluations with each seed, and fewer settings."""


def estimate(scale: float) -> float:
    """About how many seconds of processor time a run takes: most of it grows with the scale."""
    return 90 + 250 * scale


def reproduce(scale: float, out: Path, progress: Progress) -> None:
    """Write ``fused.md`` with its plots."""
    hurry()
    report = Report("Top-k of objects over streams of one attribute each")
    run = Run(report, Verdicts("fused", CLAIMS), progress, scale)
    _introduction(run)
    figure_4(run)
    by_constant = recent(run)
    by_size = figure_5_size(run)
    by_correlation = figure_5_correlation(run)
    table_1_and_2(run)
    table_3_and_4(run)
    bitmaps(run)
    bytes_kept(run)
    recurrences(run)
    approximation(run, by_size, by_correlation, by_constant)
    run.verdicts.add_to(report)
    run.verdicts.save(out)
    report.write(out / "fused.md")


def _introduction(run: Run) -> None:
    report = run.report
    report.heading("Question")
    report.text(
        """How many object instances, and how many bytes, must be kept to answer exactly (EAA), how
        many does the approximation keep, and how good are its answers? We repeat the paper's
        figures and its tables 1 to 4; if its text gives numbers, they are shown with ours."""
    )
    report.heading("Set-up")
    report.bullets([
        f"""Count windows over the arrivals of all streams together, read every {SLIDE} arrivals.
        SLA, EAA and the approximation see the same stream; after each slide the latter two sweep,
        so that they hold only what they need. An object reports at most once in a stream
        (`returns=False`), as in the paper.""",
        """*Ours* is the variant `caution=0.5`: a stream that may still report is expected to bring
        an average value, not the greatest. No claim is judged by it.""",
        """The streams come from the generator of section 6: with probability ρ, a report is about
        one of the last C objects of another stream. The paper does not give C; ours is calibrated
        on one of its figures, as the next table but one shows.""",
        f"""Retained, precision (share of the true top-k found) and relative error (mean of
        |a − b| / a over ranks) are means of {run.evaluations} evaluations after two windows, with
        each of {SEEDS} seeds. The tables show means over the seeds with their 95 % intervals.""",
    ])  # fmt: skip
