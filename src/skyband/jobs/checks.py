"""Checks that refuse a job which cannot run, before anything starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skyband.answers.changes import asked_changes
from skyband.errors import EngineError, QueryError, SkybandError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.places import (
    check_avro,
    check_dsn,
    check_folder,
    check_table,
    check_url,
    dsn_of,
    folder_of,
    require_psycopg,
)
from skyband.query.checks import count, one_of
from skyband.query.fused import FusedTopK
from skyband.spark.file_options import read_options
from skyband.spark.locations import check_scheme
from skyband.spark.plan import check_window
from skyband.spark.text_types import check_types
from skyband.window import parse_duration

if TYPE_CHECKING:
    from skyband.jobs.job import Job, Section

__all__ = [
    "check_job",
    "check_query",
    "check_ready",
    "check_sink",
    "check_source",
    "check_trigger",
    "read_by_workers",
]

READERS = ("workers", "spark")
FILES_IN = ("parquet", "csv", "json", "ipc", "arrow", "orc", "avro", "text")
VALUES = ("json", "avro", "text")
FILES_OUT = ("parquet", "csv", "json")
_COUNTS = ("files_per_batch", "rows_per_batch", "rows_per_second", "rows", "retries")
_MODE = "permissive"


def check_job(job: Job) -> None:
    """Raise QueryError for a job that cannot run on any machine."""
    if not job.name.strip():
        raise QueryError("name is empty; give one: the job's files and metrics are named after it")
    count("shards", job.shards, optional=True)
    _check_sinks(job)
    if job.metrics:
        _port("[metrics]", job.metrics["port"])


def check_query(job: Job, name: str) -> None:
    """Raise QueryError for a query that the job's engine or sources cannot serve."""
    query = job.queries[name]
    if not name.strip():
        raise QueryError("[queries] a query has an empty name; give it one")
    if job.engine != "local":
        try:
            check_window(query, streaming=True)
        except EngineError as problem:
            raise QueryError(f"{job.where(name, 'window')} {problem}") from None
    several = isinstance(query, FusedTopK) and query.stream is None and len(query.streams) > 1
    if several and "" in job.sources:
        raise QueryError(
            f"{job.where(name)} needs stream, the column that names the stream of a row; or give "
            + " and ".join(f"[sources.{source}]" for source in query.sources)
        )


def _check_sinks(job: Job) -> None:
    letters = job.dead_letters
    tables: dict[str, str] = {}
    for name, sink in job.sinks.items():
        where = job.where_sink(name)
        folder = sink["path"] if sink.kind == "files" else None
        if folder is not None and letters is not None and letters["path"] == folder:
            raise QueryError(
                f"[dead_letters] has the same path as {where}; give it a different folder"
            )
        if sink.kind == "table":
            _check_table_sink(job, where, sink)
        if sink.kind in ("postgres", "table"):
            other = tables.setdefault(sink["table"], where)
            if other != where:
                raise QueryError(
                    f"{where} writes to the table {sink['table']!r}, as {other} does; give each "
                    "query a table of its own"
                )


def _check_table_sink(job: Job, where: str, sink: Section) -> None:
    if job.engine == "local":
        raise QueryError(f"{where} of kind 'table' is written by Spark: use engine = 'spark'")
    if sink["current"] and job.changes:
        raise QueryError(
            f"{where} current keeps one whole window, so changes = true does not fit it"
        )


def check_trigger(trigger: Mapping[str, Any]) -> None:
    """Raise QueryError for settings of ``[trigger]`` that contradict each other."""
    if "every" in trigger and trigger.get("once"):
        raise QueryError("[trigger] has both every and once; give either every or once")
    if trigger.get("close") and not trigger.get("once"):
        raise QueryError("[trigger] close = true closes a finite job; give once = true with it")
    if "every" in trigger and parse_duration(trigger["every"], "[trigger] every") <= 0:
        raise QueryError(f"[trigger] every must be above 0, not {trigger['every']!r}")


def check_source(where: str, source: Section) -> None:
    """Raise QueryError for a source that cannot be read."""
    _counts(where, source.settings)
    known = {"files": FILES_IN, "kafka": VALUES, "socket": VALUES}.get(source.kind, ())
    _format(where, source, known)
    form = source["format"] or {"files": "parquet"}.get(source.kind, "json")
    if source.kind in ("http", "kafka", "socket"):
        if form == "json" and not (source["schema"] or "").strip():
            raise QueryError(
                f"{where} JSON values need schema, for example 'ts timestamp, id string'"
            )
        if form == "avro":
            check_avro(where, source["avro_schema"])
    if source.kind == "socket":
        _port(where, source["port"])
    for name, text in (source["columns"] or {}).items():
        if not isinstance(text, str):
            raise QueryError(f"{where} columns.{name} must be an SQL expression, not {text!r}")
    if source["reader"] is not None:
        one_of(f"{where} reader", source["reader"], READERS)
    _check_workers(where, source)
    mode = (source["options"] or {}).get("mode")
    if mode is not None and str(mode).lower() != _MODE:
        raise QueryError(
            f"{where} options.mode {mode!r} hides records that cannot be read; leave it out and "
            "use on_bad and [dead_letters] to say what happens to them"
        )


