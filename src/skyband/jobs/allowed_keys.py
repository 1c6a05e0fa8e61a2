"""The parts of a job file: the keys that each may have, and what their values may be."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skyband.answers.changes import asked_changes
from skyband.errors import QueryError, SkybandError, did_you_mean
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.places import check_dsn, check_table, check_url, folder_of
from skyband.jobs.secrets import FROM_ENV
from skyband.query.checks import count, delimiter, one_of
from skyband.spark.file_options import read_options
from skyband.spark.locations import check_scheme
from skyband.window import parse_duration

if TYPE_CHECKING:
    from skyband.jobs.job import JobSection

SectionCheck = Callable[[str, "JobSection"], None]
"""Raises QueryError, with the name of the section, if it is wrong."""
ENGINES = ("local", "spark")
_FILES_IN = ("parquet", "csv", "json", "ipc", "arrow", "orc", "avro", "text")
_FILES_OUT = ("parquet", "csv", "json")
_MESSAGES = ("json", "avro", "text")
_PERMISSIVE = "permissive"

# What the value of a key may be, wherever it stands ----------------------------------------------


def _not_empty(name: str, text: str) -> None:
    if not text.strip():
        raise QueryError(f"{name} is empty; give the job a name, after which its files are named")


def _ahead(name: str, text: str) -> None:
    if text != "none" and parse_duration(text, name) < 0:
        raise QueryError(f"{name} must be a duration such as '1 day', or 'none', not {text!r}")


def _positive(name: str, text: str) -> None:
    if parse_duration(text, name) <= 0:
        raise QueryError(f"{name} must be above 0, not {text!r}")


def _port(name: str, port: int) -> None:
    if not 1 <= port <= 65_535:
        raise QueryError(f"{name} must be from 1 to 65535, not {port}")


_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("files_per_batch", "rows_per_batch", "rows_per_second", "rows"), int),
    **dict.fromkeys(("history", "port", "retries", "shards"), int),
    **dict.fromkeys(("changes", "close", "current", "once", "wide"), bool),
    **dict.fromkeys(("columns", "headers", "options", "spark", "storage"), dict),
    **dict.fromkeys(("query", "queries", "sink", "source", "sources"), dict),
    **dict.fromkeys(("dead_letters", "metrics", "trigger"), dict),
}
"""The types of the keys that are not text."""
_VALUES: Mapping[str, Callable[[str, Any], Any]] = {
    **{name: count for name in _TYPES if _TYPES[name] is int},
    "ahead": _ahead,
    "delimiter": delimiter,
    "engine": partial(one_of, known=ENGINES),
    "every": _positive,
    "late": partial(one_of, known=("count", "letters")),
    "name": _not_empty,
    "on_bad": partial(one_of, known=("skip", "raise")),
    "port": _port,
    "reader": partial(one_of, known=("workers", "spark")),
    "timeout": _positive,
    "writer": partial(one_of, known=("skyband", "spark")),
}
"""Checks of values; they are told how messages name the key."""
PATHS = ("avro_schema", "path", "undelivered")
"""Keys whose values are relative to the job's folder."""
_NAMES = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}


