"""The likeliest top k of uncertain rows: four semantics and five algorithms."""

from __future__ import annotations

from skyband.query.uncertain import UncertainTopK

__all__ = ["choose"]


def choose(query: UncertainTopK) -> str:
    """The algorithm for a query that names none."""
    return "scsq-buffer" if query.window.sort == "sized" else query.window.sort
