"""The k most frequent items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from skyband.errors import QueryError
from skyband.query.base import Query
from skyband.query.checks import ColumnNames, Ties, column, columns, counts, flag, number, one_of
from skyband.window import TimeWindow

AGGREGATES = ("sum", "mean", "max", "min")
"""What items may be ranked by, of the weights of their rows."""


@dataclass(frozen=True, kw_only=True)
class HeavyHitters(Query):
    """The ``k`` items that occur most often in the window, or have the greatest total weight.

    Args:
        k: How many items to return.
        item: Column or columns whose values are counted.
        window: A window, such as ``TimeWindow("10 minutes", slide="1 minute")``.
        weight: Column or expression to add up instead of counting rows.
        by: Columns that split the stream into groups, each ranked separately.
        keep: Further columns to show, of any type, from the latest row of each item.
        capacity: How many items a sketch monitors (m in the paper); by default more than ``k``.
        cells: How many counters its filter has (h); by default three per item.
        ratio: How many finer counters a cell has while a pane is counted (r); by default 4.
        filter_bits: Bits of the filter for first occurrences (f); by default 32 per item.
        ties: ``"share"``: equal counts share a rank; ``"all"``: also show what ties with the k-th.
        most: Largest number of items shown with ``ties="all"``; by default ten times ``k``.
        proof: Add a column ``proven``: whether the item certainly belongs in the answer.
        aggregate: Rank by the ``"sum"``, ``"mean"``, ``"max"`` or ``"min"`` of the weights.
        min_rows: With ``aggregate``: leave out items with fewer rows in the window.
        largest: Whether larger aggregates rank first.
        against: ``"previous"``: rank by growth since the window before, of the same length.
        order: With ``against``: rank by ``"gain"``, the difference, or by ``"ratio"``.
        smoothing: With ``order="ratio"``: the number to add to both counts.
        min_count: With ``against``: leave out items with a smaller count in the window.

    An item is proven if no item outside the answer can have a greater count. ``aggregate`` and
    ``against`` work over windows of time only, and their answers are exact. If ``most`` cuts items
    off, the answer's bound ``cut`` says how many.
    """

    kind: ClassVar[str] = "HeavyHitters"
    settings: ClassVar[tuple[str, ...]] = ("capacity", "cells", "ratio", "filter_bits")

    k: int
    item: ColumnNames
    time: str | None = None
    weight: str | None = None
    by: ColumnNames = ()
    keep: ColumnNames = ()
    capacity: int | None = None
    cells: int | None = None
    ratio: int | None = None
    filter_bits: int | None = None
    ties: Ties = "rank"
    most: int | None = None
    proof: bool = False
    aggregate: Literal["sum", "mean", "max", "min"] | None = None
    min_rows: int = 1
    largest: bool = True
    against: Literal["previous"] | None = None
    order: Literal["gain", "ratio"] = "gain"
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
                "aggregate= and against= do not go together: growth is measured in counts or sums; "
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
        return (self.item,) if isinstance(self.item, str) else tuple(self.item)
