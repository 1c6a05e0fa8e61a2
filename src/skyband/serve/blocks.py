"""Appends to a file in whole blocks, past the system's cache where the file system allows it.

A journal is written once and read only after a crash. Pages of the cache for it would cost more
processor time than all the rest of writing it, so rows go from one buffer straight to the disk.
That needs whole blocks: what is made safe together is filled up with zeros, and what comes later
begins a new block. So nothing that was made safe is ever written again.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from pathlib import Path

import numpy as np

from skyband.jobs.durable import PRIVATE

__all__ = ["BLOCK", "BlockFile", "whole_blocks"]

BLOCK = 4096
_ROOM = 4 << 20
"""Bytes that are written at once."""


def whole_blocks(size: int) -> int:
    """The size, filled up to whole blocks."""
    return -(-size // BLOCK) * BLOCK


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
