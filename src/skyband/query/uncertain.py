"""The top k of rows that exist with a probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from skyband.errors import QueryError
from skyband.query.base import Query, column, number

__all__ = ["SEMANTICS", "UncertainTopK"]

SEMANTICS = ("pk-topk", "pt-k", "u-kranks", "u-topk")


@dataclass(frozen=True, kw_only=True)
class UncertainTopK(Query):
    """The likeliest top k of rows that each exist with their ``probability``.

    ``semantics`` says what likeliest means: ``pk-topk`` the k rows likeliest to be in the top k,
    ``pt-k`` all rows at least ``threshold`` likely to be, ``u-kranks`` the likeliest row of each
    rank, ``u-topk`` the likeliest whole answer.
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

    def shown(self, seen: Sequence[str]) -> tuple[str | None, ...]:
        return (self.id, self.score, self.probability)

    def _validate(self) -> None:
        column("score", self.score)
        column("probability", self.probability)
        column("id", self.id, optional=True)
        column("time", self.time, optional=True)
        if self.semantics not in SEMANTICS:
            raise QueryError(
                f"semantics must be one of {', '.join(SEMANTICS)}, not {self.semantics!r}"
            )
        if self.semantics == "pt-k":
            if self.threshold is None:
                raise QueryError("pt-k needs threshold=, the least probability of an answered row")
            number("threshold", self.threshold, 0.0, 1.0, open_low=True)
        elif self.threshold is not None:
            raise QueryError(f"threshold belongs to semantics='pt-k', not {self.semantics!r}")
