"""Conversions between Arrow columns and numpy arrays, without copying wherever possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from skyband.arrays import Array
from skyband.errors import SchemaError
from skyband.kernels.borrow import frozen

Positions = NDArray[np.signedinteger[Any]]

_NATIVE: dict[pa.DataType, type[np.generic]] = {
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.uint16(): np.uint16,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
    pa.float16(): np.float16,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
    pa.bool_(): np.uint8,
}
_TIMES: dict[pa.DataType, type[np.generic]] = {
    pa.timestamp("us"): np.int64,
    pa.duration("us"): np.int64,
    pa.date32(): np.int32,
    pa.date64(): np.int64,
    pa.time32("s"): np.int32,
    pa.time64("us"): np.int64,
}
_BY_ID: dict[int, np.dtype[Any]] = {
    kind.id: np.dtype(native) for kind, native in (_NATIVE | _TIMES).items()
}
"""By the number of a type: looking up the type itself would spell out its name each time."""
_BOOL = pa.bool_().id
OFFSETS_32 = (pa.string(), pa.binary())
OFFSETS_64 = (pa.large_string(), pa.large_binary())
_VIEWS = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
_VIEW_IDS = {kind.id for kind in _VIEWS}
_PLAIN_IDS = _BY_ID.keys() | {kind.id for kind in OFFSETS_32 + OFFSETS_64}
"""Types that are returned, taken and filtered as they are."""


def native_dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    """The numpy dtype in which a number, bool or time is stored; None for other types."""
    return _BY_ID.get(kind.id)


def is_number_type(kind: pa.DataType) -> bool:
    """Whether values are numbers: integers, floats or decimals."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def is_bare(kind: pa.DataType) -> bool:
    """Whether values are numbers or times of whole bytes in one buffer; bools, as bits, are not."""
    number = kind.id
    return number in _BY_ID and number != _BOOL


def output_type(kind: pa.DataType) -> pa.DataType:
    """The type in which values are returned: dictionaries, runs and string views are decoded."""
    if kind.id in _PLAIN_IDS:
        return kind
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return output_type(kind.value_type)
    return _VIEWS[kind] if kind.id in _VIEW_IDS else kind


def decoded(table: pa.Table) -> pa.Table:
    """The table with views and runs decoded, because Arrow cannot take or filter all of them.

    Dictionaries and nested columns stay what they are, of plain values.
    """
    for number, column in enumerate(table.schema):
        given = column.type
        if given.id in _PLAIN_IDS:
            continue
        runs = pa.types.is_run_end_encoded(given)
        kind = output_type(given) if runs else _without_views(given)
        if kind is not given:
            chunks = table.column(number).chunks
            now = pa.chunked_array([plain(c) if runs else c.cast(kind) for c in chunks], kind)
            table = table.set_column(number, column.with_type(kind), now)
    return table


def _without_views(kind: pa.DataType) -> pa.DataType:
    """A type with plain text and bytes in place of views, also within dictionaries and others."""
    if kind.id in _VIEW_IDS:
        return _VIEWS[kind]
    if pa.types.is_dictionary(kind):
        given = kind.value_type
        values = _without_views(given)
        return kind if values is given else pa.dictionary(kind.index_type, values, kind.ordered)
    if not pa.types.is_nested(kind):
        return kind
    fields = [kind.field(i) for i in range(kind.num_fields)]
    plain_fields = [field.with_type(_without_views(field.type)) for field in fields]
    return kind if plain_fields == fields else _nested(kind, plain_fields)


def _nested(kind: pa.DataType, fields: list[pa.Field]) -> pa.DataType:
    """A nested type with other fields; a type that is not known here stays as it is."""
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_map(kind):
        return pa.map_(*fields[0].type.fields, keys_sorted=kind.keys_sorted)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(fields[0])
    return pa.list_(fields[0]) if pa.types.is_list(kind) else kind


