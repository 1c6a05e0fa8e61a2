"""Checks that refuse a job which cannot run, before anything starts.

Some are about the job alone: whether its parts fit together. The others look at this machine, and
at what the job's engine can do.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from skyband.data.text_types import check_types
from skyband.embedded.sources import paths_of
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.errors import EngineError, QueryError, SchemaError, SkybandError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Job, JobSection, source_table
from skyband.jobs.local.sources import check_source, known_columns
from skyband.jobs.places import (
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
from skyband.query.fused import FusedTopK
from skyband.spark.plan import check_window
from skyband.spark.sessions import local_cores

Check = tuple[str, Callable[[], Any]]
"""A check, and the table of the job file that it is about."""


def job_checks(job: Job) -> list[Check]:
    """Checks that raise QueryError for a job that cannot run on any machine."""
    checks: list[Check] = [
        ("trigger", partial(_check_trigger, job)),
        ("", partial(_check_late, job)),
    ]
    checks += [(job.table(name), partial(_check_query, job, name)) for name in job.queries]
    return checks + [(job.sink_table(n), partial(_check_sink, job, n)) for n in job.sinks]


def _check_trigger(job: Job) -> None:
    once = job.trigger.get("once")
    if once and "every" in job.trigger:
        raise QueryError("[trigger] has both every and once; give either every or once")
    if job.trigger.get("close") and not once:
        raise QueryError("[trigger] close = true closes a finite job; give once = true, too")


def _check_late(job: Job) -> None:
    if job.late == "letters" and job.dead_letters is None:
        raise QueryError(
            "late = 'letters' writes late rows to [dead_letters], which is missing; add it, or "
            "leave out late"
        )


def _check_query(job: Job, name: str) -> None:
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


def _check_sink(job: Job, query: str) -> None:
    """Raise QueryError for a sink that does not fit the rest of the job."""
    letters, sink, where = job.dead_letters, job.sinks[query], job.where_sink(query)
    if sink.kind == "files" and letters is not None and letters["path"] == sink["path"]:
        raise QueryError(f"[dead_letters] has the same path as {where}; give it a different folder")
    if sink.kind == "table" and job.engine == "local":
        raise QueryError(f"{where} of kind 'table' is written by Spark; use engine = 'spark'")
    if sink.kind == "table" and sink["current"] and job.changes:
        raise QueryError(f"{where} current keeps one whole window; leave out current, or changes")
    for at, section in ((where, sink), ("[dead_letters]", letters)):
        if job.engine == "local" and section is not None and section["writer"] == "spark":
            raise QueryError(f"{at} writer 'spark' needs engine = 'spark'; leave out writer")
    if sink.kind == "kafka" and job.revises(query):
        for key in ("key", "writer"):
            if sink[key] not in (None, "skyband"):
                raise QueryError(
                    f"{where} {key} does not go with windows that are corrected (revise), because "
                    f"each is one message under a key of its own; leave out {key}"
                )
    if sink.kind in ("postgres", "table"):
        for other, earlier in job.sinks.items():
            if other == query:
                break
            if earlier.kind in ("postgres", "table") and earlier["table"] == sink["table"]:
                raise QueryError(
                    f"{where} writes to the table {sink['table']!r}, as {job.where_sink(other)} "
                    "does; give each query a table of its own"
                )


# What this machine and the job's engine need -----------------------------------------------------


def check_ready(job: Job, serving: bool = False) -> None:
    """Raise if this machine or the job's engine lacks something that a valid job needs.

    ``serving`` tells that a server takes rows for the job.
    """
    for _, check in ready_checks(job, serving):
        check()


def ready_checks(job: Job, serving: bool = False) -> list[Check]:
    """The checks of ``check_ready``, each with the table that it is about."""
    local = job.engine == "local"
    check = partial(check_source, serving=serving) if local else _check_spark_source
    sources = {source_table(name): source for name, source in job.sources.items()}
    sinks = {job.sink_table(name): sink for name, sink in job.sinks.items()}
    if job.dead_letters is not None:
        sinks["dead_letters"] = job.dead_letters
    checks: list[Check] = [("", partial(_check_local, "checkpoint", job.checkpoint))] * local
    checks += [(table, partial(check, f"[{table}]", each)) for table, each in sources.items()]
    for name, query in job.queries.items():
        checks.append((job.table(name), partial(make_synopsis, query)))
        checks.append((job.table(name), partial(_check_columns, job, query)))
    for table, section in (sources | sinks).items():
        checks.append((table, partial(_check_env, f"[{table}]", section)))
    for table, sink in sinks.items():
        checks.append((table, partial(_check_writable, f"[{table}]", sink)))
    return checks


def file_checks(job: Job) -> list[Check]:
    """Checks that the files are there which a job does not wait for."""
    tables = {source_table(name): each for name, each in job.sources.items()}
    return [(table, partial(_check_there, job, table, each)) for table, each in tables.items()]


def _check_local(what: str, folder: str) -> None:
    """Raise EngineError for a folder on this machine that cannot be made or written to."""
    path = Path(folder).absolute()
    there = next(each for each in (path, *path.parents) if each.exists())
    if not there.is_dir():
        raise EngineError(f"{what} {folder!r}: {str(there)!r} is a file; give a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise EngineError(f"{what} {folder!r}: no permission to write to {str(there)!r}")


def _check_there(job: Job, table: str, source: JobSection) -> None:
    """Raise SchemaError if a job would stop at once because its files are not there."""
    missing, path = _missing(source), str(source["path"])
    if job.engine == "local":
        stops = bool(job.trigger.get("once"))  # otherwise it waits
    else:
        there = local_cores(job.master) is None or glob(path)  # noqa: PTH207  may be absolute
        pattern = re.search(r"[*?[{]", path)
        stops = not there and not (pattern and ("{" in path or source["schema"]))
    if stops and missing is not None:
        raise SchemaError(f"[{table}] path: {missing}")


def waits_for(job: Job) -> list[str]:
    """What is said of sources of a local job whose files are not there yet."""
    return [
        f"[{source_table(name)}] path: {missing}; the job waits until there are some"
        for name, source in job.sources.items()
        if job.engine == "local" and (missing := _missing(source)) is not None
    ]


def _missing(source: JobSection) -> str | None:
    """Why there are no files to read on this machine; None if there are, or they are elsewhere."""
    if source.kind == "files" and "://" not in source["path"]:
        try:
            paths_of(source["path"])
        except SchemaError as problem:
            return str(problem)
    return None


def _check_columns(job: Job, query: Query) -> None:
    """Raise SchemaError if a query cannot read the columns that its sources are known to have."""
    for name, source in job.sources.items():
        schema = _columns(job, name, source)
        if schema is not None and (not name or name in query.sources):
            Intake(query, make_synopsis(query)).bind(name, schema)


def _columns(job: Job, name: str, source: JobSection) -> pa.Schema | None:
    """The columns of a source; None if only reading the source can tell, or if it is refused."""
    if job.engine != "local" and (source.kind == "files" or not source.by_workers):
        return None  # Spark may find more columns, in the names of folders or by SQL
    try:
        return known_columns(f"[{source_table(name)}]", source)
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
            _check_local(f"{where} path", folder)
        check_unused(where, RemoteFiles(system).exists, Path(folder))
    if sink.kind == "postgres":
        dsn_of(where, sink["dsn"], sink["dsn_env"])
        require_psycopg()
    if sink.kind == "kafka" and sink["writer"] != "spark":
        require_kafka()


def _check_spark_source(where: str, source: JobSection) -> None:
    """Raise QueryError for what only a local job, or only Spark, can read."""
    if source.kind == "http":
        raise QueryError(f"{where} of kind 'http' is for local jobs; use engine = 'local'")
    if not (source.by_workers and source["schema"]):
        return
    try:
        types = arrow_schema(where, source["schema"])
    except QueryError as problem:
        raise QueryError(f'{problem}. reader = "spark" takes all types of Spark') from None
    if source.kind != "files" or source["format"] in ("csv", "json"):
        check_types(where, types)
