"""What the fused experiments have in common: one run, and tables and plots of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from lab.experiments.fused_runs import ALGORITHMS, HALF, SETTINGS, Measured, synthetic
from lab.experiments.report import Progress, Report
from lab.experiments.verdicts import Verdicts

__all__ = ["CONSTANTS", "FIGURE_5B", "Run", "plots", "sweep"]

EVALUATIONS = 50
"""With each seed."""
FIGURE_5B = (0.80, 0.84)
"""The precision that the paper prints for windows of 200 to 1,000."""
CONSTANTS = (50, 100, 150, 200, 250, 500, 1000)
"""Values of C that are tried."""


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

    @cached_property
    def constant(self) -> int:
        """The C whose precision at a window of 1,000 is nearest to that of Figure 5b."""
        middle = sum(FIGURE_5B) / 2
        return min(CONSTANTS, key=lambda c: abs(self.synthetic(1000, c).precision.mean - middle))

    def synthetic(self, window: int, constant: int | None = None, **how: Any) -> Measured:
        """All algorithms on synthetic streams, with the calibrated C unless another is given."""
        self.progress(f"window {window}, C {constant}, {how}")
        return synthetic(window, self.evaluations, constant or self.constant, **how)


HEADER = (
    "SLA", "EAA", "approximate", "precision", "relative error", f"ours, {HALF}", "its precision",
)  # fmt: skip


def _cells(found: Measured) -> list[Any]:
    kept = [f"{found.retained[name]:.0f}" for name in ALGORITHMS[1:]]
    half = [f"{found.retained[HALF]:.0f}", f"{found.precisions[HALF]:.3f}"]
    sla = round(found.retained["sla"].mean)
    return [sla, *kept, f"{found.precision:.3f}", f"{found.error:.4f}", *half]


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
    for name, what, y in (
        (names[0], "Retained items", "retained"), (names[1], "Precision", "precisions")
    ):  # fmt: skip
        series = {n: [getattr(each, y)[n] for each in found.values()] for n in SETTINGS}
        run.report.plot(
            f"fused_figure_{name}", f"{what}: {title}",
            {n: [each.mean for each in line] for n, line in series.items()}, x, y.rstrip("s"),
            ticks, halves={n: [each.half for each in line] for n, line in series.items()},
        )  # fmt: skip
