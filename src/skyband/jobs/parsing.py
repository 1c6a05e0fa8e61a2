"""Reads a job file: every key is checked, and everything that is wrong can be listed at once."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from skyband.errors import QueryError, SchemaError, SkybandError
from skyband.jobs.checks import (
    SINK_CHECKS,
    SOURCE_CHECKS,
    TRIGGER_CHECKS,
    check_query,
    job_checks,
)
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
from skyband.jobs.lines import Lines
from skyband.jobs.ready import file_checks, ready_checks
from skyband.jobs.settings import Problems, read_query
from skyband.query import Query
from skyband.query.checks import count, one_of

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
    """Everything that is wrong with a job file, in the order of its lines.

    That includes what this machine lacks to run it.
    """
    told, text = _read(Path(path))
    parsing = _Parsing(Path(path).parent)
    parsing.job(_with_engine(told, engine), ready=True)
    lines = Lines(text)
    found = {Problem(lines.find(where, problem), problem) for where, problem in parsing.problems}
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
        self.problems: Problems = []

    def job(self, told: Mapping[str, Any], ready: bool = False) -> Job | None:
        """The job; None if it cannot be made.

        ``ready`` also notes what this machine lacks to run it. What is wrong in one place does not
        keep other places from being checked.
        """
        self._keys(JOB, "the job", "", told)
        sources = self._sources(told)
        queries, sinks = self._queries(told)
        self._check_sources(told, queries)
        trigger = told.get("trigger", {})
        if self._keys(TRIGGER, "[trigger]", "trigger", trigger):
            for check in TRIGGER_CHECKS:
                self.attempt("trigger", partial(check, trigger))
        if self._keys(SERVE, "[serve]", "serve", told.get("serve", {})):
            kept = told.get("serve", {}).get("history")
            self.attempt("serve", lambda: count("[serve] history", kept, optional=True))
        good = JOB.good(told)
        for name in ("history", "shards"):
            self.attempt("", partial(count, name, good.get(name), optional=True))
        metrics = told.get("metrics", {})
        whole = "metrics" not in told or self._keys(METRICS, "[metrics]", "metrics", metrics)
        self.attempt("", lambda: one_of("on_bad", told.get("on_bad", "skip"), ("skip", "raise")))
        self.attempt("", lambda: one_of("engine", told.get("engine", "spark"), ENGINES))
        letters = None
        if "dead_letters" in told:
            letters = self._section("dead_letters", told["dead_letters"], DEAD_LETTERS, SINK_CHECKS)
        read: dict[str, Any] = {
            "name": good.get("name", "job"),
            "checkpoint": _path(good.get("checkpoint", "checkpoint"), self.folder),
            "queries": queries,
            "sources": sources,
            "sinks": sinks,
            "alone": "query" in told,
            "trigger": trigger if isinstance(trigger, Mapping) else {},
            "metrics": metrics if whole else {},
            "dead_letters": letters,
            "spark": {name: str(value) for name, value in _flat(good.get("spark", {}))},
        }
        hidden = ("source", "query", "sink")
        job = Job(**({key: good[key] for key in good if key not in hidden} | read))
        self._check(job, ready)
        return None if self.problems else job

    def _check(self, job: Job, ready: bool) -> None:
        """Check what depends on several parts of a job."""
        checks = job_checks(job)
        for name in job.queries:
            table = "query" if job.alone else f"queries.{name}"
            checks.append((table, partial(check_query, job, name)))
        if ready and job.engine in (None, *ENGINES):
            checks += [*ready_checks(job, serving=True), *file_checks(job)]
        for table, check in checks:
            self.attempt(table, check)

    def attempt(self, table: str, make: Callable[[], T]) -> T | None:
        """What ``make`` returns; None, with a problem noted, if it raises an error of ours."""
        try:
            return make()
        except SkybandError as problem:
            if (table, str(problem)) not in self.problems:
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
            section = self._section(table, each, SOURCES, SOURCE_CHECKS)
            if section is not None:
                sources[name] = section
        return sources

    def _check_sources(self, told: Mapping[str, Any], queries: Mapping[str, Query]) -> None:
        """Note queries that cannot read the sources, and on this engine sources nobody reads."""
        given = told.get("sources")
        if ("source" in told) == (given is not None):
            return
        names = None if given is None else list(given) if isinstance(given, Mapping) else []
        local = told.get("engine") == "local"
        for query in queries.values():
            self.attempt("source", partial(_check_sources, query, names, local))
        read = {name for query in queries.values() for name in query.sources}
        for name in names if names and local and read else ():
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
            section = self._section(place, sink, SINKS, SINK_CHECKS)
            settings = {key: each[key] for key in each if alone or key != "sink"}
            query = read_query(table, settings, self.problems)
            if section is not None and query is not None:
                queries[name], sinks[name] = query, section
        return queries, sinks

    def _section(
        self,
        table: str,
        told: Any,
        kinds: Mapping[str, Keys],
        checks: Sequence[Callable[[str, Section], None]],
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
        whole = self._keys(kinds[kind], where, table, settings)
        if kinds[kind].lacks(kinds[kind].good(settings)):
            return None
        settings = kinds[kind].good(settings)
        for name in kinds[kind].paths:
            if name in settings:
                settings[name] = _path(settings[name], self.folder)
        section = Section(kind, settings)
        before = len(self.problems)
        for check in checks:
            self.attempt(table, partial(check, where, section))
        return section if whole and len(self.problems) == before else None


def _check_sources(query: Query, sources: list[str] | None, local: bool) -> None:
    """Raise QueryError unless a query can read the sources; a local one reads those it names."""
    try:
        example = " and ".join(f"[sources.{name}]" for name in query.sources)
        own = sources
        if sources is not None and local and query.sources:
            own = [name for name in sources if name in query.sources]
        query.check_sources(own, example=example)
    except SchemaError as problem:
        raise QueryError(f"the job's sources do not fit its query: {problem}") from None


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
