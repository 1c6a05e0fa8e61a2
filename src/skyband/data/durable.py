"""Files that survive a crash: each is written whole or not at all, and forced to disk.

They hold people's rows, so only the user who runs the job may read them.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from skyband.errors import EngineError

__all__ = ["LOCK", "PRIVATE", "FolderLock", "clear", "forget_drafts", "is_empty", "parsed",
           "private", "sync", "write_whole", "writing"]  # fmt: skip

PRIVATE = 0o600
DRAFT = ".part"
"""The ending of a file that is being written."""
LOCK = "lock"
"""The file of a folder that is locked while a process uses it."""


def private(path: str, flags: int) -> int:
    """An ``opener`` of files that only their user may read."""
    return os.open(path, flags, PRIVATE)


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Raise EngineError, with the name of the file, if it cannot be written."""
    try:
        yield
    except OSError as problem:
        raise EngineError(
            f"{path} cannot be written ({problem.strerror or problem}); when there is room and "
            "permission, start again: nothing that was finished is lost"
        ) from problem


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it has either its old content or all of the new."""
    draft = path.with_name(f"{path.name}-{uuid.uuid4().hex[:12]}{DRAFT}")
    with writing(path):
        try:
            with open(draft, "wb", opener=private) as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    sync(path.parent)


def parsed(where: Path | str, text: str | bytes) -> Any:
    """The JSON of a checkpoint's file; raises EngineError if it is damaged."""
    try:
        return json.loads(text)
    except ValueError as problem:
        raise EngineError(
            f"{where} is damaged ({problem}); restore the checkpoint from a copy, or start from a "
            "new one"
        ) from problem


def sync(path: str | Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    with writing(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# Folders ------------------------------------------------------------------------------------------


class FolderLock:
    """A folder that no other process may use in the same way; the lock ends with the process."""

    def __init__(self, folder: Path) -> None:
        """Makes the folder if there is none; raises EngineError if it is in use."""
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            self._file = open(folder / LOCK, "a+b", opener=private)  # noqa: SIM115  (held)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as problem:
            self._file.close()
            if problem.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise EngineError(f"{folder} cannot be locked: {problem.strerror}") from None
            raise EngineError(
                f"another process uses {folder}: the job runs already; stop it, or give this job "
                "another checkpoint"
            ) from None

    def release(self) -> None:
        """Let others use the folder."""
        self._file.close()


def is_empty(folder: Path) -> bool:
    """Whether a folder has nothing but a lock, and what a start that failed has not finished."""
    return not any(path.suffix != DRAFT and path.name != LOCK for path in folder.iterdir())


def clear(folder: Path, mark: str) -> None:
    """Empty a checkpoint that nobody has claimed: its ``mark`` last, and not a lock that is held.

    What a server keeps there stays.
    """
    for path in sorted(folder.iterdir(), key=lambda each: each.name == mark):
        if path.is_dir() and path.name != "serve":
            shutil.rmtree(path)
        elif not path.is_dir() and path.name != LOCK:
            path.unlink()


def forget_drafts(folder: Path) -> None:
    """Remove files that were never finished; only for the process that has the lock."""
    for path in folder.glob(f"*{DRAFT}"):
        with suppress(FileNotFoundError):
            path.unlink()
