"""What a job does with each batch: its single ``foreachBatch`` function.

persist ─► evaluate, always ─► claim the checkpoint ─► each sink ─► dead letters ─► unpersist

A batch that fails is retried with the same number. Sinks recognise a retried batch by that number
and the run (kept in the checkpoint), so that they need not write it twice. Every batch must be
evaluated, because Spark would stop the stream otherwise; and two actions without ``persist`` would
run the whole plan twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it

from skyband.data.ipc import table_from
from skyband.errors import SkybandError
from skyband.jobs.rows import Sink, written
from skyband.spark.ranking import spark_schema
from skyband.spark.stages import unpacker

__all__ = ["SparkRows", "Writer"]

_AT_ONCE = 64 << 20
"""Bytes that the driver fetches at once; larger results are fetched partition by partition."""


@dataclass(frozen=True)
class SparkRows:
    """The answer rows, or the dead letters, of one query in one batch of Spark."""

    given: Any
    """The persisted DataFrame of the batch."""
    column: str
    schema: pa.Schema
    nbytes: int

    def __bool__(self) -> bool:
        return self.nbytes > 0

    def tables(self) -> Iterator[pa.Table]:
        """Fetch the rows to the driver, table by table."""
        if not self:
            return
        packed = self.given.select(self.column).where(F.col(self.column).isNotNull())
        rows = packed.collect() if self.nbytes <= _AT_ONCE else packed.toLocalIterator()
        for row in rows:
            yield table_from(bytes(row[0])).cast(self.schema)

    def frame(self) -> Any:
        """The rows as a DataFrame; nothing is fetched to the driver."""
        packed = self.given.select(self.column).where(F.col(self.column).isNotNull())
        return packed.mapInArrow(unpacker(self.schema, self.column), spark_schema(self.schema))


class Writer:
    """Called by Spark with each batch of a job."""

    def __init__(
        self,
        sink: Sink[SparkRows],
        schema: pa.Schema,
        letters: Sink[SparkRows] | None,
        letter_schema: pa.Schema,
        claim: Callable[[], None],
    ) -> None:
        self.targets = [(sink, "payload", schema)]
        if letters is not None:
            self.targets.append((letters, "letters", letter_schema))
        self.claim = claim
        self.problem: Exception | None = None
        """The error that stopped the job, if a sink raised it."""

    def __call__(self, given: Any, batch: int) -> None:
        """Write one batch."""
        given.persist()
        try:
            size = {
                column: F.coalesce(F.sum(F.length(column)), F.lit(0)).alias(column)
                for _, column, _ in self.targets
            }
            found = given.agg(*size.values()).collect()[0]
            self.claim()
            for sink, column, schema in self.targets:
                self._write(sink, batch, SparkRows(given, column, schema, int(found[column])))
        finally:
            given.unpersist()

    def _write(self, sink: Sink[SparkRows], batch: int, rows: SparkRows) -> None:
        try:
            written(sink, batch, rows)
        except SkybandError as problem:
            self.problem = problem
            raise
