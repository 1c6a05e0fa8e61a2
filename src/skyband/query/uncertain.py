"""The top k of rows that each exist with some probability."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from skyband.errors import QueryError
from skyband.query.base import Query
from skyband.query.checks import ColumnNames, column, number, one_of

SEMANTICS = ("pk-topk", "pt-k", "u-kranks", "u-topk")


@dataclass(frozen=True, kw_only=True)
class UncertainTopK(Query):
    """The likeliest top ``k`` among rows that each exist with some ``probability``.

    Args:
        k: How many rows to return.
        score: Column to rank by, or an expression such as ``"price * volume"``.
        window: A window, such as ``TimeWindow("10 minutes", slide="1 minute")``.
        probability: Column or expression (``"confidence / 100"``): how likely a row is to exist.
        id: Column that identifies a row.
        by: Columns that split the stream into groups, each ranked separately.
        semantics: What is likeliest: ``"pk-topk"``, ``"pt-k"``, ``"u-kranks"`` or ``"u-topk"``.
        threshold: With ``semantics="pt-k"``: the least probability at which a row is returned.
        keep: Further columns to show, of any type.
        largest: Whether larger scores rank first.

    ``"pk-topk"`` gives the k rows likeliest to be in the top k, ``"pt-k"`` all rows whose
    probability of being in the top k is at least ``threshold``, ``"u-kranks"`` the likeliest row
    for each rank, and ``"u-topk"`` the likeliest top k as a whole.
    """

    kind: ClassVar[str] = "UncertainTopK"
    extra_columns: ClassVar[tuple[str, ...]] = ("topk_probability",)

    k: int
    score: str
    probability: str
    id: str | None = None
    time: str | None = None
    by: ColumnNames = ()
    semantics: Literal["pk-topk", "pt-k", "u-kranks", "u-topk"] = "pk-topk"
    threshold: float | None = None
    keep: ColumnNames = ()
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
