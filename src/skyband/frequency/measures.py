"""What items are ranked by if not by their count: an aggregate of weights, or growth.

A measure says which values a summary has of each item, how those of a window rank it (a ``Rule``
for the kernel), and which columns an answer shows. ``position`` and partial answers have these
columns of an item: ``estimate``, which ranks it, and the values behind it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Array
from skyband.contract.runs import Part
from skyband.data.columns import output_type
from skyband.frequency.kernels.measured_sums import GAIN, MEAN, RATIO, VALUE, Rule
from skyband.query.frequency import HeavyHitters


class Measure(ABC):
    """What items are ranked by."""

    sums: tuple[str, ...]
    """The columns of summaries. Those of a pane are added up; of ``peak``, the greatest counts."""
    values: tuple[str, ...]
    """What is known of each item of an answer, beside what ranks it."""
    dtype: np.dtype[Any]
    """The type of all these."""
    scored: np.dtype[Any]
    """The type of what ranks items."""
    rule: Rule

    @abstractmethod
    def weights(self, weights: Array, one_each: Array) -> Mapping[str, Array]:
        """What the rows of a pane add to each column of ``sums``."""

    def ranked(self, part: Part) -> Part:
        """The items of answers with all columns that decide their order."""
        return part

    def shown(self, estimate: Array) -> Array:
        """What ranks items, as answers show it."""
        return estimate

    @abstractmethod
    def columns(self, part: Part) -> Mapping[str, Array]:
        """The columns of an answer after those of the item, by name."""

    @abstractmethod
    def fields(self) -> list[pa.Field]:
        """The same columns, by type."""


def measure_of(query: HeavyHitters, schema: pa.Schema) -> Measure | None:
    """What items are ranked by; None if by their count."""
    kind = None if query.weight is None else output_type(schema.field(query.weight).type)
    if query.aggregate is not None:
        return Aggregate(query, kind)
    whole = kind is None or pa.types.is_integer(kind)
    return Growth(query, np.dtype(np.int64 if whole else np.float64)) if query.against else None


class Aggregate(Measure):
    """The sum, mean, greatest or least weight of an item's rows, and how many rows there are.

    The greatest weights are kept as they are, the least ones as the greatest of ``-weight - one``.
    """

    def __init__(self, query: HeavyHitters, kind: pa.DataType) -> None:
        name, whole = query.aggregate, pa.types.is_integer(kind) and query.aggregate != "mean"
        self.least, self.peak, self.largest = name == "min", name in ("min", "max"), query.largest
        self.dtype: np.dtype[Any] = np.dtype(np.int64 if whole else np.float64)
        self.scored = self.dtype
        self.kind = kind if self.peak else pa.from_numpy_dtype(self.dtype)
        self.sums: tuple[str, ...] = ("peak" if self.peak else "value", "rows")
        self.values = self.sums
        lowest: Any = 0 if not self.peak else np.iinfo(np.int64).min if whole else -np.inf
        self.rule = Rule(
            MEAN if name == "mean" else VALUE, self.peak, self.dtype.type(lowest),
            self.least == self.largest, int(whole), float(query.min_rows), 0.0,
        )  # fmt: skip

    def _flipped(self, values: Array) -> Array:
        flipped: Array = ~values if self.rule.one else -values
        return flipped

    def weights(self, weights: Array, one_each: Array) -> Mapping[str, Array]:
        weights = weights.astype(self.dtype, copy=False)
        first, rows = self.sums
        return {first: self._flipped(weights) if self.least else weights, rows: one_each}

    def shown(self, estimate: Array) -> Array:
        return estimate if self.largest else self._flipped(estimate)

    def columns(self, part: Part) -> Mapping[str, Array]:
        value = self.shown(part["estimate"])
        rows = part["rows"].astype(np.int64)
        return {"value": value, "count": rows, "error": np.zeros_like(value)}

    def fields(self) -> list[pa.Field]:
        counted = pa.field("count", pa.int64())
        return [pa.field("value", self.kind), counted, pa.field("error", self.kind)]


class Growth(Measure):
    """How much greater the count of an item is than in the window before."""

    sums: tuple[str, ...] = ("count",)
    values: tuple[str, ...] = ("count", "before")

    def __init__(self, query: HeavyHitters, dtype: np.dtype[Any]) -> None:
        self.dtype, self.ratio = dtype, query.order == "ratio"
        self.scored = np.dtype(np.float64) if self.ratio else dtype
        self.rule = Rule(
            RATIO if self.ratio else GAIN, False, dtype.type(0), False, 0,
            float(query.min_count), float(query.smoothing),
        )  # fmt: skip

    def weights(self, weights: Array, one_each: Array) -> Mapping[str, Array]:
        return {"count": weights}

    def ranked(self, part: Part) -> Part:
        return Part(part.offsets, {**part.columns, "error": -part["count"]})

    def columns(self, part: Part) -> Mapping[str, Array]:
        count, before = part["count"], part["before"]
        ratio = {"ratio": part["estimate"]} if self.ratio else {}
        growth = {"count": count, "before": before, "gain": count - before, **ratio}
        return {**growth, "error": np.zeros_like(count)}

    def fields(self) -> list[pa.Field]:
        counted, ratio = pa.from_numpy_dtype(self.dtype), [pa.field("ratio", pa.float64())]
        known = [pa.field(name, counted) for name in ("count", "before", "gain")]
        return [*known, *(ratio if self.ratio else []), pa.field("error", counted)]
