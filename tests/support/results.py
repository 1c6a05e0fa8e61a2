"""The results of an engine in the oracle's terms, and whether they equal the oracle's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import oracle

COUNTED = (
    "rows_in",
    "rows_late",
    "rows_bad",
    "rows_unused",
    "rows_filtered",
    "windows_out",
    "retained",
)
"""The statistics that are the same by every way and on every engine."""


class Seen(NamedTuple):
    """An answer in the oracle's terms."""

    start: int | None
    end: int
    table: list[oracle.Row]
    changes: list[oracle.Row]
    total: Any
    exact: bool
    bounds: dict[str, Any]
    revision: int = 0


@dataclass
class Got:
    """The results of an engine, in the oracle's terms."""

    answers: list[Seen] = field(default_factory=list)
    peeks: list[Seen | None] = field(default_factory=list)
    """After each push and the flush; None if there was no answer yet."""
    stats: dict[str, Any] = field(default_factory=dict)


def check(kind: str, got: Got, want: oracle.Run) -> None:
    """Assert that an engine's results equal the oracle's."""
    sums = oracle.SUMS[kind]
    revised = [(a.start, a.end, a.revision) for a in want.answers]
    assert [(a.start, a.end, a.revision) for a in got.answers] == revised
    for mine, answer in zip(got.answers, want.answers, strict=True):
        problem = oracle.difference(mine.table, answer.table, sums)
        assert problem is None, f"window ending {mine.end}: {problem}"
        problem = oracle.difference(mine.changes, answer.changes, sums)
        assert problem is None, f"changes of the window ending {mine.end}: {problem}"
        assert same_total(mine.total, answer.total), f"total of the window ending {mine.end}"
    check_counts(got, want)


def check_counts(got: Got, want: oracle.Run) -> None:
    """Assert that the counts of rows equal the oracle's."""
    names = ("rows_in", "rows_late", "rows_unused", "rows_filtered")
    counts = {name: got.stats[name] for name in names}
    wanted = {name: getattr(want, name) for name in counts}
    assert counts == wanted


def check_peeks(
    kind: str, peeks: Sequence[Seen | None], looks: Sequence[oracle.Answer | None]
) -> None:
    """Assert that each peek equals the oracle's and says that it is exact."""
    for number, (got, want) in enumerate(zip(peeks, looks, strict=True)):
        assert (got is None) == (want is None)
        if got is None or want is None:
            continue
        told = f"peek {number}, [{want.start}, {want.end})"
        assert (got.start, got.end) == (want.start, want.end), told
        assert same_total(got.total, want.total), told
        for mine, theirs in ((got.table, want.table), (got.changes, want.changes)):
            problem = oracle.difference(mine, theirs, oracle.SUMS[kind])
            assert problem is None, f"{told}: {problem}"
        if any(row.get("error") for row in want.table):
            assert not got.exact  # an item came back after it had been forgotten
        else:
            forgetful = kind == "HeavyHitters" and got.start is None  # an item that is not shown
            assert got.exact or forgetful


def same_total(got: Any, want: Any) -> bool:
    """Whether totals are equal; decayed ones up to the last digits.

    Rows that are gone still count in them, with what is left after 1,000 half-lives.
    """
    near = {"rel_tol": 1e-9, "abs_tol": 2.0**-990}
    return bool(got == want or (isinstance(got, float) and math.isclose(got, want, **near)))
