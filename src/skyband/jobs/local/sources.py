"""Makes the sources of a local job."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from skyband.embedded.formats import opened
from skyband.embedded.sources import paths_of
from skyband.errors import QueryError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Section
from skyband.jobs.local.chosen import Chosen
from skyband.jobs.local.files import Files, check_files, is_visible
from skyband.jobs.local.generated import Rate
from skyband.jobs.local.messages import Kafka, Socket, check_messages
from skyband.jobs.local.posts import Posted
from skyband.jobs.local.source import LocalSource

__all__ = ["check_source", "known_columns", "make_source"]


def make_source(name: str, section: Section, folder: Path) -> LocalSource:
    """The source that a job describes; ``folder`` is the job's checkpoint."""
    where = _where(name)
    if section.kind == "files":
        return Files(where, section, folder / f"files-{name or 'source'}", name)
    if section.kind == "rate":
        return Rate(where, section)
    if section.kind == "kafka":
        return Kafka(where, section, name)
    if section.kind == "socket":
        return Socket(where, section, name)
    return Posted(where, section)


def check_source(name: str, section: Section, serving: bool) -> None:
    """Raise QueryError for a source that a local job cannot read; nothing is opened."""
    where = _where(name)
    if section.kind == "files":
        check_files(where, section)
    elif section.kind in ("kafka", "socket"):
        check_messages(where, section)
    elif section.kind == "http":
        arrow_schema(where, section["schema"])
        if not serving:
            raise QueryError(f"{where} of kind 'http' takes rows from a server: use skyband serve")
    Chosen(where, section["columns"])
    if section.kind != "files":
        known_columns(name, section)  # the columns that it chooses have to be there


def known_columns(name: str, section: Section) -> pa.Schema | None:
    """The columns of a source, as far as the job and the first file tell them."""
    where = _where(name)
    if section.kind == "files":
        if "://" in section["path"]:
            return None
        first = next(filter(is_visible, paths_of(section["path"])), None)
        found = None if first is None else opened(first).schema
    elif section.kind == "rate":
        found = Rate(where, section).schema
    elif section["format"] == "text":
        found = pa.schema([("value", pa.string())])
    elif section["format"] in (None, "json"):
        found = arrow_schema(where, section["schema"] or "")
    else:
        return None
    return None if found is None else Chosen(where, section["columns"]).of_schema(found)


def _where(name: str) -> str:
    return f"[sources.{name}]" if name else "[source]"
