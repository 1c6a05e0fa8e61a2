"""Arrow columns in the types in which Spark's own readers give them."""

from __future__ import annotations

from inspect import signature
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type

__all__ = [
    "arrow_schema",
    "as_held",
    "spark_types",
]

_SIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}
_MICROS = "us"


def spark_types(schema: pa.Schema) -> pa.Schema:
    """The columns in the types in which Spark's own readers give them."""
    return pa.schema([(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return _spark_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _spark_type(kind.value_type)
    if pa.types.is_timestamp(kind):
        return pa.timestamp(_MICROS, tz=None if kind.tz is None else "UTC")
    if pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.string()
    if pa.types.is_large_binary(kind) or kind == pa.binary_view():
        return pa.binary()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if kind == pa.uint64():
        return pa.decimal128(20, 0)
    if kind == pa.float16():
        return pa.float32()
    if pa.types.is_date64(kind):
        return pa.date32()
    return _SIGNED.get(kind, kind)


def as_held(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column in the type of ``spark_types``; raises ArrowInvalid if a value does not fit.

    Times finer than a microsecond are cut down to it.
    """
    if column.type == kind:
        return column
    fine = pa.types.is_timestamp(column.type) and column.type.unit == "ns"
    if fine and pa.types.is_timestamp(kind):
        column = pc.floor_temporal(column, unit="microsecond")
    if column.type == pa.float16() or pa.types.is_run_end_encoded(column.type):
        column = pa.chunked_array([chunk.cast(kind) for chunk in column.chunks], kind)
    return column.cast(kind)


# Spark's types as Arrow's ------------------------------------------------------------------------


def arrow_schema(columns: Any) -> pa.Schema:
    """Columns of Spark as Arrow types; a type that Arrow does not have becomes null."""
    # Spark 4.3 takes the zone of timestamps as a parameter; earlier versions always use UTC.
    zoned = "timezone" in signature(to_arrow_type).parameters
    zone: dict[str, Any] = {"timezone": "UTC"} if zoned else {}
    fields = []
    for field in columns.fields:
        try:
            kind = to_arrow_type(field.dataType, **zone)
        except PySparkException:
            kind = pa.null()
        fields.append(pa.field(field.name, kind))
    return pa.schema(fields)
