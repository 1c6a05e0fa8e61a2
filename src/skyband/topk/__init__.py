"""The best k rows by score, or the best k ids: exact algorithms and an approximate one."""

from __future__ import annotations

from skyband.query.topk import DISTINCT, TopK

__all__ = ["choose"]


def choose(query: TopK) -> str:
    """The algorithm for a query that names none.

    A query with ``epsilon`` could use "pabf", but in our measurements the exact algorithm is faster
    (docs/decisions/0006-pabf-levels.md), so an approximate answer would save no time.
    """
    if query.window.sort != "sized":
        return query.window.sort
    # A spec that version 0.1 wrote has no field ``distinct``.
    return DISTINCT.get(getattr(query, "distinct", None) or "", "skyband")
