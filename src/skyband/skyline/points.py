"""From preferred columns to points, and the skylines of runs of points.

A preferred column becomes a dimension of integers where greater is better. The ``"diff"`` columns
together become one number, the segment: only points of the same segment can dominate each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from skyband.arrays import Ints
from skyband.contract.checks import Test, number_tests, plain_key
from skyband.contract.runs import offsets_of
from skyband.data.columns import native_dtype, output_type, plain, to_numpy
from skyband.data.keys import hash_columns
from skyband.data.order import sortable
from skyband.errors import SchemaError
from skyband.kernels.patient import patient
from skyband.skyline.kernels import dominance

Read = Callable[[str], pa.Array]

skyline_runs = patient(dominance.skyline_runs)


class Preferences:
    """The preferred columns of one source, and what is preferred in each."""

    def __init__(self, prefer: Mapping[str, str]) -> None:
        self.ordered = {name: wish for name, wish in prefer.items() if wish != "diff"}
        self.diff = tuple(name for name, wish in prefer.items() if wish == "diff")

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.ordered, *self.diff)

    @property
    def dimensions(self) -> int:
        return len(self.ordered)

    def check_types(self, schema: pa.Schema) -> None:
        """Raise SchemaError for a column whose values cannot be compared as asked."""
        for name, wish in self.ordered.items():
            kind = schema.field(name).type
            if native_dtype(output_type(kind)) is None:
                raise SchemaError(
                    f"preferred column {name!r} has type {kind}, which {wish!r} cannot compare; it "
                    "must be a number or a time (cast decimals and text to float64)"
                )
        for name in self.diff:
            plain_key("preferred", schema, name)

    def tests(self, batch: pa.RecordBatch) -> list[Test]:
        """The checks that make a row bad, for ``contract.checks.faults``."""
        return value_tests(batch, self.names)

    def points(self, read: Read, rows: int) -> Ints:
        """One point per row."""
        found = np.empty((rows, self.dimensions), np.int64)
        for k, (name, wish) in enumerate(self.ordered.items()):
            found[:, k] = sortable(to_numpy(plain(read(name))), wish == "max")
        return found

    def segments(self, read: Read, rows: int, keys: Sequence[str] = ()) -> Ints:
        """One number per row, from the ``"diff"`` columns and those in ``keys``."""
        names = tuple(dict.fromkeys((*keys, *self.diff)))
        if not names:
            return np.zeros(rows, np.int64)
        return hash_columns([read(name) for name in names]).view(np.int64)

    def skylines(self, read: Read, offsets: Ints, keys: Sequence[str] = ()) -> tuple[Ints, Ints]:
        """Positions of the skyline of each run of rows, and their offsets.

        Rows that differ in a column of ``keys`` do not compete with each other.
        """
        rows = int(offsets[-1])
        if not rows:
            return np.zeros(0, np.int64), offsets
        segment = self.segments(read, rows, keys) if keys or self.diff else None
        return skylines(self.points(read, rows), segment, offsets)


def value_tests(batch: pa.RecordBatch, names: Sequence[str]) -> list[Test]:
    """The tests of preferred columns."""
    return [test for name in names for test in number_tests(batch, "preferred value", name)]


def skylines(
    points: Ints, segment: Ints | None, offsets: Ints, counts: Ints | None = None
) -> tuple[Ints, Ints]:
    """Positions of the skyline of each run, segment by segment, and their offsets."""
    counts = np.zeros(1, np.int64) if counts is None else counts
    if segment is None or not len(segment) or (segment == segment[0]).all():
        return skyline_runs(points, offsets, counts)
    run = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((segment, run))
    ranked, within = segment[order], run[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (ranked[1:] != ranked[:-1]) | (within[1:] != within[:-1])
    starts = np.append(np.flatnonzero(fresh), len(order))
    kept, _ = skyline_runs(points[order], starts, counts)
    lengths = np.bincount(within[kept], minlength=len(offsets) - 1)
    return order[kept], offsets_of(lengths)
