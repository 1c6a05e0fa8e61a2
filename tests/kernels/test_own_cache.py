"""Compiled kernels are kept in, and loaded from, what only this user may write to."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from skyband.kernels.compiler import _read
from skyband.kernels.jit import _takes_files

pytestmark = [
    pytest.mark.nojit,
    pytest.mark.skipif(not hasattr(os, "getuid"), reason="Windows has other permissions"),
]


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_no_folder_is_taken_that_others_can_write_to(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    assert not _takes_files(folder)
    folder.chmod(0o755)
    assert _takes_files(folder)


def test_no_folder_of_another_user_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _takes_files(tmp_path / "new")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert not _takes_files(tmp_path / "new")


def test_what_is_made_for_the_cache_is_for_this_user_alone(tmp_path: Path) -> None:
    before = os.umask(0o002)  # as on systems where every user has a group
    try:
        assert _takes_files(tmp_path / "new")
        assert _takes_files(tmp_path / "new")
    finally:
        os.umask(before)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


class Bomb:
    """What does something as soon as it is unpickled."""

    def __reduce__(self) -> Any:
        return dict, ([("went", "off")],)


def test_a_file_that_others_could_have_written_is_not_unpickled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "kernel.nbi"
    path.write_bytes(pickle.dumps(Bomb()))
    path.chmod(0o644)
    assert _read(path) == {"went": "off"}
    path.chmod(0o664)
    assert _read(path) is None
    path.chmod(0o646)
    assert _read(path) is None
    path.chmod(0o600)
    assert _read(path) == {"went": "off"}
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert _read(path) is None
    assert _read(tmp_path / "none") is None