@dataclass(frozen=True)
class KeyTypes:
    """The keys of a table and their types."""

    needed: Mapping[str, type] = field(default_factory=dict)
    optional: Mapping[str, type] = field(default_factory=dict)
    checks: tuple[SectionCheck, ...] = ()
    """What is checked of several keys together."""

    @property
    def known(self) -> dict[str, type]:
        """All keys; some may be given as ``NAME_env``, which names variables of the environment."""
        plain = {**self.needed, **self.optional}
        return plain | {f"{name}_env": plain[name] for name in FROM_ENV if name in plain}

    def lacks(self, table: Mapping[str, Any]) -> list[str]:
        """The keys that are needed and missing."""
        return [
            n for n in self.needed if n not in table and not (n in FROM_ENV and f"{n}_env" in table)
        ]

    def good(self, table: Any) -> dict[str, Any]:
        """The settings that are known and have the right type."""
        known = self.known
        given = table if isinstance(table, Mapping) else {}
        return {n: value for n, value in given.items() if n in known and _fits(value, known[n])}

    def problems(self, where: str, table: Any) -> list[str]:
        """The keys that are missing, unknown or of the wrong type."""
        known = self.known
        if not isinstance(table, Mapping):
            return [f"{where} must be a table, not {table!r}"]
        listed = ", ".join(known)
        problems = [
            f"{where} has no key {name!r}; its keys are {listed}{did_you_mean(name, known)}"
            for name in table
            if name not in known
        ]
        for name in self.lacks(table):
            other = f", or {name}_env" if name in FROM_ENV else ""
            problems.append(f"{where} needs {name!r}{other}; its keys are {listed}")
        for name, value in table.items():
            kind = known.get(name, object)
            if not _fits(value, kind):
                shown = repr(value)
                if name in FROM_ENV or "dsn" in name:  # it may be a secret
                    shown = type(value).__name__
                problems.append(f"{where} {name} must be {_NAMES[kind]}, not {shown}")
        return problems


