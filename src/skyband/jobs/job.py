"""A job: its queries, sources and sinks, and the plan that people read. Needs no Spark."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skyband import registry
from skyband.engine.explain import sharing_of
from skyband.errors import EngineError
from skyband.jobs.secrets import FROM_ENV, from_env, hidden, shown
from skyband.query import Query
from skyband.query.checks import OnBad
from skyband.spark.plan import buckets_of

Columns = Mapping[str, Mapping[str, str]]
"""What each source computes its columns from; empty if it has all columns as they are."""


@dataclass(frozen=True)
class JobSection:
    """A part of a job with a ``kind`` and settings: a source, a sink, the dead letters."""

    kind: str
    settings: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        """A setting, or None; what stands in the environment is read only here."""
        found = self.settings.get(name)
        named = self.settings.get(f"{name}_env") if name in FROM_ENV else None
        return found if named is None else from_env(name, found, named)

    @property
    def by_workers(self) -> bool:
        """Whether workers read the records of a source by themselves, without Spark's readers.

        They read files of the formats that pyarrow has, and JSON. Expressions (``columns``) are
        SQL, so they need Spark.
        """
        if self["reader"] == "spark" or self["columns"]:
            return False
        if self.kind == "files":
            return self["format"] not in ("orc", "avro", "text")
        return self.kind in ("kafka", "socket") and self["format"] in (None, "json")


@dataclass(frozen=True)
class CardView:
    """How the board shows a query, as far as the job file says it."""

    title: str | None = None
    unit: str | None = None
    """What the value is measured in that the answer is ranked by."""
    wide: bool = False


@dataclass(frozen=True)
class Job:
    """A checked job."""

    name: str
    checkpoint: str
    queries: Mapping[str, Query]
    """By name; the query of a job with a single ``[query]`` is named after the job."""
    sources: Mapping[str, JobSection]
    """By stream name; if a job has a single source, its name is ``""``."""
    sinks: Mapping[str, JobSection]
    """The sink of each query."""
    alone: bool = True
    """Whether the job has a single ``[query]`` rather than ``[queries.NAME]``."""
    engine: str | None = None
    """``local`` or ``spark``; None if the file does not say."""
    trigger: Mapping[str, Any] = field(default_factory=dict)
    dead_letters: JobSection | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    shards: int | None = None
    on_bad: OnBad = "skip"
    late: str = "count"
    """What happens to late rows: ``count`` them, or write them to the dead ``letters``, too."""
    ahead: str = "1 day"
    """How far a time may be ahead of the clock before its row is bad; ``none`` for any time."""
    changes: bool = False
    master: str | None = None
    spark: Mapping[str, str] = field(default_factory=dict)
    history: int = 1_000
    """How many windows of each query ``skyband serve`` keeps."""
    title: str | None = None
    """What the board calls the job; None for its name."""
    cards: Mapping[str, CardView] = field(default_factory=dict)

    @property
    def asked(self) -> Query | Mapping[str, Query]:
        """What a monitor is asked: the only query, or all of them by name."""
        return next(iter(self.queries.values())) if self.alone else self.queries

    @property
    def writes_letters(self) -> bool:
        """Whether anything is written to the dead letters."""
        given = self.dead_letters is not None
        return given and (self.on_bad == "skip" or self.late == "letters")

    @property
    def reads(self) -> str:
        """A short text that is another one if the sources are."""
        settings = {name: [each.kind, dict(each.settings)] for name, each in self.sources.items()}
        return hashlib.sha256(json.dumps(settings, default=str).encode()).hexdigest()[:16]

    def changes_of(self, query: str) -> bool | tuple[str, ...]:
        """The changes that a query's sink is given: some kinds, all of them, or none."""
        wanted = self.sinks[query]["changes"]
        return self.changes if wanted is None else tuple(wanted)

    def revises(self, query: str) -> bool:
        """Whether windows of a query come again when they are corrected, unless only changes do."""
        revise = self.queries[query].window.revise_ticks
        return revise is not None and not self.changes_of(query)

    def table(self, query: str) -> str:
        """The table of a query in the job file."""
        return "query" if self.alone else f"queries.{query}"

    def sink_table(self, query: str) -> str:
        """The table of a query's sink in the job file."""
        return "sink" if self.alone else f"{self.table(query)}.sink"

    def where(self, query: str, part: str = "") -> str:
        """How messages name a part of a query: ``[query.window]``, ``[queries.NAME.sink]``."""
        return f"[{self.table(query)}{'.' * bool(part)}{part}]"

    @property
    def columns(self) -> Columns:
        """What each source computes its columns from; a checkpoint remembers it."""
        return {name: dict(section["columns"] or {}) for name, section in self.sources.items()}

    def where_sink(self, query: str) -> str:
        """How messages name the sink of a query."""
        return f"[{self.sink_table(query)}]"


