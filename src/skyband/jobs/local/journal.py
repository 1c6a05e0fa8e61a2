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

A block that was made safe is never written again, so no later write can harm it.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from skyband.errors import EngineError
from skyband.jobs.world import MACHINE, World, named, write

BLOCK = 4096
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


class Record(NamedTuple):
    """A record of the journal."""

    number: int
    header: dict[str, Any]
    rows: memoryview


class Journal:
    """A file of records, numbered one by one. Used by one thread at a time."""

    def __init__(
        self,
        path: Path,
        salt: bytes,
        number: int,
        size: int,
        head: bytes = b"",
        world: World = MACHINE,
    ) -> None:
        """A journal that goes on after so many bytes; what stands after them is removed."""
        self.path, self._world = path, world
        self.number = number
        """The number of the last record."""
        self.safe = number
        """The number of the last record that is safe."""
        self.size = size
        """Bytes of the file."""
        self._salt = salt
        with named(path):
            self._file = world.open(path, "a")
        try:
            with named(path):
                self._file.truncate(size)
            self._write(head)
            self.sync()
            with named(path):
                world.sync_folder(path.parent)
        except BaseException:
            self.close()
            raise

    @classmethod
    def begun(cls, path: Path, first: int, world: World = MACHINE) -> Journal:
        """A new journal, safe on disk, whose first record will have this number."""
        salt = os.urandom(16)
        head = _FILE.pack(_FILE_MARK, _VERSION, salt, first, 0)[:-4]
        head += zlib.crc32(head).to_bytes(4, "little")
        return cls(path, salt, first - 1, 0, head, world)

    @classmethod
    def opened(cls, path: Path, first: int, world: World = MACHINE) -> tuple[Journal, list[Record]]:
        """A journal and its records; what a crash cut off is removed.

        Raises EngineError if it is missing or damaged.
        """
        if not world.exists(path):
            raise EngineError(
                f"{path} is missing, and with it the batches from {first} on; put it back, "
                f"{_RECOVER}"
            )
        blob = memoryview(world.read(path))
        salt = _salt(path, blob, first)
        records, end = list[Record](), _FILE.size
        while True:
            number = first + len(records)
            entry = _record(blob, end, salt, number)
            entry = entry or _record(blob, _whole_blocks(end), salt, number)
            if entry is None:
                break
            record, end = entry
            records.append(record)
        _check_rest(path, blob, end, salt, first + len(records))
        return cls(path, salt, first + len(records) - 1, end, world=world), records

    def append(self, header: Mapping[str, Any], rows: bytes | memoryview = b"") -> None:
        """Add a record; it is safe after the next ``sync``."""
        text = json.dumps(header, separators=(",", ":")).encode()
        self.number += 1
        start = _RECORD.pack(_RECORD_MARK, len(text), len(rows), self.number, self.safe)
        first = zlib.crc32(start, zlib.crc32(self._salt))
        whole = zlib.crc32(text, zlib.crc32(first.to_bytes(4, "little"), zlib.crc32(rows)))
        self._write(start + _SUMS.pack(first, whole) + text)
        self._write(rows)

    def sync(self) -> None:
        """Fill up the last block, and make every record that was appended safe from a crash."""
        self._write(bytes(_whole_blocks(self.size) - self.size))
        with named(self.path):
            self._world.sync(self._file)
        self.safe = self.number

    def _write(self, piece: bytes | memoryview) -> None:
        with named(self.path):
            self.size += write(self._file, piece)

    def close(self) -> None:
        """Close the file; what was added since the last ``sync`` is lost."""
        self._file.close()


def _whole_blocks(size: int) -> int:
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


def _record(blob: memoryview, at: int, salt: bytes, number: int) -> tuple[Record, int] | None:
    """The whole record at a place, with this number, and where it ends; None if there is none."""
    start = _start(blob, at, salt)
    if start is None or start[2] != number:
        return None
    length, size, _, _, checksum = start
    middle = at + _RECORD.size + _SUMS.size
    end = middle + length + size
    if len(blob) < end:
        return None
    head, rows = blob[middle : middle + length], blob[middle + length : end]
    first = blob[at + _RECORD.size : at + _RECORD.size + 4]
    if zlib.crc32(head, zlib.crc32(first, zlib.crc32(rows))) != checksum:
        return None
    return Record(number, json.loads(bytes(head)), rows), end


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