def plain(arr: pa.Array | pa.ChunkedArray) -> pa.Array:
    """`arr` as one array of its output type's storage; not copied if it already is one."""
    if isinstance(arr, pa.ChunkedArray):
        arr = arr.chunk(0) if arr.num_chunks == 1 else arr.combine_chunks()
    if isinstance(arr, pa.ExtensionArray):
        return plain(arr.storage)
    if pa.types.is_dictionary(arr.type):
        return plain(arr.dictionary_decode())
    if pa.types.is_run_end_encoded(arr.type):
        return plain(pc.run_end_decode(arr))
    return arr.cast(_VIEWS[arr.type]) if arr.type in _VIEWS else arr


def to_numpy(arr: pa.Array | pa.ChunkedArray) -> Array:
    """A read-only view of numbers, bools (as 0 and 1) or times (as integers), without a copy.

    Only bools and arrays of several chunks are copied. The values of null rows are undefined.
    """
    if isinstance(arr, pa.ChunkedArray):
        arr = arr.chunk(0) if arr.num_chunks == 1 else arr.combine_chunks()
    dtype = native_dtype(arr.type)
    if dtype is None:
        raise SchemaError(
            f"a column of type {arr.type} cannot be read as plain numbers; cast it to an integer, "
            "a float or a timestamp first"
        )
    if pa.types.is_boolean(arr.type):
        return _bits(arr.buffers()[1], arr.offset, len(arr))
    return _view(arr.buffers()[1], dtype, arr.offset, len(arr))


def mask_of(arr: pa.Array | pa.ChunkedArray) -> NDArray[np.bool_]:
    """A column of bools without nulls as a mask.

    Arrow's own ``to_numpy`` imports pandas at first, and a Ctrl-C that arrives meanwhile is lost.
    """
    return to_numpy(arr).view(np.bool_)


def to_arrow(values: Array) -> pa.Array:
    """Numbers as an Arrow array of their own type, without a copy.

    ``pa.array`` does the same, but its first call imports pandas, which takes long. Booleans are
    packed, eight to a byte.
    """
    if values.dtype == np.bool_:
        packed = pa.py_buffer(np.packbits(values, bitorder="little"))
        return pa.Array.from_buffers(pa.bool_(), len(values), [None, packed])
    return from_numpy(values, pa.from_numpy_dtype(values.dtype))


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """A batch without rows; ValueError if a type is damaged."""
    for field in schema:
        _refuse_union_of_nothing(field.name, field.type)
    return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], schema=schema)


