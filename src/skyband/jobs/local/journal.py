"""The journal of a job: numbered records, each safe on disk before anybody sees what it led to.

    salt, first number │ zeros │ record 7 │ record 8 │ zeros │ record 9 │ zeros
                       └ a block of 4 KiB ends          └ made safe together

A record is a JSON header and, for rows that were posted, the rows as an Arrow stream. Records are
appended, and several are made safe with one sync, which fills up the last block with zeros. Each
has its number, the number that was safe when it was written, and checksums that begin with the
file's salt, so that no row can pass for a record.

A crash can cut off records that were not safe yet; nobody was told of them, and they are dropped.
Where a record cannot be read although a later one was written after it was safe, the file is
damaged, and that is an error.

Rows go from one buffer straight to the disk: a journal is read only after a crash, and pages of the
system's cache for it would cost more processor time than all the rest of writing it. That needs
whole blocks. Nothing that was made safe is ever written again.
"""

from __future__ import annotations

import errno
import fcntl
import json
import mmap
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skyband.data.durable import PRIVATE, sync, writing
from skyband.errors import EngineError

__all__ = ["BLOCK", "BlockFile", "Journal", "PackedRows", "Record", "whole_blocks"]

BLOCK = 4096
_ROOM = 4 << 20
"""Bytes that are written at once."""
_FILE = struct.Struct("<4sI16sqI")
"""Mark, version, salt, first number, checksum."""
_RECORD = struct.Struct("<4sIIqq")
"""Mark, bytes of the header, bytes of the rows, number, the last number that was safe."""
_SUMS = struct.Struct("<II")
"""Checksums: of the above, and of the whole record."""
_FILE_MARK, _RECORD_MARK = b"SKYJ", b"SKYR"
_VERSION = 1
_RECOVER = (
    "restore the checkpoint from a copy, or start from a new one: the job then reads its sources "
    "from the start"
)


class PackedRows(NamedTuple):
    """Rows as they stand in the journal. Making one can be left to any thread."""

    rows: memoryview
    """An Arrow stream."""
    checksum: int

    @classmethod
    def of(cls, rows: bytes | memoryview) -> PackedRows:
        """Rows with their checksum."""
        return cls(memoryview(rows), zlib.crc32(rows))


_NO_ROWS = PackedRows.of(b"")


class Record(NamedTuple):
    """A record of the journal."""

    number: int
    header: dict[str, Any]
    rows: memoryview


class Journal:
    """A file of records, numbered one by one. Used by one thread at a time."""

    def __init__(self, path: Path, file: BlockFile, salt: bytes, number: int) -> None:
        self.path = path
        self.number = number
        """The number of the last record."""
        self.safe = number
        """The number of the last record that is safe."""
        self._file, self._salt = file, salt

    @classmethod
    def begun(cls, path: Path, first: int) -> Journal:
        """A new journal, safe on disk, whose first record will have this number."""
        salt = os.urandom(16)
        head = _FILE.pack(_FILE_MARK, _VERSION, salt, first, 0)[:-4]
        with writing(path):
            file = BlockFile(path)
            file.append(head + zlib.crc32(head).to_bytes(4, "little"))
            file.sync()
        sync(path.parent)
        return cls(path, file, salt, first - 1)

    @classmethod
    def opened(cls, path: Path, first: int) -> tuple[Journal, list[Record]]:
        """A journal and its records; what a crash cut off is removed.

        Raises EngineError if it is missing or damaged.
        """
        if not path.exists():
            raise EngineError(
                f"{path} is missing, and with it the batches from {first} on; put it back, "
                f"{_RECOVER}"
            )
        blob = memoryview(path.read_bytes())
        salt = _salt(path, blob, first)
        records, end = list[Record](), _FILE.size
        while True:
            number = first + len(records)
            found = _record(blob, end, salt, number)
            if found is None:
                end_of_block = whole_blocks(end)
                found = _record(blob, end_of_block, salt, number)
            if found is None:
                break
            record, end = found
            records.append(record)
        _check_rest(path, blob, end, salt, first + len(records))
        with writing(path):
            file = BlockFile(path, end)
            file.sync()
        sync(path.parent)
        return cls(path, file, salt, first + len(records) - 1), records

    @property
    def size(self) -> int:
        """Bytes of the file, those included that wait to be written."""
        return self._file.size

    def append(self, header: Mapping[str, Any], packed: PackedRows | None = None) -> None:
        """Add a record; it is safe after the next ``sync``."""
        told = json.dumps(header, separators=(",", ":")).encode()
        rows, sum_of_rows = packed or _NO_ROWS
        self.number += 1
        start = _RECORD.pack(_RECORD_MARK, len(told), len(rows), self.number, self.safe)
        first = zlib.crc32(start, zlib.crc32(self._salt))
        whole = zlib.crc32(told, zlib.crc32(first.to_bytes(4, "little"), sum_of_rows))
        with writing(self.path):
            self._file.append(start + _SUMS.pack(first, whole) + told)
            self._file.append(rows)

    def sync(self) -> None:
        """Make every record that was appended safe from a crash."""
        with writing(self.path):
            self._file.sync()
        self.safe = self.number

    def close(self) -> None:
        """Close the file; what was added since the last ``sync`` is lost."""
        self._file.close()


