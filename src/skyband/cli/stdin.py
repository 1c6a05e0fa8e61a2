"""Standard input as a source: CSV with a header, JSON lines or an Arrow stream.

Rows are passed on as soon as their lines are complete, so that a query over ``tail -f`` answers
while the file grows. Another thread reads what arrives, at most 16 MB ahead, so that a query that
is busy takes more lines at once. The types of the columns are inferred from the first lines; of
later lines, only the columns needed are parsed.
"""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, BinaryIO, cast

import pyarrow as pa

from skyband.embedded.sources import CustomSource, ReadSettings, batches_of
from skyband.embedded.text_files import projection, read_csv, read_json, sound
from skyband.errors import SchemaError

STDIN = "-"
_AT_ONCE = 1 << 22
_ARROW = b"\xff\xff\xff\xff"

_AHEAD = 4 * _AT_ONCE

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
    source = cast(BinaryIO, _Arriving(0)) if stream is None else stream
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
    kept, more = b"", first or _next(source)
    while more:
        whole, newline, kept = (kept + more).rpartition(b"\n")
        if whole.strip():
            table = sound(parse(header + whole + newline, schema=schema, names=names))
            yield table
            if schema is None:
                schema, header = table.schema, b""
                names = reading.needed(schema)
        more = _next(source)
    if kept.strip() or header:  # a header alone tells the columns, too
        yield sound(parse(header + kept, schema=schema, names=names))


def _json(text: bytes, schema: pa.Schema | None, names: Sequence[str] | None) -> pa.Table:
    return read_json(text, None if schema is None else projection(schema, names))


def _arrow(first: bytes, source: BinaryIO) -> Iterator[pa.Table]:
    with pa.ipc.open_stream(pa.PythonFile(_Rest(first, source), mode="r")) as reader:
        yield from map(sound, batches_of(reader))


class _Arriving:
    """Reads a file descriptor in another thread; a caller takes all that has arrived."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._changed = threading.Condition()
        self._pieces: list[bytes] = []
        self._held = 0
        self._ended: Any = False
        self._thread = threading.Thread(target=self._fill, daemon=True, name="skyband-stdin")

    def read1(self, size: int = -1) -> bytes:
        """Wait for at least one byte and return all that has arrived; empty at the end."""
        with self._changed:
            if self._thread.ident is None:
                self._thread.start()
            self._changed.wait_for(lambda: self._pieces or self._ended)
            if isinstance(self._ended, OSError) and not self._pieces:
                raise self._ended
            found, self._pieces, self._held = b"".join(self._pieces), [], 0
            self._changed.notify_all()
        return found

    def _fill(self) -> None:
        more = b"?"
        while more:
            try:
                more = os.read(self._descriptor, _AT_ONCE)
            except OSError as problem:
                more = b""
                self._ended = problem
            with self._changed:
                if more:
                    self._pieces.append(more)
                    self._held += len(more)
                self._ended = self._ended or not more
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._held < _AHEAD)


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
