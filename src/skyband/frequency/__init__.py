"""The most frequent items: exact counts, and the sketches from Space-Saving to FSW.

Imports ``contract``, ``data`` and its own kernels, but no engine and no other family; the registry
loads its classes by name.
"""

from __future__ import annotations

from skyband.query.frequency import HeavyHitters

__all__ = ["choose"]


def choose(query: HeavyHitters) -> str:
    """The algorithm for a query that names none.

    Exact counting does best in our measurements, as long as the window's distinct items fit in
    memory. Setting a sketch size asks for bounded state, so then a sketch is chosen.
    """
    sized = query.window.sort == "sized"
    if query.aggregate or query.against or (query.ties == "all" and sized):
        return "exact"
    if not sized:
        return query.window.sort
    if query.filter_bits is not None and query.weight is None:
        return "fsw-f"
    if query.ratio is not None:
        return "fsw-r"
    if query.capacity is not None or query.cells is not None:
        return "fsw"
    return "exact"
