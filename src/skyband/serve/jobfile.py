"""The part of a job file that the service needs: sources, queries, the checkpoint folder."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband import window
from skyband.embedded.sources import batches_of, paths_of
from skyband.errors import QueryError, SchemaError
from skyband.jobs.keys import Keys
from skyband.query import Query
from skyband.query.base import KINDS
from skyband.query.checks import count, one_of
from skyband.serve.schema import arrow_schema
from skyband.window import CountWindow, TimeWindow, Window

__all__ = ["ServedJob", "board_of", "load_served"]

_JOB = Keys(
    {"name": str, "checkpoint": str},
    {
        **dict.fromkeys(("source", "sources", "query", "queries", "sink", "trigger"), dict),
        **dict.fromkeys(("dead_letters", "metrics", "spark", "serve"), dict),
        "engine": str,
        "on_bad": str,
        "master": str,
        "history": int,
        "shards": int,
        "changes": bool,
    },
)
_SERVE = Keys(optional={"history": int})
_SOURCES = {
    "http": Keys({"schema": str}),
    "files": Keys({"path": str}, {"format": str, "files_per_batch": int}),
}
_WINDOWS = {"size": "TimeWindow", "half_life": "DecayWindow", "since": "LandmarkWindow"}


@dataclass(frozen=True)
class ServedSource:
    """A source of a job: its kind, its columns, and for files their path."""

    kind: str
    schema: pa.Schema
    path: str | None = None


@dataclass(frozen=True)
class ServedJob:
    """A job as the service runs it."""

    name: str
    engine: str
    checkpoint: Path
    on_bad: str
    history: int
    sources: Mapping[str, ServedSource]
    """By name; the name of a single source is ``""``."""
    queries: Mapping[str, Query]


def load_served(path: str | Path, engine: str | None = None) -> ServedJob:
    """Read a job file; ``engine`` replaces the one that the file names."""
    path = Path(path)
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise QueryError(f"{path} cannot be read ({problem.strerror}); give a job file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        raise QueryError(f"{path} is not TOML: {problem}") from None
    try:
        return _job(told, path.parent, engine)
    except (QueryError, SchemaError) as problem:
        raise QueryError(f"{path}: {problem}") from None


def _job(told: Mapping[str, Any], folder: Path, engine: str | None) -> ServedJob:
    _JOB.check("the job", told)
    _SERVE.check("[serve]", told.get("serve", {}))
    chosen = engine or told.get("engine", "local")
    one_of("engine", chosen, ("local", "spark"))
    one_of("on_bad", told.get("on_bad", "skip"), ("skip", "raise"))
    history = told.get("serve", {}).get("history", told.get("history", 1_000))
    count("history", history)
    sources = _sources(told, folder)
    queries = board_of(told)
    for name, query in queries.items():
        example = " and ".join(f"[sources.{each}]" for each in query.sources)
        try:
            query.check_sources(None if "" in sources else sources, example=example)
        except SchemaError as problem:
            raise QueryError(
                f"[queries.{name}] does not fit the job's sources: {problem}"
            ) from None
    checkpoint = folder / told["checkpoint"]
    on_bad = told.get("on_bad", "skip")
    return ServedJob(told["name"], chosen, checkpoint, on_bad, history, sources, queries)


def _sources(told: Mapping[str, Any], folder: Path) -> dict[str, ServedSource]:
    if ("source" in told) == ("sources" in told):
        raise QueryError("give one [source], or several as [sources.NAME], but not both")
    sections = told["sources"] if "sources" in told else {"": told["source"]}
    found = {}
    for name, section in sections.items():
        where = f"[sources.{name}]" if name else "[source]"
        if not isinstance(section, Mapping):
            raise QueryError(f"{where} must be a table of settings, not {section!r}")
        kind = section.get("kind", "")
        one_of(f"{where} kind", kind, tuple(_SOURCES))
        settings = {key: value for key, value in section.items() if key != "kind"}
        _SOURCES[kind].check(where, settings)
        if kind == "http":
            found[name] = ServedSource(kind, arrow_schema(where, settings["schema"]))
        else:
            path = str(folder / settings["path"])
            first = next(iter(batches_of(paths_of(path)[0])))
            found[name] = ServedSource(kind, first.schema, path)
    return found


# Queries ------------------------------------------------------------------------------------------


def board_of(told: Mapping[str, Any]) -> dict[str, Query]:
    """The queries of a job by name; ``[query]`` alone is a board of one, named as the job."""
    if ("query" in told) == ("queries" in told):
        raise QueryError("give one [query], or several as [queries.NAME], but not both")
    if "query" in told:
        return {told["name"]: _query("[query]", told["query"])}
    if not told["queries"]:
        raise QueryError("[queries] is empty; give at least one [queries.NAME]")
    return {name: _query(f"[queries.{name}]", each) for name, each in told["queries"].items()}


def _query(where: str, told: Any) -> Query:
    if not isinstance(told, Mapping):
        raise QueryError(f"{where} must be a table of settings, not {told!r}")
    kind = told.get("kind", "")
    one_of(f"{where} kind", kind, tuple(KINDS))
    cls = KINDS[kind]
    known = {each.name for each in fields(cls) if each.init}
    settings = {name: value for name, value in told.items() if name not in ("kind", "sink")}
    unknown = sorted(set(settings) - known)
    if unknown:
        listed = ", ".join(sorted(known))
        raise QueryError(f"{where} has no key {unknown[0]!r}; {kind} has {listed}")
    over = _window(where, settings.get("window"))
    try:
        return cls(**(settings | {"window": over}))
    except TypeError as problem:
        said = str(problem).rsplit(") ", 1)[-1].replace("__init__", kind)
        raise QueryError(f"{where} {said}") from None
    except QueryError as problem:
        raise QueryError(f"{where} {problem}") from None


def _window(where: str, told: Any) -> Window:
    if not isinstance(told, Mapping):
        raise QueryError(f"{where} needs a window, for example {{ size = '10 minutes' }}")
    given = dict(told)
    make: Callable[..., Window] = CountWindow
    names: tuple[str, ...] = ("count", "slide")
    if "count" in given:
        given["size"] = given.pop("count")
    else:
        form = next((key for key in ("half_life", "size") if key in given), "since")
        make = getattr(window, _WINDOWS[form], TimeWindow)
        names = (form, "slide", "lateness", "offset")
    try:
        return make(**given)
    except TypeError:
        raise QueryError(f"{where} window has the keys {', '.join(names)}; it was {told}") from None
    except QueryError as problem:
        raise QueryError(f"{where} window: {problem}") from None
