"""A job file: parsed, checked key by key, and shown as a plan. Needs no Spark."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from skyband.errors import QueryError, SchemaError
from skyband.jobs.checks import check_job, read_by_workers
from skyband.jobs.keys import DEAD_LETTERS, JOB, METRICS, SINKS, SOURCES, TRIGGER, Keys
from skyband.query import Query
from skyband.query.base import KINDS
from skyband.query.checks import one_of
from skyband.spark.plan import buckets_of
from skyband.window import TimeWindow

__all__ = ["Job", "Section", "explain", "load_job", "parse_job"]


@dataclass(frozen=True)
class Section:
    """A part of a job with a ``kind`` and settings: a source, a sink, the dead letters."""

    kind: str
    settings: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.settings.get(name)


@dataclass(frozen=True)
class Job:
    """A checked job."""

    name: str
    checkpoint: str
    query: Query
    sources: Mapping[str, Section]
    """By stream name; if a job has a single source, its name is ``""``."""
    sink: Section
    trigger: Mapping[str, Any] = field(default_factory=dict)
    dead_letters: Section | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    shards: int | None = None
    on_bad: str = "skip"
    changes: bool = False
    master: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)


def load_job(path: str | Path) -> Job:
    """Load a job from a TOML file; relative paths in it start at the file's folder."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as problem:
        raise QueryError(f"{path} cannot be read ({problem.strerror}); give a job file") from None
    except UnicodeDecodeError as problem:
        raise QueryError(f"{path} is not TOML: it is not UTF-8 text ({problem.reason})") from None
    try:
        return parse_job(tomllib.loads(text), path.parent)
    except tomllib.TOMLDecodeError as problem:
        raise QueryError(f"{path} is not TOML: {problem}") from None
    except QueryError as problem:
        raise QueryError(f"{path}: {problem}") from None


def parse_job(told: Mapping[str, Any], folder: Path | None = None) -> Job:
    """Make a job from a mapping, such as the content of a TOML file."""
    JOB.check("the job", told)
    if ("source" in told) == ("sources" in told):
        raise QueryError("give one [source], or several as [sources.NAME], but not both")
    sources = {
        name: _section(f"[{'source' + 's.' * bool(name) + name}]", section, SOURCES, folder)
        for name, section in (told.get("sources") or {"": told.get("source")}).items()
    }
    query = _query(told["query"])
    try:
        example = " and ".join(f"[sources.{name}]" for name in query.sources)
        query.check_sources(None if "" in sources else sources, example=example)
    except SchemaError as problem:
        raise QueryError(f"the job's sources do not fit its query: {problem}") from None
    trigger = told.get("trigger", {})
    TRIGGER.check("[trigger]", trigger)
    if "every" in trigger and trigger.get("once"):
        raise QueryError("[trigger] has both every and once; give either every or once")
    if "metrics" in told:
        METRICS.check("[metrics]", told["metrics"])
    one_of("on_bad", told.get("on_bad", "skip"), ("skip", "raise"))
    read: dict[str, Any] = {
        "checkpoint": _path(told["checkpoint"], folder),
        "query": query,
        "sources": sources,
        "sink": _section("[sink]", told["sink"], SINKS, folder),
        "spark": {name: str(value) for name, value in _flat(told.get("spark", {}))},
    }
    if "dead_letters" in told:
        read["dead_letters"] = _section(
            "[dead_letters]", told["dead_letters"], DEAD_LETTERS, folder
        )
    plain = {name: value for name, value in told.items() if name != "source"}
    job = Job(**(plain | read))
    check_job(job)
    return job


def _section(where: str, told: Any, kinds: Mapping[str, Keys], folder: Path | None) -> Section:
    if not isinstance(told, Mapping):
        raise QueryError(f"{where} must be a table of settings, not {told!r}")
    kind = told.get("kind", "")
    one_of(f"{where} kind", kind, tuple(kinds))
    settings = {name: value for name, value in told.items() if name != "kind"}
    kinds[kind].check(where, settings)
    for name in kinds[kind].paths:
        if name in settings:
            settings[name] = _path(settings[name], folder)
    return Section(kind, settings)


def _query(told: Any) -> Query:
    if not isinstance(told, Mapping):
        raise QueryError(f"[query] must be a table of settings, not {told!r}")
    kind = told.get("kind", "")
    one_of("[query] kind", kind, tuple(KINDS))
    cls = KINDS[kind]
    known = {each.name for each in fields(cls) if each.init}
    settings = {name: value for name, value in told.items() if name != "kind"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise QueryError(
            f"[query] has no key {unknown[0]!r}; {kind} has {', '.join(sorted(known))}"
        )
    window = settings.get("window")
    if not isinstance(window, Mapping):
        raise QueryError("[query.window] is missing; give at least its size")
    names = ("size", "slide", "lateness", "offset")
    wrong = sorted(set(window) - set(names))
    if wrong or "size" not in window:
        problem = f"has no key {wrong[0]!r}" if wrong else "needs a size"
        raise QueryError(f"[query.window] {problem}; its keys are {', '.join(names)}")
    try:
        return cls(**(settings | {"window": TimeWindow(**window)}))
    except TypeError as problem:
        told_so = str(problem).rsplit(") ", 1)[-1].replace("__init__", kind)
        raise QueryError(f"[query] {told_so}") from None


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


# Showing ------------------------------------------------------------------------------------------


def explain(job: Job) -> str:
    """The job as a plan, line by line, without starting anything."""
    query, window = job.query, job.query.window
    assert isinstance(window, TimeWindow)
    lines = [f"pipeline {job.name}"]
    for name, source in job.sources.items():
        who = ", by the workers" if read_by_workers(source) else ", by Spark's reader"
        lines.append(f"  read   {f'{name}: ' if name else ''}{_told(source)}{who}")
    if job.on_bad == "raise":
        lines.append("  bad    the first bad record stops the job")
    elif job.dead_letters is not None:
        lines.append(f"  bad    dead letters to {_told(job.dead_letters)}")
    else:
        lines.append("  bad    counted and left out, without dead letters")
    shards = job.shards or 1
    lines += [
        f"  panes  {window.panes.per_window} per window, {window.panes.per_slide} per slide; "
        f"summaries are made where the rows are",
        f"  state  {buckets_of(query)} bucket(s) x {shards} shard(s) in {job.checkpoint}",
        f"  query  {query.kind} by {query.algorithm or 'the algorithm that measures best'}, "
        f"window {window.size} every {window.slide or window.size}, lateness {window.lateness}"
        + (f", by {', '.join(query.groups)}" if query.groups else ""),
        f"  give   {'changes' if job.changes else 'tables'} to {_told(job.sink)}",
        f"  when   {_when(job.trigger)}",
    ]
    if job.metrics:
        lines.append(f"  watch  Prometheus metrics on port {job.metrics['port']}")
    return "\n".join(lines)


def _told(section: Section) -> str:
    hidden = ("dsn",)  # may hold a password
    shown = (
        f"{name}={'...' if name in hidden else value}" for name, value in section.settings.items()
    )
    return f"{section.kind} {' '.join(shown)}"


def _when(trigger: Mapping[str, Any]) -> str:
    if trigger.get("once"):
        return "read all there is, then stop"
    return f"every {trigger['every']}" if "every" in trigger else "one batch after the other"
