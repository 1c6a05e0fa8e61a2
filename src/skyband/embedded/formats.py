"""Opens files: their columns first, then loads of batches that hold only the columns needed.

Parquet is read by row groups, and text that the file keeps as a dictionary stays one. Arrow files
are mapped into memory and read batch by batch. ``text_files.py`` reads CSV and JSON lines.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any, Protocol

import pyarrow as pa

from skyband.data.columns import decoded, empty_table
from skyband.embedded.read_ahead import Load
from skyband.embedded.text_files import (
    COMPRESSED,
    CsvFile,
    JsonFile,
    Needed,
    ending_of,
    sound,
)
from skyband.embedded.time_order import TimeRange, span_of
from skyband.errors import EngineError, SchemaError

_ENDINGS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv"),
    "json": (".json", ".jsonl", ".ndjson"),
    "ipc": (".arrow", ".arrows", ".feather", ".ipc"),
}
READERS = {ending: kind for kind, endings in _ENDINGS.items() for ending in endings}
"""The format of a file, by its extension."""
ENDINGS = f"{', '.join(READERS)}; text also compressed ({', '.join(COMPRESSED)})"
"""The extensions that are known, for messages."""

BATCH_ROWS = 1 << 18
"""Smaller row groups are read together until they have this many rows."""
_HUGE_GROUP = 1 << 21
"""Row groups of more rows are read piece by piece."""
_PIECE_ROWS = 1 << 19
_SMALL_DICTIONARY = 1 << 18
_FAULTS = {
    getattr(errno, name)
    for name in ("EIO", "ENOMEM", "EMFILE", "ENFILE", "ESTALE", "ETIMEDOUT", "EACCES", "EPERM")
}
"""Errors that are not the file's: it may be as good as any other."""


class OpenFile(Protocol):
    """A file whose columns are known."""

    path: Path

    @property
    def schema(self) -> pa.Schema | None:
        """None if the types are known only after reading everything."""

    def loads(self, needed: Needed) -> Iterator[Load]:
        """The batches of the file; see ``loads_of``."""


def format_of(path: PurePath) -> str | None:
    """The format of a file by its extension; None if that is not known."""
    kind = READERS.get(ending_of(path))
    text = kind in ("csv", "json")
    return kind if text or path.suffix.lower() not in COMPRESSED else None


def kind_of(path: Path) -> str:
    """The format of a file; SchemaError if its extension is not known."""
    kind = format_of(path)
    if kind is None:
        raise SchemaError(f"{path.name!r} has no known file extension; Skyband reads {ENDINGS}")
    return kind


def opened(path: Path, delimiter: str | None = None) -> OpenFile:
    """Open a file; ``delimiter`` is what separates the fields of CSV."""
    kind = kind_of(path)
    read = partial(_OPEN[kind], path)
    file: OpenFile = readable(path, partial(read, delimiter) if kind == "csv" else read)()
    return file


def loads_of(file: OpenFile, needed: Needed) -> Iterator[Load]:
    """The batches of a file, to be read in this order or at the same time."""
    loads = file.loads(needed)
    following = readable(file.path, partial(next, loads, None))
    while (load := following()) is not None:
        yield readable(file.path, load)


def readable(path: Path, read: Callable[[], Any]) -> Callable[[], Any]:
    """The same function; what Arrow raises becomes an error that names the file.

    It is a SchemaError if the file is bad, and an EngineError if the machine cannot read it.
    """

    def checked() -> Any:
        try:
            return read()
        except (pa.ArrowException, OSError, ValueError) as problem:
            if getattr(problem, "errno", None) in _FAULTS:
                raise EngineError(f"{path} cannot be read: {problem}") from problem
            kind = kind_of(path)
            raise SchemaError(f"{path.name!r} could not be read as {kind}: {problem}") from problem

    return checked


