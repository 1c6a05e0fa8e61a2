"""The k most frequent items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from skyband.errors import QueryError
from skyband.query.base import Query
from skyband.query.checks import column, columns, counts, flag, number, one_of
from skyband.window import TimeWindow

__all__ = ["AGGREGATES", "HeavyHitters"]

AGGREGATES = ("sum", "mean", "max", "min")
"""What items may be ranked by, of the weights of their rows."""


@dataclass(frozen=True, kw_only=True)
class HeavyHitters(Query):
    """The ``k`` items that occur most often in the window, or have the greatest total weight.

    An item is the value of one column, or of several together. ``capacity``, ``cells``, ``ratio``
    and ``filter_bits`` are the parameters m, h, r and f of the sketches; None derives them from k.
    ``keep`` names further columns, of any type; the answer shows them of the item's latest row.
    ``ties="share"`` gives equal counts the same rank: 1, 2, 2, 4. ``ties="all"`` also shows every
    item that ties with the k-th, but at most ``most`` items (10 k if None); the bound ``cut`` of an
    answer says how many more there were. ``proof=True`` adds the column
    ``proven``: whether the item certainly belongs into the answer, because no item that the answer
    leaves out can have a greater count.

    ``aggregate`` ranks items by the ``"sum"``, ``"mean"``, ``"max"`` or ``"min"`` of their weights
    instead, greatest first, or smallest first with ``largest=False``; items with fewer than
    ``min_rows`` rows in the window are left out. ``against="previous"`` ranks items by how much
    more they have than in the window of equal length just before: by the difference, or with
    ``order="ratio"`` by ``(count + smoothing) / (before + smoothing)``; items of fewer than
    ``min_count`` in the window are left out. Both are exact, and for a TimeWindow.
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
    most: int | None = None
    proof: bool = False
    aggregate: str | None = None
    min_rows: int = 1
    largest: bool = True
    against: str | None = None
    order: str = "gain"
    smoothing: float = 1
    min_count: float = 1

    @property
    def extra_columns(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.aggregate is not None:
            return "value", "count", "error"
        if self.against is not None:
            ratio = ("ratio",) if self.order == "ratio" else ()
            return "count", "before", "gain", *ratio, "error"
        return ("count", "error", "proven") if self.proof else ("count", "error")

    @property
    def ranked_by(self) -> str:
        return self.order if self.against else self.extra_columns[0]

    @property
    def tied_by(self) -> str | None:
        return None if self.ties == "rank" else self.ranked_by

    @property
    def signed(self) -> bool:
        """Whether weights may be negative."""
        return self.aggregate is not None

    def answered_by(self, algorithm: str) -> bool:
        if self.ties == "all":
            return algorithm in ("exact", "landmark")
        return algorithm == "exact" or not (self.aggregate or self.against)

    @property
    def variant(self) -> str:
        name = "aggregate" if self.aggregate else "against" if self.against else "ties"
        return f"with {name}={getattr(self, name)!r}"

    @property
    def expressions(self) -> tuple[str, ...]:
        return () if self.weight is None else (self.weight,)

    def _validate(self) -> None:
        names = columns("item", self.item)
        object.__setattr__(self, "item", self.item if isinstance(self.item, str) else names)
        column("time", self.time, optional=True)
        column("weight", self.weight, optional=True)
        self._validate_ties("capacity", "cells", "ratio", "filter_bits", "proof")
        flag("proof", self.proof)
        self._validate_aggregate()
        self._validate_growth()
        counts(self, "capacity", "cells", "ratio", "filter_bits", optional=True)
        if self.capacity is not None and self.capacity < self.k:
            raise QueryError(f"capacity ({self.capacity}) must be at least k ({self.k})")
        if self.algorithm == "fsw-f" and self.weight is not None:
            raise QueryError(
                "fsw-f filters single occurrences, so it cannot be used with a weight; "
                "use fsw or fsw-r"
            )

    def _validate_aggregate(self) -> None:
        counts(self, "min_rows")
        flag("largest", self.largest)
        if self.aggregate is None:
            for name, default in (("min_rows", 1), ("largest", True)):
                if getattr(self, name) != default:
                    raise QueryError(f"{name}= does nothing without aggregate=; leave it out")
            return
        one_of("aggregate", self.aggregate, AGGREGATES)
        if self.weight is None:
            raise QueryError(
                f"aggregate={self.aggregate!r} needs weight=, the column or expression whose "
                f"{self.aggregate} ranks items"
            )
        self._refuse_with("aggregate")
        if self.against is not None:
            raise QueryError(
                "aggregate= and against= do not go together; growth is that of counts or sums, so "
                "leave out aggregate="
            )

    def _validate_growth(self) -> None:
        for name in ("smoothing", "min_count"):
            number(name, getattr(self, name), 0, math.inf, open_low=True)
        one_of("order", self.order, ("gain", "ratio"))
        if self.against is None:
            for name, default in (("order", "gain"), ("smoothing", 1), ("min_count", 1)):
                if getattr(self, name) != default:
                    raise QueryError(f"{name}= does nothing without against=; leave it out")
            return
        one_of("against", self.against, ("previous",))
        if self.order != "ratio" and self.smoothing != 1:
            raise QueryError(
                "smoothing= does nothing for order='gain'; leave it out, or use order='ratio'"
            )
        self._refuse_with("against")
        assert isinstance(self.window, TimeWindow)
        object.__setattr__(self, "window", self.window.compared())

    def _refuse_with(self, name: str) -> None:
        """Refuse what does not go with an exact ranking over time windows."""
        if not isinstance(self.window, TimeWindow):
            raise QueryError(
                f"{name}= is for a TimeWindow, not for a {type(self.window).__name__}; use "
                "sb.TimeWindow(...)"
            )
        if self.proof:
            raise QueryError(f"{name}= is exact, so proof=True proves nothing more; leave it out")

    @property
    def key(self) -> tuple[str, ...]:
        return (self.item,) if isinstance(self.item, str) else self.item
