"""Standard input as a source: CSV with a header, JSON lines or an Arrow stream.

Rows are passed on as soon as their lines are complete, so that a query over ``tail -f`` answers
while the file grows. The types of the columns are inferred from the first lines.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from typing import BinaryIO

import pyarrow as pa

from skyband.embedded.sources import batches_of, read_json, sound
from skyband.errors import SchemaError

__all__ = ["STDIN", "stdin_batches"]

STDIN = "-"
_AT_ONCE = 1 << 22
_ARROW = b"\xff\xff\xff\xff"

Parse = Callable[[bytes, pa.Schema | None], pa.Table]


def stdin_batches(stream: BinaryIO | None = None) -> Iterator[pa.Table]:
    """Read standard input as tables."""
    # A BufferedReader has read1, which returns what has arrived; read would wait for more.
    source = io.BufferedReader(io.FileIO(0, closefd=False)) if stream is None else stream
    if stream is None and sys.stdin is not None and sys.stdin.isatty():
        raise SchemaError("standard input is a terminal; pipe CSV, JSON lines or Arrow into it")
    first = _start(source)
    try:
        if first.startswith(_ARROW):
            yield from _arrow(first, source)
        elif first.startswith(b"{"):
            yield from _lines(first, source, _json, b"")
        elif first:
            first, header = _header(first, source)
            yield from _lines(first, source, _csv, header)
    except (pa.ArrowException, ValueError) as problem:
        raise SchemaError(f"standard input could not be read: {problem}") from problem


def _next(source: BinaryIO) -> bytes:
    """Wait for at least one byte and return what has arrived; empty at the end."""
    read: Callable[[int], bytes] = getattr(source, "read1", source.read)
    return read(_AT_ONCE)


def _start(source: BinaryIO) -> bytes:
    """The first bytes without leading space, enough to recognise the format."""
    first = b""
    while len(first) < len(_ARROW):
        more = _next(source)
        if not more:
            break
        first = (first + more).lstrip()
    return first


def _header(first: bytes, source: BinaryIO) -> tuple[bytes, bytes]:
    """The bytes after the first line, and the first line itself."""
    while b"\n" not in first:
        more = _next(source)
        if not more:
            first += b"\n"
            break
        first += more
    header, newline, rest = first.partition(b"\n")
    return rest, header + newline


def _lines(first: bytes, source: BinaryIO, parse: Parse, header: bytes) -> Iterator[pa.Table]:
    """Yield a table of the complete lines each time bytes arrive."""
    schema: pa.Schema | None = None
    kept, more = b"", first or _next(source)
    while more:
        whole, newline, kept = (kept + more).rpartition(b"\n")
        if whole.strip():
            table = sound(parse(header + whole + newline, schema))
            schema = schema or table.schema
            yield table
        more = _next(source)
    if kept.strip():
        yield sound(parse(header + kept, schema))


def _csv(text: bytes, schema: pa.Schema | None) -> pa.Table:
    from pyarrow import csv

    types = None if schema is None else {f.name: f.type for f in schema}
    return csv.read_csv(io.BytesIO(text), convert_options=csv.ConvertOptions(column_types=types))


def _json(text: bytes, schema: pa.Schema | None) -> pa.Table:
    from pyarrow import json

    rest = "ignore" if schema is not None else "infer"
    options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=rest)
    return read_json(text, options)


def _arrow(first: bytes, source: BinaryIO) -> Iterator[pa.Table]:
    with pa.ipc.open_stream(pa.PythonFile(_Rest(first, source), mode="r")) as reader:
        yield from map(sound, batches_of(reader))


class _Rest(io.RawIOBase):
    """A stream of bytes that were already read, followed by the rest of their source."""

    def __init__(self, first: bytes, source: BinaryIO) -> None:
        self._first = first
        self._source = source

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            taken, self._first = self._first, b""
            return taken + self._source.read()
        taken, self._first = self._first[:size], self._first[size:]
        return taken if len(taken) == size else taken + self._source.read(size - len(taken))
