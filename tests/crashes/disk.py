"""A disk in memory: what was written, and what of it a crash cannot take back."""

from __future__ import annotations

import errno
import io
import os
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

BLOCK = 4096


@dataclass
class Content:
    """A file."""

    now: bytes = b""
    safe: bytes = b""
    changed: int = 0

    def copy(self) -> Content:
        return Content(self.now, self.safe, self.changed)


@dataclass
class Folder:
    """Names of files and folders, by their numbers; and the changes that may still be lost."""

    now: dict[str, int] = field(default_factory=dict)
    safe: dict[str, int] = field(default_factory=dict)
    changes: list[dict[str, int | None]] = field(default_factory=list)

    def change(self, **names: int | None) -> None:
        _apply(self.now, names)
        self.changes.append(names)

    def copy(self) -> Folder:
        return Folder(dict(self.now), dict(self.safe), list(self.changes))


Inode: TypeAlias = Content | Folder


def _apply(names: dict[str, int], change: dict[str, int | None]) -> None:
    for name, number in change.items():
        if number is None:
            names.pop(name, None)
        else:
            names[name] = number


class Disk:
    """Files and folders. Names are safe once their folder was synced, contents once they were."""

    def __init__(self) -> None:
        self.inodes: dict[int, Inode] = {0: Folder()}
        self.free = 1

    def copy(self) -> Disk:
        made = Disk()
        made.inodes = {number: inode.copy() for number, inode in self.inodes.items()}
        made.free = self.free
        return made

    # Looking -----------------------------------------------------------------------------------

    def number(self, path: Path) -> int | None:
        """The number of a file or folder; None if there is none."""
        at: int | None = 0
        for part in path.parts[1:]:
            folder = None if at is None else self.inodes[at]
            at = folder.now.get(part) if isinstance(folder, Folder) else None
        return at

    def inode(self, path: Path) -> Inode:
        number = self.number(path)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self.inodes[number]

    def folder(self, path: Path) -> Folder:
        found = self.inode(path)
        if not isinstance(found, Folder):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return found

    def file(self, path: Path) -> Content:
        found = self.inode(path)
        if not isinstance(found, Content):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        return found

    def files(self, path: Path) -> dict[str, bytes]:
        """The contents of a folder's visible files, by name; none if there is no folder."""
        if self.number(path) is None:
            return {}
        found = self.folder(path).now.items()
        return {
            name: inode.now
            for name, number in sorted(found)
            if not name.startswith(".") and isinstance(inode := self.inodes[number], Content)
        }

    # Changing ----------------------------------------------------------------------------------

    def add(self, path: Path, inode: Inode) -> int:
        number, self.free = self.free, self.free + 1
        self.inodes[number] = inode
        self.folder(path.parent).change(**{path.name: number})
        return number

    def put(self, path: Path, content: bytes, changed: int) -> None:
        """Place a file that is safe, as other programs do; it takes the place of another one."""
        for parent in reversed([each for each in path.parents if self.number(each) is None]):
            self.add(parent, Folder())
        self.add(path, Content(content, content, changed))
        for parent in path.parents:
            self.sync_folder(parent)

    def remove(self, path: Path) -> None:
        self.inode(path)
        self.folder(path.parent).change(**{path.name: None})

    def rename(self, path: Path, target: Path) -> None:
        assert path.parent == target.parent
        self.inode(path)
        number = self.number(path)
        self.folder(path.parent).change(**{path.name: None, target.name: number})

    def sync_folder(self, path: Path) -> None:
        folder = self.folder(path)
        folder.safe, folder.changes = dict(folder.now), []

    # Crashing ----------------------------------------------------------------------------------

    def lose(self, chance: random.Random | None) -> None:
        """Lose what was not safe: all of it, or what chance takes, in any order."""
        for inode in self.inodes.values():
            if isinstance(inode, Content):
                inode.now = inode.safe = _left(inode, chance)
                continue
            kept = inode.changes[: chance.randint(0, len(inode.changes))] if chance else []
            if chance and chance.random() < 0.3:
                kept = [each for each in inode.changes if chance.random() < 0.5]
            for change in kept:
                _apply(inode.safe, change)
            inode.now, inode.changes = dict(inode.safe), []
        reached = set(self._reached(0))
        self.inodes = {number: each for number, each in self.inodes.items() if number in reached}

    def _reached(self, number: int) -> Iterator[int]:
        yield number
        inode = self.inodes[number]
        if isinstance(inode, Folder):
            for each in inode.now.values():
                yield from self._reached(each)


def _left(file: Content, chance: random.Random | None) -> bytes:
    """What a crash leaves of a file: blocks may be written in any order, or not at all."""
    old, new = file.safe, file.now
    if chance is None or old == new or chance.random() < 0.25:
        return old
    if chance.random() < 0.35:
        return new
    size = chance.randint(min(len(old), len(new)), max(len(old), len(new)))
    blocks = []
    for at in range(0, size, BLOCK):
        mine = new if chance.random() < 0.6 else old
        blocks.append(mine[at : at + BLOCK].ljust(BLOCK, b"\0"))
    return b"".join(blocks)[:size]


class DiskFile(io.RawIOBase):
    """An open file of a disk; ``step`` is told before each change, and says whether it is made."""

    def __init__(
        self, number: int, content: Content, step: Callable[[str, bytes], bool], mode: str
    ) -> None:
        self.number, self.content, self.mode = number, content, mode
        self._step = step
        self._at = 0
        self.locked = False

    def readable(self) -> bool:
        return self.mode == "r"

    def writable(self) -> bool:
        return self.mode != "r"

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at if self.mode == "r" else len(self.content.now)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0:
            self._at = offset
        elif whence == 2:
            self._at = len(self.content.now) + offset
        return self.tell()

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._step("read", b"")
        piece = self.content.now[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def write(self, data: bytes | memoryview) -> int:  # type: ignore[override]
        if self._step("write", bytes(data)):
            self.content.now += bytes(data)
        return len(data)

    def truncate(self, size: int | None = None) -> int:
        assert size is not None
        if self._step("truncate", b""):
            self.content.now = self.content.now[:size].ljust(size, b"\0")
        return size
