"""The sources of a job as DataFrames; records that cannot be read stay in them, marked as such.

The row of an unreadable record has nulls in all columns, ``True`` in the column ``UNREAD`` and the
record itself in ``RAW``. Further columns say where a record came from. The workers handle such rows
along with all others (``skyband.spark.summarise``), so nothing is filtered out before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - as every Spark program has it
from pyspark.sql.types import StringType, StructType

from skyband.data.letters import RAW, UNREAD, CarriedColumns
from skyband.errors import SchemaError
from skyband.jobs.job import JobSection, source_table
from skyband.spark.file_source import WorkerFiles, make_files
from skyband.spark.json_source import json_frame
from skyband.spark.sessions import first_line, in_utc
from skyband.spark.worker_read import WorkerRead

_ORIGIN = "_skyband_"
"""Prefix of the columns that say where a record came from."""
_CORRUPT = "_skyband_corrupt"
_UTC = {"timeZone": "UTC"}
"""Makes readers treat a time without a zone as UTC, whatever the zone of the session."""


def read_source(
    session: Any, name: str, source: JobSection, letters: bool
) -> tuple[Any, CarriedColumns]:
    """The records of a source as columns, and which of them travel with the query's columns."""
    try:
        if source.kind == "files" and source.by_workers:
            return _by_workers(worker_files(session, source), letters)
        with in_utc(session):
            frame, carried = _READERS[source.kind](session, source, letters)
            if isinstance(frame, WorkerRead):
                return _by_workers(frame, letters)
            frame = _chosen(frame, source, carried)
        record = tuple(n for n in frame.columns if n not in carried.hidden) if letters else ()
        frame = _carriable(frame, record)
    except PySparkException as problem:
        raise SchemaError(
            f"[{source_table(name)}] cannot be read: {first_line(problem)}"
        ) from problem
    return frame, CarriedColumns(carried.unreadable, carried.origin, record, letters)


def _by_workers(read: WorkerRead, letters: bool) -> tuple[Any, CarriedColumns]:
    record = tuple(read.columns) if letters else ()
    return read, replace(read.carried, record=record, letters=letters)


def worker_files(session: Any, source: JobSection) -> WorkerFiles:
    """Files that the workers read by themselves."""
    return make_files(
        session,
        source["path"],
        source["files_per_batch"],
        format=source["format"],
        schema=source["schema"],
        options=_options(source),
        storage=source["storage"],
    )


def _options(source: JobSection) -> dict[str, Any]:
    """The options of files, the delimiter among them."""
    options = source["options"] or {}
    return options if source["delimiter"] is None else options | {"sep": source["delimiter"]}


def _chosen(frame: Any, source: JobSection, carried: CarriedColumns) -> Any:
    columns = source["columns"]
    if not columns:
        return frame
    chosen = [F.expr(str(text)).alias(name) for name, text in columns.items()]
    return frame.select(*chosen, *carried.hidden)


def _carriable(frame: Any, record: tuple[str, ...]) -> Any:
    """Cast columns that Arrow has no type for to text: they are only for dead letters."""
    from pyspark.sql.pandas.types import to_arrow_type

    for name in record:
        try:
            to_arrow_type(frame.schema[name].dataType)
        except PySparkException:
            frame = frame.withColumn(name, F.col(f"`{name}`").cast("string"))
    return frame


# Sources ------------------------------------------------------------------------------------------


def _files(session: Any, source: JobSection, letters: bool) -> tuple[Any, CarriedColumns]:
    kind = source["format"] or "parquet"
    options = _UTC | _options(source)
    schema = source["schema"]
    if schema is None:
        # A stream needs a schema; take it from the files that are already there.
        schema = session.read.format(kind).options(**options).load(source["path"]).schema
    elif kind != "text":
        schema = StructType.fromDDL(schema)
    lines = kind in ("csv", "json")
    if lines:
        schema = StructType([*schema.fields]).add(RAW, StringType())
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RAW}
    reader = session.readStream.format(kind).options(**options)
    if source["files_per_batch"]:
        reader = reader.option("maxFilesPerTrigger", source["files_per_batch"])
    frame = reader.schema(schema).load(source["path"])
    origin = {}
    if letters or lines:
        origin = {"file": f"{_ORIGIN}file"}
        frame = frame.select("*", F.col("_metadata.file_path").alias(origin["file"]))
    if lines:
        frame = frame.withColumn(UNREAD, F.col(RAW).isNotNull())
    unreadable = f"not a {kind.upper()} record that fits the schema" if lines else None
    return frame, CarriedColumns(unreadable, origin)