def read_by_workers(source: Section) -> bool:
    """Whether workers read the records of a source by themselves, without Spark's readers.

    They read files of the formats that pyarrow has, and JSON. Expressions (``columns``) are SQL,
    so they need Spark.
    """
    if source["reader"] == "spark" or source["columns"]:
        return False
    if source.kind == "files":
        return source["format"] not in ("orc", "avro", "text")
    return source.kind in ("kafka", "socket") and source["format"] in (None, "json")


def _check_workers(where: str, source: Section) -> None:
    """Raise QueryError for a source that workers do not read, although they are asked to."""
    if not read_by_workers(source):
        if source["reader"] == "workers":
            because = "columns are SQL" if source["columns"] else f"not {source['format']!r}"
            raise QueryError(
                f"{where} reader 'workers' reads Parquet, Arrow IPC, CSV and JSON ({because}); "
                "leave it out"
            )
        if source.kind == "files" and source["format"] in ("ipc", "arrow"):
            raise QueryError(
                f"{where} Spark has no reader for Arrow IPC; leave out reader and columns"
            )
        if source["storage"]:
            raise QueryError(f"{where} storage is for files that workers read; see [spark]")
        return
    if source.kind == "files":
        try:
            check_scheme(source["path"])
            read_options(source["options"] or {}, given=source["schema"] is not None)
        except SkybandError as problem:
            raise QueryError(f"{where} {problem}") from None


def check_sink(where: str, sink: Section) -> None:
    """Raise QueryError for a sink that cannot be written to."""
    _counts(where, sink.settings)
    if sink["changes"] is not None:
        asked_changes(f"{where} changes", sink["changes"])
        if not sink["changes"]:
            raise QueryError(f"{where} changes is empty; list enter, leave or move, or remove it")
    if sink.kind == "files":
        _format(where, sink, FILES_OUT)
        folder_of(where, sink["path"])
    if sink.kind == "postgres":
        check_dsn(where, sink["dsn"], sink["dsn_env"])
        check_table(where, sink["table"])
    if sink.kind == "table":
        check_table(where, sink["table"], parts=3)
        form = sink["format"] or "parquet"
        if not re.fullmatch(r"[A-Za-z_][\w.]*", form, re.ASCII):
            raise QueryError(f"{where} format must be the name of a format, not {form!r}")
    if sink.kind == "http":
        check_url(where, sink["url"])
        if sink["timeout"] is not None and parse_duration(sink["timeout"], f"{where} timeout") <= 0:
            raise QueryError(f"{where} timeout must be above 0, not {sink['timeout']!r}")


def check_ready(job: Job) -> None:
    """Raise if this machine or the job's engine lacks something that a valid job needs."""
    if job.engine != "local":
        _check_spark(job)
    from skyband.engine.session import make_synopsis

    for query in job.queries.values():
        make_synopsis(query)
    sinks = {job.where_sink(name): sink for name, sink in job.sinks.items()}
    if job.dead_letters is not None:
        sinks["[dead_letters]"] = job.dead_letters
    for where, sink in sinks.items():
        if sink.kind == "files":
            check_folder(where, *folder_of(where, sink["path"]))
        if sink.kind == "postgres":
            dsn_of(where, sink["dsn"], sink["dsn_env"])
            require_psycopg()


def _check_spark(job: Job) -> None:
    """Raise QueryError for what only a local job can do."""
    for name, source in job.sources.items():
        where = f"[sources.{name}]" if name else "[source]"
        if source.kind == "http":
            raise QueryError(f"{where} of kind 'http' is for local jobs: use engine = 'local'")
        if read_by_workers(source) and source["schema"]:
            _check_schema(where, source)
    some = any(job.changes_of(name) for name in job.queries)
    if len(job.queries) > 1 and (job.shards or 1) > 1 and some:
        raise QueryError("changes of several queries need shards = 1")


def _check_schema(where: str, source: Section) -> None:
    """Raise QueryError for a schema that workers cannot read."""
    try:
        types = arrow_schema(where, source["schema"])
    except QueryError as problem:
        raise QueryError(f'{problem}. reader = "spark" takes all types of Spark') from None
    if source.kind != "files" or source["format"] in ("csv", "json"):
        check_types(where, types)


def _format(where: str, section: Section, known: tuple[str, ...]) -> None:
    if section["format"] is not None:
        one_of(f"{where} format", section["format"], known)


def _counts(where: str, settings: Mapping[str, Any]) -> None:
    for name in _COUNTS:
        count(f"{where} {name}", settings.get(name), optional=True)


def _port(where: str, port: int) -> None:
    if not 1 <= port <= 65_535:
        raise QueryError(f"{where} port must be from 1 to 65535, not {port}")
