"""A folder of files as a source of a local job."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.embedded.ahead import Load, read_ahead
from skyband.embedded.formats import kind_of, open_parquet, opened
from skyband.embedded.sources import READERS, Reading, paths_of
from skyband.engine.workers import thread_count
from skyband.errors import EngineError, QueryError, SchemaError
from skyband.jobs.job import Section
from skyband.jobs.local.checkpoint import append_line, read_lines
from skyband.jobs.local.chosen import Chosen
from skyband.jobs.local.source import LocalSource, Needed, Place

__all__ = ["Files", "check_files", "is_visible"]

_ROWS = 1 << 20
"""Rows per batch, unless the job says otherwise."""
_SETTLED = 1.0
"""Seconds without a change after which a new file counts as complete."""


def check_files(where: str, section: Section) -> None:
    """Raise QueryError for files that only Spark can read."""
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
        self.whole = section["rows_per_batch"] is None
        """Whether a batch ends where a batch of a file ends, if there is room for one at all."""
        self.record = record
        self.chosen = Chosen(where, section["columns"])
        check_files(where, section)
        self.lots: list[list[Any]] = read_lines(record)
        self.known = {name: told for lot in self.lots for name, *told in lot}
        """The size and time of change of each file that was found."""
        self._looked = -_SETTLED
        """When it was last checked that these files are as they were (monotonic clock)."""
        self._growing: dict[str, tuple[list[int], float]] = {}
        """How each file that was changed lately looks, and since when (monotonic clock)."""
        self._open: _Reader | None = None
        self._reading = Reading()
        self._time: str | None = None

    def asked(self, needed: Needed, time: str | None) -> None:
        """Told once which columns the queries need, and the column of their times, if one."""
        if not self.chosen.columns:
            self._reading = Reading(needed, thread_count(None))
            self._time = time

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The next batch: at most ``rows_per_batch`` rows of one lot."""
        lot, row = place
        while lot < len(self.lots) or self._look(last):
            table = self._reader(lot, row).take(self.rows_per_batch, self.whole)
            if table is not None:
                return self.chosen.of(table), (lot, row + table.num_rows)
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
        return self.chosen.of(table)

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
        """The batches of a lot, each with its file; the next ones are read meanwhile."""
        names: deque[str] = deque()  # of the batches that are being read
        for table in read_ahead(self._loads(lot, names), self._reading.threads):
            name = names.popleft()
            if table.num_rows:
                yield name, table

    def _loads(self, lot: int, names: deque[str]) -> Iterator[Load]:
        for name, size, changed in self.lots[lot]:
            path = Path(name)
            try:
                now = path.stat()
            except OSError as problem:
                raise EngineError(
                    f"{self.where} {name!r} cannot be read any more ({problem.strerror}); put it "
                    "back: the job goes on where it was"
                ) from None
            self._check_same(name, now, [size, changed])
            for load in opened(path).loads(self._reading.needed):
                names.append(name)
                yield load

    def _look(self, last: bool) -> bool:
        """Look for new files; whether there is a new lot."""
        try:
            found = [path for path in paths_of(self.path) if is_visible(path)]
        except SchemaError:
            if last and not self.known:
                raise
            return False
        now = time.monotonic()
        if last or now - self._looked >= _SETTLED:
            self._check_known(found)
            self._looked = now
        fresh = [self._found(path, last) for path in found if str(path) not in self.known]
        lot = self._in_order([each for each in fresh if each is not None])
        if self.files_per_batch is not None:
            lot = lot[: self.files_per_batch]
        if not lot:
            return False
        append_line(self.record, lot)
        self.lots.append(lot)
        self.known |= {name: told for name, *told in lot}
        return True

    def _check_known(self, paths: Sequence[Path]) -> None:
        """Raise EngineError if a file that is still there was changed after it was found."""
        for path in paths:
            told = self.known.get(str(path))
            if told is not None:
                with suppress(FileNotFoundError):
                    self._check_same(str(path), path.stat(), told)

    def _check_same(self, name: str, now: os.stat_result, before: list[int]) -> None:
        if _state_of(now) != before:
            raise EngineError(
                f"{self.where} {name!r} has changed since the job began to read it; write new "
                "rows to new files, and give the job a new checkpoint"
            )

    def _in_order(self, lot: list[Any]) -> list[Any]:
        """New files by their least times, if all of them are Parquet and say so; else by name."""
        if self._time is None or len(lot) < 2:
            return lot
        least: dict[str, int] = {}
        for name, *_ in lot:
            if kind_of(Path(name)) != "parquet":
                return lot
            spans = open_parquet(Path(name)).spans(self._time, [self._time])
            known = [span.least for span in spans if span is not None]
            if len(known) < len(spans):
                return lot
            least[name] = min(known, default=0)
        return sorted(lot, key=lambda each: least[each[0]])

    def _found(self, path: Path, last: bool) -> list[Any] | None:
        """The name, size and time of change of a file; None while it is still being written."""
        try:
            told = path.stat()
        except OSError:
            return None
        name, state = str(path), _state_of(told)
        if not last and time.time() - told.st_mtime < _SETTLED:
            # Its time may be wrong, or in the future: what counts is that it stays as it is.
            before, since = self._growing.get(name, (None, 0.0))
            if state != before:
                self._growing[name] = state, time.monotonic()
                return None
            if time.monotonic() - since < _SETTLED:
                return None
        self._growing.pop(name, None)
        return [name, *state]


def _state_of(found: os.stat_result) -> list[int]:
    """What changes with a file: its size, and when it was changed."""
    return [found.st_size, found.st_mtime_ns]


def is_visible(path: Path) -> bool:
    """Whether a file of a folder is read."""
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

    def take(self, most: int, whole: bool = False) -> pa.Table | None:
        """The next rows, at most so many; None at the end.

        With ``whole``, a batch of a file is not cut to fill up the rows that others leave: each
        piece costs as much as a batch to work on.
        """
        taken = list(self._pieces(most, whole))
        if len(taken) < 2:
            return taken[0] if taken else None
        try:
            return pa.concat_tables(taken, promote_options="default")
        except pa.ArrowException as problem:
            names = " and ".join(dict.fromkeys(Path(name).name for name, _ in self.pieces))
            raise SchemaError(
                f"the columns of {names} do not fit together: {problem}; write them with the same "
                "types"
            ) from problem

    def skip(self, rows: int) -> None:
        """Leave out the next rows."""
        for _ in self._pieces(rows):
            pass

    def _pieces(self, most: int, whole: bool = False) -> Iterator[pa.Table]:
        self.pieces = []
        while most > 0:
            found = next(self.tables, None) if self.left is None else self.left
            if found is None:
                return
            name, table = found
            if whole and self.pieces and table.num_rows > most:
                self.left = found
                return
            piece = table.slice(0, most)
            self.left = (name, table.slice(most)) if table.num_rows > most else None
            self.pieces.append((name, piece.num_rows))
            self.row += piece.num_rows
            most -= piece.num_rows
            yield piece
