"""Reads a job file: every key is checked, and everything that is wrong can be listed at once."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from skyband.errors import QueryError, SchemaError
from skyband.jobs.checks import check_job, check_query, check_sink, check_source, check_trigger
from skyband.jobs.job import Job, Section
from skyband.jobs.keys import (
    DEAD_LETTERS,
    ENGINES,
    JOB,
    METRICS,
    SERVE,
    SINKS,
    SOURCES,
    TRIGGER,
    Keys,
)
from skyband.query import Query
from skyband.query.base import KINDS
from skyband.query.checks import count, one_of
from skyband.window import CountWindow, DecayWindow, LandmarkWindow, TimeWindow, Window

__all__ = ["Problem", "load_board", "load_job", "parse_job", "problems_of"]

T = TypeVar("T")


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with a job file."""

    line: int
    """Where to look, counted from 1; 1 if it is something that is missing."""
    text: str


def load_job(path: str | Path, engine: str | None = None, default: str | None = None) -> Job:
    """Load a job from a TOML file; relative paths in it start at the file's folder.

    ``engine`` overrides the engine that the file names, and ``default`` is used if it names none.
    """
    told, _ = _read(Path(path))
    try:
        return parse_job(_with_engine(told, engine, default), Path(path).parent)
    except QueryError as problem:
        raise QueryError(f"{path}: {problem}") from None


def parse_job(told: Mapping[str, Any], folder: Path | None = None) -> Job:
    """Make a job from a mapping, such as the content of a TOML file."""
    parsing = _Parsing(folder)
    job = parsing.job(told)
    if parsing.problems or job is None:
        raise QueryError(parsing.problems[0][1])
    return job


def load_board(path: str | Path) -> Job:
    """Load the sources and queries of a job file, which needs no sinks and no checkpoint for that.

    The queries become a board, even if there is only one.
    """
    told, _ = _read(Path(path))
    name = str(told.get("name", Path(path).stem))
    sink = {"sink": {"kind": "console"}}
    given = told.get("queries")
    if isinstance(given, Mapping):
        given = {n: {**sink, **q} if isinstance(q, Mapping) else q for n, q in given.items()}
    elif "query" in told:
        query = told["query"]
        given = {name: {**sink, **query} if isinstance(query, Mapping) else query}
    dropped = ("query", "queries", "sink", "dead_letters", "checkpoint", "trigger", "metrics")
    plain = {key: value for key, value in told.items() if key not in dropped}
    whole = plain | {"name": name, "checkpoint": name, "engine": "local"}
    try:
        return parse_job(whole | ({} if given is None else {"queries": given}), Path(path).parent)
    except QueryError as problem:
        raise QueryError(f"{path}: {problem}") from None


def problems_of(path: str | Path, engine: str | None = None) -> list[Problem]:
    """Everything that is wrong with a job file, in the order of its lines."""
    told, text = _read(Path(path))
    parsing = _Parsing(Path(path).parent)
    parsing.job(_with_engine(told, engine))
    lines = text.splitlines()
    found = {Problem(_line(lines, where, problem), problem) for where, problem in parsing.problems}
    return sorted(found, key=lambda each: (each.line, each.text))


def _read(path: Path) -> tuple[dict[str, Any], str]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise QueryError(f"{path} cannot be read ({problem.strerror}); give a job file") from None
    except UnicodeDecodeError as problem:
        raise QueryError(f"{path} is not TOML: it is not UTF-8 text ({problem.reason})") from None
    try:
        return tomllib.loads(text), text
    except tomllib.TOMLDecodeError as problem:
        raise QueryError(f"{path} is not TOML: {problem}") from None


def _with_engine(
    told: Mapping[str, Any], engine: str | None, default: str | None = None
) -> dict[str, Any]:
    chosen = engine or told.get("engine", default)
    return dict(told) if chosen is None else {**told, "engine": chosen}


