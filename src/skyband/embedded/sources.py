"""Reads batches from any source: tables, files, readers, and iterables of those."""

from __future__ import annotations

import glob
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from skyband.data.columns import as_table, empty_table
from skyband.data.order import is_sorted
from skyband.data.time_axis import TimeAxis
from skyband.data.time_forms import TimeForm
from skyband.embedded.formats import (
    ENDINGS,
    OpenFile,
    ParquetFile,
    format_of,
    kind_of,
    loads_of,
    opened,
)
from skyband.embedded.read_ahead import Load, read_ahead
from skyband.embedded.text_files import Needed
from skyband.embedded.time_order import (
    FIRST,
    SORT_BYTES,
    Ticks,
    TimeRange,
    by_name,
    in_order,
    merged,
    most_held,
    sorted_rows,
    sorted_table,
    ticks_in,
)
from skyband.errors import SchemaError
from skyband.window import Window

Batches = Iterator[pa.Table]


class ArrowStream(Protocol):
    """A table with an Arrow interface: from pyarrow, pandas, polars, DuckDB, ..."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowArray(Protocol):
    """One batch with an Arrow interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object: ...


Source: TypeAlias = "ArrowStream | ArrowArray | str | Path | Iterable[Source]"
"""A table, a path or glob, a reader, or an iterable of these."""


@dataclass(frozen=True)
class FileSet:
    """Several paths, folders and globs that are read as one source."""

    words: tuple[str | Path, ...]
    delimiter: str | None = None
    """What separates the fields of CSV; None to tell it from the ending."""


def _all_columns(_: pa.Schema) -> None:
    """Every column is needed."""


@dataclass(frozen=True)
class ReadSettings:
    """How a source is read for a query."""

    needed: Needed = _all_columns
    threads: int = 1
    time: str | None = None
    """The column that decides in which order files are read; None for the order of their names."""
    window: Window | None = None
    form: TimeForm | None = None
    """How times are written; None if they are timestamps, dates or plain integers."""
    sorts: bool = False
    """Whether a file that is out of order is sorted."""
    delimiter: str | None = None
    """What separates the fields of CSV files."""
    late: bool = False
    """Rows of files were late, so all files are sorted, whatever their statistics say."""

    @property
    def ticks(self) -> Ticks:
        """The times of a table."""

        def read(table: pa.Table) -> Any:
            assert self.time is not None
            assert self.window is not None
            column = table.column(self.time)
            if self.form is not None:
                column = self.form.read(self.time, column)
            axis = TimeAxis(self.time, column.type, self.window)
            return ticks_in(axis.ticks, self.time)(pa.table({self.time: column}))

        return read


class CustomSource(ABC):
    """A source that reads for itself, such as standard input."""

    @abstractmethod
    def batches(self, reading: ReadSettings) -> Batches:
        """The batches, if possible of only the columns that the reading needs."""


_PLAIN = ReadSettings()


def is_table(source: Any) -> bool:
    """Whether a source is one table in memory, rather than something read batch by batch."""
    if isinstance(source, (pa.RecordBatchReader, str, Path, Mapping)):
        return False
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def is_files(source: Any) -> bool:
    """Whether a source names files."""
    return isinstance(source, (str, Path, FileSet))


def batches_of(source: Any, reading: ReadSettings = _PLAIN) -> Batches:
    """The batches of a source, in order; those of files have only the columns needed."""
    if is_table(source):
        yield as_table(source)
    elif is_files(source):
        words: tuple[str | Path, ...] = (source,)
        if isinstance(source, FileSet):
            words, reading = source.words, replace(reading, delimiter=source.delimiter)
        yield from _files([path for word in words for path in paths_of(word)], reading)
    elif isinstance(source, pa.RecordBatchReader):
        yield empty_table(source.schema)  # so that the columns are known at once
        for batch in source:
            yield pa.Table.from_batches([batch])
    elif isinstance(source, CustomSource):
        yield from source.batches(reading)
    elif hasattr(source, "collect_schema"):
        yield from _lazy_frame(source, reading)
    elif isinstance(source, Iterable) and not isinstance(source, Mapping):
        for each in source:
            yield from batches_of(each, reading)
    else:
        rows = "; pa.Table.from_pylist(rows) makes a table of dicts"
        raise SchemaError(
            f"{type(source).__name__} is not a source; give a table (pyarrow, pandas, polars, "
            "DuckDB, ...), a path or glob, an iterable of those, or a mapping for several streams"
            f"{rows if isinstance(source, Mapping) else ''}"
        )


def _lazy_frame(frame: Any, reading: ReadSettings) -> Batches:
    """The batches of a LazyFrame of polars, of which only the columns needed are computed."""
    first = as_table(frame.head(0).collect())
    yield first
    names = reading.needed(first.schema)
    frame = frame if names is None else frame.select(names)
    many = getattr(frame, "collect_batches", None)  # from polars 1.35 on
    each = [frame.collect()] if many is None else many(maintain_order=True)
    yield from map(as_table, each)


