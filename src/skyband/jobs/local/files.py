"""A folder of files as a source of a local job.

Files that are found together are a lot, read in the order of their times. A place is the number of
a lot, of a file in it, and of its records that have been read. A file belongs to the job from its
first record on: then it may not change any more. Before that it may be replaced or removed.

Where bad records are left out, a file that Arrow cannot read is read record by record; if that is
of no use either, the whole file is one bad record. Such a file may be replaced by a better one.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import output_type, plain, take_rows
from skyband.data.csv_records import CsvForm, infer_csv, read_csv_block
from skyband.data.json_records import read_records
from skyband.data.letters import LETTERS, RAW, REASON, CarriedColumns, row_letters, unread
from skyband.data.text_types import MOMENT, NAIVE, TYPES, cast_halves
from skyband.embedded.formats import ParquetFile, format_of, kind_of, loads_of
from skyband.embedded.read_ahead import Load, read_ahead
from skyband.embedded.sources import ReadSettings
from skyband.embedded.text_files import blocks, ending_of, read_json, text_of
from skyband.errors import EngineError, QueryError, SchemaError
from skyband.jobs.job import JobSection
from skyband.jobs.local.source import NO_NEEDS, ColumnChoice, LocalSource, Place, SourceNeeds
from skyband.jobs.world import MACHINE, World, named, parsed

_ROWS = 1 << 20
"""Rows per batch, unless the job says otherwise."""
_SETTLED = 1.0
"""Seconds without a change after which a new file counts as complete."""
_LOOKED = 100
"""Lines of a bad JSON file that are looked at to see which columns it has."""
_SHOWN = 40
"""Characters of a value that a reason shows."""


def check_files(where: str, section: JobSection) -> None:
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


class FilePiece(NamedTuple):
    """Rows of one file, in the order of the file, and letters for records among them."""

    file: int
    name: str
    table: pa.Table
    letters: pa.Table = LETTERS.empty_table()

    @property
    def records(self) -> int:
        """How many records these are. The letters come first."""
        return int(self.table.num_rows + self.letters.num_rows)

    def first(self, records: int) -> FilePiece:
        """The first records; all letters are among them."""
        # Arrow slices more rows from a table without columns than it has.
        rows = min(max(0, records - self.letters.num_rows), self.table.num_rows)
        return self._replace(table=self.table.slice(0, rows))

    def after(self, records: int) -> FilePiece:
        """What comes after the first records."""
        rows = max(0, records - self.letters.num_rows)
        return self._replace(table=self.table.slice(rows), letters=LETTERS.empty_table())


class _ReplacedError(Exception):
    """A file that was not begun yet is another one now, or gone."""


class FileSource(LocalSource):
    """The files of a folder or glob, and those that are added later."""

    first = (0, 0, 0)

    def __init__(
        self,
        where: str,
        section: JobSection,
        record: Path,
        name: str = "",
        world: World = MACHINE,
    ) -> None:
        self.where, self.name, self._world = where, name, world
        self.path = section["path"]
        self.delimiter = section["delimiter"]
        self.files_per_batch = section["files_per_batch"]
        self.rows_per_batch = section["rows_per_batch"] or _ROWS
        self.whole = section["rows_per_batch"] is None
        """Whether a batch ends where a batch of a file ends, if there is room for one at all."""
        self.chosen = ColumnChoice(where, section["columns"])
        self.lots = _Lots(record, world)
        self._looked = -_SETTLED
        """When it was last checked that these files are as they were (monotonic clock)."""
        self._growing: dict[str, tuple[list[int], float]] = {}
        """How each file that was changed lately looks, and since when (monotonic clock)."""
        self._open: _LotReader | None = None
        self._reading = ReadSettings()
        self._needs = NO_NEEDS
        self._pieces: list[FilePiece] = []
        """What was handed out last."""

    def read_by(self, needs: SourceNeeds) -> None:
        """Told once what the queries need."""
        self._needs = needs
        if not self.chosen.columns:
            self._reading = ReadSettings(needs.needed, self._world.readers())

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The next batch: at most ``rows_per_batch`` rows of one lot."""
        lot, file, row = place
        while lot < len(self.lots.files) or self._look((lot, file, row), last):
            try:
                reader = self._reader(lot, file, row, fresh=True)
                table = self._taken(reader.take(self.rows_per_batch, self.whole))
            except _ReplacedError:
                self._open = None
                continue
            if table is not None:
                return table, (lot, reader.file, reader.row)
            lot, file, row = lot + 1, 0, 0
        return None

    def again(self, begin: Place, end: Place) -> pa.Table:
        """The same rows once more; raises if a file has changed since."""
        (lot, file, row), (last, *upto) = begin, end
        if last != lot:  # the lot in which the batch began had no more rows
            lot, file, row = last, 0, 0
        reader = self._reader(lot, file, row)
        table = self._taken(reader.take_up_to(*upto))
        if table is None or [reader.file, reader.row] != upto:
            raise EngineError(f"{self.where} {self.path!r} has fewer rows than before")
        return table

    def origin(self) -> dict[str, pa.Array]:
        """The file of each row of the last batch."""
        rows = np.repeat(np.arange(len(self._pieces)), [p.table.num_rows for p in self._pieces])
        names = pa.array([piece.name for piece in self._pieces], pa.string())
        return {"file": names.take(pa.array(rows))}

    def unread(self) -> pa.Table:
        """Letters for the records of the last batch that could not be read, and whole files."""
        return pa.concat_tables([LETTERS.empty_table(), *(piece.letters for piece in self._pieces)])

    def _taken(self, pieces: list[FilePiece]) -> pa.Table | None:
        """The rows of pieces, which have the same columns; None if there are no records."""
        self._pieces = pieces
        if not pieces:
            return None
        tables = [piece.table for piece in pieces if piece.table.num_rows] or [pieces[0].table]
        return pa.concat_tables(tables)

    # Reading -----------------------------------------------------------------------------------

    def _reader(self, lot: int, file: int, row: int, fresh: bool = False) -> _LotReader:
        """A reader of a lot that is at this place; ``fresh`` if nothing was read after it."""
        at, bound = self._open, bool(self._needs.bound().names)
        place, mode = (lot, file, row), (bound, fresh)
        if at is None or (at.lot, at.file, at.row) != place or at.mode < mode:
            if fresh:
                self.lots.refresh(lot, file + bool(row))
            at = self._open = _LotReader(lot, self._all_pieces(lot, file), file, mode)
            at.take_up_to(file, row)
        return at

    def _all_pieces(self, lot: int, file: int) -> Iterator[FilePiece]:
        """The pieces of a lot from a file on; the next ones are read meanwhile."""
        while file < len(self.lots.files[lot]):
            given, under_way = 0, deque[int]()
            loads = self._loads(lot, file, under_way)
            tables = read_ahead(loads, self._reading.threads)
            try:
                while True:
                    try:
                        table = next(tables, None)
                    finally:
                        at = under_way.popleft() if under_way else file
                        if at != file:
                            file, given = at, 0
                    if table is None:
                        return
                    for piece in self._fitted(lot, file, [(table, LETTERS.empty_table())]):
                        given += piece.records
                        yield piece
            except SchemaError as problem:
                if not self._needs.skips:
                    raise
                yield from self._by_record(lot, file, given, problem)
                file += 1

    def _loads(self, lot: int, first: int, files: deque[int]) -> Iterator[Load]:
        """The loads of a lot from a file on; ``files`` gets the file of each."""
        for file in range(first, len(self.lots.files[lot])):
            name, *state = self.lots.files[lot][file]
            for load in self._loads_of(name, state):
                files.append(file)
                yield load

    def _loads_of(self, name: str, state: list[int]) -> Iterator[Load]:
        if name in self.lots.refused and not self.lots.refused[name].given:
            yield partial(_raise, SchemaError(self.lots.refused[name].reason))
            return
        try:
            self._check(name, state)
            opened_file = self._world.table_file(Path(name), self.delimiter)
            for load in loads_of(opened_file, self._reading.needed):
                yield partial(self._checked, name, state, load)
        except (SchemaError, _ReplacedError, EngineError) as problem:
            yield partial(_raise, problem)

    def _checked(self, name: str, state: list[int], load: Load) -> pa.Table:
        """A batch of a file that was not replaced before it was read."""
        table = load()
        self._check(name, state)
        return table

    def _check(self, name: str, state: list[int]) -> None:
        now = self._world.state(Path(name))
        if now != state:
            self._changed(name, now)

    def _changed(self, name: str, now: list[int] | None) -> None:
        """Raise what is due for a file that is not as it was when it was found."""
        if name in self.lots.unbegun:
            raise _ReplacedError
        if now is None:
            raise EngineError(
                f"{self.where} {name!r} is gone, so it cannot be read to its end; put it back, and "
                "the job continues where it was"
            )
        raise EngineError(
            f"{self.where} {name!r} has changed since the job began to read it; write new rows to "
            "new files, and give the job a new checkpoint"
        )

    # Bad records -------------------------------------------------------------------------------

    def _fitted(
        self, lot: int, file: int, tables: Sequence[tuple[pa.Table, pa.Table]]
    ) -> Iterator[FilePiece]:
        """Tables of a file with their letters, in the types that the queries have read so far."""
        name = self.lots.files[lot][file][0]
        for table, letters in tables:
            rows, more = self._in_types(name, self.chosen.of(table))
            if rows.num_rows or letters.num_rows or more.num_rows:
                yield FilePiece(file, name, rows, pa.concat_tables([letters, more]))

    def _in_types(self, name: str, table: pa.Table) -> tuple[pa.Table, pa.Table]:
        """The rows of a table in the types that are due, and letters for those that do not fit."""
        bad = np.zeros(table.num_rows, np.bool_)
        reasons: dict[int, str] = {}
        whole = table
        for wanted in self._needs.bound():
            at = table.schema.get_field_index(wanted.name)
            if at < 0:
                there = ", ".join(table.column_names)
                twice = table.schema.get_all_field_indices(wanted.name)
                wrong = "occurs twice" if twice else "is missing"
                raise SchemaError(f"column {wanted.name!r} {wrong}; the columns are: {there}")
            if output_type(table.schema.field(at).type) == output_type(wanted.type):
                continue
            kind = output_type(wanted.type)
            given = plain(table.column(at))
            column, unfit = cast_halves(given, kind, partial(pc.cast, target_type=kind))
            if unfit.any() and not self._needs.skips:
                continue  # the query raises an error that says more
            for row in np.flatnonzero(unfit & ~bad).tolist():
                value = str(whole.column(at)[row].as_py())
                shown = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}..."
                reasons[row] = f"column {wanted.name!r}: {shown} is not of type {wanted.type}"
            bad |= unfit
            table = table.set_column(at, wanted.name, column)
        if not bad.any():
            return table, LETTERS.empty_table()
        bad_rows = take_rows(whole, np.flatnonzero(bad))
        origin = {"file": "_skyband_file"}
        bad_rows = bad_rows.append_column(origin["file"], pa.repeat(name, bad_rows.num_rows))
        texts = [reasons[row] for row in sorted(reasons)]
        letters = row_letters(self.name, CarriedColumns(origin=origin), bad_rows, texts)
        return table.filter(pa.array(~bad)), letters

    def _by_record(
        self, lot: int, file: int, given: int, problem: SchemaError
    ) -> Iterator[FilePiece]:
        """The pieces of a file that cannot be read at once, after the records that were."""
        name, *state = self.lots.files[lot][file]
        pieces: list[FilePiece] = []
        if name not in self.lots.refused and kind_of(Path(name)) in ("csv", "json"):
            try:
                kinds = pa.schema([]) if self.chosen.columns else self._needs.bound()
                reason = f"not a {kind_of(Path(name)).upper()} record like the others"
                records = _records_of(Path(name), kinds, self.delimiter, self._world)
                tables = [(table, self._letters(name, raws, reason)) for table, raws in records]
                pieces = list(self._fitted(lot, file, tables))
                self._check(name, state)
            except (SchemaError, pa.ArrowException, ValueError, KeyError) as other:
                problem = other if isinstance(other, SchemaError) else problem
        if not pieces:
            if name not in self.lots.refused:
                if not self._needs.bound().names:
                    raise problem  # no file was read yet: nothing says that this one is worse
                self.lots.refuse(name, str(problem), given)
            letter = self._letters(name, [None], self.lots.refused[name].reason)
            pieces, given = [FilePiece(file, name, pa.table({}), letter)], 0
        for piece in pieces:
            if given < piece.records:
                yield piece.after(given) if given else piece
            given = max(0, given - piece.records)

    def _letters(self, name: str, raw: Sequence[bytes | None], reason: str) -> pa.Table:
        """Letters for records of a file, or for all of it."""
        columns = {
            RAW: pa.array(raw, pa.binary()),
            REASON: pa.array([reason] * len(raw), pa.string()),
            "file": pa.array([name] * len(raw), pa.string()),
        }
        return unread(
            self.name, CarriedColumns(None, {"file": "file"}, reasons=True), pa.table(columns)
        )

    # Looking -----------------------------------------------------------------------------------

    def _look(self, place: Place, last: bool) -> bool:
        """Look for new files; whether there is a new lot."""
        try:
            paths = [path for path in self._world.paths(self.path) if is_visible(path)]
        except SchemaError:
            if last and not self.lots.known:
                raise
            return False
        self.lots.unbegun.clear()
        now = self._world.monotonic()
        if last or now - self._looked >= _SETTLED:
            self._check_known(paths)
            self._looked = now
        fresh = [self._found(path, last) for path in paths if str(path) not in self.lots.known]
        lot = self._in_order([each for each in fresh if each is not None])
        if self.files_per_batch is not None:
            lot = lot[: self.files_per_batch]
        if not lot:
            return False
        self.lots.add(lot)
        return True

    def _check_known(self, paths: Sequence[Path]) -> None:
        """Raise EngineError if a file that was read was changed; look again at a refused one."""
        for path in paths:
            name = str(path)
            known = self.lots.known.get(name)
            now = None if known is None else self._world.state(path)
            if known is None or now is None or now == known:
                continue
            if name not in self.lots.refused:
                self._changed(name, now)
            if not self.lots.refused[name].given:
                del self.lots.known[name]  # it was replaced, perhaps by a better one

    def _in_order(self, lot: list[Any]) -> list[Any]:
        """New files by their least times, if all of them are Parquet and say so; else by name."""
        column = None if self.chosen.columns else self._needs.time
        if column is None or len(lot) < 2:
            return lot
        least: dict[str, int] = {}
        for name, *_ in lot:
            if kind_of(Path(name)) != "parquet":
                return lot
            try:
                file = self._world.table_file(Path(name))
                assert isinstance(file, ParquetFile)
                spans = file.spans(column, [column])
            except SchemaError:
                return lot  # reading it says why
            known = [span.least for span in spans if span is not None]
            if len(known) < len(spans):
                return lot
            least[name] = min(known, default=0)
        return sorted(lot, key=lambda each: least[each[0]])

    def _found(self, path: Path, last: bool) -> list[Any] | None:
        """The name, size and time of change of a file; None while it is still being written."""
        name = str(path)
        state = self._world.state(path)
        if state is None:
            return None
        if not last and self._world.time() - state[1] / 1e9 < _SETTLED:
            # Its time may be wrong, or in the future: what counts is that it stays as it is.
            before, since = self._growing.get(name, (None, 0.0))
            if state != before:
                self._growing[name] = state, self._world.monotonic()
                return None
            if self._world.monotonic() - since < _SETTLED:
                return None
        self._growing.pop(name, None)
        return [name, *state]


