"""The rows that no other row dominates, in one stream or in the join of two.

Imports ``contract``, ``data`` and its own kernels, but no engine and no other family; the registry
loads its classes by name.
"""

from __future__ import annotations

from skyband.query.base import Query

__all__ = ["choose"]


def choose(query: Query) -> str:
    """The algorithm for a query that names none."""
    if query.window.sort != "sized":
        return query.window.sort
    return "stabsky" if query.kind == "Skyline" else "gsj"
