"""The benchmark harness: measure beside peers in one run, report ratios.

A benchmark is a module ``benchmarks/<name>.py`` of the repository with

    run(scale, progress) -> list[dict]

A row of its result is a flat mapping from column to value. Three names mean something here:
``group`` puts rows into one table, ``case`` names a row, and columns that start with ``×`` are
ratios (how many times as fast as the peer), which the plot shows. ``progress`` is told what is
being done.
"""

from lab.bench.measure import Progress, best_of, compared
from lab.bench.registry import benchmarks, load
from lab.bench.report import markdown, plot, write_section

__all__ = [
    "Progress",
    "benchmarks",
    "best_of",
    "compared",
    "load",
    "markdown",
    "plot",
    "write_section",
]
