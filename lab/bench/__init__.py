"""The benchmark harness: measure beside peers in one run, report ratios.

A benchmark is a module ``lab/benchmarks/<name>.py`` with

    run(scale, progress) -> list[dict]

A row of its result is a flat mapping from column to value. Three names mean something here:
``group`` puts rows into one table, ``case`` names a row, and columns that start with ``×`` are
ratios (how many times as fast as the peer), which the plot shows. ``progress`` is told what is
being done.
"""

from lab.bench.measure import Progress, best_of, compared
from lab.bench.report import markdown, plot, write_section

__all__ = [
    "Progress",
    "best_of",
    "compared",
    "markdown",
    "plot",
    "write_section",
]
