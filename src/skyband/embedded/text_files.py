"""Reads CSV and JSON lines: text is cut at line ends into blocks, which are parsed by any thread.

Files that end in ``.gz``, ``.bz2``, ``.zst`` or ``.lz4`` are decompressed as they are read.

The types of a CSV file are those of its first block. JSON lines up to ``_WHOLE`` are read as a
whole, so that every line has a say in the types; of longer files, the first block decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from io import RawIOBase
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from skyband.embedded.read_ahead import Load
from skyband.errors import SchemaError

COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
"""The compression of a text file, by the ending of its name."""
_RATIO = 8
"""How many times as long a compressed file may be in memory, for a guess of its length."""

_FIRST_BLOCK = 1 << 20
_BLOCK = 1 << 22
"""Bytes of text per batch."""
_WHOLE = 1 << 28
"""JSON files of at most this size are read as a whole."""

# A line that begins with null: a record, unless it is a value whose name stands on a line before.
_NULL_RECORD = re.compile(rb"(\A(?:\xef\xbb\xbf)?\s*+|(?<=[^\s:,\[])[ \t]*+[\r\n]\s*+)null")
_ROW = re.compile(r"Row #\d+: ")
_TYPES = (
    ". The first megabyte of a CSV file decides the types of its columns; write a column the "
    "same way from the first row on (1.0, not 1), or use Parquet"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?")

Needed = Callable[[pa.Schema], Sequence[str] | None]
"""The columns that are needed of a file with this schema; None for all of them."""


def sound(table: pa.Table, full: bool = True) -> pa.Table:
    """Return the table; raise ValueError if it is damaged, which could crash the process.

    Arrow's readers do not check names, IPC's no offsets, and only that of CSV checks text, so that
    its tables need no ``full`` check of all values.
    """
    for name in table.schema.names:  # reading the names decodes them
        name.encode()
    table.validate(full=full)
    return table


def ending_of(path: PurePath) -> str:
    """The ending of a name that says its format: that before ``.gz`` where it is compressed."""
    ending = path.suffix.lower()
    return PurePath(path.stem).suffix.lower() if ending in COMPRESSED else ending


def open_text(path: Path, start: int = 0) -> Any:
    """A text file from a byte on, decompressed; to be closed."""
    file: Any
    if path.suffix.lower() in COMPRESSED:
        file = pa.input_stream(str(path), compression=COMPRESSED[path.suffix.lower()])
        file.read(start)
    else:
        file = path.open("rb", buffering=0)
        file.seek(start)
    return file


def text_of(file: RawIOBase, path: Path) -> Any:
    """What is read of an open file: its text, decompressed."""
    kind = COMPRESSED.get(path.suffix.lower())
    return file if kind is None else pa.CompressedInputStream(file, kind)


def blocks(file: BinaryIO | RawIOBase, size: int) -> Iterator[bytes]:
    """The text in blocks of whole lines; the last line may lack its end."""
    rest = b""
    while more := file.read(size):
        end = more.rfind(b"\n") + 1 or more.rfind(b"\r") + 1
        if end:
            yield rest + more[:end]
            rest = more[end:]
        else:
            rest += more
    if rest:
        yield rest


def _blocks_of(path: Path, size: int, start: int = 0) -> Iterator[bytes]:
    """The text of a file from a byte on, in blocks of whole lines."""
    with closing(open_text(path, start)) as file:
        yield from blocks(file, size)


def reader_of(text: bytes | pa.Buffer) -> pa.BufferReader:
    """What Arrow parses: bytes are copied into memory of its own.

    After an error its threads may still hold some of the text when the process ends. To let go of
    bytes they need Python, and without it they abort the process.
    """
    if isinstance(text, bytes):
        copy = pa.allocate_buffer(len(text))
        memoryview(copy).cast("B")[:] = text
        text = copy
    return pa.BufferReader(text)


# CSV ----------------------------------------------------------------------------------------------


class CsvFile:
    """A CSV file with a header."""

    def __init__(self, path: Path, delimiter: str | None = None) -> None:
        self.path = path
        self.delimiter = delimiter or ("\t" if ending_of(path) == ".tsv" else ",")
        with closing(open_text(path)) as file:
            self.first = next(blocks(file, _FIRST_BLOCK), b"")
        table = sound(read_csv(self.first, self.delimiter), full=False)
        self.schema: pa.Schema = table.schema

    def loads(self, needed: Needed) -> Iterator[Load]:
        """One load per block."""
        names = needed(self.schema)
        start = len(self.first)
        yield partial(self._read, self.first, 0, names)
        for text in _blocks_of(self.path, _BLOCK, start):
            yield partial(self._read, text, start, names)
            start += len(text)

    def _read(self, text: bytes, start: int, names: Sequence[str] | None) -> pa.Table:
        try:
            later = self.schema if start else None
            return sound(read_csv(text, self.delimiter, later, names), full=False)
        except (pa.ArrowException, ValueError) as problem:
            if not start:
                raise
            # Arrow counts the rows of this block only.
            reason = f"{_ROW.sub('', str(problem))} (after byte {start:,})"
            reason += _TYPES if "conversion error" in reason else ""
            raise ValueError(reason) from problem


def read_csv(
    text: bytes,
    delimiter: str,
    schema: pa.Schema | None = None,
    names: Sequence[str] | None = None,
    threads: bool = False,
) -> pa.Table:
    """Read CSV that begins with a header or, without one, has the columns of a schema."""
    from pyarrow import csv

    options = csv.ReadOptions(use_threads=threads)
    if not threads:
        options.block_size = len(text) + 1
    convert = csv.ConvertOptions(include_columns=names)
    if schema is not None:
        options.column_names = schema.names
        convert.column_types = schema
    parse = csv.ParseOptions(delimiter=delimiter)
    return csv.read_csv(reader_of(text), options, parse, convert)


# JSON ---------------------------------------------------------------------------------------------


class JsonFile:
    """A file of JSON lines."""

    schema: pa.Schema | None = None

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = path.stat().st_size
        self.compressed = path.suffix.lower() in COMPRESSED
        with closing(open_text(path)) as file:
            self.first = next(texts := blocks(file, _FIRST_BLOCK), b"")
            if self.compressed:
                more = next(texts, None) is not None
                self.size = more * self.size * _RATIO + len(self.first) + more
        self.table: pa.Table | None = None
        if self.size <= len(self.first):
            self.table = sound(read_json(self.first)) if self.first else None
        elif self.size > _WHOLE:
            self.schema = sound(read_json(self.first)).schema

    def loads(self, needed: Needed) -> Iterator[Load]:
        """One load for the whole file or, of a long file, for each block."""
        if self.table is not None:
            yield partial(sound, self.table, full=False)
        elif self.schema is not None:
            options = projection(self.schema, needed(self.schema))
            for text in _blocks_of(self.path, 4 * _BLOCK):
                yield partial(_block, text, options)
        elif self.size:
            yield partial(self._whole, needed)

    def _whole(self, needed: Needed) -> pa.Table:
        """The needed columns, in the types of the first block if all lines have them."""
        with open_text(self.path) if self.compressed else pa.memory_map(str(self.path)) as file:
            text = _guarded(file.read_buffer())
        try:
            seen = _parsed(_guarded(self.first), None)
            names = needed(seen.schema)
            typed = names is not None and not any(
                pa.types.is_null(k := seen.schema.field(name).type) or pa.types.is_nested(k)
                for name in names
            )
            if typed:
                return sound(_parsed(text, projection(seen.schema, names)))
        except (pa.ArrowException, SchemaError, UnicodeDecodeError):
            pass  # a later line may have more columns or other types; names may be no text
        return sound(_parsed(text, None))


def _block(text: bytes, options: Any) -> pa.Table:
    return sound(read_json(text, options, threads=False))


def projection(schema: pa.Schema, names: Sequence[str] | None) -> Any:
    """Options that read some columns of JSON in the types of a schema."""
    from pyarrow import json

    fields = schema if names is None else [schema.field(name) for name in names]
    return json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore")


def read_json(text: bytes | pa.Buffer, options: Any = None, threads: bool = True) -> pa.Table:
    """Read JSON lines. A line that is ``null`` is a row without values.

    Arrow's reader crashes if a block of the text begins with such a line, so they are replaced.
    """
    return _parsed(_guarded(text), options, threads)


def _parsed(text: bytes | pa.Buffer, options: Any, threads: bool = True) -> pa.Table:
    from pyarrow import json

    read = json.ReadOptions(use_threads=threads)
    if not threads:
        read.block_size = max(len(text) + 1, 1 << 20)
    table = json.read_json(reader_of(text), read_options=read, parse_options=options)
    given = None if options is None else options.explicit_schema
    return table if given is not None else _with_times(table)


def _with_times(table: pa.Table) -> pa.Table:
    """Text columns in which every value is a time with a date become times.

    Arrow does that for whole seconds only, in UTC without a zone; so do we for fractions.
    """
    for at, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            times = _times(table.column(at))
            if times is not None:
                table = table.set_column(at, field.with_type(times.type), times)
    return table


def _times(text: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """Text as times; None if some value is no time."""
    first = next((value for value in text if value.is_valid), None)
    looks = None if first is None else _TIME.fullmatch(first.as_py())
    if looks is None:
        return None
    for unit in ("us", "ns"):
        try:
            return text.cast(pa.timestamp(unit, "UTC" if looks[1] else None)).cast(
                pa.timestamp(unit)
            )
        except pa.ArrowInvalid:
            pass  # more digits, no time, or only some have a zone
    return None


def _guarded(text: bytes | pa.Buffer) -> bytes | pa.Buffer:
    """The text with ``{}`` instead of each record that is ``null``."""
    return _NULL_RECORD.sub(rb"\1{}", bytes(text)) if _may_have_null(text) else text


def _may_have_null(text: bytes | pa.Buffer) -> bool:
    """Whether a line may begin with ``null``, perhaps after spaces."""
    if not len(text):
        return False
    octets = np.frombuffer(text, np.uint8)
    head = bytes(octets[:64]).lstrip(b"\xef\xbb\xbf \t\r\n")
    if not head or head.startswith(b"n"):
        return True
    for start in range(0, len(octets), _BLOCK):  # pieces that fit the cache
        piece = octets[start : start + _BLOCK + 1]
        ends = np.flatnonzero((piece[:-1] == 0x0A) | (piece[:-1] == 0x0D))
        after = piece[ends + 1]
        # Spaces may precede null; an empty line or the next line end is looked at by itself.
        if ((after == 0x6E) | (after == 0x20) | (after == 0x09)).any():
            return True
    return False
