"""The best k rows by score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from skyband.errors import QueryError
from skyband.query.base import Query
from skyband.query.checks import column, number, one_of
from skyband.window import DecayWindow

__all__ = ["ALL_TIES", "DISTINCT", "TopK", "algorithm_for"]

DISTINCT = {"best": "skyband-distinct", "latest": "latest"}
"""The algorithm that answers each kind of ``distinct`` over time and count windows."""
ALL_TIES = "skyband-ties"
"""The algorithm that answers ``ties="all"`` over them."""


def algorithm_for(distinct: str, window: str) -> str:
    """The algorithm that answers a kind of ``distinct`` over a sort of windows."""
    return DISTINCT[distinct] if window == "sized" else f"{window}-distinct"


@dataclass(frozen=True, kw_only=True)
class TopK(Query):
    """The best ``k`` rows of the window by ``score``.

    ``epsilon`` is how far a returned score may be from the true score of its rank, and ``delta``
    the probability of staying within it. With the default ``epsilon`` of 0 the answer is exact.
    ``distinct`` shows each id once: ``"best"`` with the best of its live rows, ``"latest"`` with
    the latest of them (of equal times, the better score). ``keep`` names further columns that the
    answer shows of its rows, of any type.
    ``ties="share"`` gives equal scores the same rank: 1, 2, 2, 4. ``ties="all"`` also shows every
    row that ties with the k-th, but at most ``most`` rows (10 k if None); the bound ``cut`` of an
    answer says how many more there were.

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
    by: tuple[str, ...] = ()
    largest: bool = True
    distinct: str | None = None
    keep: tuple[str, ...] = ()
    epsilon: float = 0.0
    delta: float = 1.0
    ties: str = "rank"
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
        if self.ties == "all":
            return algorithm == (ALL_TIES if self.window.sort == "sized" else self.window.sort)
        if algorithm == ALL_TIES:
            return False
        if self.distinct is None:
            return algorithm not in DISTINCT.values() and not algorithm.endswith("-distinct")
        return algorithm == algorithm_for(self.distinct, self.window.sort)

    @property
    def variant(self) -> str:
        return "with ties='all'" if self.ties == "all" else f"with distinct={self.distinct!r}"

    def _validate(self) -> None:
        column("score", self.score)
        column("id", self.id, optional=True)
        column("time", self.time, optional=True)
        self._validate_ties("distinct")
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
                "over a DecayWindow scores shrink towards 0, so the smallest cannot be ranked; "
                "leave out largest=False"
            )
        if self.algorithm == "pabf" and self.epsilon == 0:
            raise QueryError(
                "pabf is approximate and needs epsilon > 0; set epsilon, or use algorithm=None"
            )
