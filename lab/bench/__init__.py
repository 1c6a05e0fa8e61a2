"""The benchmark harness: measure Skyband and its peers in one run, and report ratios.

A benchmark is a module ``lab/benchmarks/<name>.py`` with

    run(scale, progress) -> list[dict]

A row of its result is a flat mapping from column to value. Three kinds of names have a meaning:
``group`` puts rows into one table, ``case`` names a row, and columns that start with ``×`` are
ratios (how many times as fast as the peer), which the plot shows. ``progress`` is called with a
description of each step.

``python -m lab.bench.against REVISION`` compares this checkout with another revision of its own.
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
