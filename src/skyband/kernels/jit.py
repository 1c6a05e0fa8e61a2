"""The one jit wrapper: all kernels share its flags, and its cache if one can be written.

The cache goes to the first of these folders that this user, and nobody else, can write:
`NUMBA_CACHE_DIR`, the package's `__pycache__`, the user's cache folder, a private temporary folder.
If there is none, kernels are compiled in every process. A cache holds machine code that is loaded
unchecked. With `NUMBA_DISABLE_JIT=1` kernels run as plain Python.

Kernels are compiled by `compiler`, which relies on parts of numba that may change. If they do, set
`SKYBAND_PLAIN_NUMBA=1`: then `numba.njit` compiles them, to the same results, in more time.
"""

from __future__ import annotations

import functools
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_config: Any = numba.config  # its settings are set while it is imported, which no type checker sees

# No fastmath: scores may be infinite, and NaN must stay NaN. The numpy error model spares kernels
# a branch at every division.
_FLAGS: dict[str, Any] = {
    "nogil": True,
    "boundscheck": False,
    "error_model": "numpy",
}
# Nobody calls kernels through a C pointer.
_OURS = _FLAGS | {"nopython": True, "no_cfunc_wrapper": True}
PLAIN = os.environ.get("SKYBAND_PLAIN_NUMBA", "0") != "0"


def jit(function: Kernel) -> Kernel:
    """Compile `function` for other kernels, without the GIL and without bounds checks."""
    return _inner(function, {})


def piece(function: Kernel) -> Kernel:
    """As `jit`, for a step of a kernel that has its own name only to make the kernel readable.

    It is always inlined, so a call costs nothing. Call it from few places: each call adds its code.
    """
    return _inner(function, {"forceinline": True})


def _inner(function: Kernel, flags: dict[str, Any]) -> Kernel:
    if _config.DISABLE_JIT:
        return _interpreted(function)
    if PLAIN:
        return cast(Kernel, numba.njit(**_FLAGS, **flags)(function))
    from skyband.kernels.compiler import Inner

    made = Inner(function, {}, _OURS | {"no_cpython_wrapper": True} | flags)
    made.twin = functools.cache(functools.partial(for_python, function))
    return cast(Kernel, made)


def for_python(function: Kernel) -> Kernel:
    """As `jit`, for what Python may call too; what is compiled is kept in the cache."""
    if _config.DISABLE_JIT:
        return _interpreted(function)
    folder = cache_folder() if Path(function.__code__.co_filename).exists() else None
    if PLAIN:
        return cast(Kernel, numba.njit(cache=folder is not None, **_FLAGS)(function))
    from skyband.kernels.compiler import Entry

    made = Entry(function, {}, dict(_OURS))
    if folder is not None:
        made.keep_in(folder / surroundings(function))
    return cast(Kernel, made)


def first_usable(folders: Iterable[Path], usable: Callable[[Path], bool]) -> Path | None:
    """The first folder that passes the probe, or None; later ones are not probed."""
    return next((folder for folder in folders if usable(folder)), None)


@functools.cache
def cache_folder() -> Path | None:
    """Where compiled kernels are kept in this process; None where nothing can be kept."""
    return first_usable(_candidates(), _takes_files)


def _candidates() -> Iterator[Path]:
    if _config.CACHE_DIR:
        yield Path(_config.CACHE_DIR)
    yield Path(__file__).parent / "__pycache__" / "numba"
    try:
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "skyband"
    except RuntimeError:  # there is no home
        pass
    try:
        shared = Path(tempfile.gettempdir())
    except FileNotFoundError:  # there is no temporary folder either
        return
    owner = str(os.getuid()) if hasattr(os, "getuid") else "user"
    mine = shared / f"skyband-{owner}"
    if _is_private(mine):
        yield mine


def _takes_files(folder: Path) -> bool:
    """Make `folder` if need be; whether files can be kept there that nobody else can change."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not only_ours(folder.stat()):
            return False
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"\0")
    except OSError:
        return False
    return True


def only_ours(entry: os.stat_result) -> bool:
    """Whether a file or folder is this user's, and nobody else may write to it."""
    if not hasattr(os, "getuid"):  # Windows keeps caches in folders of the user
        return True
    return entry.st_uid == os.getuid() and not entry.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _is_private(folder: Path) -> bool:
    """Make `folder` for this user alone; False if it is a link, or somebody else's.

    Anyone may make a folder or a link of this name in the temporary folder.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        entry = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(entry.st_mode) and only_ours(entry)


def surroundings(function: Callable[..., Any]) -> str:
    """A name that changes when code or constants change that compiled code depends on.

    That is the file of `function`, what it uses from other files, and how it is compiled.
    """
    digest = hashlib.sha256()
    ours = [str(Path(__file__).with_name(name)) for name in ("jit.py", "compiler.py", "borrow.py")]
    for path in (function.__code__.co_filename, *ours):
        digest.update(_digest_of_file(path))
    for name, value in sorted(_globals(function).items()):
        if isinstance(value, (bool, int, float, str, np.generic)) and not name.startswith("__"):
            digest.update(f"{name}={value!r};".encode())
    for path in sorted(_files_called(function, {function.__code__.co_filename})):
        digest.update(_digest_of_file(path))
    return digest.hexdigest()[:16]


def _files_called(function: Callable[..., Any], seen: set[str]) -> set[str]:
    found: set[str] = set()
    for value in _globals(function).values():
        callee = getattr(value, "py_func", None)
        if callee is not None and (path := callee.__code__.co_filename) not in seen:
            seen.add(path)
            found |= {path} | _files_called(callee, seen)
    return found


def _globals(function: Callable[..., Any]) -> dict[str, Any]:
    return cast(dict[str, Any], getattr(function, "__globals__", {}))


@functools.cache
def _digest_of_file(path: str) -> bytes:
    try:
        return hashlib.sha256(Path(path).read_bytes()).digest()
    except OSError:
        return b""


def _interpreted(function: Kernel) -> Kernel:
    """Plain Python that, like compiled code, lets integers wrap and divides without a warning."""

    @functools.wraps(function)
    def run(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return cast(Kernel, run)
