"""What all HeavyHitters algorithms share: columns, bad rows, shards, the finished answer.

A partial answer holds the best k items of each (window, group) with their ``count``. It also has
``estimate``, which decides the rank, if that may differ from the count, and ``error``, if that may
be more than zero. Shards split by item, so the full answer is the best k of the shards' answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Hashes, Ints
from skyband.contract.checks import faults, nan_mask, null_mask, numeric
from skyband.contract.rows import Faults, Rows
from skyband.contract.runs import Part, Runs
from skyband.contract.synopsis import Synopsis
from skyband.data.columns import native_dtype, output_type, to_numpy
from skyband.data.keys import hash_columns, is_key_type
from skyband.errors import SchemaError
from skyband.frequency.items import ItemStore, settled
from skyband.kernels.frequency.counting import sum_runs
from skyband.query.frequency import HeavyHitters

__all__ = ["FrequencySynopsis", "read_only"]

ONE_EACH = np.zeros(0, np.int64)
"""Stands for the weights of rows that count one each."""


class FrequencySynopsis(Synopsis[HeavyHitters]):
    """What HeavyHitters algorithms share: all except summaries and the state over sealed panes."""

    @cached_property
    def items(self) -> tuple[str, ...]:
        """The columns that make up an item."""
        return self.query.key

    @property
    def schema(self) -> pa.Schema:
        return self.schemas[""]

    # Columns ----------------------------------------------------------------------------------

    def columns(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        query = self.query
        names = (*query.groups, *self.items, query.weight, query.time)
        return tuple(dict.fromkeys(name for name in names if name is not None))

    def shown(self, source: str, schema: pa.Schema) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.query.groups, *self.items)))

    def check_types(self, source: str, schema: pa.Schema) -> None:
        for name in self.items:
            kind = schema.field(name).type
            if not is_key_type(kind) or pa.types.is_null(kind):
                raise SchemaError(
                    f"item column {name!r} has type {kind}; it must hold plain values such as "
                    "numbers, times or text: cast it, or name several plain columns"
                )
        if self.query.weight is not None:
            numeric("weight", schema, self.query.weight)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The type of counts."""
        weight = self.query.weight
        whole = weight is None or pa.types.is_integer(self.schema.field(weight).type)
        return np.dtype(np.int64 if whole else np.float64)

    def output(self) -> pa.Schema:
        shown = [pa.field(n, output_type(self.schema.field(n).type)) for n in self.items]
        counted = pa.from_numpy_dtype(self.dtype)
        return pa.schema([*shown, pa.field("count", counted), pa.field("error", counted)])

    def new_store(self) -> ItemStore:
        """An empty store of items."""
        return ItemStore(self.items, [self.schema.field(name).type for name in self.items])

    # Rows -------------------------------------------------------------------------------------

    def validate(self, source: str, batch: pa.RecordBatch) -> Faults | None:
        query = self.query
        tests: list[tuple[str, str, Any]] = [
            (name, "the item is null", null_mask(batch.column(name))) for name in self.items
        ]
        if query.weight is not None:
            weight = batch.column(query.weight)
            tests += [
                (query.weight, "the weight is null", null_mask(weight)),
                (query.weight, "the weight is not a number", nan_mask(weight)),
                (query.weight, "the weight is negative or too large", _unfit(weight)),
            ]
        if query.time is not None:
            tests.append((query.time, "the time is null", null_mask(batch.column(query.time))))
        return faults(batch, tests)

    def shard(self, source: str, batch: pa.RecordBatch, shards: int) -> Ints:
        hashes = hash_columns([batch.column(name) for name in self.items])
        return (hashes % np.uint64(shards)).astype(np.int64)

    @cached_property
    def raw(self) -> bool:
        """Whether items are 64-bit integers: then kernels hash them as they go."""
        if len(self.items) > 1:
            return False
        kind = native_dtype(self.schema.field(self.items[0]).type)
        return kind is not None and kind.kind in "iu" and kind.itemsize == 8

    def integers(self, part: Part) -> Hashes:
        """The items of a part as they are; only if items are ``raw``."""
        if not len(part):
            return np.zeros(0, np.uint64)
        return read_only(to_numpy(part[f"item:{self.items[0]}"])).view(np.uint64)

    def hashed(self, rows: Rows) -> Hashes:
        """Item hashes in run order."""
        hashes = hash_columns([rows.batch.column(name) for name in self.items])
        return hashes if rows.index is None else hashes[rows.index]

    def weighed(self, rows: Rows) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
        """Weights in run order, and the total of each run; None if rows have no weights."""
        if self.query.weight is None:
            return ONE_EACH, None
        weights = rows.numpy(self.query.weight).astype(self.dtype, copy=False)
        weights = read_only(weights)
        return weights, sum_runs(weights, rows.offsets)

    # Answers ----------------------------------------------------------------------------------

    def finish(self, partials: Sequence[Runs]) -> Runs:
        runs = Runs.concat(partials)
        part = runs.parts["items"]
        if len(partials) > 1:
            runs = runs.ordered()
            fresh = np.flatnonzero(~runs.repeats)
            part = runs.parts["items"]
            part = Part(np.append(part.offsets[fresh], len(part)), part.columns)
            part = settled(part, self.items, self.query.k)
            proven = runs.scalars.get("exact")
            scalars = {} if proven is None else {"exact": np.logical_and.reduceat(proven, fresh)}
            runs = Runs(runs.stamp[fresh], runs.group[fresh], {}, scalars)
        columns: dict[str, Any] = {name: part[f"item:{name}"] for name in self.items}
        columns["count"] = pa.array(part["count"])
        known = "error" in part.columns
        columns["error"] = pa.array(part["error"] if known else np.zeros(len(part), self.dtype))
        return Runs(runs.stamp, runs.group, {"rows": Part(part.offsets, columns)}, runs.scalars)


def read_only(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A contiguous view that cannot be written to."""
    view = np.ascontiguousarray(values).view()
    view.flags.writeable = False  # always, so that kernels are compiled for one kind only
    return view


def _unfit(column: pa.Array) -> npt.NDArray[np.bool_] | None:
    """Where a weight is negative, infinite or too large for a signed 64-bit integer."""
    if len(column) == 0:
        return None
    kind = column.type
    if pa.types.is_floating(kind):
        values = to_numpy(column)
        with np.errstate(invalid="ignore"):
            fit = (values >= 0) & (values < np.inf)
    elif pa.types.is_uint64(kind):
        fit = to_numpy(column) <= np.uint64(np.iinfo(np.int64).max)
    elif pa.types.is_unsigned_integer(kind):
        return None
    else:
        fit = to_numpy(column) >= 0
    mask = ~fit
    if not mask.any():
        return None
    if column.null_count:  # values under nulls are undefined; nulls are reported separately
        mask &= np.asarray(pc.is_valid(column).to_numpy(zero_copy_only=False))
    return mask if mask.any() else None
