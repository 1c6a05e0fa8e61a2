"""Comparison: integers, ids, scores and ranks exactly, floating sums within 1e-9 relative."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from oracle.windows import Row

SUMS = {
    "TopK": ("decayed",),
    "HeavyHitters": ("count", "error", "value", "before", "gain", "ratio"),
    "UncertainTopK": ("topk_probability",),
    "FusedTopK": ("score",),
    "Skyline": (),
    "SkylineJoin": (),
}
"""The columns of each kind of query that are sums or products, computed in any order."""


def difference(got: Sequence[Row], want: Sequence[Row], sums: Collection[str] = ()) -> str | None:
    """The first difference between two tables, in columns, their order or values; None if equal."""
    for number, (g, w) in enumerate(zip(got, want, strict=False)):
        if list(g) != list(w):
            return f"row {number}: columns {list(g)}, want {list(w)}"
        for column in w:
            near = column in sums and math.isclose(g[column], w[column], rel_tol=1e-9)
            if not near and g[column] != w[column]:
                return f"row {number}, column {column!r}: {g[column]!r}, want {w[column]!r}"
    if len(got) != len(want):
        return f"{len(got)} rows, want {len(want)}"
    return None
