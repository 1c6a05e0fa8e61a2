"""Sinks that only Spark can write to: its own Kafka client and its tables."""

from __future__ import annotations

from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it

from skyband.jobs.batches import SparkRows
from skyband.jobs.job import Section
from skyband.jobs.table import Table

__all__ = ["Kafka", "make_sink"]


def make_sink(section: Section, where: str, query: str) -> Kafka | Table:
    """A sink of a kind that is written by Spark."""
    if section.kind == "table":
        return Table(where, section, query)
    return Kafka(where, section)


class Kafka:
    """A topic with one JSON object per row; at least once: a retried batch is sent again."""

    refuses = ()

    def __init__(self, where: str, section: Section) -> None:
        self.where = where
        self.section = section

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
