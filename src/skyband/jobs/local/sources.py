"""Makes the sources of a local job."""

from __future__ import annotations

from pathlib import Path

from skyband.errors import QueryError
from skyband.jobs.job import Section
from skyband.jobs.local.files import Files
from skyband.jobs.local.generated import Rate
from skyband.jobs.local.messages import Kafka, Socket
from skyband.jobs.local.source import LocalSource

__all__ = ["make_source"]


def make_source(name: str, section: Section, folder: Path) -> LocalSource:
    """The source that a job describes; ``folder`` is the job's checkpoint."""
    where = f"[sources.{name}]" if name else "[source]"
    if section.kind == "files":
        return Files(where, section, folder / f"files-{name or 'source'}")
    if section.kind == "rate":
        return Rate(where, section)
    if section.kind == "kafka":
        return Kafka(where, section, name)
    if section.kind == "socket":
        return Socket(where, section, name)
    raise QueryError(f"{where} of kind 'http' takes rows from a server: use skyband serve")
