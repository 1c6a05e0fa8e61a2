"""Batches of any kind as tables, and the chunks in which their rows are summarised."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from skyband.data.columns import decoded, empty_batch
from skyband.errors import SchemaError

__all__ = ["CHUNK_ROWS", "as_table", "chunks_of", "one_batch_of"]

CHUNK_ROWS = 1 << 20
"""Rows summarised at once. It never depends on the number of threads, as rounding might show it."""
_SMALL_CHUNK = 1 << 16
"""Chunks with fewer rows are joined with their neighbours: each costs Python some time."""


_LONG_CHUNK = 4
"""How many times as long a chunk is for an algorithm that asks for long ones."""


def as_table(data: Any) -> pa.Table:
    """A table from anything with the Arrow PyCapsule interface, without copying."""
    if isinstance(data, pa.Table):
        return decoded(data)
    if isinstance(data, pa.RecordBatch):
        return decoded(pa.Table.from_batches([data]))
    problem = ""
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        try:
            return decoded(pa.table(data))
        except (pa.ArrowException, TypeError) as error:
            problem = f" ({error})"
    raise SchemaError(
        "a batch must be a table with an Arrow interface (pyarrow, pandas, polars, DuckDB, ...), "
        f"not {type(data).__name__}{problem}"
    )


def one_batch_of(table: pa.Table) -> pa.RecordBatch:
    """All rows of a table as one batch; copied only if there are several chunks."""
    batches = table.to_batches()
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return empty_batch(table.schema)
    return table.combine_chunks().to_batches()[0] if table.num_rows else batches[0]


def chunks_of(table: pa.Table, long: bool = False) -> list[pa.RecordBatch]:
    """The chunks of a table: large ones cut, small neighbours joined; at least one.

    They are cut every ``CHUNK_ROWS`` rows, or later if ``long`` chunks are asked for.
    """
    most = CHUNK_ROWS * _LONG_CHUNK if long else CHUNK_ROWS
    batches = [b for b in table.to_batches(max_chunksize=most) if b.num_rows]
    if len(batches) < 2:
        return batches or [one_batch_of(table.slice(0, 0))]
    found: list[list[pa.RecordBatch]] = []
    rows = _SMALL_CHUNK
    for batch in batches:
        if rows >= _SMALL_CHUNK or batch.num_rows >= _SMALL_CHUNK:
            found.append([])
            rows = 0
        found[-1].append(batch)
        rows += batch.num_rows
    return [
        each[0] if len(each) == 1 else one_batch_of(pa.Table.from_batches(each)) for each in found
    ]
