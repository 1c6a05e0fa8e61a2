"""Standard input as a source: CSV with a header, JSON lines or an Arrow stream.

Rows are passed on as soon as their lines are complete, so that a query over ``tail -f`` answers
while the file grows. A pipe is made to hold a megabyte, so that a query that is busy takes more
lines at once. The types of the columns are inferred from the first lines; of
later lines, only the columns needed are parsed.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import BinaryIO, cast

import pyarrow as pa

from skyband.embedded.sources import CustomSource, ReadSettings, batches_of
from skyband.embedded.text_files import projection, read_csv, read_json, sound
from skyband.errors import SchemaError

STDIN = "-"
_AT_ONCE, _PIPE = 1 << 22, 1 << 20
_ARROW = b"\xff\xff\xff\xff"

Parse = Callable[..., pa.Table]
"""From text, the schema of earlier text and the names of the columns needed, to a table."""


class Stdin(CustomSource):
    """Standard input as a source; it reads only the columns that are needed."""

    def __init__(self, delimiter: str | None = None) -> None:
        self.delimiter = delimiter

    def batches(self, reading: ReadSettings) -> Iterator[pa.Table]:
        """Read it, once."""
        return stdin_batches(None, replace(reading, delimiter=self.delimiter))


def stdin_batches(
    stream: BinaryIO | None = None, reading: ReadSettings | None = None
) -> Iterator[pa.Table]:
    """Read standard input as tables."""
    source = _arriving() if stream is None else stream
    reading = reading or ReadSettings()
    if stream is None and sys.stdin is not None and sys.stdin.isatty():
        raise SchemaError("standard input is a terminal; pipe CSV, JSON lines or Arrow into it")
    first = _start(source)
    try:
        if first.startswith(_ARROW):
            yield from _arrow(first, source)
        elif first.startswith(b"{"):
            yield from _lines(first, source, _json, b"", reading)
        elif first:
            while b"\n" not in first and (more := _next(source)):
                first += more
            header, _, first = first.partition(b"\n")
            csv = partial(read_csv, delimiter=reading.delimiter or ",", threads=True)
            yield from _lines(first, source, csv, header + b"\n", reading)
    except (pa.ArrowException, ValueError) as problem:
        raise SchemaError(f"standard input could not be read: {problem}") from problem


def _arriving() -> BinaryIO:
    """Standard input as a file of which a read takes what has arrived."""
    with suppress(ImportError, AttributeError, OSError):  # only Linux can, and only for pipes
        import fcntl

        fcntl.fcntl(0, fcntl.F_SETPIPE_SZ, _PIPE)
    return cast(BinaryIO, io.FileIO(0, closefd=False))


def _next(source: BinaryIO) -> bytes:
    """Wait for at least one byte and return what has arrived; empty at the end."""
    read: Callable[[int], bytes] = getattr(source, "read1", None) or source.read
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


def _lines(
    first: bytes, source: BinaryIO, parse: Parse, header: bytes, reading: ReadSettings
) -> Iterator[pa.Table]:
    """Yield a table of the complete lines each time bytes arrive; the first has the header."""
    schema: pa.Schema | None = None
    names: Sequence[str] | None = None
    rest, more = b"", first or _next(source)
    while more:
        whole, newline, rest = (rest + more).rpartition(b"\n")
        if whole.strip():
            table = sound(parse(header + whole + newline, schema=schema, names=names))
            yield table
            if schema is None:
                schema, header = table.schema, b""
                names = reading.needed(schema)
        more = _next(source)
    if rest.strip() or header:  # a header alone tells the columns, too
        yield sound(parse(header + rest, schema=schema, names=names))


def _json(text: bytes, schema: pa.Schema | None, names: Sequence[str] | None) -> pa.Table:
    return read_json(text, None if schema is None else projection(schema, names))


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
        """Exactly so many bytes, or all of them; fewer only at the end."""
        pieces, held = [self._first], len(self._first)
        while (size < 0 or held < size) and (more := _next(self._source)):
            pieces.append(more)
            held += len(more)
        whole = b"".join(pieces)
        end = len(whole) if size < 0 else size
        self._first = whole[end:]
        return whole[:end]
