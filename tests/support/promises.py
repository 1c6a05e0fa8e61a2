"""Checks the guarantees of one approximate answer against the definition over the same rows."""

from __future__ import annotations

from typing import Any

import oracle
import skyband as sb
from support import approximate

Rows = list[oracle.Row]

MAY_SHOW_NOTHING = ("fsw", "fsw-r", "fsw-f")
"""Algorithms with one list for all windows.

Items that met a full list are in no list, so a group may have rows and an empty list once the pane
that filled the list has expired. ``mu`` then bounds the count of all its items.
"""


def check(kind: str, query: Any, got: Any, want: Rows, every: Rows) -> None:
    """Assert that an answer keeps its bounds, and equals the definition's if it says it is exact.

    ``want`` is the definition's answer; ``every`` has all its items or objects, not only k.
    """
    shown = approximate.answers(query, got.table)
    truth = approximate.answers(query, want if kind == "TopK" else every)
    if query.algorithm in MAY_SHOW_NOTHING:
        assert shown.keys() <= truth.keys()
    else:
        assert shown.keys() == truth.keys()  # the groups of the window, all and no others
    for place, rows in truth.items():
        listed = shown.get(place, [])
        assert len(listed) <= query.k
        approximate.CHECKS[kind](query, listed, rows, got.bounds)
    if got.exact:
        if isinstance(query.window, sb.DecayWindow):
            # With ``capacity`` there is room for items that are forgotten otherwise.
            want = [row | {"error": 0.0} for row in want]
        problem = oracle.difference(got.table, want, oracle.SUMS[kind])
        assert problem is None, f"it says it is exact, but: {problem}"
