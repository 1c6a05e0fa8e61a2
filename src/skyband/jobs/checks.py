"""Checks that refuse a job which cannot run, before anything starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from skyband.answers.changes import asked_changes
from skyband.errors import EngineError, QueryError, SkybandError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.places import (
    check_avro,
    check_dsn,
    check_table,
    check_url,
    folder_of,
)
from skyband.jobs.secrets import FROM_ENV
from skyband.query.checks import count, delimiter, one_of
from skyband.query.fused import FusedTopK
from skyband.spark.file_options import read_options
from skyband.spark.locations import check_scheme
from skyband.spark.plan import check_window
from skyband.window import parse_duration

if TYPE_CHECKING:
    from skyband.jobs.job import Job, JobSection

Check = tuple[str, Callable[[], None]]
"""A check, and the table of the job file that it is about."""
SectionCheck = Callable[[str, "JobSection"], None]
READERS = ("workers", "spark")
WRITERS = ("skyband", "spark")
FILES_IN = ("parquet", "csv", "json", "ipc", "arrow", "orc", "avro", "text")
VALUES = ("json", "avro", "text")
FILES_OUT = ("parquet", "csv", "json")
_MODE = "permissive"


def job_checks(job: Job) -> list[Check]:
    """Checks that raise QueryError for a job that cannot run on any machine."""
    checks: list[Check] = [
        ("", partial(_check_name, job.name)),
        ("", partial(_check_ahead, job.ahead)),
        ("", partial(_check_late, job)),
    ]
    checks += [(sink_table(job, name), partial(_check_sink_of, job, name)) for name in job.sinks]
    if job.metrics:
        checks.append(("metrics", partial(_port, "[metrics] port", job.metrics["port"])))
    return checks


def _check_name(name: str) -> None:
    if not name.strip():
        raise QueryError("name is empty; give the job a name, after which its files are named")


def _check_ahead(ahead: str) -> None:
    if ahead != "none" and parse_duration(ahead, "ahead") < 0:
        raise QueryError(f"ahead must be a duration such as '1 day', or 'none', not {ahead!r}")


def _check_late(job: Job) -> None:
    if job.late == "letters" and job.dead_letters is None:
        raise QueryError(
            "late = 'letters' writes late rows to [dead_letters], which is missing; add it, or "
            "leave out late"
        )


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


def sink_table(job: Job, query: str) -> str:
    """The table of a query's sink."""
    return job.where_sink(query).strip("[]")


def _check_sink_of(job: Job, query: str) -> None:
    """Raise QueryError for a sink that does not fit the rest of the job."""
    letters, sink, where = job.dead_letters, job.sinks[query], job.where_sink(query)
    folder = sink["path"] if sink.kind == "files" else None
    if folder is not None and letters is not None and letters["path"] == folder:
        raise QueryError(f"[dead_letters] has the same path as {where}; give it a different folder")
    if sink.kind == "table":
        _check_table_sink(job, where, sink)
    for at, each in ((where, sink), ("[dead_letters]", letters)):
        if job.engine == "local" and each is not None and each["writer"] == "spark":
            raise QueryError(f"{at} writer 'spark' needs engine = 'spark'; leave out writer")
    if sink.kind == "kafka" and job.revises(query):
        for key in ("key", "writer"):
            if sink[key] not in (None, "skyband"):
                raise QueryError(
                    f"{where} {key} does not go with windows that are corrected (revise), because "
                    f"each is one message under a key of its own; leave out {key}"
                )
    if sink.kind in ("postgres", "table"):
        for other, each in job.sinks.items():
            if other == query:
                break
            if each.kind in ("postgres", "table") and each["table"] == sink["table"]:
                raise QueryError(
                    f"{where} writes to the table {sink['table']!r}, as {job.where_sink(other)} "
                    "does; give each query a table of its own"
                )


def _check_table_sink(job: Job, where: str, sink: JobSection) -> None:
    if job.engine == "local":
        raise QueryError(f"{where} of kind 'table' is written by Spark; use engine = 'spark'")
    if sink["current"] and job.changes:
        raise QueryError(f"{where} current keeps one whole window; leave out current, or changes")


# Parts of a job, checked one by one: each check raises QueryError --------------------------------


def _either(trigger: Mapping[str, Any]) -> None:
    if "every" in trigger and trigger.get("once"):
        raise QueryError("[trigger] has both every and once; give either every or once")


def _close(trigger: Mapping[str, Any]) -> None:
    if trigger.get("close") and not trigger.get("once"):
        raise QueryError("[trigger] close = true closes a finite job; give once = true, too")


def _every(trigger: Mapping[str, Any]) -> None:
    if "every" in trigger:
        _positive("[trigger] every", trigger["every"])


TRIGGER_CHECKS = (_either, _close, _every)


def _format_in(where: str, source: JobSection) -> None:
    known = {"files": FILES_IN, "kafka": VALUES, "socket": VALUES}.get(source.kind, ())
    _format(where, source, known)


def _values(where: str, source: JobSection) -> None:
    form = source["format"] or {"files": "parquet"}.get(source.kind, "json")
    if source.kind in ("http", "kafka", "socket"):
        if form == "json" and not (source["schema"] or "").strip():
            raise QueryError(
                f"{where} JSON values need a schema, for example 'ts timestamp, id string'"
            )
        if form == "avro":
            check_avro(where, source["avro_schema"])
        if source.kind == "http":
            arrow_schema(where, source["schema"])


