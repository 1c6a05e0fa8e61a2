"""Arrow IPC: converts tables and arrays to bytes and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]


def table_to_bytes(table: pa.Table, codec: str | None = None) -> bytes:
    """A table as an Arrow stream, compressed if a codec is given."""
    return bytes(_written(table.schema, table.to_batches(), codec))


def table_to_array(table: pa.Table) -> Bytes:
    """A table as an Arrow stream, in a flat array."""
    return np.frombuffer(_written(table.schema, table.to_batches()), np.uint8)


def table_from(data: bytes | memoryview | Bytes) -> pa.Table:
    """Read a table from an Arrow stream."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def sound_table(data: Bytes) -> pa.Table:
    """As ``table_from``; raises ArrowInvalid if offsets or text are wrong."""
    table = table_from(data)
    table.validate(full=True)
    return table


def schema_from(data: bytes | Bytes) -> pa.Schema:
    """Read a schema from what ``Schema.serialize`` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(data))


def column_to_array(values: pa.Array) -> Bytes:
    """One column as an Arrow stream, in a flat array."""
    batch = pa.record_batch([values], names=["_"])
    return np.frombuffer(_written(batch.schema, [batch]), np.uint8)


def column_from(data: bytes | Bytes) -> pa.Array:
    """Read a column from an Arrow stream; raises ArrowInvalid if its offsets or text are wrong."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        (column,) = next(iter(reader), [None])
    if column is None:
        raise pa.ArrowInvalid("there is no column in it")
    column.validate(full=True)
    return column


def _written(schema: pa.Schema, batches: Iterable[pa.RecordBatch], codec: str | None = None) -> Any:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()
