"""The algorithm that CONTRIBUTING.md shows, as a class."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "CONTRIBUTING.md"


def algorithm() -> Any:
    """Run the page's example up to the class and return the class."""
    test = doctest.DocTestParser().get_doctest(PAGE.read_text(), {}, "page", str(PAGE), 0)
    known: dict[str, Any] = {"__name__": "__main__"}  # so that Spark ships the class itself
    for example in test.examples:
        exec(example.source, known)
        if "AllPanes" in known:
            return known["AllPanes"]
    raise LookupError("CONTRIBUTING.md shows no class AllPanes")
