"""The sources of a local job. What was read once can be read again from the same place.

A place is a plain value that is kept in the checkpoint. ``take`` reads the next batch and tells
where it ends; ``again`` reads the rows between two places once more, after a crash.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from skyband.data.time_axis import MOMENT
from skyband.embedded.sources import READERS, batches_of, paths_of
from skyband.errors import EngineError, QueryError, SchemaError
from skyband.jobs.job import Section
from skyband.jobs.local.checkpoint import append_line, read_lines

__all__ = ["Files", "LocalSource", "Place", "Rate", "make_source"]

Place: TypeAlias = Any
_ROWS = 1 << 20
"""Rows per batch, unless the job says otherwise."""
_SETTLED = 1.0
"""Seconds without a change after which a new file counts as complete."""


class LocalSource(ABC):
    """Reads one source of a job, batch by batch."""

    where: str
    """The name that messages use for this source."""
    first: Place
    """Where a new job begins to read."""

    @abstractmethod
    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The next batch and where it ends; None if there is nothing new at the moment.

        ``last`` means that nothing will come later, so that nothing is left waiting.
        """

    @abstractmethod
    def again(self, begin: Place, end: Place) -> pa.Table:
        """The rows between two places, as they were read before."""

    def origin(self) -> dict[str, pa.Array]:
        """Where each row of the last batch came from, as columns of a dead letter."""
        return {}

    def close(self) -> None:  # noqa: B027 - most sources have nothing to close
        """Let go of files and connections."""


def make_source(name: str, section: Section, folder: Path) -> LocalSource:
    """The source that a job describes; ``folder`` is the job's checkpoint."""
    where = f"[sources.{name}]" if name else "[source]"
    if section.kind == "files":
        return Files(where, section, folder / f"files-{name or 'source'}")
    if section.kind == "rate":
        return Rate(where, section)
    if section.kind == "http":
        raise QueryError(f"{where} of kind 'http' takes rows from a server: use skyband serve")
    raise QueryError(
        f"{where} of kind {section.kind!r} cannot be read by a local job; use engine = 'spark'"
    )


# Files --------------------------------------------------------------------------------------------


