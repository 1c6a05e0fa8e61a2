"""What the fused experiments have in common: one run, and tables and plots of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.experiments.fused_runs import ALGORITHMS, HALF, SETTINGS, Measured
from lab.experiments.report import Progress, Report
from lab.experiments.verdicts import Verdicts

__all__ = ["Run", "plots", "sweep"]

EVALUATIONS = 50


@dataclass
class Run:
    """One run of the experiments: where results go, and how much is measured."""

    report: Report
    verdicts: Verdicts
    progress: Progress
    scale: float

    @property
    def evaluations(self) -> int:
        return max(5, round(EVALUATIONS * self.scale))


HEADER = ("SLA", "EAA", "approximate", "precision", "relative error", HALF, "its precision")


def _cells(found: Measured) -> list[Any]:
    kept = [round(found.retained[name]) for name in ALGORITHMS]
    half = [round(found.retained[HALF]), f"{found.precisions[HALF]:.3f}"]
    return [*kept, f"{found.precision:.3f}", f"{found.error:.4f}", *half]


def sweep(
    run: Run, settings: Sequence[Any], name: str, make: Callable[[Any], Measured], where: str
) -> dict[Any, Measured]:
    """Measure each setting, and add the table."""
    found = {}
    for setting in settings:
        run.progress(f"{where}: {name} {setting}")
        found[setting] = make(setting)
    run.report.table([name, *HEADER], [[f"{s:,}", *_cells(each)] for s, each in found.items()])
    return found


def plots(
    run: Run, names: tuple[str, str], title: str, x: str, found: Mapping[Any, Measured]
) -> None:
    """What is kept and how precise answers are, each as a plot: a and b, or c and d."""
    ticks = [f"{setting:,}" for setting in found]
    kept = {n: [each.retained[n] for each in found.values()] for n in SETTINGS}
    run.report.plot(
        f"fused_figure_{names[0]}", f"Retained items: {title}", kept, x, "retained", ticks
    )
    precise = {n: [each.precisions[n] for each in found.values()] for n in SETTINGS}
    run.report.plot(
        f"fused_figure_{names[1]}", f"Precision: {title}", precise, x, "precision", ticks
    )