def is_visible(path: Path) -> bool:
    """Whether a file of a folder is read."""
    return format_of(path) is not None and not path.name.startswith((".", "_"))


def _raise(problem: Exception) -> pa.Table:
    raise problem


# Record by record ---------------------------------------------------------------------------------


def _records_of(
    path: Path, kinds: pa.Schema, delimiter: str | None, world: World
) -> Iterator[tuple[pa.Table, list[bytes]]]:
    """The good records of a text file, and the bad ones as they stand there; block by block.

    ``kinds`` are types of columns as far as they are known; the first records tell the others.
    """
    known = {each.name: _listed(each.type) for each in kinds}
    form = kind_of(path)
    with world.open(path, "r") as file:
        texts = blocks(text_of(file, path), 1 << 22)
        first = next(texts, b"")
        if form == "json":
            kinds = _json_types(first, known)
        else:
            csv = CsvForm(delimiter=delimiter or ("\t" if ending_of(path) == ".tsv" else ","))
            line, _, first = first.removeprefix(b"\xef\xbb\xbf").partition(b"\n")
            names = csv.fields(line.rstrip(b"\r"))
            found = infer_csv(csv, names, first)
            kinds = pa.schema([(each.name, known.get(each.name, each.type)) for each in found])
        for text in chain([first], texts):
            if form == "json":
                lines = [line for line in text.split(b"\n") if line.strip()]
                batch, bad = read_records(pa.array(lines, pa.binary()), kinds)
                raws = [lines[row] for row in np.flatnonzero(bad)]
                table = pa.Table.from_batches([batch])
            else:
                table, bad, raws = read_csv_block(csv, names, kinds, text)
                for at, each in enumerate(kinds):
                    if each.type == pa.string():  # an empty text is a text
                        table = table.set_column(at, each, pc.fill_null(table.column(at), ""))
            yield table.filter(pa.array(~bad)), raws


