"""Everything that a local job does outside its own memory, step by step.

    files      open, write, sync, lock, rename, remove; folders and what is in them
    sources    which files there are, and their batches
    servers    clients of Kafka and PostgreSQL, posts, sockets, standard output
    time       the clock, waiting, other threads

A ``World`` takes the steps on this machine. One that overrides all of them can stop at any step,
lose what was not forced to disk, or fail, and so show what a job makes of it.

What a job keeps on disk survives a crash: a file is written whole or not at all, and forced to
disk. Such files hold people's rows, so only the user who runs the job may read them.
"""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import shutil
import socket
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Literal

from skyband.embedded.formats import OpenFile, opened
from skyband.embedded.sources import paths_of
from skyband.engine.session import thread_count
from skyband.errors import EngineError
from skyband.jobs.places import require_kafka, require_psycopg

_PRIVATE = 0o600
_DRAFT = ".part"
"""The ending of a file that is being written."""
LOCK = "lock"
"""The file of a folder that is locked while a process uses it."""
Mode = Literal["r", "w", "a"]


@contextmanager
def named(path: str | Path, what: str = "written") -> Iterator[None]:
    """Raise EngineError, with the name of the file, if it cannot be read or written."""
    try:
        yield
    except OSError as problem:
        when = "there is room and permission" if what == "written" else "that is fixed"
        raise EngineError(
            f"{path} cannot be {what} ({problem.strerror or problem}); when {when}, start again: "
            "nothing that was finished is lost"
        ) from problem


@contextmanager
def clear_errors() -> Iterator[None]:
    """Raise EngineError for what the machine refuses and nobody else has named."""
    try:
        yield
    except OSError as problem:
        with named(problem.filename or "the disk", "used"):
            raise


def parsed(where: Path | str, text: str | bytes) -> Any:
    """The JSON of a checkpoint's file; raises EngineError if it is damaged."""
    try:
        return json.loads(text)
    except ValueError as problem:
        raise EngineError(
            f"{where} is damaged ({problem}); restore the checkpoint from a copy, or start from a "
            "new one"
        ) from problem


