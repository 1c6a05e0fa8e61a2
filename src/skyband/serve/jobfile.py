"""The part of a job that the service needs: sources with their columns, queries, the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from skyband.embedded.sources import batches_of, paths_of
from skyband.errors import QueryError, SchemaError
from skyband.jobs import load_job
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Section
from skyband.query import Query

__all__ = ["ServedJob", "ServedSource", "load_served"]


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
    job = load_job(path, engine, default="local")
    try:
        sources = {name: _source(name, section) for name, section in job.sources.items()}
    except (QueryError, SchemaError) as problem:
        raise QueryError(f"{path}: {problem}") from None
    return ServedJob(
        name=job.name,
        engine=job.engine or "local",
        checkpoint=Path(job.checkpoint),
        on_bad=job.on_bad,
        history=job.serve.get("history", job.history),
        sources=sources,
        queries=job.queries,
    )


def _source(name: str, section: Section) -> ServedSource:
    where = f"[sources.{name}]" if name else "[source]"
    if section.kind == "http":
        return ServedSource(section.kind, arrow_schema(where, section["schema"]))
    if section.kind == "files":
        first = next(iter(batches_of(paths_of(section["path"])[0])))
        return ServedSource(section.kind, first.schema, section["path"])
    raise QueryError(f"{where} kind must be http or files to be served, not {section.kind!r}")
