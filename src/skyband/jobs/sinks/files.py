"""Sinks of a job; this module writes files, and to the console.

| sink     | how                                                            | guarantee        |
|----------|----------------------------------------------------------------|------------------|
| files    | one file per query, run and batch, renamed when it is complete | each window once |
| postgres | a ledger by run in the transaction that writes the rows        | each window once |
| table    | whole windows replace those of the same end                    | each window once |
| kafka    | a transaction that holds the run and the batch                 | each window once |
| kafka    | with ``writer = "spark"``, Spark's own client                  | at least once    |
| http     | a message per window, repeated until it is accepted            | at least once    |
| console  | the rows as JSON lines                                         | at least once    |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.fs
import pyarrow.parquet

from skyband.data.json_text import json_text
from skyband.engine.intake import ValueTest
from skyband.errors import EngineError
from skyband.jobs.job import Job
from skyband.jobs.places import check_unused, folder_of
from skyband.jobs.sinks.base import UTF8, YEARS, Sink, SinkRows, SinkTarget, TableRows, writable
from skyband.jobs.sinks.kafka import KafkaSink
from skyband.jobs.sinks.postgres import PostgresSink
from skyband.jobs.sinks.webhook import WebhookSink
from skyband.jobs.world import MACHINE, World
from skyband.query.base import REVISION
from skyband.window import CountWindow


def sink_of(job: Job, name: str, world: World = MACHINE) -> Sink[Any]:
    """The sink of a query."""
    query, section = job.queries[name], job.sinks[name]
    return make_sink(
        SinkTarget(
            section,
            job.where_sink(name),
            job.name,
            name,
            groups=query.groups if isinstance(query.window, CountWindow) else (),
            by=query.groups,
            revises=job.revises(name),
            world=world,
        )
    )


def letters_sink(job: Job, world: World = MACHINE) -> Sink[Any] | None:
    """The job's ``[dead_letters]``, if it has any."""
    if job.dead_letters is None or not job.writes_letters:
        return None
    name = f"{job.name}-dead-letters"
    where = "[dead_letters]"
    return make_sink(
        SinkTarget(job.dead_letters, where, job.name, name, "json", private=True, world=world)
    )


def make_sink(target: SinkTarget) -> Sink[Any]:
    """The sink that a job describes."""
    kind = target.section.kind
    if kind == "table" or (kind == "kafka" and target.section["writer"] == "spark"):
        from skyband.jobs.sinks import on_spark

        return on_spark.Table(target) if kind == "table" else on_spark.SparkKafkaSink(target)
    return _SINKS[kind](target)


class ConsoleSink:
    """Standard output, as JSON lines; at least once. ``rows`` limits the rows of a batch."""

    refuses = (YEARS,)

    def __init__(self, target: SinkTarget) -> None:
        self.where, self._world = target.where, target.world
        self.named = {"job": target.job, "query": target.query}
        self.most = target.section["rows"]

    def open(self, run: str) -> None:
        """Nothing to prepare."""

    def write(self, batch: int, rows: SinkRows) -> None:
        """Show the rows of a batch."""
        left = self.most
        for table in rows.tables():
            shown = table if left is None else table.slice(0, left)
            lines = [json_text({**self.named, **row}) + "\n" for row in shown.to_pylist()]
            self._world.show("".join(lines))
            left = None if left is None else left - shown.num_rows


# Files --------------------------------------------------------------------------------------------


