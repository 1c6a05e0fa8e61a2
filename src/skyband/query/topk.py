"""The best k rows by score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from skyband.errors import QueryError
from skyband.query.base import Query
from skyband.query.checks import ColumnNames, Ties, column, number, one_of
from skyband.window import DecayWindow

DISTINCT = {"best": "skyband-distinct", "latest": "latest"}
"""The algorithm that answers each kind of ``distinct`` over time and count windows."""
ALL_TIES = "skyband-ties", "distinct-ties"
"""The algorithms that answer ``ties="all"`` over them, without and with ``distinct``."""


def algorithm_for(distinct: str, window: str) -> str:
    """The algorithm that answers a kind of ``distinct`` over a sort of windows."""
    return DISTINCT[distinct] if window == "sized" else f"{window}-distinct"


@dataclass(frozen=True, kw_only=True)
class TopK(Query):
    """The best ``k`` rows of the window by ``score``.

    Args:
        k: How many rows to return.
        score: Column to rank by, or an expression such as ``"price * volume"``.
        window: A window, such as ``TimeWindow("10 minutes", slide="1 minute")``.
        id: Column that identifies a row.
        by: Columns that split the stream into groups, each ranked separately.
        largest: Whether larger scores rank first.
        distinct: Show each id once: with its ``"best"`` row, or with its ``"latest"``.
        keep: Further columns to show, of any type.
        epsilon: How far a score may be from the true score of its rank; 0 for exact answers.
        delta: Probability of staying within ``epsilon``.
        ties: ``"share"``: equal scores share a rank; ``"all"``: also show what ties with the k-th.
        most: Largest number of rows shown with ``ties="all"``; by default ten times ``k``.

    If several rows of an id have its latest time, ``distinct="latest"`` shows the one with the best
    score. If ``most`` cuts rows off, the answer's bound ``cut`` says how many.

    >>> import skyband as sb
    >>> sb.TopK(k=10, score="bytes", id="flow", time="ts", window=sb.TimeWindow("10 minutes")).k
    10
    """

    kind: ClassVar[str] = "TopK"
    settings: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    kept_anyway: ClassVar[tuple[str, ...]] = ("epsilon", "delta")

    k: int
    score: str
    id: str | None = None
    time: str | None = None
    by: ColumnNames = ()
    largest: bool = True
    distinct: Literal["best", "latest"] | None = None
    keep: ColumnNames = ()
    epsilon: float = 0.0
    delta: float = 1.0
    ties: Ties = "rank"
    most: int | None = None

    @property
    def extra_columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("decayed",) if isinstance(self.window, DecayWindow) else ()

    def shown(self, seen: Sequence[str]) -> tuple[str | None, ...]:
        return (self.id, self.score, *self.extra_columns, self.time)

    @property
    def tied_by(self) -> str | None:
        if self.ties == "rank":
            return None
        return "decayed" if isinstance(self.window, DecayWindow) else self.score

    @property
    def expressions(self) -> tuple[str, ...]:
        return (self.score,)

    def answered_by(self, algorithm: str) -> bool:
        if self.window.sort == "sized" and (self.ties == "all" or algorithm in ALL_TIES):
            return self.ties == "all" and algorithm == ALL_TIES[self.distinct is not None]
        if self.distinct is None:
            return algorithm not in DISTINCT.values() and not algorithm.endswith("-distinct")
        return algorithm == algorithm_for(self.distinct, self.window.sort)

    @property
    def variant(self) -> str:
        ties = f"ties={self.ties!r} and " if self.ties == "all" else ""
        return f"with {ties}distinct={self.distinct!r}"

    def _validate(self) -> None:
        column("score", self.score)
        column("id", self.id, optional=True)
        column("time", self.time, optional=True)
        self._validate_ties()
        number("epsilon", self.epsilon, 0.0, math.inf)
        number("delta", self.delta, 0.0, 1.0, open_low=True)
        if self.distinct is not None:
            one_of("distinct", self.distinct, tuple(DISTINCT))
            if self.id is None:
                raise QueryError(
                    f"distinct={self.distinct!r} shows each id once, so it needs id=, the name of "
                    "the column with the id"
                )
        if isinstance(self.window, DecayWindow) and not self.largest:
            raise QueryError(
                "over a DecayWindow, scores shrink towards 0, so the smallest cannot be ranked; "
                "leave out largest=False"
            )
        if self.algorithm == "pabf" and self.epsilon == 0:
            raise QueryError(
                "pabf is approximate and needs epsilon > 0; set epsilon, or use algorithm=None"
            )
