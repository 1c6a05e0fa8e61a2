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
from typing import Any, Self

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import NullType, StructField, StructType

from skyband.data.letters import CarriedColumns

__all__ = ["Batches", "WorkerRead"]

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