class FilesSink:
    """A folder with one file per query, run and batch.

    A file is written under a hidden name, synced, and renamed: readers see either all of a batch or
    none of it, and a batch that is retried replaces its file. Where windows may be corrected, there
    is a file for each revision, which its name ends with.
    """

    def __init__(self, target: SinkTarget) -> None:
        self.where, self.revises, self.private = target.where, target.revises, target.private
        self.query = quote(target.query, safe="")
        self.form = target.section["format"] or target.form
        self.refuses = _REFUSES[self.form]
        self.run = ""
        system, folder = folder_of(target.where, target.section["path"])
        self.folder = Path(folder)
        local = isinstance(system, pa.fs.LocalFileSystem)
        self._files = target.world if local else RemoteFiles(system)
        self._tidy = False

    def open(self, run: str) -> None:
        """Make the folder; raises if Spark's own file sink has written to it."""
        self.run = run
        try:
            check_unused(self.where, self._files.exists, self.folder)
            self._files.make_folders(self.folder)
        except OSError as problem:
            raise EngineError(
                f"{self.where} the folder {str(self.folder)!r} cannot be created: {problem}"
            ) from problem

    def write(self, batch: int, rows: SinkRows) -> None:
        """Write the file of a batch; a batch without rows has no file."""
        if not self._tidy:
            self._forget_after(batch)
            self._tidy = True
        if not rows:
            return
        name = f"{self.query}-{self.run}-{batch:08}"
        if not self.revises:
            self._write(f"{name}.{self.form}", rows)
            return
        table = pa.concat_tables(rows.tables())
        for revision in sorted(set(table[REVISION].to_pylist())):
            mine = table.filter(pa.compute.equal(table[REVISION], revision))
            self._write(f"{name}-r{revision}.{self.form}", TableRows([mine], rows.schema))

    def _write(self, name: str, rows: SinkRows) -> None:
        def fill(out: Any) -> None:
            _FORMS[self.form](out, rows)

        self._files.write_whole(self.folder / name, fill, f".{name}.part", self.private)

    def _forget_after(self, batch: int) -> None:
        """Delete this run's files of later batches: its checkpoint was restored from a copy."""
        mine = re.compile(re.escape(f"{self.query}-{self.run}-") + rf"(\d+)(?:-r\d+)?\.{self.form}")
        for each in self._files.names(self.folder):
            name = mine.fullmatch(each)
            if name is not None and int(name.group(1)) > batch:
                self._files.remove(self.folder / each)


class RemoteFiles:
    """The steps of a ``World`` that a sink takes, on a file system that is not this machine's."""

    def __init__(self, system: pa.fs.FileSystem) -> None:
        self.system = system

    def exists(self, path: Path) -> bool:
        """Whether there is a file or folder of this name."""
        return bool(self.system.get_file_info(str(path)).type != pa.fs.FileType.NotFound)

    def make_folders(self, path: Path) -> None:
        """Make a folder and those above it."""
        self.system.create_dir(str(path), recursive=True)

    def names(self, folder: Path) -> list[str]:
        """What is in a folder."""
        found = self.system.get_file_info(pa.fs.FileSelector(str(folder)))
        return [each.base_name for each in found]

    def remove(self, path: Path) -> None:
        """Remove a file."""
        self.system.delete_file(str(path))

    def write_whole(
        self, path: Path, content: Callable[[Any], None], draft: str, private: bool
    ) -> None:
        """Write a file under another name, and rename it."""
        part = str(path.with_name(draft))
        with self.system.open_output_stream(part) as out:
            content(out)
        self.system.move(part, str(path))


def _tables(writer: Callable[..., Any], out: Any, rows: SinkRows) -> None:
    with writer(out, rows.schema) as opened:
        for table in rows.tables():
            opened.write_table(table)


def _json(out: Any, rows: SinkRows) -> None:
    for table in rows.tables():
        for row in table.to_pylist():
            out.write(json_text(row).encode() + b"\n")


_FORMS: Mapping[str, Callable[[Any, SinkRows], None]] = {
    "parquet": partial(_tables, pa.parquet.ParquetWriter),
    "csv": partial(_tables, pa.csv.CSVWriter),
    "json": _json,
}
_REFUSES: Mapping[str, tuple[ValueTest, ...]] = {
    "parquet": (),
    "csv": (UTF8, writable("CSV", lambda kind: not pa.types.is_nested(kind))),
    "json": (YEARS,),
}
_SINKS: Mapping[str, Callable[[SinkTarget], Sink[Any]]] = {
    "console": ConsoleSink,
    "files": FilesSink,
    "http": WebhookSink,
    "kafka": KafkaSink,
    "postgres": PostgresSink,
}
