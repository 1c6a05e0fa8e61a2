"""The best k objects whose attributes arrive on separate streams.

Imports ``contract``, ``data`` and its own kernels, but no engine and no other family; the registry
loads its classes by name.
"""

from __future__ import annotations

from skyband.query.fused import FusedTopK

__all__ = ["choose"]


def choose(query: FusedTopK) -> str:
    """The algorithm for a query that names none.

    If the number of recurrences is unknown, no report can be proven useless, so all are kept. The
    same holds for the mean of repeated reports; for the greatest and the latest, see
    ``fused.reports``.
    """
    if query.repeats != "sum":
        return "reports" if query.repeats == "mean" else "eaa-repeats"
    return "sla" if query.recurrences == "estimate" else "eaa"
