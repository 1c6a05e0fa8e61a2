"""A job as the service runs it: its sources, with their columns, and its sinks."""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.data.letters import LETTERS
from skyband.errors import QueryError
from skyband.jobs import Job, load_job
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.durable import write_whole
from skyband.jobs.job import Section, check_columns
from skyband.jobs.limits import row_limits
from skyband.jobs.local.letters import Letters
from skyband.jobs.local.run import rows_for
from skyband.jobs.local.source import LocalSource
from skyband.jobs.local.sources import known_columns, make_source
from skyband.jobs.rows import Sink, TableRows, written
from skyband.jobs.sinks import sink_of
from skyband.serve.dead_letters import Letter
from skyband.serve.feeds import known_schema
from skyband.serve.requests import Request

__all__ = ["Sinks", "Sources", "load_served"]


def load_served(path: str | Path, engine: str | None = None) -> Job:
    """Load a job; it runs in this process unless the file or ``engine`` says otherwise."""
    job = load_job(path, engine, default="local")
    try:
        for name, section in job.sources.items():
            if section.kind == "http":
                _schema(name, section)
    except QueryError as problem:
        raise QueryError(f"{path}: {problem}") from None
    return job


class Sources:
    """The sources of a job: those that rows are posted to, and those that the service reads."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.kinds = {name: section.kind for name, section in job.sources.items()}
        self.schemas: dict[str, pa.Schema] = {}
        self.read: dict[str, LocalSource] = {}
        changed = _remembered(job, folder / "columns")
        for name, section in job.sources.items():
            if section.kind == "http":
                self.schemas[name] = _schema(name, section)
                continue
            folder.mkdir(parents=True, exist_ok=True)
            self.read[name] = make_source(name, section, folder)
            path = folder / f"schema-{name or 'source'}"
            if changed:
                path.unlink(missing_ok=True)
            told = None if section.kind == "files" else known_columns(name, section)
            self.schemas[name] = told or known_schema(self.read[name], path)


def _remembered(job: Job, path: Path) -> bool:
    """Note what the sources compute their columns from; whether some were added or removed.

    Raises EngineError if some mean something else than before.
    """
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    check_columns(job.checkpoint, before, job.columns)
    if before == job.columns:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(job.columns).encode())
    return before is not None


def _schema(name: str, section: Section) -> pa.Schema:
    return arrow_schema(f"[sources.{name}]" if name else "[source]", section["schema"])


class Sinks:
    """The sinks of a job, and its dead letters; not the console: the page takes its place."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.job = job
        self.sinks: dict[str, Sink[TableRows]] = {
            name: sink_of(job, name)
            for name, section in job.sinks.items()
            if section.kind != "console"
        }
        self.limits = row_limits(job, self.sinks)
        self.letters = Letters(job, self.limits)
        run = _run_of(folder) if self.sinks or self.letters.sink else ""
        for sink in self.sinks.values():
            sink.open(run)
        self.letters.open(run)

    def write(self, batch: int, answers: list[Answer]) -> None:
        """Write the answers of a batch; a sink leaves out a batch that it has."""
        for name, sink in self.sinks.items():
            mine = [answer for answer in answers if answer.name == name]
            if mine:
                written(sink, batch, rows_for(self.job, name, mine))

    def found(self, request: Request, queries: Collection[str], clock: float) -> list[Letter]:
        """The dead letters of a request; none if the job has no place for them."""
        if self.letters.sink is None:
            return []
        found = [] if request.unread is None else request.unread.to_pylist()
        if queries:
            told = request.source, request.table, queries, request.origin
            found += self.letters.of_rows(*told, clock).to_pylist()
        return found

    def deliver(self, batch: int, letters: list[Letter]) -> None:
        """Write the dead letters of a batch; a sink leaves out a batch that it has."""
        if self.letters.sink is not None:
            table = pa.Table.from_pylist(letters, LETTERS)
            written(self.letters.sink, batch, TableRows([table], LETTERS))


def _run_of(folder: Path) -> str:
    """What identifies this run of the job to its sinks; kept as long as the folder."""
    path = folder / "run"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, uuid.uuid4().hex[:16].encode())
    return path.read_text(encoding="utf-8")
