"""The best k objects whose attributes arrive on separate streams."""

from __future__ import annotations

from skyband.query.fused import FusedTopK

__all__ = ["choose"]


def choose(query: FusedTopK) -> str:
    """The algorithm for a query that names none.

    If the number of recurrences is unknown, no report can be proven useless, so all are kept. The
    same holds for repeated reports that do not add up (see ``fused.reports``).
    """
    if getattr(query, "repeats", "sum") != "sum":  # specs of version 0.1 lack it
        return "reports"
    return "sla" if query.recurrences == "estimate" else "eaa"
