"""Compiled kernels on disk: one file per kernel and types of arguments, named by what is in it.

Numba keeps an index per function, and takes a function as changed when its file has another time
or another path. So a cache that is copied to another machine, or used after a fresh checkout, is of
no use; and two processes that compile one function for different types at the same time can end up
with an index that names the wrong code. Here, the name of a file is a digest of all that its code
depends on: the sources, the versions of Python and numba, the processor and the types. A file is
written aside and then renamed, so that it is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import stat
import sys
import uuid
from pathlib import Path
from typing import Any

import llvmlite  # type: ignore[import-untyped]
import numba
from numba.core import caching, compiler
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
from numba.core.serialize import dumps

from skyband.kernels.core import ahead

__all__ = ["Kept", "only_ours"]


class Kept(caching._Cache):  # noqa: SLF001 - numba's interface of caches
    """What is kept of one kernel. `folder` is of its own sources; see `jit.surroundings`."""

    def __init__(self, function: Any, folder: Path) -> None:
        module = Path(function.__code__.co_filename).stem
        name = f"{module}.{function.__qualname__}".replace("<", "").replace(">", "")
        self._prefix = f"{name}-"
        self._code = function.__code__.co_code
        self._folder = folder

    @property
    def cache_path(self) -> str:
        """The folder that the files of this kernel are in."""
        return str(self._folder)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The kernel for arguments of these types, or None."""
        # Numba's own cache loads all that the compiler knows about first, scipy included. To run
        # code, its memory manager is enough.
        rtsys.initialize(target_context)
        path = self._path(sig, target_context.codegen())
        payload = _read(path)
        if payload is None and ahead.awaited(path):
            payload = _read(path)
        if payload is None:
            ahead.begun(path)
            return None
        return compiler.CompileResult._rebuild(target_context, *payload)  # noqa: SLF001

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the kernel for arguments of these types."""
        path = self._path(sig, data.codegen)
        if data.library.has_dynamic_globals:  # addresses that hold in this process only
            ahead.ended(path)
            return
        aside = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            aside.touch(mode=0o600)
            aside.write_bytes(dumps(data._reduce()))  # noqa: SLF001
            aside.replace(path)
        except OSError:  # a full disk, say: it will be compiled again
            aside.unlink(missing_ok=True)
        ahead.ended(path)

    def path_of(self, types: tuple[Any, ...]) -> Path:
        """The file of the kernel for arguments of these types."""
        return self._path(types, cpu_target.target_context.codegen())

    def _path(self, sig: Any, codegen: Any) -> Path:
        versions = (sys.version_info[:2], numba.__version__, llvmlite.__version__)
        parts = (versions, codegen.magic_tuple(), str(sig), self._code)
        digest = hashlib.sha256(repr(parts).encode()).hexdigest()
        return self._folder / f"{self._prefix}{digest[:24]}.nbi"

    def enable(self) -> None:
        """Part of numba's interface; a kernel is always kept."""

    def disable(self) -> None:
        """Part of numba's interface; a kernel is always kept."""

    def flush(self) -> None:
        """Part of numba's interface; files are removed by removing the folder."""


def only_ours(entry: os.stat_result) -> bool:
    """Whether a file or folder is this user's, and nobody else may write to it."""
    if not hasattr(os, "getuid"):  # Windows keeps caches in folders of the user
        return True
    return entry.st_uid == os.getuid() and not entry.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            if not only_ours(os.fstat(file.fileno())):
                return None
            return pickle.load(file)  # noqa: S301 - numba's own format, in a file of ours
    except (OSError, EOFError, pickle.UnpicklingError):
        return None
