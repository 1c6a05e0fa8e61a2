"""The best k rows by score: three exact algorithms and an approximate one."""

from __future__ import annotations

from skyband.query.topk import TopK

__all__ = ["choose"]


def choose(query: TopK) -> str:
    """The algorithm for a query that names none.

    A query with ``epsilon`` could use "pabf", but in our measurements the exact algorithm is faster
    (docs/decisions/0006-pabf-levels.md), so an approximate answer would save no time.
    """
    return "skyband" if query.window.sort == "sized" else query.window.sort
