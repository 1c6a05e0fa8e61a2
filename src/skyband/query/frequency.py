"""The k most frequent items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from skyband.errors import QueryError
from skyband.query.base import Query
from skyband.query.checks import TIES, column, columns, counts, flag, one_of

__all__ = ["HeavyHitters"]


@dataclass(frozen=True, kw_only=True)
class HeavyHitters(Query):
    """The ``k`` items that occur most often in the window, or have the greatest total weight.

    An item is the value of one column, or of several together. ``capacity``, ``cells``, ``ratio``
    and ``filter_bits`` are the parameters m, h, r and f of the sketches; None derives them from k.
    ``keep`` names further columns, of any type; the answer shows them of the item's latest row.
    ``ties="share"`` gives equal counts the same rank: 1, 2, 2, 4. ``proof=True`` adds the column
    ``proven``: whether the item certainly belongs into the answer, because no item that the answer
    leaves out can have a greater count.
    """

    kind: ClassVar[str] = "HeavyHitters"
    settings: ClassVar[tuple[str, ...]] = ("capacity", "cells", "ratio", "filter_bits")

    k: int
    item: str | tuple[str, ...]
    time: str | None = None
    weight: str | None = None
    by: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    capacity: int | None = None
    cells: int | None = None
    ratio: int | None = None
    filter_bits: int | None = None
    ties: str = "rank"
    proof: bool = False

    @property
    def extra_columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("count", "error", "proven") if self.proof else ("count", "error")

    @property
    def tied_by(self) -> str | None:
        return "count" if self.ties == "share" else None

    @property
    def expressions(self) -> tuple[str, ...]:
        return () if self.weight is None else (self.weight,)

    def _validate(self) -> None:
        names = columns("item", self.item)
        object.__setattr__(self, "item", self.item if isinstance(self.item, str) else names)
        column("time", self.time, optional=True)
        column("weight", self.weight, optional=True)
        one_of("ties", self.ties, TIES)
        flag("proof", self.proof)
        counts(self, "capacity", "cells", "ratio", "filter_bits", optional=True)
        if self.capacity is not None and self.capacity < self.k:
            raise QueryError(f"capacity ({self.capacity}) must be at least k ({self.k})")
        if self.algorithm == "fsw-f" and self.weight is not None:
            raise QueryError(
                "fsw-f filters single occurrences, so it cannot be used with a weight; "
                "use fsw or fsw-r"
            )

    @property
    def key(self) -> tuple[str, ...]:
        return (self.item,) if isinstance(self.item, str) else self.item
