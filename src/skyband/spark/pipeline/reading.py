"""The sources of a job as DataFrames, and the records of them that cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it

from skyband.errors import EngineError, QueryError, SchemaError
from skyband.spark.pipeline.job import Section
from skyband.spark.plan import Plan
from skyband.spark.requirements import in_utc
from skyband.spark.summarise import chunks

__all__ = ["LETTER_DDL", "invalid_rows", "read_source"]

LETTER_DDL = "source string, reason string, record string"
_CORRUPT = "_corrupt_record"
_UTC = {"timeZone": "UTC"}
"""How readers take a time without a zone, whatever the zone of the session."""


def read_source(session: Any, name: str, source: Section) -> tuple[Any, Any | None]:
    """The good records of a source as columns, and the others as dead letters (or None)."""
    try:
        with in_utc(session):
            frame, letters = _READERS[source.kind](session, name, source)
            return _chosen(frame, source), letters
    except PySparkException as problem:
        where = f"[sources.{name}]" if name else "[source]"
        raise SchemaError(f"{where} cannot be read: {str(problem).splitlines()[0]}") from problem


def _chosen(frame: Any, source: Section) -> Any:
    columns = source["columns"]
    if not columns:
        return frame
    return frame.select(*(F.expr(str(text)).alias(name) for name, text in columns.items()))


def _files(session: Any, name: str, source: Section) -> tuple[Any, None]:
    kind = source["format"] or "parquet"
    options = _UTC | (source["options"] or {})
    reader = session.readStream.format(kind).options(**options)
    if source["files_per_batch"]:
        reader = reader.option("maxFilesPerTrigger", source["files_per_batch"])
    schema = source["schema"]
    if schema is None:
        # Streams want a schema; files that are there already show one.
        reader_now = session.read.format(kind).options(**options)
        schema = reader_now.load(source["path"]).schema
    return reader.schema(schema).load(source["path"]), None


def _rate(session: Any, name: str, source: Section) -> tuple[Any, None]:
    if source["rows_per_batch"]:
        reader = session.readStream.format("rate-micro-batch")
        return reader.option("rowsPerBatch", source["rows_per_batch"]).load(), None
    rows = source["rows_per_second"] or 1
    return session.readStream.format("rate").option("rowsPerSecond", rows).load(), None


def _socket(session: Any, name: str, source: Section) -> tuple[Any, Any | None]:
    reader = session.readStream.format("socket")
    lines = reader.option("host", source["host"]).option("port", source["port"]).load()
    return _parsed(lines, name, source)


def _kafka(session: Any, name: str, source: Section) -> tuple[Any, Any | None]:
    reader = session.readStream.format("kafka").options(**(source["options"] or {}))
    reader = reader.option("kafka.bootstrap.servers", source["servers"])
    reader = reader.option("subscribe", source["topic"])
    reader = reader.option("startingOffsets", source["starting"] or "earliest")
    if source["rows_per_batch"]:
        reader = reader.option("maxOffsetsPerTrigger", source["rows_per_batch"])
    return _parsed(reader.load(), name, source)


def _parsed(frame: Any, name: str, source: Section) -> tuple[Any, Any | None]:
    """Values as columns; a record that is not what the schema says is a dead letter."""
    kind = source["format"] or "json"
    if kind == "avro":
        if source["avro_schema"] is None:
            raise QueryError("format='avro' needs avro_schema, a file with the Avro schema")
        from pyspark.sql.avro.functions import from_avro

        text = Path(source["avro_schema"]).read_text(encoding="utf-8")
        value = from_avro(F.col("value"), text, {"mode": "PERMISSIVE"})
        parsed = frame.withColumn("parsed", value)
        # A record that cannot be read comes back with nothing in it.
        fields = parsed.schema["parsed"].dataType.names
        empty = F.lit(True)
        for field in fields:
            empty = empty & F.col("parsed").getField(field).isNull()
        bad = F.col("parsed").isNull() | empty
    elif kind == "json":
        if source["schema"] is None:
            raise QueryError("JSON values need schema, for example 'ts timestamp, id string'")
        options = _UTC | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        schema = f"{source['schema']}, {_CORRUPT} string"
        value = F.from_json(F.col("value").cast("string"), schema, options)
        parsed = frame.withColumn("parsed", value)
        bad = F.col("parsed").isNull() | F.col(f"parsed.{_CORRUPT}").isNotNull()
    elif kind == "text":
        return frame.select(F.col("value").cast("string").alias("value")), None
    else:
        raise QueryError(f"format must be json, avro or text, not {kind!r}")
    bad = F.coalesce(bad, F.lit(True))
    record = F.base64(F.col("value")) if kind == "avro" else F.col("value").cast("string")
    letters = parsed.where(bad).select(
        F.lit(name).alias("source"),
        F.lit(f"not {'an Avro record' if kind == 'avro' else 'JSON'} of the schema").alias(
            "reason"
        ),
        record.alias("record"),
    )
    return parsed.where(~bad).select("parsed.*").drop(_CORRUPT), letters


def invalid_rows(plan: Plan, source: str) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Rows that the query refuses, as dead letters; runs inside ``mapInArrow``."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json

        synopsis = plan.intake().synopsis
        for chunk in chunks(batches, plan.schemas[source]):
            for batch in chunk.combine_chunks().to_batches():
                found = synopsis.validate(source, batch)
                if found is None:
                    continue
                rows = batch.filter(pa.array(found.mask)).to_pylist()
                reason = "; ".join(found.reasons)
                yield pa.record_batch(
                    [
                        pa.array([source] * len(rows)),
                        pa.array([reason] * len(rows)),
                        pa.array([json.dumps(row, default=str) for row in rows]),
                    ],
                    names=["source", "reason", "record"],
                )

    return run


_READERS: dict[str, Callable[[Any, str, Section], tuple[Any, Any | None]]] = {
    "files": _files,
    "kafka": _kafka,
    "rate": _rate,
    "socket": _socket,
}


def packages_of(kinds: set[str], formats: set[str]) -> list[str]:
    """Maven artifacts that sources and sinks of these kinds need beside Spark itself."""
    from importlib.metadata import version

    found = []
    if "kafka" in kinds:
        found.append(f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version('pyspark')}")
    if "avro" in formats:
        found.append(f"org.apache.spark:spark-avro_2.13:{version('pyspark')}")
    if found and any("dev" in each for each in found):
        raise EngineError("a development build of PySpark has no published connectors; give jars")
    return found
