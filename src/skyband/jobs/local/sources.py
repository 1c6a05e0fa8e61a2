"""Makes the sources of a local job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from skyband.data.time_axis import MOMENT
from skyband.errors import QueryError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import JobSection, source_table
from skyband.jobs.local.files import FileSource, check_files, is_visible
from skyband.jobs.local.messages import KafkaSource, SocketSource, check_messages
from skyband.jobs.local.posts import PostedSource
from skyband.jobs.local.source import ColumnChoice, LocalSource, Place
from skyband.jobs.world import MACHINE, World

# A generated stream as a source of a local job ---------------------------------------------------


class RateSource(LocalSource):
    """Rows with a ``timestamp`` and a ``value`` that counts up, at a steady rate.

    A place is the moment at which the stream began, and the next value.
    """

    first = None
    schema = pa.schema([("timestamp", MOMENT), ("value", pa.int64())])

    def __init__(self, where: str, section: JobSection, world: World = MACHINE) -> None:
        self.where, self._world = where, world
        self.rate = section["rows_per_second"] or 1
        self.rows_per_batch = section["rows_per_batch"]
        self.chosen = ColumnChoice(where, section["columns"])

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The rows that are due by now, or the next ``rows_per_batch`` rows."""
        now = int(self._world.time() * 1e6)
        began, value = (now, 0) if place is None else place
        upto = value + (self.rows_per_batch or 0) or (now - began) * self.rate // 1_000_000
        if last and place is not None:
            return None
        if upto <= value and place is not None:
            return None
        end = (began, max(upto, value + 1))
        return self.again((began, value), end), end

    def again(self, begin: Place, end: Place) -> pa.Table:
        """The rows between two values."""
        began, first = end[0], 0 if begin is None else begin[1]
        values = np.arange(first, end[1], dtype=np.int64)
        times = began + values * 1_000_000 // self.rate
        rows = pa.table([times, values], schema=self.schema)
        return self.chosen.of(rows)


def make_source(
    name: str, section: JobSection, folder: Path, world: World = MACHINE
) -> LocalSource:
    """The source that a job describes; ``folder`` is the job's checkpoint."""
    where = f"[{source_table(name)}]"
    if section.kind == "files":
        return FileSource(where, section, folder / f"files-{name or 'source'}", name, world)
    if section.kind == "rate":
        return RateSource(where, section, world)
    if section.kind == "kafka":
        return KafkaSource(where, section, name, world)
    if section.kind == "socket":
        return SocketSource(where, section, name, world)
    return PostedSource(where, section)


def check_source(where: str, section: JobSection, serving: bool) -> None:
    """Raise QueryError for a source that a local job cannot read; nothing is opened."""
    if section.kind == "files":
        check_files(where, section)
    elif section.kind in ("kafka", "socket"):
        check_messages(where, section)
    elif section.kind == "http" and not serving:
        raise QueryError(f"{where} of kind 'http' takes rows from a server: use skyband serve")
    ColumnChoice(where, section["columns"])
    if section.kind != "files":
        known_columns(where, section)  # the columns that it chooses have to be there


def known_columns(where: str, section: JobSection) -> pa.Schema | None:
    """The columns of a source, as far as the job and the first file tell them."""
    if section.kind == "files":
        if "://" in section["path"]:
            return None
        first = next(filter(is_visible, MACHINE.paths(section["path"])), None)
        schema = None if first is None else MACHINE.table_file(first, section["delimiter"]).schema
    elif section.kind == "rate":
        schema = RateSource(where, section).schema
    elif section["format"] == "text":
        schema = pa.schema([("value", pa.string())])
    elif section["format"] in (None, "json"):
        schema = arrow_schema(where, section["schema"] or "")
    else:
        return None
    return None if schema is None else ColumnChoice(where, section["columns"]).of_schema(schema)