def whole_blocks(size: int) -> int:
    """The size, filled up to whole blocks."""
    return -(-size // BLOCK) * BLOCK


def _salt(path: Path, blob: memoryview, first: int) -> bytes:
    """The salt of a journal; raises EngineError if it is not the one that begins with ``first``."""
    if len(blob) >= _FILE.size:
        mark, version, salt, number, checksum = _FILE.unpack_from(blob)
        if mark == _FILE_MARK and checksum == zlib.crc32(blob[: _FILE.size - 4]):
            if (version, number) == (_VERSION, first):
                return bytes(salt)
            raise EngineError(
                f"{path} has version {version} and begins with batch {number}, but version "
                f"{_VERSION} and batch {first} are needed; {_RECOVER}"
            )
    raise EngineError(f"{path} is damaged at its beginning; {_RECOVER}")


def _record(
    blob: memoryview, at: int, salt: bytes, number: int | None = None
) -> tuple[Record, int] | None:
    """The whole record at a place, with this number, and where it ends; None if there is none."""
    start = _start(blob, at, salt)
    if start is None or (number is not None and start[2] != number):
        return None
    length, size, found, _, checksum = start
    middle = at + _RECORD.size + _SUMS.size
    end = middle + length + size
    if len(blob) < end:
        return None
    head, rows = blob[middle : middle + length], blob[middle + length : end]
    first = blob[at + _RECORD.size : at + _RECORD.size + 4]
    if zlib.crc32(head, zlib.crc32(first, zlib.crc32(rows))) != checksum:
        return None
    return Record(found, json.loads(bytes(head)), rows), end


def _start(blob: memoryview, at: int, salt: bytes) -> tuple[int, int, int, int, int] | None:
    """Bytes of header and rows, number, safe number, checksum; None if no record begins here."""
    if len(blob) < at + _RECORD.size + _SUMS.size:
        return None
    mark, length, size, number, safe = _RECORD.unpack_from(blob, at)
    first, whole = _SUMS.unpack_from(blob, at + _RECORD.size)
    start = blob[at : at + _RECORD.size]
    if mark != _RECORD_MARK or first != zlib.crc32(start, zlib.crc32(salt)):
        return None
    return length, size, number, safe, whole


def _check_rest(path: Path, blob: memoryview, end: int, salt: bytes, number: int) -> None:
    """Raise EngineError if a record after ``end`` was written when ``number`` was safe already."""
    rest, at, last = bytes(blob[end:]), 0, None
    while (at := rest.find(_RECORD_MARK, at)) >= 0:
        start = _start(blob, end + at, salt)
        if start is not None and start[3] >= number:
            last = start[2]
        at += 1
    if last is not None:
        raise EngineError(
            f"{path} is damaged: batch {number}, at byte {end:,}, cannot be read, but batches up "
            f"to {last} come after it; restore the checkpoint from a copy. To go on without "
            f"batches {number} to {last}, cut the file there: truncate -s {end} {path}"
        )


# Blocks -------------------------------------------------------------------------------------------


class BlockFile:
    """A file that grows. What stands after ``size`` bytes of it is removed at first."""

    def __init__(self, path: Path, size: int = 0) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        past_cache = getattr(os, "O_DIRECT", 0)
        try:
            self._handle = os.open(path, flags | past_cache, PRIVATE)
        except OSError as problem:
            if problem.errno != errno.EINVAL:
                raise
            self._handle = os.open(path, flags, PRIVATE)
        self.size = whole_blocks(size)
        """Bytes of the file, those included that wait to be written."""
        os.ftruncate(self._handle, size)
        os.ftruncate(self._handle, self.size)
        self._map = mmap.mmap(-1, _ROOM)  # a mapping begins at a page, as the disk needs it
        self._room = np.frombuffer(self._map, np.uint8)
        self._view = memoryview(self._map)
        self._used = 0

    def append(self, piece: bytes | memoryview) -> None:
        """Add bytes; they are safe after the next ``sync``."""
        given, at = np.frombuffer(piece, np.uint8), 0
        while at < len(given):
            part = given[at : at + _ROOM - self._used]
            self._room[self._used : self._used + len(part)] = part
            self._used += len(part)
            self.size += len(part)
            at += len(part)
            if self._used == _ROOM:
                self._write()

    def sync(self) -> None:
        """Fill up the last block, and make everything that was added safe from a crash."""
        end = whole_blocks(self._used)
        self._room[self._used : end] = 0
        self.size += end - self._used
        self._used = end
        self._write()
        os.fdatasync(self._handle)

    def _write(self) -> None:
        place, at = self.size - self._used, 0
        while at < self._used:
            try:
                at += os.pwrite(self._handle, self._view[at : self._used], place + at)
            except OSError as problem:
                flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
                past_cache = flags & getattr(os, "O_DIRECT", 0)
                if problem.errno != errno.EINVAL or not past_cache:
                    raise
                fcntl.fcntl(self._handle, fcntl.F_SETFL, flags & ~past_cache)
        self._used = 0

    def close(self) -> None:
        """Close the file; what was added since the last ``sync`` is lost."""
        os.close(self._handle)
