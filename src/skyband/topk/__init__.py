"""The best k rows by score: three exact algorithms and an approximate one, from like summaries."""

from __future__ import annotations

from skyband.query.topk import TopK

__all__ = ["choose"]


def choose(query: TopK) -> str:
    """The algorithm for a query that names none.

    With ``epsilon`` it could be "pabf". As measured (docs/decisions/0006-pabf-levels.md) that is
    slower than the exact one, so there is no query for which a worse answer would buy a faster one.
    """
    return "skyband"
