"""The best k rows by score: three exact algorithms over the same summaries."""

from __future__ import annotations

from skyband.query.topk import TopK

__all__ = ["choose"]


def choose(query: TopK) -> str:
    """The algorithm for a query that names none."""
    return "skyband"
