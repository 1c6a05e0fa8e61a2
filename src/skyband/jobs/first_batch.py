"""A look at a job's first batch before it starts, to choose the number of shards."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet

from skyband.errors import SkybandError
from skyband.jobs.checks import read_by_workers
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Job, Section
from skyband.spark.checkpoint import recorded_shards
from skyband.spark.file_options import format_of, read_options
from skyband.spark.file_units import Form, read_units, schema_of_file
from skyband.spark.letters import UNREAD
from skyband.spark.locations import newest_here, open_location
from skyband.spark.sharding import FirstRows, Split, split_of

__all__ = ["job_split", "sharded"]

_ENOUGH = 1 << 17
"""Rows that are looked at."""
_ALL = 1 << 30


def sharded(job: Job, session: Any = None) -> Job:
    """The job with its number of shards; ``session`` is needed for a remote checkpoint."""
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
    return split_of(list(job.queries.values()), _first_rows(job), _cores(job.master))


def _cores(master: str | None) -> int | None:
    """The cores of the machine that a job runs on; None for a cluster."""
    told = master or os.environ.get("SPARK_MASTER") or "local[*]"
    local = re.fullmatch(r"local(?:\[(\*|\d+).*\])?", told)
    if local is None:
        return None
    return (os.cpu_count() or 1) if local[1] == "*" else int(local[1] or 1)


def _first_rows(job: Job) -> dict[str, FirstRows] | None:
    found = {}
    for name, source in job.sources.items():
        if source.kind != "files" or not read_by_workers(source):
            return None
        try:
            first = _of_files(source)
        except (SkybandError, pa.ArrowException, OSError, ValueError):
            return None  # reading it will say what is wrong
        if first is None:
            return None
        found[name] = first
    return found


def _of_files(source: Section) -> FirstRows | None:
    """Some rows of the newest file, and the rows of all files by the size of that one."""
    listing, csv = read_options(source["options"] or {}, given=source["schema"] is not None)
    uris = None if listing else newest_here(source["path"], _ALL)
    if uris is None:
        return None
    types = None if source["schema"] is None else arrow_schema("[source]", source["schema"])
    kind = None if source["format"] is None else format_of(source["format"])
    positions = None if types is None else tuple(types.names)
    form = Form(kind, csv, positions, dict(source["storage"] or {}))
    if not uris:
        return None if types is None else FirstRows(types.empty_table(), 0)
    types = schema_of_file(form, uris[0]) if types is None else types
    sizes = [_size(uri) for uri in uris[: source["files_per_batch"] or len(uris)]]
    some, share = _some_rows(form, types, uris[0])
    return FirstRows(some, round(some.num_rows * share * sum(sizes) / max(1, sizes[0])))


def _some_rows(form: Form, types: pa.Schema, uri: str) -> tuple[pa.Table, float]:
    """The first rows of a file, and how many times as many rows it has."""
    groups, share = -1, 1.0
    if form.of(uri) == "parquet":
        system, path = open_location(uri, form.storage)
        with system.open_input_file(path) as file:
            about = pa.parquet.read_metadata(file)
        groups = min(1, about.num_row_groups)
        first = about.row_group(0).num_rows if groups else 0
        share = about.num_rows / max(1, first)
    unit = {"file": uri, "length": _size(uri), "time": None, "first": 0, "groups": groups}
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in read_units(form, types)(iter([pa.RecordBatch.from_pylist([unit])])):
        good = pa.compute.invert(batch.column(UNREAD))
        held.append(batch.select(types.names).filter(good))
        rows += held[-1].num_rows
        if rows >= _ENOUGH and form.of(uri) != "parquet":
            # The rest is not read: it should have as many rows per byte.
            share = max(1.0, _size(uri) / sum(each.nbytes for each in held))
            break
    some = pa.Table.from_batches(held, schema=types)
    return some.slice(0, _ENOUGH), share * rows / max(1, min(rows, _ENOUGH))


def _size(uri: str) -> int:
    system, path = open_location(uri, {})
    return int(system.get_file_info(path).size or 0)