def _json_types(text: bytes, known: Mapping[str, pa.DataType]) -> pa.Schema:
    """The columns of JSON lines and their types, from the first that can be read."""
    kinds: dict[str, pa.DataType] = {}
    for line in text.split(b"\n", _LOOKED)[:_LOOKED]:
        with suppress(pa.ArrowException, ValueError):
            if line.strip():
                kinds = {each.name: _listed(each.type) for each in read_json(line).schema} | kinds
    return pa.schema(list({**kinds, **known}.items()))


def _listed(kind: pa.DataType) -> pa.DataType:
    """The type that text is read as where a column has this type."""
    kind = output_type(kind)
    if pa.types.is_timestamp(kind):
        return NAIVE if kind.tz is None else MOMENT
    if kind in TYPES:
        return kind
    return pa.float64() if pa.types.is_floating(kind) else pa.string()


class ReadFailure(NamedTuple):
    """Why a file could not be read, after how many of its records."""

    reason: str
    given: int


class _Lots:
    """The files that were found, lot by lot, and those that could not be read.

    All of it stands in a file, line by line: a lot; a lot that has fewer files by now; a file that
    was refused.
    """

    def __init__(self, path: Path, world: World) -> None:
        self.path, self._world = path, world
        self.files: list[list[Any]] = []
        """The name, size and time of change of each file, by lot."""
        self.known: dict[str, list[int]] = {}
        """The size and time of change of each file, by name."""
        self.refused: dict[str, ReadFailure] = {}
        """Files that could not be read, or not to their end."""
        self.unbegun: set[str] = set()
        """Files of which nothing was read yet, of the lot that is being read."""
        for line in _lines(path, world):
            self._take(line)

    def _take(self, line: Any) -> None:
        if isinstance(line, list):
            self.files.append(line)
        elif "lot" in line:
            for name, *_ in self.files[line["lot"]]:
                self.known.pop(name, None)
            self.files[line["lot"]] = line["files"]
            line = line["files"]
        else:
            self.refused[line["refused"]] = ReadFailure(line["reason"], line["given"])
            return
        self.known |= {name: state for name, *state in line}

    def _write(self, line: Any) -> None:
        self._world.append(self.path, json.dumps(line).encode() + b"\n")
        self._take(line)

    def add(self, lot: list[Any]) -> None:
        """Note a new lot."""
        for name, *_ in lot:
            self.refused.pop(name, None)
        self._write(lot)

    def refuse(self, name: str, reason: str, given: int) -> None:
        """Note a file that is one bad record after those that it has ``given``."""
        self._write({"refused": name, "reason": reason, "given": given})

    def refresh(self, lot: int, first: int) -> None:
        """Leave files out of a lot that are not as they were, from one on: none was begun."""
        files = self.files[lot]
        kept = [each for each in files[first:] if self._world.state(Path(each[0])) == each[1:]]
        if len(kept) < len(files) - first:
            self._write({"lot": lot, "files": files[:first] + kept})
        self.unbegun = {name for name, *_ in self.files[lot][first:]}


