"""A look at a job's first batch before it starts, to choose the number of shards.

Of files, some rows of the newest one and the bytes of all are looked at; of a topic, the newest
records and how many there are; of a generated stream, how many rows a batch has and, if these are
many, some rows as the source would make them. A socket cannot be looked at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from skyband.errors import SkybandError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.first_records import newest_records
from skyband.jobs.job import Job, Section
from skyband.spark import sharding
from skyband.spark.checkpoint import recorded_shards
from skyband.spark.file_look import ENOUGH, rows_of_files
from skyband.spark.file_options import format_of, read_options
from skyband.spark.file_units import Form, schema_of_file
from skyband.spark.locations import newest_here
from skyband.spark.masters import local_cores
from skyband.spark.sharding import FirstRows, Split, split_of
from skyband.window import parse_duration

__all__ = ["job_split", "seconds_per_batch", "sharded"]

_ALL = 1 << 30
_ROW_BYTES = 50
"""What a row may add to the summaries at most, more or less: one in each of many groups does."""
_SECONDS = 10.0
"""Seconds of a stream that a batch holds if the job does not say it: it may fall behind a bit."""


def sharded(job: Job, session: Any = None) -> Job:
    """The job with its number of shards.

    A remote checkpoint, and rows that only Spark can make, need a ``session``.
    """
    return job if job.shards is not None else replace(job, shards=job_split(job, session).shards)


def job_split(job: Job, session: Any = None) -> Split:
    """How the state of a job is split, and why: as it says, as it was started, or as it needs."""
    if job.shards is not None:
        return Split(job.shards, "as the job says")
    recorded = recorded_shards(job.checkpoint, session)
    if recorded is not None:
        return Split(recorded, "as its checkpoint was started")
    if len(job.queries) > 1 and any(job.changes_of(name) for name in job.queries):
        return Split(1, "changes of several queries need one")
    found = {}
    for name, source in job.sources.items():
        try:
            first = _first(job, source, session)
        except (SkybandError, pa.ArrowException, OSError, ValueError):
            first = "the first rows could not be read"  # reading them will say what is wrong
        if isinstance(first, str):
            return Split(1, first)
        found[name] = first
    return split_of(list(job.queries.values()), found, local_cores(job.master))


def seconds_per_batch(job: Job) -> float:
    """The seconds of a stream that come in one batch."""
    every = job.trigger.get("every")
    return _SECONDS if every is None else max(1.0, parse_duration(every, "every") / 1e6)


def _first(job: Job, source: Section, session: Any) -> FirstRows | str:
    if source.kind == "files":
        return _of_files(source)
    if source.kind == "rate":
        return _of_rate(job, source, session)
    if source.kind == "kafka":
        return newest_records(source, ENOUGH, seconds_per_batch(job))
    return f"a {source.kind} cannot be looked at before the job starts"


def _of_files(source: Section) -> FirstRows | str:
    if source["columns"] or source["format"] not in (
        None,
        "parquet",
        "csv",
        "json",
        "ipc",
        "arrow",
    ):
        return "only Spark can read the files"
    listing, csv = read_options(source["options"] or {}, given=source["schema"] is not None)
    uris = None if listing else newest_here(source["path"], _ALL)
    if uris is None:
        return "only Spark can list the files"
    types = None if source["schema"] is None else arrow_schema("[source]", source["schema"])
    kind = None if source["format"] is None else format_of(source["format"])
    positions = None if types is None else tuple(types.names)
    form = Form(kind, csv, positions, dict(source["storage"] or {}))
    if types is None and uris:
        types = schema_of_file(form, uris[0])
    return rows_of_files(form, types or pa.schema([]), uris[: source["files_per_batch"]])


def _rows(job: Job, source: Section) -> int:
    """The rows of a batch of a generated stream."""
    per_second = source["rows_per_second"] or 1
    return int(source["rows_per_batch"] or round(per_second * seconds_per_batch(job)))


def _few(rows: int) -> bool:
    return rows * _ROW_BYTES < sharding.KEY_BYTES


def _of_rate(job: Job, source: Section, session: Any) -> FirstRows | str:
    """Rows of a generated stream, made by Spark if a batch has many of them."""
    rows = _rows(job, source)
    if _few(rows):
        return f"a batch has only about {rows:,} rows"
    if session is None:
        return "rows are looked at when the job starts, for only Spark can make them"
    from skyband.jobs.reading import generated

    few = min(rows, ENOUGH)
    return FirstRows(generated(session, source, few, rows), rows)