def _expressions(where: str, source: JobSection) -> None:
    for name, text in (source["columns"] or {}).items():
        if not isinstance(text, str):
            raise QueryError(f"{where} columns.{name} must be an SQL expression, not {text!r}")


def _parse_mode(where: str, source: JobSection) -> None:
    mode = (source.settings.get("options") or {}).get("mode")
    if mode is not None and str(mode).lower() != _MODE:
        raise QueryError(
            f"{where} options.mode {mode!r} hides records that cannot be read; leave it out and "
            "decide with on_bad and [dead_letters] what happens to them"
        )


def read_by_workers(source: JobSection) -> bool:
    """Whether workers read the records of a source by themselves, without Spark's readers.

    They read files of the formats that pyarrow has, and JSON. Expressions (``columns``) are SQL,
    so they need Spark.
    """
    if source["reader"] == "spark" or source["columns"]:
        return False
    if source.kind == "files":
        return source["format"] not in ("orc", "avro", "text")
    return source.kind in ("kafka", "socket") and source["format"] in (None, "json")


def _check_workers(where: str, source: JobSection) -> None:
    """Raise QueryError for a source that workers do not read, although they are asked to."""
    if not read_by_workers(source):
        if source["reader"] == "workers":
            because = "columns are SQL" if source["columns"] else f"not {source['format']!r}"
            raise QueryError(
                f"{where} reader 'workers' reads Parquet, Arrow IPC, CSV and JSON ({because}); "
                "leave out reader"
            )
        if source.kind == "files" and source["format"] in ("ipc", "arrow"):
            raise QueryError(
                f"{where} Spark has no reader for Arrow IPC; leave out reader and columns"
            )
        if source.settings.get("storage") or source["storage_env"]:
            raise QueryError(
                f"{where} storage is for files that workers read; for Spark's reader, use [spark]"
            )
        return
    if source.kind == "files":
        try:
            check_scheme(source["path"])
            read_options(source.settings.get("options") or {}, given=source["schema"] is not None)
        except SkybandError as problem:
            raise QueryError(f"{where} {problem}") from None


def _changes(where: str, sink: JobSection) -> None:
    if sink["changes"] is not None:
        asked_changes(f"{where} changes", sink["changes"])
        if not sink["changes"]:
            raise QueryError(f"{where} changes is empty; list enter, leave or move, or remove it")


def _format_out(where: str, sink: JobSection) -> None:
    if sink.kind == "files":
        _format(where, sink, FILES_OUT)
    if sink.kind == "table":
        form = sink["format"] or "parquet"
        if not re.fullmatch(r"[A-Za-z_][\w.]*", form, re.ASCII):
            raise QueryError(f"{where} format must be the name of a format, not {form!r}")


def _folder(where: str, sink: JobSection) -> None:
    if sink.kind == "files":
        folder_of(where, sink["path"])


def _dsn(where: str, sink: JobSection) -> None:
    if sink.kind == "postgres":
        check_dsn(where, sink["dsn"], sink["dsn_env"])


def _table(where: str, sink: JobSection) -> None:
    if sink.kind in ("postgres", "table"):
        check_table(where, sink["table"], **({"parts": 3} if sink.kind == "table" else {}))


def _url(where: str, sink: JobSection) -> None:
    if sink.kind != "http":
        return
    if sink["url_env"] is None:
        check_url(where, sink["url"])
    elif "url" in sink.settings:
        raise QueryError(f"{where} has both url and url_env; give one of them")


def _variables(where: str, section: JobSection) -> None:
    for name in FROM_ENV:
        named = section[f"{name}_env"]
        for key, variable in named.items() if isinstance(named, Mapping) else ():
            if not isinstance(variable, str):
                raise QueryError(f"{where} {name}_env {key} must be the name of a variable")


def _format(where: str, section: JobSection, known: tuple[str, ...]) -> None:
    if section["format"] is not None:
        one_of(f"{where} format", section["format"], known)


def _positive(name: str, text: str) -> None:
    if parse_duration(text, name) <= 0:
        raise QueryError(f"{name} must be above 0, not {text!r}")


def _port(name: str, port: int) -> None:
    if not 1 <= port <= 65_535:
        raise QueryError(f"{name} must be from 1 to 65535, not {port}")


def _value(name: str, check: Callable[[str, Any], Any], where: str, section: JobSection) -> None:
    if section[name] is not None:
        check(f"{where} {name}", section[name])


_VALUES: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("files_per_batch", "rows_per_batch", "rows_per_second", "rows"), count),
    "retries": count,
    "timeout": _positive,
    "delimiter": delimiter,
    "port": _port,
    "reader": lambda name, value: one_of(name, value, READERS),
    "writer": lambda name, value: one_of(name, value, WRITERS),
}
"""What the values of settings may be, wherever they stand."""
_VALUE_CHECKS = tuple(partial(_value, name, check) for name, check in _VALUES.items())
SOURCE_CHECKS: tuple[SectionCheck, ...] = (
    *_VALUE_CHECKS,
    *(_format_in, _values, _expressions, _variables),
    *(_check_workers, _parse_mode),
)
SINK_CHECKS: tuple[SectionCheck, ...] = (
    *_VALUE_CHECKS,
    *(_changes, _format_out, _folder, _dsn, _table, _url, _variables),
)
