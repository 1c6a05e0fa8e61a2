"""What a test stream is: a table cut into batches, and its rows as the oracle reads them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import oracle

MICROSECONDS = pa.timestamp("us", tz="UTC")
ID_TYPES: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "string": (pa.string(), lambda n: f"id{n}"),
    "int": (pa.int64(), lambda n: n - 2),
    "date": (pa.date32(), lambda n: dt.date(1969, 12, 30) + dt.timedelta(days=n)),
    "binary": (pa.binary(), lambda n: n.to_bytes(2, "little")),
}
"""Arrow type, and a function from n >= 0 to the n-th value; values need not be in sort order."""


@dataclass(frozen=True)
class Stream:
    table: pa.Table
    rows: list[oracle.Row]
    cuts: tuple[int, ...] = ()
    """The boundaries between batches, ascending; two equal ones make an empty batch."""

    @property
    def edges(self) -> list[tuple[int, int]]:
        return list(zip((0, *self.cuts), (*self.cuts, len(self.rows)), strict=True))

    @property
    def batches(self) -> list[pa.Table]:
        return [self.table.slice(start, end - start) for start, end in self.edges]

    @property
    def row_batches(self) -> list[list[oracle.Row]]:
        return [self.rows[start:end] for start, end in self.edges]

    def by_source(self, column: str) -> tuple[list[dict[str, pa.Table]], list[Any]]:
        """Split batches into mappings from source to rows, by a column that names the source."""
        tables, rows = [], []
        for start, end in self.edges:
            names = list(dict.fromkeys(row[column] for row in self.rows[start:end]))
            batch = self.table.slice(start, end - start)
            masks = {name: pc.equal(batch[column], name) for name in names}
            tables.append({n: batch.filter(mask).drop_columns(column) for n, mask in masks.items()})
            rows.append({
                name: [
                    {c: v for c, v in row.items() if c != column}
                    for row in self.rows[start:end]
                    if row[column] == name
                ]
                for name in names
            })  # fmt: skip
        return tables, rows


def rows_of(table: pa.Table) -> list[oracle.Row]:
    """A table as rows for the oracle: every timestamp an integer, in microseconds."""
    for number, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            as_integers = table.column(number).cast(pa.timestamp("us")).cast(pa.int64())
            table = table.set_column(number, column.name, as_integers)
    rows: list[oracle.Row] = table.to_pylist()
    return rows


def from_rows(
    rows: Sequence[oracle.Row], schema: dict[str, pa.DataType], cuts: Iterable[int] = ()
) -> Stream:
    """Make a stream from rows; integers become timestamps if `schema` says so."""
    arrays = {
        name: pa.array([row[name] for row in rows], pa.int64()).cast(kind)
        if pa.types.is_timestamp(kind)
        else pa.array([row[name] for row in rows], kind)
        for name, kind in schema.items()
    }
    table = pa.table(arrays)
    return Stream(table, [{name: row[name] for name in schema} for row in rows], tuple(cuts))


def in_arrival_order(
    rows: Sequence[oracle.Row], delays: Sequence[int], time: str = "ts"
) -> list[oracle.Row]:
    """Order rows by arrival: each row arrives `delay` after its time.

    With delays of at most `lateness`, no row is more than that behind the greatest time before it:
    a row with time t arrives by t + lateness, so the rows before it have times up to t + lateness.
    """
    arrival = [row[time] + delay for row, delay in zip(rows, delays, strict=True)]
    return [rows[n] for n in sorted(range(len(rows)), key=lambda n: arrival[n])]
