"""Files that grow by whole blocks: what they contain, also on a disk that needs the cache."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest

from skyband.jobs.local import journal as blocks
from skyband.jobs.local.journal import BLOCK, BlockFile, whole_blocks

PAST_CACHE = getattr(os, "O_DIRECT", 0)


def test_pieces_are_filled_up_at_each_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_ROOM", 4 * BLOCK)
    rng, path, wanted = random.Random(5), tmp_path / "file", b""
    places: list[tuple[int, int]] = []
    write = os.pwrite

    def watched(handle: int, data: Any, place: int) -> int:
        done = write(handle, data, place)
        places.append((place, place + done))
        return done

    monkeypatch.setattr(os, "pwrite", watched)
    file = BlockFile(path)
    for _ in range(60):
        for _ in range(rng.randrange(4)):
            piece = rng.randbytes(rng.choice([1, 30, BLOCK - 30, BLOCK, 9 * BLOCK + 1]))
            file.append(piece)
            wanted += piece
        file.sync()
        wanted = wanted.ljust(whole_blocks(len(wanted)), b"\0")
        assert file.size == len(wanted)
        assert path.read_bytes() == wanted  # as another process would find it
    file.close()
    # One after the other: nothing is written again.
    assert [start for start, _ in places] == [0, *(end for _, end in places[:-1])]


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 7])
def test_what_stands_behind_is_removed(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 3 * BLOCK)
    file = BlockFile(path, size)
    file.append(b"new")
    file.sync()
    file.close()
    kept = (b"x" * size).ljust(whole_blocks(size), b"\0")
    assert path.read_bytes() == kept + b"new".ljust(BLOCK, b"\0")


@pytest.mark.skipif(not PAST_CACHE, reason="this system has no such files")
@pytest.mark.parametrize("refused", ["open", "pwrite"])
def test_a_file_system_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    done = getattr(os, refused)
    asked = []

    def strict(first: Any, second: Any, *more: Any) -> Any:
        import fcntl

        flags = second if refused == "open" else fcntl.fcntl(first, fcntl.F_GETFL)
        asked.append(bool(flags & PAST_CACHE))
        if asked[-1]:
            raise OSError(errno.EINVAL, "Invalid argument")
        return done(first, second, *more)

    monkeypatch.setattr(os, refused, strict)
    file = BlockFile(tmp_path / "file")
    file.append(b"a" * 10)
    file.sync()
    file.close()
    assert asked == [True, False]
    assert (tmp_path / "file").read_bytes() == (b"a" * 10).ljust(BLOCK, b"\0")


def test_other_failures_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = BlockFile(tmp_path / "file")
    file.append(b"a")
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        file.sync()
    file.close()
    with pytest.raises(FileNotFoundError):
        BlockFile(tmp_path / "none" / "file")