def paths_of(source: str | Path) -> list[Path]:
    """The files of a path, a folder or a glob, sorted by name as people do: 2 before 10.

    Of a folder, names that begin with ``.`` or ``_`` are left out: such files are hidden, or belong
    to the program that writes the folder.
    """
    text = str(source)
    path = Path(text)
    if path.is_dir():
        found = [p for p in path.rglob("*") if format_of(p) and _shown(p, path)]
        if not found:
            raise SchemaError(f"folder {text!r} has no files that Skyband reads: {ENDINGS}")
    elif path.exists():
        found = [path]
    else:
        names = glob.glob(text, recursive=True)  # noqa: PTH207  patterns may be absolute
        matched = [Path(name) for name in names]
        found = [p for each in matched for p in (paths_of(each) if each.is_dir() else [each])]
    if not found:
        raise SchemaError(f"no file matches {text!r}; give a path, a folder or a glob")
    return sorted(found, key=by_name)


def _shown(path: Path, folder: Path) -> bool:
    return not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)


# Files --------------------------------------------------------------------------------------------


def _files(paths: Sequence[Path], reading: ReadSettings) -> Batches:
    """The batches of files: by time over a time window, otherwise in the order of their names."""
    if reading.time is None:
        return _in_turn(paths, reading)
    if reading.late:
        return _sorted(paths, reading)
    if reading.form is not None or any(kind_of(path) != "parquet" for path in paths):
        return _in_turn(paths, reading)
    files = [file for path in paths if isinstance(file := opened(path), ParquetFile)]
    return _by_time(files, reading)


def _in_turn(files: Sequence[Path | ParquetFile], reading: ReadSettings) -> Batches:
    """One file after the other: for each an empty table with its columns, then its batches."""
    first = _opened(files[0], reading)
    if first.schema is not None:
        yield empty_table(first.schema)

    def loads() -> Iterator[Load]:
        yield from loads_of(first, reading.needed)
        for each in files[1:]:
            file = _opened(each, reading)
            if file.schema is not None:
                yield partial(empty_table, file.schema)
            yield from loads_of(file, reading.needed)

    yield from read_ahead(loads(), reading.threads)


def _opened(file: Path | ParquetFile, reading: ReadSettings) -> OpenFile:
    return opened(file, reading.delimiter) if isinstance(file, Path) else file


def _sorted(files: Sequence[Path | ParquetFile], reading: ReadSettings) -> Batches:
    """All rows of the files in order of time."""
    tables = _in_turn(files, reading)
    first = next(tables, None)
    if first is not None:
        yield first.slice(0, 0)  # so that the columns are known
        yield from sorted_rows(chain([first], tables), reading.ticks)


def _by_time(files: list[ParquetFile], reading: ReadSettings) -> Batches:
    """Parquet files by the least times of their row groups, merged where they overlap.

    If statistics are missing, files are read in the order of their names.
    """
    assert reading.time is not None
    names = {file: reading.needed(file.schema) for file in files}
    spans = {file: file.spans(reading.time, names[file]) for file in files}
    known = {file: [s for s in of_loads if s is not None] for file, of_loads in spans.items()}
    if any(len(known[file]) < len(spans[file]) for file in files):
        return _in_turn(files, reading)
    files = sorted(files, key=lambda file: min((s.least for s in known[file]), default=FIRST))
    if in_order([span for file in files for span in known[file]]):
        return _in_turn(files, reading)
    if not reading.sorts and not all(in_order(known[file]) for file in files):
        return _in_turn(files, reading)  # a row that is late will be reported
    units = sorted(
        ((span, file, groups) for file in files
         for span, groups in zip(known[file], file.groups(), strict=True)),
        key=lambda unit: unit[0].least,
    )  # fmt: skip
    if most_held([span for span, _, _ in units]) > SORT_BYTES:
        return _sorted(files, reading)
    return _merged(units, files, reading)


def _merged(
    units: list[tuple[TimeRange, ParquetFile, list[int]]],
    files: list[ParquetFile],
    reading: ReadSettings,
) -> Batches:
    """Row groups of several files, each read once and held while it overlaps others."""
    names: dict[ParquetFile, Sequence[str] | None] = {}
    for file in files:
        yield empty_table(file.schema)
        names[file] = reading.needed(file.schema)
    loads = (file.load(groups, names[file]) for _, file, groups in units)
    tables = read_ahead(loads, reading.threads)
    yield from merged([span for span, _, _ in units], tables, reading.ticks)


def in_time_order(table: pa.Table, reading: ReadSettings) -> pa.Table:
    """The table sorted by time; returned as it is if it is sorted already, as most are."""
    name = reading.time
    if not table.num_rows or name is None or table.schema.get_field_index(name) < 0:
        return table  # in the last case the column is missing, or ambiguous
    last = FIRST
    for chunk in table.column(name).chunks:
        times = reading.ticks(pa.table({name: chunk}))
        if len(times) and (times[0] < last or not is_sorted(times)):
            return sorted_table(table, reading.ticks)
        last = times[-1] if len(times) else last
    return table
