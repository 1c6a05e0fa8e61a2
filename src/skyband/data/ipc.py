"""Arrow IPC: converts tables and arrays to bytes and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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


def columns_to_array(columns: Mapping[str, pa.Array]) -> Bytes:
    """Columns of one length as an Arrow stream, in a flat array."""
    batch = pa.record_batch(list(columns.values()), names=list(columns))
    return np.frombuffer(_written(batch.schema, [batch]), np.uint8)


def columns_from(data: bytes | Bytes) -> dict[str, pa.Array]:
    """Read columns from an Arrow stream; raises ArrowInvalid if their offsets or text are wrong."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        batch = next(iter(reader), None)
    if batch is None:
        raise pa.ArrowInvalid("there are no columns in it")
    batch.validate(full=True)
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _written(schema: pa.Schema, batches: Iterable[pa.RecordBatch], codec: str | None = None) -> Any:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()