def source_table(name: str) -> str:
    """The table of a source in a job file."""
    return f"sources.{name}" if name else "source"


def check_columns(checkpoint: str, before: Columns | None, now: Columns) -> None:
    """Raise EngineError if a column means something else than ``before``, in its checkpoint.

    Columns may be added and removed. ``before`` is None if the checkpoint does not remember them.
    """
    for source, columns in now.items():
        was = (before or {}).get(source, columns)
        pairs = {
            name: (_meaning(was, name), _meaning(columns, name)) for name in {**was, **columns}
        }
        changed = [name for name, (old, new) in pairs.items() if old and new and old != new]
        if changed:
            raise EngineError(
                f"[{source_table(source)}] columns: {', '.join(changed)} changed since the "
                f"checkpoint {checkpoint!r} was made, so old and new values would mix; give what "
                "changed a new name, or the job a new checkpoint"
            )


def _meaning(columns: Mapping[str, str], name: str) -> str | None:
    """What a column is computed from; where a source has no ``columns``, that is itself."""
    return columns.get(name) if columns else name


# Showing ------------------------------------------------------------------------------------------


def explain(job: Job) -> str:
    """The job as a plan, line by line, without starting anything."""
    local = job.engine == "local"
    lines = [f"pipeline {job.name}{' in this process' if local else ''}"]
    for name, source in job.sources.items():
        who = ", by the workers" if source.by_workers else ", by Spark's reader"
        who = "" if local else who
        lines.append(f"  read   {f'{name}: ' if name else ''}{_told(source)}{who}")
    if job.on_bad == "raise":
        lines.append("  bad    the first bad record stops the job")
    elif job.dead_letters is not None:
        lines.append(f"  bad    dead letters to {_told(job.dead_letters)}")
    else:
        lines.append("  bad    counted and left out, without dead letters")
    if job.late == "letters" and job.dead_letters is not None:
        lines.append(f"  late   dead letters to {_told(job.dead_letters)}")
    shards = "" if local else _shards(job)
    for name in job.queries:
        lines += [f"  query  {name}:"] * (not job.alone) + _explain_query(job, name, shards)
    lines.append(f"  state  {'snapshots in ' * local}{hidden(job.checkpoint)}")
    lines.append(f"  when   {_when(job.trigger)}")
    if job.metrics:
        lines.append(f"  watch  Prometheus metrics on port {job.metrics['port']}")
    return "\n".join(lines)


def _shards(job: Job) -> str:
    from skyband.jobs.spark.first_batch import job_split  # which needs jobs

    split = job_split(job)
    return f"{split.shards} shard(s), {split.why}"


def _explain_query(job: Job, name: str, shards: str) -> list[str]:
    query, panes = job.queries[name], job.queries[name].window.panes
    ((_, settings),) = query.spec()["window"].items()
    words = " ".join(query.window.words(settings))
    by = f", by {', '.join(query.groups)}" if query.groups else ""
    lines = [
        f"  query  {query.kind} by {registry.choose(query)}, window {words}{by}",
        f"  panes  {panes.per_window} per window, {panes.per_slide} per slide; "
        "summaries are made where the rows are",
    ]
    if not job.alone and job.engine == "local":
        lines.append(f"  share  {sharing_of(name, job.queries)}")
    if job.engine != "local":
        lines.append(f"  split  {buckets_of(query)} bucket(s) x {shards}")
    given = "changes" if job.changes_of(name) else "tables"
    lines.append(f"  write  {given} to {_told(job.sinks[name])}")
    return lines


def _told(section: JobSection) -> str:
    settings = (f"{name}={shown(name, value)}" for name, value in section.settings.items())
    return f"{section.kind} {' '.join(settings)}"


def _when(trigger: Mapping[str, Any]) -> str:
    if trigger.get("once"):
        closed = ", answer the last windows" if trigger.get("close") else ""
        return f"read all there is{closed}, then stop"
    return f"every {trigger['every']}" if "every" in trigger else "one batch after another"
