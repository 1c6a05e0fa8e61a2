"""What one approximate answer promises, against the definition over the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import approximate
import oracle

Rows = list[oracle.Row]


def check(kind: str, query: Any, got: Any, want: Rows, every: Rows) -> None:
    """Assert that an answer keeps its bounds, and is the definition's own where it says so.

    ``want`` is the definition's answer; ``every`` has all its items or objects, not only k.
    """
    approximate.CHECKS[kind](query, got.table, want if kind == "TopK" else every)
    if kind in MORE:
        MORE[kind](query, got, every)
    if got.exact:
        problem = oracle.difference(got.table, want, oracle.SUMS[kind])
        assert problem is None, f"said to be exact: {problem}"


def _stated(query: Any, got: Any, every: Rows) -> None:
    """The bounds are those that the query asks for."""
    assert got.bounds == {"epsilon": query.epsilon, "delta": query.delta}


def _counted(query: Any, got: Any, every: Rows) -> None:
    """At most k items of each group, and none of a group without rows."""
    shown = _by_group(query, got.table)
    assert set(shown) == set(_by_group(query, every))
    assert all(len(rows) <= query.k for rows in shown.values())


def _missed(query: Any, got: Any, every: Rows) -> None:
    """No object left out beats ``missed`` and the last one shown; none shown is far too low."""
    missed = got.bounds.get("missed", -math.inf)
    shown = _by_group(query, got.table)
    for group, rows in _by_group(query, every).items():
        mine = {row[query.id]: row["score"] for row in shown.get(group, [])}
        last = min(mine.values()) if len(mine) == query.k else -math.inf
        for row in rows:
            least = max(missed, mine.get(row[query.id], last))
            assert row["score"] <= least + 1e-9 * max(1.0, abs(least)), (row, missed, last)


def _by_group(query: Any, rows: Rows) -> dict[tuple[Any, ...], Rows]:
    return dict(oracle.groups(rows, query.groups))


MORE: dict[str, Callable[[Any, Any, Rows], None]] = {
    "TopK": _stated,
    "HeavyHitters": _counted,
    "FusedTopK": _missed,
}
