"""What makes rows safe: a journal of accepted requests, and snapshots that keep it short.

    state/  lock              held while a server runs
            snapshot-12       the board after the first 12 journals
            journal-12        what came since, in order
            answers           the answers that are kept (``history``)

A record is its length and checksum, a JSON header, and the rows as an Arrow stream: the body of the
request itself, if that was one. Records are appended, and several are made durable with one sync,
which fills up the last block with zeros (``blocks``). A record that was cut off by a crash was
never acknowledged, so it is dropped when the journal is opened again.
"""

from __future__ import annotations

import fcntl
import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from skyband.data.packing import pack, unpack
from skyband.errors import EngineError
from skyband.jobs.durable import private, sync, write_whole
from skyband.serve.blocks import BlockFile, whole_blocks

__all__ = ["Journal", "Packed"]

_START = struct.Struct("<4sIII")
_MAGIC = b"SKYK"
_FIRST = b"SKYJ"
"""The mark of records whose checksum begins with the header; they are still read."""
_SNAPSHOT = "snapshot-"
_JOURNAL = "journal-"


class Packed(NamedTuple):
    """Rows as they stand in the journal. Making one can be left to any thread."""

    rows: memoryview
    """An Arrow stream."""
    checksum: int

    @classmethod
    def of(cls, rows: bytes | memoryview) -> Packed:
        """Rows with their checksum."""
        return cls(memoryview(rows), zlib.crc32(rows))


class Journal:
    """The folder of one service. Used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = open(folder / "lock", "a+b", opener=private)  # noqa: SIM115  (held)
        except OSError as problem:
            raise EngineError(f"{folder} cannot be used: {problem.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise EngineError(
                f"another server uses {folder}; stop it, or give the job another checkpoint"
            ) from None
        self.number = self._newest()
        self._file: BlockFile | None = None

    @property
    def size(self) -> int:
        """Bytes in the journal since the last snapshot."""
        return 0 if self._file is None else self._file.size

    # Opening -----------------------------------------------------------------------------------

    def _newest(self) -> int:
        numbers = [_number(path) for path in self.folder.glob(f"{_SNAPSHOT}*")]
        return max((number for number in numbers if number is not None), default=0)

    def snapshot(self) -> tuple[dict[str, Any], bytes] | None:
        """The header and the board of the newest snapshot; None if there is none."""
        if not self.number:
            return None
        header, arrays = unpack((self.folder / f"{_SNAPSHOT}{self.number}").read_bytes())
        return header, arrays["board"].tobytes()

    def records(self) -> Iterator[tuple[dict[str, Any], bytes]]:
        """The records since the snapshot; afterwards the journal is open for more."""
        path = self.folder / f"{_JOURNAL}{self.number}"
        good = 0
        if path.exists():
            blob = path.read_bytes()
            while (record := _read(blob, good) or _read(blob, whole_blocks(good))) is not None:
                header, rows, good = record
                yield header, rows
        self._file = BlockFile(path, good)
        self._file.sync()
        sync(self.folder)

    # Writing -----------------------------------------------------------------------------------

    def append(self, header: Mapping[str, Any], packed: Packed) -> None:
        """Add a record; it is safe after the next ``sync``."""
        assert self._file is not None
        told = json.dumps(header, separators=(",", ":")).encode()
        checksum = zlib.crc32(told, packed.checksum)
        self._file.append(_START.pack(_MAGIC, len(told), len(packed.rows), checksum) + told)
        self._file.append(packed.rows)

    def sync(self) -> None:
        """Make every record that was appended safe from a crash."""
        assert self._file is not None
        self._file.sync()

    def replace(self, header: Mapping[str, Any], board: bytes) -> None:
        """Write a snapshot, and start an empty journal after it."""
        assert self._file is not None
        number = self.number + 1
        blob = pack(dict(header), {"board": np.frombuffer(board, np.uint8)})
        write_whole(self.folder / f"{_SNAPSHOT}{number}", blob)
        self._file.close()
        self._file = BlockFile(self.folder / f"{_JOURNAL}{number}")
        self.number = number
        sync(self.folder)
        for path in self.folder.glob(f"{_SNAPSHOT}*"), self.folder.glob(f"{_JOURNAL}*"):
            for each in path:
                old = _number(each)
                if old is None or old < number:
                    with suppress(FileNotFoundError):
                        each.unlink()

    def close(self) -> None:
        """Close the files and let another server use the folder."""
        if self._file is not None:
            self._file.close()
            self._file = None
        self._lock.close()


def _read(blob: bytes, at: int) -> tuple[dict[str, Any], bytes, int] | None:
    """The record at a place and where it ends; None if there is no whole record."""
    if len(blob) < at + _START.size:
        return None
    magic, told, length, checksum = _START.unpack_from(blob, at)
    start = at + _START.size
    end = start + told + length
    if magic not in (_MAGIC, _FIRST) or len(blob) < end:
        return None
    head, rows = memoryview(blob)[start : start + told], memoryview(blob)[start + told : end]
    parts = (rows, head) if magic == _MAGIC else (head, rows)
    if zlib.crc32(parts[1], zlib.crc32(parts[0])) != checksum:
        return None
    return json.loads(bytes(head)), bytes(rows), end


def _number(path: Path) -> int | None:
    """The number in a file's name; None for one that was not finished."""
    text = path.name.rsplit("-", 1)[-1]
    return int(text) if text.isdigit() else None
