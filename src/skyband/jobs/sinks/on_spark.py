"""Sinks that only Spark can write to: its own Kafka client and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it

from skyband.errors import EngineError
from skyband.jobs.places import folder_of
from skyband.jobs.sinks.base import SinkTarget
from skyband.jobs.spark.batches import SparkRows
from skyband.query.base import REVISION
from skyband.spark.ranking import spark_schema
from skyband.spark.sessions import first_line


class SparkKafkaSink:
    """A topic with one JSON object per row; at least once: a retried batch is sent again."""

    refuses = ()

    def __init__(self, target: SinkTarget) -> None:
        self.where, self.section = target.where, target.section

    def open(self, run: str) -> None:
        """Nothing to prepare: the first batch shows whether the brokers can be reached."""

    def write(self, batch: int, rows: SparkRows) -> None:
        """Send the rows of a batch."""
        if not rows:
            return
        columns = [F.to_json(F.struct("*")).alias("value")]
        if self.section["key"]:
            columns.append(F.col(self.section["key"]).cast("string").alias("key"))
        writer = rows.frame().select(*columns).write.format("kafka")
        writer = writer.options(**(self.section["options"] or {}))
        writer = writer.option("kafka.bootstrap.servers", self.section["servers"])
        writer.option("topic", self.section["topic"]).save()


# A sink for tables of Spark's catalog: each window once, whole windows replaced ------------------
#
# The table is partitioned by ``window_end``. A batch overwrites the partitions of the windows that
# it holds and no others, so a batch that is repeated, or a newer run over corrected rows, replaces
# what was there. With ``current`` the table is not partitioned and holds only the newest window.


_END = "window_end"
_MODE = "spark.sql.sources.partitionOverwriteMode"
_PLAIN = ("parquet", "orc", "csv", "json", "avro")
"""Formats whose tables are nothing but files in folders."""
_OWNER = "skyband.query"
"""The property of a table that names the query that writes it."""


class Table:
    """Writes the batches of one query into one table."""

    refuses = ()

    def __init__(self, target: SinkTarget) -> None:
        section = target.section
        self.where, self.revises, self.query = target.where, target.revises, target.query
        self.name = str(section["table"])
        self.quoted = ".".join(f"`{part}`" for part in self.name.split("."))
        self.path = section["path"]
        self.format = section["format"] or "parquet"
        self.options = dict(section["options"] or {})
        self.current = bool(section["current"])
        self._ready = False

    def open(self, run: str) -> None:
        """Nothing to prepare: the table is made with the first answers, which have its columns."""

    def write(self, batch: int, rows: SparkRows) -> None:
        """Replace the windows of a batch; a batch without rows changes nothing."""
        if not rows:
            return
        frame = rows.frame()
        if self.revises:  # a batch may correct a window that it answers
            last = frame.groupBy(_END).agg(F.max(REVISION).alias(REVISION))
            frame = frame.join(last, [_END, REVISION], "left_semi")
        session = frame.sparkSession
        if not self._ready:
            self._prepare(session, rows.schema)
            self._ready = True
        if self.current:
            newest = frame.agg(F.max(_END).alias("newest"))
            frame = frame.join(newest, F.col(_END) == F.col("newest"), "left_semi")
            if self.revises:  # a correction of an older window leaves the newest one alone
                found = session.table(self.quoted).agg(F.max(_END).cast("string")).first()[0]
                known = F.lit(found).cast(frame.schema[_END].dataType)
                frame = frame.where(known.isNull() | (F.col(_END) >= known))
                if frame.isEmpty():
                    return
        # Columns go by position, and a partition column is the last of a table.
        chosen = frame.select(*(f"`{name}`" for name in session.table(self.quoted).columns))
        with _only_these_windows(session):
            chosen.coalesce(1).write.insertInto(self.quoted, overwrite=True)

    def _prepare(self, session: Any, schema: pa.Schema) -> None:
        if not session.catalog.tableExists(self.quoted):
            self._make(session, schema)
        owned = session.sql(f"SHOW TBLPROPERTIES {self.quoted}").collect()
        owner = {row["key"]: row["value"] for row in owned}.get(_OWNER)
        if owner != self.query:
            whose = "was not made by Skyband" if owner is None else f"belongs to {owner!r}"
            raise EngineError(f"{self.where} the table {self.name} {whose}; give another table")
        there = {column.name for column in session.catalog.listColumns(self.quoted)}
        if there != set(schema.names):
            raise EngineError(
                f"{self.where} the table {self.name} has the columns {', '.join(sorted(there))}, "
                f"but the answers have {', '.join(sorted(schema.names))}; give another table"
            )
        parts = [c.name for c in session.catalog.listColumns(self.quoted) if c.isPartition]
        if parts != ([] if self.current else [_END]):
            raise EngineError(
                f"{self.where} the table {self.name} was made with "
                f"current = {str(not self.current).lower()}; keep it so, or give another table"
            )

    def _has_files(self) -> bool:
        """Whether the table has files already; a new catalog does not know them by itself."""
        if self.path is None or self.format.lower() not in _PLAIN:
            return False
        system, folder = folder_of(self.where, self.path)
        return bool(system.get_file_info(folder).type == pa.fs.FileType.Directory)

    def _make(self, session: Any, schema: pa.Schema) -> None:
        fields = spark_schema(schema).fields
        columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
        options = {**self.options, **({} if self.path is None else {"path": self.path})}
        statement = [f"CREATE TABLE {self.quoted} ({columns}) USING {self.format}"]
        if options:
            pairs = ", ".join(f"{_text(name)} {_text(value)}" for name, value in options.items())
            statement.append(f"OPTIONS ({pairs})")
        if not self.current:
            statement.append(f"PARTITIONED BY (`{_END}`)")
        statement.append(f"TBLPROPERTIES ({_text(_OWNER)} = {_text(self.query)})")
        try:
            session.sql(" ".join(statement))
            if not self.current and self._has_files():
                session.catalog.recoverPartitions(self.quoted)
        except PySparkException as problem:
            more = ""
            if "LOCATION_ALREADY_EXISTS" in str(problem):
                more = "; this session's catalog forgets tables: give path, where its files are"
            raise EngineError(
                f"{self.where} the table {self.name} cannot be made: {first_line(problem)}{more}"
            ) from problem


@contextmanager
def _only_these_windows(session: Any) -> Iterator[None]:
    """Overwrite the partitions that are written, not the whole table."""
    before = session.conf.get(_MODE, "static")
    session.conf.set(_MODE, "dynamic")
    try:
        yield
    finally:
        session.conf.set(_MODE, before)


def _text(value: Any) -> str:
    """A literal of SQL."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