class _Parsing:
    """Makes a job and collects what is wrong with it."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.problems: list[tuple[str, str]] = []
        """The table of each problem, such as ``source`` or ``queries.busiest``, and its text."""

    def job(self, told: Mapping[str, Any]) -> Job | None:
        """The job; None if it cannot be made."""
        self._keys(JOB, "the job", "", told)
        sources = self._sources(told)
        queries, sinks = self._queries(told)
        local = told.get("engine") == "local"
        for query in queries.values() if sources else ():
            self.attempt("source", partial(_check_sources, query, sources, local))
        if local and "" not in sources:
            self._check_read(queries, sources)
        trigger = told.get("trigger", {})
        if self._keys(TRIGGER, "[trigger]", "trigger", trigger):
            self.attempt("trigger", lambda: check_trigger(trigger))
        if self._keys(SERVE, "[serve]", "serve", told.get("serve", {})):
            kept = told.get("serve", {}).get("history")
            self.attempt("serve", lambda: count("[serve] history", kept, optional=True))
        self.attempt("", lambda: count("history", told.get("history"), optional=True))
        if "metrics" in told:
            self._keys(METRICS, "[metrics]", "metrics", told["metrics"])
        self.attempt("", lambda: one_of("on_bad", told.get("on_bad", "skip"), ("skip", "raise")))
        self.attempt("", lambda: one_of("engine", told.get("engine", "spark"), ENGINES))
        letters = None
        if "dead_letters" in told:
            letters = self._section("dead_letters", told["dead_letters"], DEAD_LETTERS, check_sink)
        if self.problems:
            return None
        read: dict[str, Any] = {
            "checkpoint": _path(told["checkpoint"], self.folder),
            "queries": queries,
            "sources": sources,
            "sinks": sinks,
            "alone": "query" in told,
            "dead_letters": letters,
            "spark": {name: str(value) for name, value in _flat(told.get("spark", {}))},
        }
        hidden = ("source", "query", "sink")
        job = Job(**({key: told[key] for key in told if key not in hidden} | read))
        self.attempt("", lambda: check_job(job))
        for name in queries:
            table = "query" if job.alone else f"queries.{name}"
            self.attempt(table, partial(check_query, job, name))
        return job

    def attempt(self, table: str, make: Callable[[], T]) -> T | None:
        """What ``make`` returns; None, with a problem noted, if it raises QueryError."""
        try:
            return make()
        except QueryError as problem:
            self.problems.append((table, str(problem)))
            return None

    def _keys(self, keys: Keys, where: str, table: str, told: Any) -> bool:
        found = keys.problems(where, told)
        self.problems += [(table, problem) for problem in found]
        return not found

    def _sources(self, told: Mapping[str, Any]) -> dict[str, Section]:
        if ("source" in told) == ("sources" in told):
            text = "give one [source], or several as [sources.NAME], but not both"
            self.problems.append(("source", text))
            return {}
        given = {"": told["source"]} if "source" in told else told["sources"]
        sources = {}
        for name, each in given.items() if isinstance(given, Mapping) else ():
            table = f"sources.{name}" if name else "source"
            section = self._section(table, each, SOURCES, check_source)
            if section is not None:
                sources[name] = section
        return sources

    def _check_read(self, queries: Mapping[str, Query], sources: Mapping[str, Section]) -> None:
        """Note the sources that no query reads."""
        read = {name for query in queries.values() for name in query.sources}
        for name in sources if read else ():
            if name not in read:
                known = ", ".join(sorted(read))
                text = f"no query reads [sources.{name}]; they read {known}"
                self.problems.append((f"sources.{name}", text))

    def _queries(self, told: Mapping[str, Any]) -> tuple[dict[str, Query], dict[str, Section]]:
        """The queries of a job and their sinks."""
        queries: dict[str, Query] = {}
        sinks: dict[str, Section] = {}
        if ("query" in told) == ("queries" in told):
            text = "give one [query], or several as [queries.NAME], but not both"
            self.problems.append(("query", text))
            return queries, sinks
        alone = "query" in told
        given = {str(told.get("name")): told["query"]} if alone else told["queries"]
        if not given:
            self.problems.append(("queries", "[queries] is empty; give one [queries.NAME]"))
        shared = told.get("sink", {"kind": "console"})
        for name, each in given.items() if isinstance(given, Mapping) else ():
            table = "query" if alone else f"queries.{name}"
            if not isinstance(each, Mapping):
                text = f"[{table}] must be a table of settings, not {each!r}"
                self.problems.append((table, text))
                continue
            own = not alone and "sink" in each
            place, sink = (f"{table}.sink", each["sink"]) if own else ("sink", shared)
            section = self._section(place, sink, SINKS, check_sink)
            settings = {key: each[key] for key in each if alone or key != "sink"}
            query = self.attempt(table, partial(_query, table, settings))
            if section is not None and query is not None:
                queries[name], sinks[name] = query, section
        return queries, sinks

    def _section(
        self,
        table: str,
        told: Any,
        kinds: Mapping[str, Keys],
        check: Callable[[str, Section], None],
    ) -> Section | None:
        """A part of a job with a kind; None, with problems noted, if it is wrong."""
        where = f"[{table}]"
        if not isinstance(told, Mapping):
            self.problems.append((table, f"{where} must be a table of settings, not {told!r}"))
            return None
        kind = told.get("kind", "")
        before = len(self.problems)
        self.attempt(table, lambda: one_of(f"{where} kind", kind, tuple(kinds)))
        if len(self.problems) > before:
            return None
        settings = {name: value for name, value in told.items() if name != "kind"}
        if not self._keys(kinds[kind], where, table, settings):
            return None
        for name in kinds[kind].paths:
            if name in settings:
                settings[name] = _path(settings[name], self.folder)
        section = Section(kind, settings)
        self.attempt(table, lambda: check(where, section))
        return section


def _check_sources(query: Query, sources: Mapping[str, Section], local: bool) -> None:
    """Raise QueryError unless a query can read the sources; a local one reads those it names."""
    try:
        example = " and ".join(f"[sources.{name}]" for name in query.sources)
        own = [n for n in sources if not (local and query.sources) or n in query.sources]
        query.check_sources(None if "" in sources else own, example=example)
    except SchemaError as problem:
        raise QueryError(f"the job's sources do not fit its query: {problem}") from None


def _query(table: str, told: Any) -> Query:
    if not isinstance(told, Mapping):
        raise QueryError(f"[{table}] must be a table of settings, not {told!r}")
    kind = told.get("kind", "")
    one_of(f"[{table}] kind", kind, tuple(KINDS))
    cls = KINDS[kind]
    known = {each.name for each in fields(cls) if each.init}
    settings = {name: value for name, value in told.items() if name != "kind"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise QueryError(
            f"[{table}] has no key {unknown[0]!r}; {kind} has {', '.join(sorted(known))}"
        )
    window = _windows(f"{table}.window", settings.get("window"))
    try:
        return cls(**(settings | {"window": window}))
    except TypeError as problem:
        told_so = str(problem).rsplit(") ", 1)[-1].replace("__init__", kind)
        raise QueryError(f"[{table}] {told_so}") from None


def _windows(table: str, told: Any) -> Window | dict[str, Window]:
    """A window, or a window per source: a table of tables."""
    if isinstance(told, Mapping) and told and all(isinstance(v, Mapping) for v in told.values()):
        return {name: _window(f"[{table}.{name}]", each) for name, each in told.items()}
    return _window(f"[{table}]", told)


def _window(where: str, told: Any) -> Window:
    """A window with a size in time or rows, with a half-life, or since some moment."""
    if not isinstance(told, Mapping):
        raise QueryError(f"{where} is missing; give at least its size")
    kinds: dict[str, Any] = {"half_life": DecayWindow, "since": LandmarkWindow, "size": TimeWindow}
    if "count" in told:
        return _count_window(where, told)
    first = next((name for name in kinds if name in told), "size")
    names = (first, "slide", "lateness", "offset")
    wrong = sorted(set(told) - set(names))
    needed = [name for name in names[: 1 if first == "size" else 2] if name not in told]
    if wrong or needed:
        problem = f"has no key {wrong[0]!r}" if wrong else f"needs a {needed[0]}"
        other = " (or half_life or since in place of size)" if first == "size" else ""
        raise QueryError(f"{where} {problem}; its keys are {', '.join(names)}{other}")
    given = {n: None if n == "since" and v == "first" else v for n, v in told.items()}
    found: Window = kinds[first](**given)
    return found


def _count_window(where: str, told: Mapping[str, Any]) -> Window:
    wrong = sorted(set(told) - {"count", "slide"})
    if wrong:
        raise QueryError(f"{where} has no key {wrong[0]!r}; its keys are count, slide")
    return CountWindow(told["count"], told.get("slide"))


def _path(value: str, folder: Path | None) -> str:
    if "://" in value or folder is None or Path(value).is_absolute():
        return value
    return str(folder / value)


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Join the keys of nested tables with dots: TOML reads a.b = 1 as a table in a table."""
    found = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            found += _flat(value, f"{prefix}{name}.")
        else:
            shown = str(value).lower() if isinstance(value, bool) else value
            found.append((f"{prefix}{name}", shown))
    return found


def _line(lines: list[str], table: str, text: str) -> int:
    """The line that a problem is about: that of a key it names, or of its table."""
    header, inside = 1, not table
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if bare.startswith("["):
            name = bare.strip("[] ").replace('"', "")
            inside = name == table or (bool(table) and name.startswith(f"{table}."))
            if name == table:
                header = number
        elif inside:
            key = bare.split("=")[0].strip().strip('"')
            if key and not bare.startswith("#") and _names(text, key):
                return number
        elif table and bare.split("=")[0].strip() == table.rsplit(".", 1)[-1]:
            header = number  # an inline table
    return header


def _names(text: str, key: str) -> bool:
    """Whether a message is about a key."""
    return f" {key} " in f" {text} " or f"'{key}'" in text.split(";", maxsplit=1)[0]
