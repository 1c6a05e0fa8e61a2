"""Sources that workers read by themselves; they stand where a DataFrame may.

``rank`` and jobs need little of a DataFrame: its columns and types, ``select``, and ``mapInArrow``,
which runs a function over its batches. A source of this kind reads inside that ``mapInArrow``, so
its rows never pass through Spark.

What could not be read stays in the batches as a row of nulls, marked as such, in these columns:

    UNREAD  RAW                        REASON                      and where it came from
    true    the record                 null: not of the schema     file, or topic, partition, offset
    true    null                       why a file is unreadable    file
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from inspect import signature
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_type
from pyspark.sql.types import NullType, StructField, StructType

from skyband.data.letters import CarriedColumns

Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class WorkerRead(ABC):
    """A source whose rows are read where they are summarised."""

    session: Any
    types: pa.Schema
    """Columns, in types that Spark has too."""
    streaming: bool
    chosen: tuple[str, ...] | None = None
    """The columns to read; None for all."""

    @property
    @abstractmethod
    def carried(self) -> CarriedColumns:
        """The columns that travel with those of the query."""

    @abstractmethod
    def mapInArrow(self, run: Callable[[Batches], Batches], schema: str) -> Any:  # noqa: N802
        """A DataFrame of what ``run`` makes of the batches of this source, in the workers."""

    # What else DataFrames have ------------------------------------------------------------------

    @property
    def isStreaming(self) -> bool:  # noqa: N802 - Spark's names
        """Whether it goes on as new rows come."""
        return self.streaming

    @property
    def sparkSession(self) -> Any:  # noqa: N802
        """The session that it was made in."""
        return self.session

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(self.types.names)

    @cached_property
    def schema(self) -> StructType:
        """The columns in Spark's types; one that Spark has no type for is null."""
        fields = []
        for field in self.types:
            try:
                kind = from_arrow_type(field.type, prefer_timestamp_ntz=True)
            except (PySparkException, TypeError):
                kind = NullType()
            fields.append(StructField(field.name, kind))
        return StructType(fields)

    def select(self, *names: str) -> Self:
        """The same source with only some columns, given by name; hidden ones always come along."""
        plain = [name.strip("`") for name in names]
        hidden = self.carried.hidden
        return replace(self, chosen=tuple(name for name in plain if name not in hidden))

    def drop(self, *names: str) -> Self:
        """The same source: hidden columns are not among its columns."""
        return self

    @property
    def wanted(self) -> pa.Schema:
        """The columns to read."""
        if self.chosen is None:
            return self.types
        return pa.schema([self.types.field(name) for name in self.chosen])


# Arrow columns in the types in which Spark's own readers give them --------------------------------


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
