"""Checks whether this machine and a job's engine have what a valid job needs."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq

from skyband.errors import QueryError, SkybandError
from skyband.jobs.checks import Check, read_by_workers, sink_table
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Job, Section
from skyband.jobs.places import check_folder, dsn_of, folder_of, require_psycopg
from skyband.query.base import Query
from skyband.spark.text_types import check_types

__all__ = ["check_ready", "ready_checks"]


def check_ready(job: Job) -> None:
    """Raise if this machine or the job's engine lacks something that a valid job needs."""
    for _, check in ready_checks(job):
        check()


def ready_checks(job: Job) -> list[Check]:
    """The checks of ``check_ready``, each with the table that it is about."""
    checks: list[Check] = [] if job.engine == "local" else _spark_checks(job)
    for name, query in job.queries.items():
        table = "query" if job.alone else f"queries.{name}"
        checks.append((table, partial(_check_algorithm, query)))
        if job.engine == "local":  # Spark may find more columns, in the names of folders
            checks.append((table, partial(_check_columns, job, query)))
    sinks = {sink_table(job, name): sink for name, sink in job.sinks.items()}
    if job.dead_letters is not None:
        sinks["dead_letters"] = job.dead_letters
    for table, sink in sinks.items():
        checks.append((table, partial(_check_writable, f"[{table}]", sink)))
    return checks


def _check_algorithm(query: Query) -> None:
    from skyband.engine.session import make_synopsis

    make_synopsis(query)


def _check_columns(job: Job, query: Query) -> None:
    """Raise SchemaError if a query cannot read the columns of Parquet files that are there."""
    from skyband.engine.intake import Intake
    from skyband.engine.session import make_synopsis

    for name, source in job.sources.items():
        schema = _parquet_schema(source)
        if schema is not None and (not name or name in query.sources):
            Intake(query, make_synopsis(query)).bind(name, schema)


def _parquet_schema(source: Section) -> pa.Schema | None:
    """The columns of the first of a source's files; None if only reading the source can tell."""
    from skyband.embedded.sources import paths_of

    if source.kind != "files" or source["columns"] or "://" in source["path"]:
        return None
    if source["format"] not in (None, "parquet"):
        return None
    try:
        first = paths_of(source["path"])[0]
        return pq.read_schema(first) if first.suffix.lower() == ".parquet" else None
    except (SkybandError, OSError, pa.ArrowException, IndexError):
        return None  # files may come later


def _check_writable(where: str, sink: Section) -> None:
    if sink.kind == "files":
        check_folder(where, *folder_of(where, sink["path"]))
    if sink.kind == "postgres":
        dsn_of(where, sink["dsn"], sink["dsn_env"])
        require_psycopg()


def _spark_checks(job: Job) -> list[Check]:
    """Checks that raise QueryError for what only a local job can do."""
    found: list[Check] = [
        (f"sources.{name}" if name else "source", partial(_check_spark_source, name, source))
        for name, source in job.sources.items()
    ]
    return [*found, ("", partial(_check_spark_board, job))]


def _check_spark_source(name: str, source: Section) -> None:
    where = f"[sources.{name}]" if name else "[source]"
    if source.kind == "http":
        raise QueryError(f"{where} of kind 'http' is for local jobs: use engine = 'local'")
    if read_by_workers(source) and source["schema"]:
        _check_schema(where, source)


def _check_spark_board(job: Job) -> None:
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
