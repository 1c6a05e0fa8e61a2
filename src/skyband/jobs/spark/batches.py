"""What a job does with each batch: its single ``foreachBatch`` function.

persist ─► evaluate, always ─► claim the checkpoint ─► each sink ─► dead letters ─► unpersist
           and fetch what is small

A batch that fails is retried with the same number. Sinks recognise a retried batch by that number
and the run (kept in the checkpoint), so that they need not write it twice. Every batch must be
evaluated, because Spark would stop the stream otherwise; and two actions without ``persist`` would
run the whole plan twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it

from skyband.data.ipc import table_to_bytes
from skyband.data.letters import refuse
from skyband.errors import SkybandError
from skyband.jobs.report import newest_window
from skyband.jobs.sinks.base import Sink, written
from skyband.spark.finishing import GIVEN_DDL, answers_from, unpacker
from skyband.spark.metrics import log
from skyband.spark.plan import QueryPlan
from skyband.spark.ranking import spark_schema

_SHOWN = 1 << 20
"""Bytes of answers per batch up to which the newest window is kept for showing."""
_SMALL = 1 << 18
"""Bytes up to which a packed row is fetched when the batch is evaluated, without another job."""
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
    fetched: Sequence[bytes] | None = None
    """The packed rows, if all of them were fetched when the batch was evaluated."""

    def __bool__(self) -> bool:
        return self.nbytes > 0

    def tables(self) -> Iterator[pa.Table]:
        """Fetch the rows to the driver, table by table."""
        if not self:
            return
        if self.fetched is not None:
            yield from (answers_from(blob, self.schema) for blob in self.fetched)
            return
        packed = self.given.select(self.column).where(F.col(self.column).isNotNull())
        rows = packed.collect() if self.nbytes <= _AT_ONCE else packed.toLocalIterator()
        for row in rows:
            yield answers_from(bytes(row[0]), self.schema)

    def frame(self) -> Any:
        """The rows as a DataFrame; nothing is fetched to the driver."""
        packed = self.given.select(self.column).where(F.col(self.column).isNotNull())
        return packed.mapInArrow(unpacker(self.schema, self.column), spark_schema(self.schema))


@dataclass(frozen=True)
class SinkColumns:
    """A sink, the column of a batch that holds its packed rows, and their columns."""

    sink: Sink[SparkRows]
    column: str
    schema: pa.Schema
    name: str | None = None
    """What the query is called; None for dead letters."""
    query: str | None = None
    """The query whose rows they are; None for all rows."""


class Follower(Protocol):
    """Someone who is shown the answers of a running job."""

    def started(self, plans: Mapping[str, QueryPlan]) -> None:
        """The job is about to start; called again if it has to be started once more."""

    def wrote(self, query: str, table: pa.Table) -> None:
        """The rows of a batch, with their guarantees, after its sink has them.

        A batch that is retried is shown again.
        """


class BatchWriter:
    """Called by Spark with each batch of a job."""

    def __init__(
        self,
        targets: Sequence[SinkColumns],
        claim: Callable[[], None],
        gone: Callable[[int], pa.Table] | None = None,
        on_bad: str = "skip",
        follower: Follower | None = None,
    ) -> None:
        self.targets = list(targets)
        self.claim = claim
        self.gone = gone
        """Gives a dead letter for each file of a batch that disappeared before it was read."""
        self.on_bad = on_bad
        self.problem: Exception | None = None
        """The error that stopped the job, if a sink raised it."""
        self.newest: dict[str, pa.Table] = {}
        """The newest window of each query that was written, if ``follow`` is set."""
        self.follow = False
        self.follower = follower
        self.promised: dict[str, pa.Schema] = {}
        """The columns that the follower is shown, by query."""

    def __call__(self, given: Any, batch: int) -> None:
        """Write one batch."""
        given = self._with_gone(given, batch)
        given.persist()
        try:
            rows_of_targets = self._evaluated(given)
            self.claim()
            for target, rows in zip(self.targets, rows_of_targets, strict=True):
                self._write(target.sink, batch, rows)
                if target.name is not None:
                    self._note(target.name, rows)
                    self._show(target.name, rows)
        finally:
            given.unpersist()

    def _evaluated(self, given: Any) -> list[SparkRows]:
        """Evaluate the batch, once: the rows of each target, those that are small fetched."""
        chosen = []
        for column in dict.fromkeys(target.column for target in self.targets):
            length = F.length(column)
            chosen += [length.alias(f"{column}_bytes")]
            chosen += [F.when(length <= _SMALL, F.col(column)).alias(column)]
        packed = given.select("query", *chosen).collect()
        return [self._rows(given, target, packed) for target in self.targets]

    def _rows(self, given: Any, target: SinkColumns, packed: Sequence[Any]) -> SparkRows:
        """The rows of one target."""
        if target.query is not None:
            packed = [row for row in packed if row["query"] == target.query]
        sizes = [row[f"{target.column}_bytes"] or 0 for row in packed]
        blobs = [bytes(row[target.column]) for row in packed if row[target.column] is not None]
        whole = sum(map(len, blobs)) == sum(sizes)
        mine = given if target.query is None else given.where(F.col("query") == target.query)
        return SparkRows(mine, target.column, target.schema, sum(sizes), blobs if whole else None)

    def _with_gone(self, given: Any, batch: int) -> Any:
        """The batch with letters for files that are gone; raises if bad rows do."""
        letters = None if self.gone is None else self.gone(batch)
        if letters is None or not letters.num_rows:
            return given
        if self.on_bad == "raise":
            try:
                refuse(letters, letters.num_rows)
            except SkybandError as problem:
                self.problem = problem
                raise
        for row in letters.to_pylist():
            log.warning("batch %d lacks %r: %s", batch, row["file"], row["reason"])
        if all(target.column != "letters" for target in self.targets):
            return given
        more = [(None, None, table_to_bytes(letters))]
        gone = given.sparkSession.createDataFrame(more, GIVEN_DDL)
        return given.unionByName(gone, allowMissingColumns=True)

    def _note(self, query: str, rows: SparkRows) -> None:
        """Keep the newest window, for those who look at the job."""
        if self.follow and rows and rows.nbytes <= _SHOWN:
            table = pa.concat_tables(rows.tables())
            if table.num_rows:
                self.newest[query] = newest_window(table)

    def _show(self, query: str, rows: SparkRows) -> None:
        """Hand the rows to the follower, if there is one."""
        if self.follower is None or not rows:
            return
        if rows.nbytes > _AT_ONCE:
            log.warning("%s: %d bytes of answers are too many to show", query, rows.nbytes)
            return
        whole = replace(rows, schema=self.promised.get(query, rows.schema))
        self.follower.wrote(query, pa.concat_tables(whole.tables()))

    def _write(self, sink: Sink[SparkRows], batch: int, rows: SparkRows) -> None:
        try:
            written(sink, batch, rows)
        except SkybandError as problem:
            self.problem = problem
            raise