def _fits(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


def value_checks(where: str, settings: Mapping[str, Any]) -> Iterator[Callable[[], Any]]:
    """Checks that raise QueryError for values of a table that cannot be."""
    for name, check in _VALUES.items():
        if settings.get(name) is not None:
            yield partial(check, f"{where} {name}".strip(), settings[name])


# What is checked of a section --------------------------------------------------------------------


def _format(known: tuple[str, ...]) -> SectionCheck:
    def check(where: str, section: JobSection) -> None:
        if section["format"] is not None:
            one_of(f"{where} format", section["format"], known)

    return check


def _messages(where: str, source: JobSection) -> None:
    form = source["format"] or "json"
    if form == "json" and not (source["schema"] or "").strip():
        raise QueryError(
            f"{where} JSON values need a schema, for example 'ts timestamp, id string'"
        )
    if form == "avro":
        _check_avro(where, source["avro_schema"])


def _check_avro(where: str, path: str | None) -> None:
    """Raise QueryError if an Avro schema is not given, cannot be read, or is not a schema."""
    if path is None:
        raise QueryError(f"{where} format 'avro' needs avro_schema, a file with the Avro schema")
    try:
        schema = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as problem:
        raise QueryError(
            f"{where} avro_schema {path!r} cannot be read ({problem.strerror}); give a schema file"
        ) from None
    except ValueError as problem:
        raise QueryError(f"{where} avro_schema {path!r} is not JSON: {problem}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise QueryError(f"{where} avro_schema {path!r} must be the schema of a record")


def _posted(where: str, source: JobSection) -> None:
    _messages(where, source)
    arrow_schema(where, source["schema"])


def _expressions(where: str, source: JobSection) -> None:
    for name, text in (source["columns"] or {}).items():
        if not isinstance(text, str):
            raise QueryError(f"{where} columns.{name} must be an SQL expression, not {text!r}")


def _variables(where: str, section: JobSection) -> None:
    for name in FROM_ENV:
        named = section[f"{name}_env"]
        for key, variable in named.items() if isinstance(named, Mapping) else ():
            if not isinstance(variable, str):
                raise QueryError(f"{where} {name}_env {key} must be the name of a variable")


def _readers(where: str, source: JobSection) -> None:
    """Raise QueryError for a source that workers do not read, although they are asked to."""
    if source.by_workers:
        if source.kind == "files":
            try:
                check_scheme(source["path"])
                options = source.settings.get("options") or {}
                read_options(options, given=source["schema"] is not None)
            except SkybandError as problem:
                raise QueryError(f"{where} {problem}") from None
        return
    if source["reader"] == "workers":
        because = "columns are SQL" if source["columns"] else f"not {source['format']!r}"
        raise QueryError(
            f"{where} reader 'workers' reads Parquet, Arrow IPC, CSV and JSON ({because}); "
            "leave out reader"
        )
    if source.kind == "files" and source["format"] in ("ipc", "arrow"):
        raise QueryError(f"{where} Spark has no reader for Arrow IPC; leave out reader and columns")
    if source.settings.get("storage") or source["storage_env"]:
        raise QueryError(
            f"{where} storage is for files that workers read; for Spark's reader, use [spark]"
        )


def _parse_mode(where: str, source: JobSection) -> None:
    mode = (source.settings.get("options") or {}).get("mode")
    if mode is not None and str(mode).lower() != _PERMISSIVE:
        raise QueryError(
            f"{where} options.mode {mode!r} hides records that cannot be read; leave it out and "
            "decide with on_bad and [dead_letters] what happens to them"
        )


def _changes(where: str, sink: JobSection) -> None:
    if sink["changes"] is not None:
        asked_changes(f"{where} changes", sink["changes"])
        if not sink["changes"]:
            raise QueryError(f"{where} changes is empty; list enter, leave or move, or remove it")


def _folder(where: str, sink: JobSection) -> None:
    folder_of(where, sink["path"])


def _dsn(where: str, sink: JobSection) -> None:
    check_dsn(where, sink["dsn"], sink["dsn_env"])


def _table(where: str, sink: JobSection) -> None:
    check_table(where, sink["table"], parts=3 if sink.kind == "table" else 2)


def _table_format(where: str, sink: JobSection) -> None:
    form = sink["format"] or "parquet"
    if not re.fullmatch(r"[A-Za-z_][\w.]*", form, re.ASCII):
        raise QueryError(f"{where} format must be the name of a format, not {form!r}")


def _url(where: str, sink: JobSection) -> None:
    if sink["url_env"] is None:
        check_url(where, sink["url"])
    elif "url" in sink.settings:
        raise QueryError(f"{where} has both url and url_env; give one of them")


# The parts of a job ------------------------------------------------------------------------------


def _part(needed: str = "", optional: str = "", *checks: SectionCheck) -> KeyTypes:
    """The keys of a part, with their types from the table above."""
    first, others = (
        {name: _TYPES.get(name, str) for name in names.split()} for names in (needed, optional)
    )
    return KeyTypes(first, others, checks)


def _source(needed: str, optional: str = "", *checks: SectionCheck) -> KeyTypes:
    return _part(needed, optional, *checks, _expressions, _variables, _readers, _parse_mode)


def _sink(needed: str, optional: str = "", *checks: SectionCheck) -> KeyTypes:
    return _part(needed, optional, *checks, _variables)


JOB = _part(
    "name checkpoint",
    "engine title query queries sink history source sources trigger dead_letters metrics shards "
    "on_bad late ahead changes master spark",
)
CARD = _part("", "title unit wide")
"""How the board shows a query; these stand beside the query's own keys."""
TRIGGER = _part("", "every once close")
METRICS = _part("port", "host")
_READING = "format schema avro_schema columns reader"
"""How the values of messages are read: JSON with ``schema``, Avro with a schema file."""
SOURCES = {
    "files": _source(
        "path",
        "format schema delimiter columns options storage files_per_batch rows_per_batch reader",
        _format(_FILES_IN),
    ),
    "http": _source("schema", "", _posted),
    "kafka": _source(
        "servers topic",
        f"{_READING} options starting rows_per_batch",
        *(_format(_MESSAGES), _messages),
    ),
    "rate": _source("columns", "rows_per_second rows_per_batch"),
    "socket": _source("host port", _READING, _format(_MESSAGES), _messages),
}
DEAD_LETTERS = {
    "console": _sink("", "rows"),
    "files": _sink("path", "format", _format(_FILES_OUT), _folder),
    "kafka": _sink("servers topic", "key options writer"),
}
_SINKS = {
    **DEAD_LETTERS,
    "http": _sink("url", "headers retries timeout undelivered", _url),
    "postgres": _sink("table", "dsn dsn_env", _dsn, _table),
    "table": _sink("table", "path format current options", _table_format, _table),
}
SINKS = {
    name: replace(
        keys, optional={**keys.optional, "changes": list}, checks=(_changes, *keys.checks)
    )
    for name, keys in sorted(_SINKS.items())
}
"""A sink may ask for some kinds of changes, with their rows, instead of whole answers."""