class World:
    """This machine: the steps, and below them what is made of several."""

    # Files and folders; each raises OSError ----------------------------------------------------

    def open(self, path: Path, mode: Mode, private: bool = True) -> io.RawIOBase:
        """A file to read, to write anew, or to append to; without a buffer."""
        opener = _private if private and mode != "r" else None
        return io.FileIO(path, mode, opener=opener)

    def sync(self, file: io.RawIOBase) -> None:
        """Force what was written to a file to disk."""
        os.fdatasync(file.fileno())

    def lock(self, file: io.RawIOBase) -> None:
        """Lock a file until it is closed; BlockingIOError if another process has locked it."""
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def state(self, path: Path) -> list[int] | None:
        """What changes with a file: its size, and when it was changed; None if it is not there."""
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return [status.st_size, status.st_mtime_ns]

    def names(self, folder: Path) -> list[str]:
        """What is in a folder."""
        return os.listdir(folder)  # noqa: PTH208  (names, not paths)

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder of this name."""
        return path.is_dir()

    def make_folder(self, path: Path) -> None:
        """Make a folder in one that is there."""
        path.mkdir()

    def sync_folder(self, path: Path) -> None:
        """Force the names in a folder to disk."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, path: Path, target: Path) -> None:
        """Give a file another name in its folder, in place of the file that had it."""
        path.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def remove_folder(self, path: Path) -> None:
        """Remove a folder with all that is in it."""
        shutil.rmtree(path)

    # Sources and servers -----------------------------------------------------------------------

    def paths(self, pattern: str) -> list[Path]:
        """The files of a folder or glob; SchemaError if there are none."""
        return paths_of(pattern)

    def table_file(self, path: Path, delimiter: str | None = None) -> OpenFile:
        """A file of rows, whose columns are known; ``delimiter`` is that of CSV."""
        return opened(path, delimiter)

    def kafka(self) -> Any:
        """The client of Kafka."""
        return require_kafka()

    def psycopg(self) -> Any:
        """The client of PostgreSQL."""
        return require_psycopg()

    def post(self, request: urllib.request.Request, seconds: float) -> None:
        """Send a request; raises OSError unless it is accepted."""
        with urllib.request.urlopen(request, timeout=seconds):  # noqa: S310
            pass

    def connect(self, address: tuple[str, int], seconds: float) -> socket.socket:
        """A connection to a server."""
        return socket.create_connection(address, seconds)

    def show(self, text: str) -> None:
        """Write to standard output."""
        sys.stdout.write(text)
        sys.stdout.flush()

    # Time and threads --------------------------------------------------------------------------

    def time(self) -> float:
        """Seconds since 1970; it may jump."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some moment; they never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def worker(self, name: str) -> Executor:
        """A thread that does one thing after the other."""
        return ThreadPoolExecutor(1, name)

    def readers(self) -> int:
        """How many threads may read files at the same time."""
        return thread_count(None)

    # Made of several steps ---------------------------------------------------------------------

    def exists(self, path: Path) -> bool:
        """Whether there is a file or folder of this name."""
        return self.state(path) is not None

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        with named(path, "read"), self.open(path, "r") as file:
            return file.readall()

    def read_safely(self, path: Path) -> bytes:
        """The content of a file that is appended to; empty if there is none.

        A process that was killed may have left there what a power failure would take back, so it is
        made safe before anything is built on it.
        """
        if not self.exists(path):
            return b""
        with named(path), self.open(path, "a") as file:
            self.sync(file)
            self.sync_folder(path.parent)
        return self.read(path)

    def append(self, path: Path, content: bytes) -> None:
        """Add to a file, and force it to disk."""
        new = not self.exists(path)
        with named(path), self.open(path, "a") as file:
            write(file, content)
            self.sync(file)
            if new:
                self.sync_folder(path.parent)

    def write_whole(
        self,
        path: Path,
        content: bytes | Callable[[BinaryIO], None],
        draft: str = "",
        private: bool = True,
    ) -> None:
        """Write a file so that after a crash it has either its old content or all of the new."""
        part = path.with_name(draft or f"{path.name}-{uuid.uuid4().hex[:12]}{_DRAFT}")
        with named(path):
            try:
                with self.open(part, "w", private) as file:
                    if isinstance(content, bytes):
                        write(file, content)
                    else:
                        buffer = io.BufferedWriter(file, 1 << 20)
                        content(buffer)
                        buffer.flush()
                    self.sync(file)
                self.rename(part, path)
            except OSError:
                with suppress(OSError):
                    self.remove(part)
                raise
            self.sync_folder(path.parent)

    def make_folders(self, path: Path) -> None:
        """Make a folder and those above it, each safe on disk before the next.

        One that is there may have been made just before a crash, and is made safe as well.
        """
        missing = []
        while not self.is_folder(path) and path != path.parent:
            missing.append(path)
            path = path.parent
        with suppress(PermissionError):  # it was not made by this user
            self.sync_folder(path.parent)
        for each in reversed(missing):
            with suppress(FileExistsError):
                self.make_folder(each)
            self.sync_folder(each.parent)

    def is_empty(self, folder: Path) -> bool:
        """Whether a folder has nothing but a lock, and what a start that failed has left."""
        return all(name == LOCK or name.endswith(_DRAFT) for name in self.names(folder))

    def clear(self, folder: Path, mark: str) -> None:
        """Empty a checkpoint that nobody has claimed: its ``mark`` last, and not its lock.

        What a server keeps there stays.
        """
        for name in sorted(self.names(folder)):
            if name != "serve" and self.is_folder(folder / name):
                self.remove_folder(folder / name)
            elif name not in ("serve", LOCK, mark):
                self.remove(folder / name)
        self.sync_folder(folder)  # or the mark could be gone before the others
        with suppress(FileNotFoundError):
            self.remove(folder / mark)

    def forget_drafts(self, folder: Path) -> None:
        """Remove files that were never finished; only for the process that has the lock."""
        for name in self.names(folder):
            if name.endswith(_DRAFT):
                with suppress(FileNotFoundError):
                    self.remove(folder / name)


MACHINE = World()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, _PRIVATE)


def write(file: io.RawIOBase, content: bytes | memoryview) -> int:
    """Write all of some bytes, however few are taken at once; how many they were."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) or 0 :]
    return len(content)


class FolderLock:
    """A folder that no other process may use in the same way; the lock ends with the process."""

    def __init__(self, folder: Path, world: World = MACHINE) -> None:
        """Makes the folder if there is none; raises EngineError if it is in use."""
        with named(folder):
            world.make_folders(folder)
            self._file = world.open(folder / LOCK, "a")
        try:
            world.lock(self._file)
        except OSError as problem:
            self._file.close()
            if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise EngineError(f"{folder} cannot be locked: {problem.strerror}") from None
            raise EngineError(
                f"another process uses {folder}, so the job is already running; stop it, or give "
                "this job another checkpoint"
            ) from None

    def release(self) -> None:
        """Let others use the folder."""
        self._file.close()
