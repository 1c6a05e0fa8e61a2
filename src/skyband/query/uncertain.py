"""The top k of rows that each exist with some probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from skyband.errors import QueryError
from skyband.query.base import Query
from skyband.query.checks import column, number, one_of

__all__ = ["SEMANTICS", "UncertainTopK"]

SEMANTICS = ("pk-topk", "pt-k", "u-kranks", "u-topk")


@dataclass(frozen=True, kw_only=True)
class UncertainTopK(Query):
    """The most likely top k of rows that each exist with their ``probability``.

    Both ``score`` and ``probability`` may be expressions, such as ``"confidence / 100"``.
    ``semantics`` defines "most likely": ``pk-topk`` gives the k rows most likely to be in the top
    k, ``pt-k`` all rows whose probability of being in the top k is at least ``threshold``,
    ``u-kranks`` the most likely row of each rank, and ``u-topk`` the most likely top k as a whole.
    ``keep`` names further columns that the answer shows of its rows, of any type.
    ``largest=False`` ranks smaller scores first.
    """

    kind: ClassVar[str] = "UncertainTopK"
    extra_columns: ClassVar[tuple[str, ...]] = ("topk_probability",)

    k: int
    score: str
    probability: str
    id: str | None = None
    time: str | None = None
    by: tuple[str, ...] = ()
    semantics: str = "pk-topk"
    threshold: float | None = None
    keep: tuple[str, ...] = ()
    largest: bool = True

    def shown(self, seen: Sequence[str]) -> tuple[str | None, ...]:
        return (self.id, self.score, self.probability)

    @property
    def expressions(self) -> tuple[str, ...]:
        return (self.score, self.probability)

    def _validate(self) -> None:
        column("score", self.score)
        column("probability", self.probability)
        column("id", self.id, optional=True)
        column("time", self.time, optional=True)
        one_of("semantics", self.semantics, SEMANTICS)
        if self.semantics == "pt-k":
            if self.threshold is None:
                raise QueryError(
                    "pt-k needs threshold=, the least probability at which a row is returned"
                )
            number("threshold", self.threshold, 0.0, 1.0, open_low=True)
        elif self.threshold is not None:
            raise QueryError(f"threshold belongs to semantics='pt-k', not {self.semantics!r}")
