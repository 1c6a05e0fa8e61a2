"""Files that survive a crash: each is written whole or not at all, and forced to disk."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync", "write_whole"]


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that after a crash it has either its old content or all of the new."""
    draft = path.with_name(f"{path.name}.part")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync(path.parent)


def sync(path: str | Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