class Files(LocalSource):
    """The files of a folder or glob, and those that are added later.

    Files that are found together are a lot, read in the order of their times. A place is the number
    of a lot and the rows of it that have been read.
    """

    first = (0, 0)

    def __init__(self, where: str, section: Section, record: Path) -> None:
        self.where = where
        self.path = section["path"]
        self.files_per_batch = section["files_per_batch"]
        self.rows_per_batch = section["rows_per_batch"] or _ROWS
        self.record = record
        for key in ("schema", "options"):
            if section[key]:
                raise QueryError(
                    f"{where} {key} is for Spark's readers; leave it out, or use engine = 'spark'"
                )
        if section["format"] not in (None, "parquet", "csv", "json", "arrow"):
            raise QueryError(
                f"{where} format {section['format']!r} cannot be read by a local job; use engine = "
                "'spark'"
            )
        self.lots: list[list[Any]] = read_lines(record)
        self.known = {found[0] for lot in self.lots for found in lot}
        self._open: _Reader | None = None

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The next batch: at most ``rows_per_batch`` rows of one lot."""
        lot, row = place
        while lot < len(self.lots) or self._look(last):
            table = self._reader(lot, row).take(self.rows_per_batch)
            if table is not None:
                return table, (lot, row + table.num_rows)
            lot, row = lot + 1, 0
        return None

    def again(self, begin: Place, end: Place) -> pa.Table:
        """The same rows once more; raises if a file has changed since."""
        (lot, row), (last, upto) = begin, end
        if last != lot:  # the lot in which the batch began had no more rows
            lot, row = last, 0
        table = self._reader(lot, row).take(upto - row)
        if table is None or table.num_rows != upto - row:
            raise EngineError(f"{self.where} {self.path!r} has fewer rows than it had before")
        return table

    def origin(self) -> dict[str, pa.Array]:
        """The file of each row of the last batch."""
        pieces = [] if self._open is None else self._open.pieces
        names = [name for name, _ in pieces]
        rows = np.repeat(np.arange(len(pieces)), [count for _, count in pieces])
        return {"file": pa.array(names, pa.string()).take(pa.array(rows))}

    def _reader(self, lot: int, row: int) -> _Reader:
        """A reader of a lot that has read so many rows."""
        if self._open is None or (self._open.lot, self._open.row) != (lot, row):
            self._open = _Reader(lot, self._tables(lot))
            self._open.skip(row)
        return self._open

    def _tables(self, lot: int) -> Iterator[tuple[str, pa.Table]]:
        for name, size, changed in self.lots[lot]:
            path = Path(name)
            try:
                now = path.stat()
            except OSError as problem:
                raise EngineError(
                    f"{self.where} {name!r} cannot be read any more ({problem.strerror}); put it "
                    "back: the job goes on where it was"
                ) from None
            if (now.st_size, now.st_mtime_ns) != (size, changed):
                raise EngineError(
                    f"{self.where} {name!r} has changed since the job began to read it; write new "
                    "rows to new files, and give the job a new checkpoint"
                )
            for table in batches_of(path):
                if table.num_rows:
                    yield name, table

    def _look(self, last: bool) -> bool:
        """Look for new files; whether there is a new lot."""
        try:
            found = [path for path in paths_of(self.path) if _visible(path)]
        except SchemaError:
            if last and not self.known:
                raise
            return False
        fresh = [self._found(path, last) for path in found if str(path) not in self.known]
        lot = [each for each in fresh if each is not None]
        if self.files_per_batch is not None:
            lot = lot[: self.files_per_batch]
        if not lot:
            return False
        append_line(self.record, lot)
        self.lots.append(lot)
        self.known |= {name for name, *_ in lot}
        return True

    def _found(self, path: Path, last: bool) -> list[Any] | None:
        """The name, size and time of change of a file; None while it is still being written."""
        try:
            told = path.stat()
        except OSError:
            return None
        if not last and time.time() - told.st_mtime < _SETTLED:
            return None
        return [str(path), told.st_size, told.st_mtime_ns]


def _visible(path: Path) -> bool:
    return path.suffix.lower() in READERS and not path.name.startswith((".", "_"))


class _Reader:
    """Hands out the rows of a lot in pieces of the size that is asked for."""

    def __init__(self, lot: int, tables: Iterator[tuple[str, pa.Table]]) -> None:
        self.lot = lot
        self.row = 0
        self.tables = tables
        self.left: tuple[str, pa.Table] | None = None
        self.pieces: list[tuple[str, int]] = []
        """The files of the rows that were handed out last, and how many rows of each."""

    def take(self, most: int) -> pa.Table | None:
        """The next rows, at most so many; None at the end."""
        taken = list(self._pieces(most))
        return pa.concat_tables(taken, promote_options="default") if taken else None

    def skip(self, rows: int) -> None:
        """Leave out the next rows."""
        for _ in self._pieces(rows):
            pass

    def _pieces(self, most: int) -> Iterator[pa.Table]:
        self.pieces = []
        while most > 0:
            found = next(self.tables, None) if self.left is None else self.left
            if found is None:
                return
            name, table = found
            piece = table.slice(0, most)
            self.left = (name, table.slice(most)) if table.num_rows > most else None
            self.pieces.append((name, piece.num_rows))
            self.row += piece.num_rows
            most -= piece.num_rows
            yield piece


# A generated stream -------------------------------------------------------------------------------


class Rate(LocalSource):
    """Rows with a ``timestamp`` and a ``value`` that counts up, at a steady rate.

    A place is the moment at which the stream began, and the next value.
    """

    first = None

    def __init__(self, where: str, section: Section) -> None:
        self.where = where
        self.rate = section["rows_per_second"] or 1
        self.rows_per_batch = section["rows_per_batch"]
        self.columns = section["columns"]

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The rows that are due by now, or the next ``rows_per_batch`` rows."""
        now = time.time_ns() // 1_000
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
        rows = pa.table({"timestamp": pa.array(times, MOMENT), "value": values})
        return _chosen(rows, self.columns, self.where)


def _chosen(rows: pa.Table, columns: Mapping[str, str], where: str) -> pa.Table:
    """The columns that a job chooses, each by the name of a column."""
    for name, text in columns.items():
        if text not in rows.column_names:
            raise QueryError(
                f"{where} columns.{name} = {text!r} is not a column; a local job has "
                f"{', '.join(rows.column_names)}. With engine = 'spark' it may be an expression"
            )
    return pa.table({name: rows[text] for name, text in columns.items()})