class ParquetFile:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path = path
        self.metadata = pq.read_metadata(path)
        with self._file() as file:
            plain = file.schema_arrow
        self._dictionaries = [f.name for f in plain if self._kept_as_dictionary(f)]
        with self._file() as file:
            self.schema: pa.Schema = file.schema_arrow
        sound(empty_table(self.schema))

    def spans(self, time: str, names: Sequence[str] | None) -> list[TimeRange | None]:
        """The least and greatest times of each load's row groups; None without statistics."""
        return [span_of(self.metadata, groups, time, names) for groups in self.groups()]

    def loads(self, needed: Needed) -> Iterator[Load]:
        """One load per row group, or per some small ones."""
        names = needed(self.schema)
        for groups in self.groups():
            if self.metadata.row_group(groups[0]).num_rows > _HUGE_GROUP:
                yield from self._pieces(groups, names)
            else:
                yield partial(self._read, groups, names)

    def load(self, groups: Sequence[int], names: Sequence[str] | None) -> Load:
        """Reads some row groups at once."""
        return readable(self.path, partial(self._read, groups, names))

    def _read(self, groups: Sequence[int], names: Sequence[str] | None) -> pa.Table:
        with self._file() as file:
            table = file.read_row_groups(list(groups), columns=names, use_threads=False)
        return sound(table if names is None else table.select(names))

    def groups(self) -> list[list[int]]:
        """Row groups by load: one each, except that small ones share a load."""
        loads: list[list[int]] = []
        rows = 0
        for group in range(self.metadata.num_row_groups):
            more = self.metadata.row_group(group).num_rows
            if not loads or rows + more > BATCH_ROWS:
                loads.append([])
                rows = 0
            loads[-1].append(group)
            rows += more
        return loads

    def _pieces(self, groups: list[int], names: Sequence[str] | None) -> Iterator[Load]:
        with self._file(buffer_size=1 << 20) as file:
            for batch in file.iter_batches(_PIECE_ROWS, row_groups=groups, columns=names):
                table = pa.Table.from_batches([batch])
                yield partial(sound, table if names is None else table.select(names))

    def _file(self, **options: Any) -> Any:
        import pyarrow.parquet as pq

        read = getattr(self, "_dictionaries", [])
        return pq.ParquetFile(self.path, metadata=self.metadata, read_dictionary=read, **options)

    def _kept_as_dictionary(self, field: pa.Field) -> bool:
        """Whether a text column has a small dictionary in every row group.

        With a large one the writer may have given it up, and reading it as one would be slow.
        """
        kind = field.type
        if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
            return False
        at = self.metadata.schema.names.index(field.name)
        for group in range(self.metadata.num_row_groups):
            column = self.metadata.row_group(group).column(at)
            if column.path_in_schema != field.name or not column.dictionary_page_offset:
                return False
            size = column.data_page_offset - column.dictionary_page_offset
            if not 0 < size <= min(_SMALL_DICTIONARY, column.num_values // 8):
                return False
        return bool(self.metadata.num_row_groups)


class IpcFile:
    """An Arrow file or stream, mapped into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._reader(None)[1] as reader:
            self.schema: pa.Schema = reader.schema
        sound(empty_table(self.schema))

    def loads(self, needed: Needed) -> Iterator[Load]:
        """One load per batch; views are decoded, because Arrow cannot sort them."""
        names = needed(self.schema)
        fields = None if names is None else [self.schema.get_field_index(name) for name in names]
        random, reader = self._reader(fields)
        lock = threading.Lock()

        def table(batch: int | pa.RecordBatch) -> pa.Table:
            if isinstance(batch, int):
                with lock:
                    batch = reader.get_batch(batch)
            columns = pa.Table.from_batches([batch])
            return decoded(sound(columns if names is None else columns.select(names)))

        with reader:
            for batch in range(reader.num_record_batches) if random else reader:
                yield partial(table, batch)

    def _reader(self, fields: list[int] | None) -> tuple[bool, Any]:
        """Whether batches can be read in any order, and the reader."""
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        with pa.memory_map(str(self.path)) as file:
            if file.read(6) == b"ARROW1":
                return True, pa.ipc.open_file(pa.memory_map(str(self.path)), options=options)
        return False, pa.ipc.open_stream(pa.memory_map(str(self.path)), options=options)


_OPEN: dict[str, Callable[..., OpenFile]] = {
    "parquet": ParquetFile,
    "csv": CsvFile,
    "json": JsonFile,
    "ipc": IpcFile,
}