def _refuse_union_of_nothing(name: str, kind: pa.DataType) -> None:
    """Arrays of such a type end the process."""
    if not pa.types.is_nested(kind):
        return
    if pa.types.is_union(kind) and not kind.num_fields:
        raise ValueError(f"column {name!r} is a union of no types")
    for i in range(kind.num_fields):
        _refuse_union_of_nothing(name, kind.field(i).type)


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows; ``schema.empty_table()`` would import pandas."""
    return pa.Table.from_batches([empty_batch(schema)])


def from_numpy(values: Array, kind: pa.DataType) -> pa.Array:
    """An Arrow array of numbers or times (not bools) over these values, without a copy."""
    buffer = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(kind, len(values), [None, buffer])


def validity(arr: pa.Array) -> NDArray[np.uint8] | None:
    """One byte per row, 0 for null; None if there are no nulls."""
    if arr.null_count == 0:
        return None
    bitmap = arr.buffers()[0]
    if bitmap is None:  # a column of type null has no buffers at all
        return np.zeros(len(arr), np.uint8)
    return _bits(bitmap, arr.offset, len(arr))


def spans(arr: pa.Array) -> tuple[NDArray[np.int32] | NDArray[np.int64], NDArray[np.uint8]]:
    """Offsets and bytes of a string or binary array, without a copy."""
    dtype = np.dtype(np.int64 if arr.type in OFFSETS_64 else np.int32)
    _, offsets, data = arr.buffers()
    if len(arr) == 0:  # an empty array may have no offsets at all
        return np.zeros(1, dtype), np.zeros(0, np.uint8)
    octets = _view(data, np.dtype(np.uint8), 0, 0 if data is None else data.size)
    return _view(offsets, dtype, arr.offset, len(arr) + 1), octets


def fixed_bytes(arr: pa.Array) -> Array:
    """A decimal or fixed-size binary array as raw values of its width, without a copy."""
    return _view(arr.buffers()[1], np.dtype((np.void, arr.type.byte_width)), arr.offset, len(arr))


def take(arr: pa.Array | pa.ChunkedArray, positions: Positions) -> pa.Array:
    """The rows at `positions`, in that order, decoded to `output_type`."""
    if pa.types.is_dictionary(arr.type) and isinstance(arr, pa.Array):
        return plain(arr.take(to_arrow(positions)))  # decodes only what is taken
    wrapped = output_type(arr.type)
    if isinstance(arr, pa.Array) and is_bare(arr.type) and arr.null_count == 0:
        # Several times as fast as Arrow's own take, which checks every position.
        return from_numpy(to_numpy(arr).take(positions), arr.type)
    taken = plain(arr).take(to_arrow(positions))
    return wrapped.wrap_array(taken) if isinstance(wrapped, pa.BaseExtensionType) else taken


def take_rows(table: pa.Table, positions: Positions) -> pa.Table:
    """The rows at `positions` of a table; Arrow's own ``take`` knows no views of text."""
    columns = [take(column, positions) for column in table.columns]
    return pa.Table.from_arrays(columns, table.column_names)


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values as Python has them; a column with times beyond its range as integers."""
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError):
        days = pa.types.is_date32(column.type)
        values = column.cast(pa.int32() if days else pa.int64()).to_pylist()
    return values


def equal_to(column: pa.ChunkedArray, value: Any) -> NDArray[np.bool_]:
    """Which rows have this value; none if the column cannot hold it."""
    if value is None:
        return mask_of(pc.is_null(column))
    try:
        wanted = pa.scalar(value, column.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return np.zeros(len(column), np.bool_)
    return mask_of(pc.fill_null(pc.equal(column, wanted), False))


def _view(buffer: pa.Buffer | None, dtype: np.dtype[Any], offset: int, count: int) -> Array:
    if buffer is None or count == 0:
        view = np.zeros(0, dtype)
    else:
        view = np.frombuffer(buffer, dtype, count, offset * dtype.itemsize)
    return frozen(view)


def _bits(buffer: pa.Buffer | None, offset: int, count: int) -> NDArray[np.uint8]:
    first = offset // 8
    octets = _view(buffer, np.dtype(np.uint8), first, (offset + count + 7) // 8 - first)
    skip = offset % 8
    return frozen(np.unpackbits(octets, bitorder="little", count=skip + count)[skip:])


# Batches of any kind as tables, and the chunks in which their rows are summarised ----------------


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


def is_rows(data: Any) -> bool:
    """Whether these are rows as Python dicts, in a list."""
    return isinstance(data, list) and bool(data) and isinstance(data[0], Mapping)


def table_of_rows(rows: list[Mapping[str, Any]], known: Mapping[str, pa.DataType] = {}) -> pa.Table:
    """A table of Python dicts; a name that a row lacks is null. ``known`` are types to take."""
    try:
        names = dict.fromkeys(name for row in rows for name in row)
        columns = {name: [row.get(name) for row in rows] for name in names}
    except (AttributeError, TypeError):
        raise SchemaError("a list of rows must hold dicts from column names to values") from None
    return pa.table({name: _array(name, columns[name], known.get(name)) for name in columns})


def _array(name: str, values: list[Any], kind: pa.DataType | None) -> pa.Array:
    try:
        column = pa.array(values)
    except (pa.ArrowException, TypeError, OverflowError) as problem:
        raise SchemaError(f"column {name!r}: the rows differ in type: {problem}") from None
    try:
        return column if kind is None else column.cast(kind)
    except (pa.ArrowException, NotImplementedError):
        return column  # it is refused, with the reason, where it is used


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
