"""Checks whether this machine and a job's engine have what a valid job needs."""

from __future__ import annotations

import re
from functools import partial
from glob import glob
from pathlib import Path

import pyarrow as pa
import pyarrow.fs

from skyband.data.text_types import check_types
from skyband.embedded.sources import paths_of
from skyband.errors import QueryError, SchemaError, SkybandError
from skyband.jobs.checks import Check, read_by_workers, sink_table
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Job, JobSection, source_table
from skyband.jobs.local.sources import check_source, known_columns
from skyband.jobs.places import (
    check_local,
    check_unused,
    check_url,
    dsn_of,
    folder_of,
    require_kafka,
    require_psycopg,
)
from skyband.jobs.secrets import FROM_ENV
from skyband.jobs.sinks.files import RemoteFiles
from skyband.query.base import Query
from skyband.spark.sessions import local_cores


def check_ready(job: Job, serving: bool = False) -> None:
    """Raise if this machine or the job's engine lacks something that a valid job needs.

    ``serving`` tells that a server takes rows for the job.
    """
    for _, check in ready_checks(job, serving):
        check()


def ready_checks(job: Job, serving: bool = False) -> list[Check]:
    """The checks of ``check_ready``, each with the table that it is about."""
    checks = _local_checks(job, serving) if job.engine == "local" else _spark_checks(job)
    for name, query in job.queries.items():
        table = "query" if job.alone else f"queries.{name}"
        checks.append((table, partial(_check_algorithm, query)))
        checks.append((table, partial(_check_columns, job, query)))
    sections = {source_table(name): each for name, each in job.sources.items()}
    sinks = {sink_table(job, name): sink for name, sink in job.sinks.items()}
    if job.dead_letters is not None:
        sinks["dead_letters"] = job.dead_letters
    for table, section in (sections | sinks).items():
        checks.append((table, partial(_check_env, f"[{table}]", section)))
    for table, sink in sinks.items():
        checks.append((table, partial(_check_writable, f"[{table}]", sink)))
    return checks


def file_checks(job: Job) -> list[Check]:
    """Checks that the files are there which a job does not wait for."""
    tables = {source_table(name): each for name, each in job.sources.items()}
    return [(table, partial(_check_there, job, table, each)) for table, each in tables.items()]


def _local_checks(job: Job, serving: bool) -> list[Check]:
    """Checks of what a job in this process needs."""
    found: list[Check] = [("", partial(check_local, "checkpoint", job.checkpoint))]
    return found + [
        (source_table(name), partial(check_source, name, source, serving))
        for name, source in job.sources.items()
    ]


def _check_there(job: Job, table: str, source: JobSection) -> None:
    """Raise SchemaError if a job would stop at once because its files are not there."""
    path = str(source["path"])
    if source.kind != "files" or "://" in path:
        return
    pattern = re.search(r"[*?[{]", path)
    if job.engine == "local":
        stops = bool(job.trigger.get("once"))  # otherwise it waits
    else:
        there = local_cores(job.master) is None or glob(path)  # noqa: PTH207  may be absolute
        stops = not there and not (pattern and ("{" in path or source["schema"]))
    if stops:
        try:
            paths_of(path)
        except SchemaError as problem:
            raise SchemaError(f"[{table}] path: {problem}") from None


def waits_for(job: Job) -> list[str]:
    """What is said of sources of a local job whose files are not there yet."""
    lines = []
    for name, source in job.sources.items():
        path = str(source["path"])
        if source.kind == "files" and "://" not in path and job.engine == "local":
            try:
                paths_of(path)
            except SchemaError as problem:
                lines.append(
                    f"[{source_table(name)}] path: {problem}; the job waits until there are some"
                )
    return lines


def _check_algorithm(query: Query) -> None:
    from skyband.engine.per_group import make_synopsis

    make_synopsis(query)


def _check_columns(job: Job, query: Query) -> None:
    """Raise SchemaError if a query cannot read the columns that its sources are known to have."""
    from skyband.engine.intake import Intake
    from skyband.engine.per_group import make_synopsis

    for name, source in job.sources.items():
        schema = _columns(job, name, source)
        if schema is not None and (not name or name in query.sources):
            Intake(query, make_synopsis(query)).bind(name, schema)


def _columns(job: Job, name: str, source: JobSection) -> pa.Schema | None:
    """The columns of a source; None if only reading the source can tell, or if it is refused."""
    if job.engine != "local" and (source.kind == "files" or not read_by_workers(source)):
        return None  # Spark may find more columns, in the names of folders or by SQL
    try:
        return known_columns(name, source)
    except (SkybandError, OSError):
        return None  # another check tells, or files may come later


def _check_env(where: str, section: JobSection) -> None:
    """Raise QueryError for what the environment lacks or has wrong."""
    try:
        for name in FROM_ENV:
            section[name]
    except QueryError as problem:
        raise QueryError(f"{where} {problem}") from None
    if section["url_env"] is not None:
        check_url(where, section["url"])


def _check_writable(where: str, sink: JobSection) -> None:
    if sink.kind == "files":
        system, folder = folder_of(where, sink["path"])
        if isinstance(system, pa.fs.LocalFileSystem):
            check_local(f"{where} path", folder)
        check_unused(where, RemoteFiles(system).exists, Path(folder))
    if sink.kind == "postgres":
        dsn_of(where, sink["dsn"], sink["dsn_env"])
        require_psycopg()
    if sink.kind == "kafka" and sink["writer"] != "spark":
        require_kafka()


def _spark_checks(job: Job) -> list[Check]:
    """Checks that raise QueryError for what only a local job can do."""
    return [
        (source_table(name), partial(_check_spark_source, name, source))
        for name, source in job.sources.items()
    ]


def _check_spark_source(name: str, source: JobSection) -> None:
    where = f"[{source_table(name)}]"
    if source.kind == "http":
        raise QueryError(f"{where} of kind 'http' is for local jobs; use engine = 'local'")
    if read_by_workers(source) and source["schema"]:
        _check_schema(where, source)


def _check_schema(where: str, source: JobSection) -> None:
    """Raise QueryError for a schema that workers cannot read."""
    try:
        types = arrow_schema(where, source["schema"])
    except QueryError as problem:
        raise QueryError(f'{problem}. reader = "spark" takes all types of Spark') from None
    if source.kind != "files" or source["format"] in ("csv", "json"):
        check_types(where, types)
