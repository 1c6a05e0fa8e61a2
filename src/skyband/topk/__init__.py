"""The best k rows by score, or the best k ids: exact algorithms and an approximate one.

Imports ``contract``, ``data`` and its own kernels, but no engine and no other family; the registry
loads its classes by name.
"""

from __future__ import annotations

from skyband.query.topk import ALL_TIES, TopK, algorithm_for

__all__ = ["choose"]


def choose(query: TopK) -> str:
    """The algorithm for a query that names none.

    A query with ``epsilon`` could use "pabf", but in our measurements the exact algorithm is faster
    (docs/internals/decisions/0006-pabf-levels.md), so an approximate answer would save no time.
    """
    if query.ties == "all" and query.window.sort == "sized":
        return ALL_TIES[query.distinct is not None]
    if query.distinct is not None:
        return algorithm_for(query.distinct, query.window.sort)
    return "skyband" if query.window.sort == "sized" else query.window.sort