def _rate(session: Any, source: JobSection, letters: bool) -> tuple[Any, CarriedColumns]:
    if source["rows_per_batch"]:
        reader = session.readStream.format("rate-micro-batch")
        return reader.option("rowsPerBatch", source["rows_per_batch"]).load(), CarriedColumns()
    rows = source["rows_per_second"] or 1
    return session.readStream.format("rate").option("rowsPerSecond", rows).load(), CarriedColumns()


def _socket(session: Any, source: JobSection, letters: bool) -> tuple[Any, CarriedColumns]:
    reader = session.readStream.format("socket")
    lines = reader.option("host", source["host"]).option("port", source["port"]).load()
    return _parsed(lines, source, {})


def _kafka(session: Any, source: JobSection, letters: bool) -> tuple[Any, CarriedColumns]:
    reader = session.readStream.format("kafka").options(**(source["options"] or {}))
    reader = reader.option("kafka.bootstrap.servers", source["servers"])
    reader = reader.option("subscribe", source["topic"])
    reader = reader.option("startingOffsets", source["starting"] or "earliest")
    if source["rows_per_batch"]:
        reader = reader.option("maxOffsetsPerTrigger", source["rows_per_batch"])
    origin = {name: f"{_ORIGIN}{name}" for name in ("topic", "partition", "offset")}
    return _parsed(reader.load().withColumnsRenamed(origin), source, origin)


def _parsed(frame: Any, source: JobSection, origin: dict[str, str]) -> tuple[Any, CarriedColumns]:
    """Parse values into columns; a record that does not match the schema is marked."""
    kind = source["format"] or "json"
    beside = list(origin.values())
    if source.by_workers:
        read = json_frame(frame, source["schema"], origin)
        return read, read.carried
    if kind == "text":
        value = F.col("value").cast("string").alias("value")
        return frame.select(value, *beside), CarriedColumns(None, origin)
    parsed = (_avro if kind == "avro" else _json)(source)
    whole = frame.select(parsed.alias("parsed"), "value", *beside)
    names = [name for name in whole.schema["parsed"].dataType.names if name != _CORRUPT]
    if kind == "avro":
        # Spark returns a record that cannot be read with all fields null.
        bad = reduce(lambda one, more: one & more, (_field(name).isNull() for name in names))
    else:
        bad = _field(_CORRUPT).isNotNull()
    bad = F.coalesce(F.col("parsed").isNull() | bad, F.lit(True))
    # A record that can be read only in part counts as unreadable: all its columns become null.
    columns = [F.when(~F.col(UNREAD), _field(name)).alias(name) for name in names]
    raw = F.when(F.col(UNREAD), F.col("value").cast("binary")).alias(RAW)
    marked = whole.withColumn(UNREAD, bad).select(*columns, UNREAD, raw, *beside)
    article = "an Avro record" if kind == "avro" else "JSON"
    return marked, CarriedColumns(f"not {article} that fits the schema", origin)


def _field(name: str) -> Any:
    return F.col("parsed").getField(name)


def _json(source: JobSection) -> Any:
    options = _UTC | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    schema = f"{source['schema']}, {_CORRUPT} string"
    return F.from_json(F.col("value").cast("string"), schema, options)


def _avro(source: JobSection) -> Any:
    from pyspark.sql.avro.functions import from_avro

    text = Path(source["avro_schema"]).read_text(encoding="utf-8")
    return from_avro(F.col("value"), text, {"mode": "PERMISSIVE"})


_READERS: dict[str, Callable[[Any, JobSection, bool], tuple[Any, CarriedColumns]]] = {
    "files": _files,
    "kafka": _kafka,
    "rate": _rate,
    "socket": _socket,
}