def _lines(path: Path, world: World) -> list[Any]:
    """The JSON lines of a file; one that a crash cut off is removed from it."""
    content = world.read_safely(path)
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with named(path), world.open(path, "a") as file:
            file.truncate(len(whole))
    return [parsed(path, line) for line in whole.splitlines()]


class _LotReader:
    """Hands out the records of a lot in batches of the size that is asked for."""

    def __init__(
        self, lot: int, pieces: Iterator[FilePiece], file: int, mode: tuple[bool, bool]
    ) -> None:
        self.lot = lot
        self.mode = mode
        """Whether types were known when it was opened, and whether files that were not begun may
        be left out, if they were replaced."""
        self.file, self.row = file, 0
        """Up to which file, and which of its records, it has handed out."""
        self.pieces = pieces
        self.left: FilePiece | None = None

    def take(self, most: int, whole: bool = False) -> list[FilePiece]:
        """The next records, at most so many, all with the same columns; empty at the end.

        With ``whole``, a piece is not cut to fill up the rows that others leave: each piece costs
        as much as a batch to work on.
        """
        taken: list[FilePiece] = []
        while most > 0:
            try:
                piece = next(self.pieces, None) if self.left is None else self.left
            except SchemaError:
                if not taken:
                    raise
                self.mode = (False, False)  # those first, then it is opened again
                break
            self.left = piece
            if piece is None:
                break
            if taken and (not _alike(taken, piece) or (whole and piece.records > most)):
                break
            taken.append(self._cut(piece, most))
            most -= taken[-1].records
        return taken

    def take_up_to(self, file: int, row: int) -> list[FilePiece]:
        """The records up to a place."""
        taken: list[FilePiece] = []
        while (self.file, self.row) < (file, row):
            piece = next(self.pieces, None) if self.left is None else self.left
            self.left = piece
            if piece is None or piece.file > file:
                break
            most = piece.records
            if piece.file == file:
                most = min(most, row - (self.row if self.file == file else 0))
            taken.append(self._cut(piece, most))
        return taken

    def _cut(self, piece: FilePiece, most: int) -> FilePiece:
        """The first records of a piece; the others wait."""
        # Letters are never parted.
        most = max(most, piece.letters.num_rows)
        taken = piece.first(most)
        self.left = piece.after(most) if piece.records > most else None
        self.row = taken.records + (self.row if self.file == piece.file else 0)
        self.file = piece.file
        return taken


def _alike(taken: Sequence[FilePiece], piece: FilePiece) -> bool:
    """Whether rows can stand in one table with those that were taken."""
    tables = [each.table for each in taken if each.table.num_rows]
    return not tables or not piece.table.num_rows or tables[0].schema == piece.table.schema
