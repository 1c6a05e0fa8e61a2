"""Files that survive a crash: each is written whole or not at all, and forced to disk.

They hold people's rows, so only the user who runs the job may read them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from skyband.errors import EngineError

__all__ = ["PRIVATE", "private", "sync", "write_whole", "writing"]

PRIVATE = 0o600


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
    draft = path.with_name(f"{path.name}.part")
    with writing(path):
        with open(draft, "wb", opener=private) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    sync(path.parent)


def sync(path: str | Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    with writing(path):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
