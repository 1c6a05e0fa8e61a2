"""Answers as bytes, on their way from the state to the sink; large ones in few bytes.

With many groups, a batch can have more answer rows than input rows: a row is shown by every window
that covers it. Between the process that keeps the state and the one that hands rows to Spark, each
byte is copied a dozen times, so large tables are made smaller first:

    column                       sent
    window edges, groups         each value once, and where it ends
    rank, times, whole numbers   as many bytes as their range needs, from the least one
    other columns                as they are
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.contract.runs import run_starts
from skyband.data.ipc import table_from, table_to_bytes
from skyband.spark.compact import narrowest, numbers_of

__all__ = ["answers_from", "answers_to_bytes"]

_LARGE = 1 << 20
"""Bytes from which on a table is made smaller."""
_TOLD = b"skyband.small"
_FEWER = 4
"""A column is sent as runs if these are fewer than its values by this factor."""


def answers_to_bytes(table: pa.Table) -> bytes:
    """A table of answers as an Arrow stream."""
    if table.nbytes < _LARGE or table.num_rows >= np.iinfo(np.int32).max:
        return table_to_bytes(table)
    columns, least = [], {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        small, first = _small(column)
        columns.append(small)
        if first is not None:
            least[name] = first
    kinds = [field.with_type(c.type) for field, c in zip(table.schema, columns, strict=True)]
    told = {_TOLD: json.dumps(least).encode(), **(table.schema.metadata or {})}
    return table_to_bytes(pa.Table.from_arrays(columns, schema=pa.schema(kinds, told)))


def answers_from(data: Any, schema: pa.Schema) -> pa.Table:
    """The columns of ``schema`` from bytes that ``answers_to_bytes`` made."""
    table = table_from(data).select(schema.names)
    told = (table.schema.metadata or {}).get(_TOLD)
    if told is None:
        return table.cast(schema)
    least = json.loads(told)
    columns = [_whole(table.column(f.name), f.type, least.get(f.name)) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def _small(column: pa.ChunkedArray) -> tuple[pa.Array | pa.ChunkedArray, int | None]:
    """The column in fewer bytes if there is a way, and its least value if that was subtracted."""
    values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    numbers = numbers_of(values)
    if numbers is None:
        return column, None
    starts = run_starts(numbers)
    if len(starts) * _FEWER <= len(numbers):
        ends = np.append(starts[1:], len(numbers)).astype(np.int32)
        return pa.RunEndEncodedArray.from_arrays(ends, values.take(pa.array(starts))), None
    least, width = narrowest(numbers)
    if width >= numbers.dtype.itemsize:
        return column, None
    return pa.array((numbers - numbers.dtype.type(least)).astype(f"u{width}")), least


def _whole(column: pa.ChunkedArray, kind: pa.DataType, least: int | None) -> Any:
    """The inverse of ``_small``."""
    if pa.types.is_run_end_encoded(column.type):
        column = pc.run_end_decode(column)
    elif least is not None:
        values = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        dtype = np.dtype(
            f"{'u' if pa.types.is_unsigned_integer(kind) else 'i'}{kind.bit_width // 8}"
        )
        wide = values.to_numpy(zero_copy_only=False).astype(dtype)
        wide += dtype.type(least)
        return pa.array(wide).view(kind)
    return column if column.type == kind else column.cast(kind)
