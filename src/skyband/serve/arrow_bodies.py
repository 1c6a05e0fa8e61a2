"""Reads the body of a request that is an Arrow stream, and measures it before that.

Few bytes of Arrow can say a lot: columns of nulls have none at all, a compressed buffer may have a
thousand times its size, and many rows can refer to one text. So the head of each message is read
first. It has the number of rows and the place of each buffer, and a compressed buffer begins with
the size that it will have.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.embedded.sources import sound
from skyband.serve.limits import Limits, Unreadable, check_size, shortened

__all__ = ["read_arrow", "same_columns"]

_SCHEMA_BYTES = 1 << 20
"""Bytes of the head that names the columns: one may be named many times in it."""
_BATCH_BYTES = 2 << 10
"""What a batch costs besides its rows."""
_SMALL = (pa.types.is_primitive, pa.types.is_decimal, pa.types.is_null)
_V5 = 4
"""The number of the format's fifth version."""


def read_arrow(body: Any, schema: pa.Schema, limits: Limits | None) -> pa.Table:
    """The rows of an Arrow stream, with exactly these columns."""
    buffer = pa.py_buffer(body)
    try:
        rows, size = _measure(buffer) if limits is not None else (0, 0)
        check_size(limits, schema, rows, size)
        with pa.ipc.open_stream(buffer) as reader:
            there = reader.schema
        for name in there.names:  # reading the names decodes them
            name.encode()
    except (pa.ArrowException, OSError, ValueError, IndexError, struct.error) as problem:
        raise _no_stream(problem) from None
    for each in schema:
        if len(there.get_all_field_indices(each.name)) != 1:
            names = shortened(", ".join(there.names))
            reason = f"column {each.name!r} is missing or appears twice; the columns are {names}"
            raise Unreadable(reason, column=each.name)
        if not _flat(there.field(each.name).type):
            raise _not_of(each, there.field(each.name).type, "it is not one value per row")
    wanted = [there.get_field_index(name) for name in schema.names]
    options = pa.ipc.IpcReadOptions(included_fields=wanted)
    try:
        with pa.ipc.open_stream(buffer, options=options) as reader:
            table = sound(reader.read_all())
    except (pa.ArrowException, OSError, ValueError) as problem:
        raise _no_stream(problem) from None
    columns, text = [], 0
    for each in schema:
        column = table[each.name]
        try:
            text += _text_bytes(column)
            check_size(limits, schema, table.num_rows, text)
            columns.append(column if column.type == each.type else _cast(column, each.type))
        except (pa.ArrowException, NotImplementedError) as problem:
            raise _not_of(each, column.type, problem) from None
    return pa.table(columns, schema=schema)


def same_columns(body: Any, schema: pa.Schema) -> bool:
    """Whether an Arrow stream has exactly these columns, in any order."""
    with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
        found = {each.name: each.type for each in reader.schema}
        return len(reader.schema) == len(found) and found == dict(
            zip(schema.names, schema.types, strict=True)
        )


def _no_stream(problem: Exception) -> Unreadable:
    return Unreadable(f"the body is not an Arrow stream: {shortened(str(problem))}")


def _not_of(field: pa.Field, kind: pa.DataType, problem: Any) -> Unreadable:
    there, why = shortened(str(kind)), shortened(str(problem))
    reason = f"column {field.name!r} of type {there} cannot become {field.type}: {why}"
    return Unreadable(reason, column=field.name)


def _flat(kind: pa.DataType) -> bool:
    """Whether a type has one value per row, so that rows bound what a column can become."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_dictionary(kind):
        return _flat(kind.value_type)
    return not (pa.types.is_nested(kind) or pa.types.is_run_end_encoded(kind))


def _cast(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_floating(column.type) and pa.types.is_integer(kind):
        raise pa.ArrowInvalid("numbers with fractions are not whole numbers")
    return column.cast(kind)


def _text_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of the text that rows refer to, which may be the same for many of them."""
    size, kind = 0, column.type
    views = pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)
    coded = pa.types.is_dictionary(kind) and not _is_small(kind.value_type)
    for chunk in column.chunks if views or coded else ():
        if coded:
            size += pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0
        elif len(chunk):
            first, last = 4 * chunk.offset, 4 * (chunk.offset + len(chunk))
            words = np.frombuffer(chunk.buffers()[1], np.int32, last)
            size += int(words[first::4].sum(dtype=np.int64))  # a view begins with its length
    return size


def _is_small(kind: pa.DataType) -> bool:
    """Whether a value has no more bytes than the number of rows accounts for."""
    return any(test(kind) for test in _SMALL)


# Heads: flatbuffers, of which only what is needed is read -----------------------------------------


def _measure(stream: pa.Buffer) -> tuple[int, int]:
    """How many rows a stream has, and how many bytes its buffers take once they are read."""
    rows = size = dictionaries = 0
    for message in pa.ipc.MessageReader.open_stream(stream):
        head = message.metadata
        if message.type == "schema":
            if head.size > _SCHEMA_BYTES:
                raise ValueError("it names too many columns")
            continue
        count, decoded = _batch(message, head)
        if message.type == "dictionary":
            dictionaries += decoded
            continue
        rows += count
        size += decoded + dictionaries + _BATCH_BYTES  # each batch looks at its dictionaries
    return rows, size + dictionaries


def _batch(message: Any, head: pa.Buffer) -> tuple[int, int]:
    """The rows of a batch or a dictionary, and the bytes of its buffers once they are read."""
    root = _follow(head, 0)
    if message.metadata_version < _V5 and _field(head, root, 4):
        raise ValueError("its messages have metadata of their own, as before Arrow 1.0")
    batch = _follow(head, _field(head, root, 2))
    if message.type == "dictionary":
        batch = _follow(head, _field(head, batch, 1))
    at = _field(head, batch, 0)
    rows = struct.unpack_from("<q", head, at)[0] if at else 0
    at = _field(head, batch, 2)
    if not at:
        return rows, 0
    at = _follow(head, at)
    (count,) = struct.unpack_from("<I", head, at)
    buffers = np.frombuffer(head, "<i8", 2 * count, at + 4).reshape(-1, 2)
    sizes = buffers[:, 1]
    if _field(head, batch, 3):  # each that is not empty begins with its size, or with -1
        begins = buffers[sizes > 0, :1] + np.arange(8)
        told = np.frombuffer(message.body, np.uint8)[begins].copy().view("<i8")[:, 0]
        sizes = np.where(told == -1, sizes[sizes > 0], told)
    if rows < 0 or (sizes < 0).any():
        raise ValueError("a size in it is less than 0")
    return rows, sum(sizes.tolist())  # of Python's integers, which do not overflow


def _follow(head: pa.Buffer, at: int) -> int:
    """The place that an offset leads to."""
    return at + int(struct.unpack_from("<I", head, at)[0])


def _field(head: pa.Buffer, table: int, number: int) -> int:
    """The place of a field in a table; 0 if the table does not have it."""
    fields = table - struct.unpack_from("<i", head, table)[0]
    (size,) = struct.unpack_from("<H", head, fields)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", head, fields + 4 + 2 * number)
    return table + offset if offset else 0
