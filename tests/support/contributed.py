"""The algorithm that CONTRIBUTING.md shows, as a class."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


def page(**known: Any) -> doctest.DocTest:
    """The page's examples; ``known`` are names that they may use."""
    known["__name__"] = "__main__"  # so that Spark ships the class itself
    return doctest.DocTestParser().get_doctest(PAGE.read_text(), known, "page", str(PAGE), 0)


def skipped() -> int:
    """How many examples need Spark, and are skipped without it."""
    return sum(doctest.SKIP in example.options for example in page().examples)


def run_page(spark: Any) -> tuple[int, int]:
    """Run all examples with a session; how many failed, and how many of those for Spark ran."""
    test, ran = page(spark=spark), 0
    for example in test.examples:
        ran += bool(example.options.pop(doctest.SKIP, False))
    return doctest.DocTestRunner().run(test).failed, ran


def algorithm() -> Any:
    """Run the page's example up to the class and return the class."""
    test = page()
    known = test.globs
    for example in test.examples:
        exec(example.source, known)
        if "AllPanes" in known:
            return known["AllPanes"]
    raise LookupError("CONTRIBUTING.md shows no class AllPanes")
