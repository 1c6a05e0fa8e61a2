"""The likeliest top k of uncertain rows: four semantics and five algorithms.

Imports ``contract``, ``data`` and its own kernels, but no engine and no other family; the registry
loads its classes by name.
"""

from __future__ import annotations

from skyband.query.uncertain import UncertainTopK

__all__ = ["choose"]


def choose(query: UncertainTopK) -> str:
    """The algorithm for a query that names none."""
    return "scsq-buffer" if query.window.sort == "sized" else query.window.sort
