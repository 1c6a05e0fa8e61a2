"""JSON records in a column of a DataFrame (Kafka, sockets, text), which the workers read.

The bytes travel as they are; ``json_records`` reads them where they are summarised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it
from pyspark.sql.types import StructType

from skyband.data.json_records import read_records
from skyband.data.letters import RAW, UNREAD, CarriedColumns
from skyband.data.text_types import check_types
from skyband.errors import QueryError
from skyband.spark.sessions import first_line
from skyband.spark.worker_read import Batches, WorkerRead, arrow_schema

_VALUE = "_skyband_value"
_BLOCK_ROWS, _BLOCK_BYTES = 1 << 16, 16 << 20
"""Records are read together until there are so many; Spark's batches of 10,000 take longer."""


@dataclass(frozen=True)
class JsonFrame(WorkerRead):
    """Records of JSON in the column ``_VALUE`` of a DataFrame, with where they came from."""

    frame: Any = None
    origin: Mapping[str, str] = field(default_factory=dict)

    @property
    def carried(self) -> CarriedColumns:
        """Topic, partition and offset stay beside each record."""
        return CarriedColumns("not JSON that fits the schema", self.origin)

    def mapInArrow(self, run: Callable[[Batches], Batches], schema: str) -> Any:  # noqa: N802
        """A DataFrame of what ``run`` makes of the records, in the workers."""
        parse = parser(self.wanted, tuple(self.origin.values()))
        return self.frame.mapInArrow(lambda batches: run(parse(batches)), schema)


def json_frame(frame: Any, schema: str, origin: Mapping[str, str]) -> Any:
    """Read JSON, text or bytes, in ``value``; ``origin`` names columns that stay beside it."""
    try:
        types = arrow_schema(StructType.fromDDL(schema))
    except PySparkException as problem:
        raise QueryError(f"schema {schema!r}: {first_line(problem)}") from problem
    check_types("schema:", types)
    value = F.col("value").cast("binary").alias(_VALUE)
    chosen = frame.select(value, *(f"`{name}`" for name in origin.values()))
    return JsonFrame(frame.sparkSession, types, bool(frame.isStreaming), None, chosen, origin)


def parser(wanted: pa.Schema, beside: tuple[str, ...]) -> Callable[[Batches], Batches]:
    """Turn batches of records into batches of columns, row by row as they were."""

    def run(batches: Batches) -> Batches:
        for batch in gathered(batches):
            raw = batch.column(_VALUE)
            read, bad = read_records(raw, wanted)
            columns = dict(zip(wanted.names, read.columns, strict=True))
            columns[UNREAD] = pa.array(bad)
            kept = pa.nulls(len(raw), pa.binary())
            columns[RAW] = pa.compute.if_else(columns[UNREAD], raw, None) if bad.any() else kept
            columns |= {name: batch.column(name) for name in beside}
            yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    return run


def gathered(batches: Batches) -> Batches:
    """The rows of several batches in one, up to the size of a block."""
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if held and size + batch.nbytes > _BLOCK_BYTES:
            yield from _one(held)
            held, rows, size = [], 0, 0
        held.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _BLOCK_ROWS:
            yield from _one(held)
            held, rows, size = [], 0, 0
    if held:
        yield from _one(held)


def _one(batches: list[pa.RecordBatch]) -> Batches:
    if len(batches) == 1:
        return iter(batches)
    return iter(pa.Table.from_batches(batches).combine_chunks().to_batches())
