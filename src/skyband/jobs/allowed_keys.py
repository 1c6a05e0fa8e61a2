"""The keys that each part of a job may have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skyband.errors import did_you_mean
from skyband.jobs.secrets import FROM_ENV

_NAMES = {
    str: "text",
    int: "a whole number",
    bool: "true or false",
    dict: "a table",
    list: "a list",
}


@dataclass(frozen=True)
class KeyTypes:
    """The keys of a table and their types; ``paths`` are relative to the job's folder."""

    needed: Mapping[str, type] = field(default_factory=dict)
    optional: Mapping[str, type] = field(default_factory=dict)
    paths: tuple[str, ...] = ()

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
        unknown = [n for n in table if n not in known]
        found = [
            f"{where} has no key {name!r}; its keys are {listed}{did_you_mean(name, known)}"
            for name in unknown
        ]
        for name in self.lacks(table):
            other = f", or {name}_env" if name in FROM_ENV else ""
            found.append(f"{where} needs {name!r}{other}; its keys are {listed}")
        for name, value in table.items():
            kind = known.get(name, object)
            if not _fits(value, kind):
                found.append(f"{where} {name} must be {_NAMES[kind]}, not {_given(name, value)}")
        return found


def _given(name: str, value: Any) -> str:
    """A wrong value for a message, unless it may be a secret."""
    return type(value).__name__ if name in FROM_ENV or "dsn" in name else repr(value)


def _fits(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not (kind is int and isinstance(value, bool))


ENGINES = ("local", "spark")

JOB = KeyTypes(
    {"name": str, "checkpoint": str},
    {
        "engine": str,
        "title": str,
        "query": dict,
        "queries": dict,
        "sink": dict,
        "history": int,
        "source": dict,
        "sources": dict,
        "trigger": dict,
        "dead_letters": dict,
        "metrics": dict,
        "shards": int,
        "on_bad": str,
        "late": str,
        "ahead": str,
        "changes": bool,
        "master": str,
        "spark": dict,
    },
)
CARD = KeyTypes(optional={"title": str, "unit": str, "wide": bool})
"""How the board shows a query; these stand beside the query's own keys."""
TRIGGER = KeyTypes(optional={"every": str, "once": bool, "close": bool})
METRICS = KeyTypes({"port": int}, {"host": str})

_VALUES: dict[str, type] = {
    "format": str,
    "schema": str,
    "avro_schema": str,
    "columns": dict,
    "reader": str,
}
"""How the values of messages are read: JSON with ``schema``, Avro with a schema file."""
SOURCES = {
    "files": KeyTypes(
        {"path": str},
        {
            "format": str,
            "schema": str,
            "delimiter": str,
            "columns": dict,
            "options": dict,
            "storage": dict,
            "files_per_batch": int,
            "rows_per_batch": int,
            "reader": str,
        },
        ("path",),
    ),
    "http": KeyTypes({"schema": str}),
    "kafka": KeyTypes(
        {"servers": str, "topic": str},
        {**_VALUES, "options": dict, "starting": str, "rows_per_batch": int},
        ("avro_schema",),
    ),
    "rate": KeyTypes({"columns": dict}, {"rows_per_second": int, "rows_per_batch": int}),
    "socket": KeyTypes({"host": str, "port": int}, _VALUES, ("avro_schema",)),
}
_SINKS = {
    "console": KeyTypes(optional={"rows": int}),
    "files": KeyTypes({"path": str}, {"format": str}, ("path",)),
    "http": KeyTypes(
        {"url": str},
        {"headers": dict, "retries": int, "timeout": str, "undelivered": str},
        ("undelivered",),
    ),
    "kafka": KeyTypes({"servers": str, "topic": str}, {"key": str, "options": dict, "writer": str}),
    "postgres": KeyTypes({"table": str}, {"dsn": str, "dsn_env": str}),
    "table": KeyTypes(
        {"table": str}, {"path": str, "format": str, "current": bool, "options": dict}, ("path",)
    ),
}
SINKS = {
    name: KeyTypes(keys.needed, {**keys.optional, "changes": list}, keys.paths)
    for name, keys in _SINKS.items()
}
"""A sink may ask for some kinds of changes, with their rows, instead of whole answers."""
DEAD_LETTERS = {name: _SINKS[name] for name in ("console", "files", "kafka")}
