"""A second process that compiles what a query needs next.

Numba compiles one kernel at a time in a process. So when the first kernel of a query has to be
compiled, a second process is started, and the query is rehearsed meanwhile: it runs in plain Python
over a few rows, which shows which kernels it calls with which types. The second process compiles
these kernels, the longest first, and keeps them in the cache; this process compiles them in the
order in which it needs them. Each leaves a mark in the cache for the kernel that it is working on,
so that none is compiled twice.

There is no second process if there is only one core, if nothing can be kept, or with
``SKYBAND_COMPILE_AHEAD=0``. If it fails, kernels are compiled here, as without it.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

__all__ = [
    "Rehearsable", "Rehearsal", "awaited", "begun", "current", "ended", "finish", "offered",
    "rehearsing", "serve", "start",
]  # fmt: skip

_LEAST = 1 << 13  # items: with fewer a kernel is interpreted, see `patient`
_CODE = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); "
    "from skyband.kernels.compile_ahead import serve; serve()"
)
Task = tuple[str, str, tuple[Any, ...]]


@dataclass
class Rehearsal:
    """The calls of kernels while a query is rehearsed, in order."""

    scale: float = 1.0
    """How many times more rows the query will have."""
    calls: dict[tuple[Any, tuple[Any, ...]], int] = field(default_factory=dict)
    """Kernels and the types of their arguments, with the size of the largest call."""
    plain: dict[Any, Callable[..., Any]] = field(default_factory=dict)

    def note(self, kernel: Any, args: tuple[Any, ...], size: int) -> None:
        """A call of a kernel."""
        key = (kernel, tuple(kernel.typeof_pyval(arg) for arg in args))
        self.calls[key] = max(size, self.calls.get(key, 0))

    def tasks(self) -> list[Task]:
        """What will have to be compiled, what takes longest first."""
        needed = [
            (kernel, types)
            for (kernel, types), size in self.calls.items()
            if size * self.scale >= _LEAST and not _is_kept(kernel, types)
        ]
        needed.sort(key=lambda task: -_length(task[0], set()))
        return [(k.py_func.__module__, k.py_func.__qualname__, types) for k, types in needed]


class Rehearsable(Protocol):
    """A query that can be rehearsed."""

    def ready(self) -> bool:
        """Whether enough of its source was seen."""

    def rehearse(self) -> Rehearsal:
        """Run it over a few rows."""


class _Process:
    """What this process knows of the other one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.offer: Rehearsable | None = None
        self.helper: subprocess.Popen[bytes] | None = None
        self.parent: int | None = None
        self.mine: set[Path] = set()

    def asked(self) -> Rehearsable | None:
        """The query that runs now, which another thread may have ended meanwhile."""
        return self.offer

    @property
    def partner(self) -> int | None:
        """The id of the other process, while it runs."""
        if self.parent is not None:
            return self.parent if os.getppid() == self.parent else None
        helper = self.helper
        return helper.pid if helper is not None and helper.poll() is None else None


_this = _Process()
_thread = threading.local()


@contextmanager
def offered(offer: Rehearsable) -> Iterator[None]:
    """Let a query be rehearsed if something has to be compiled meanwhile."""
    before, _this.offer = _this.offer, offer
    try:
        yield
    finally:
        _this.offer = before


@contextmanager
def rehearsing(rehearsal: Rehearsal) -> Iterator[None]:
    """Interpret all kernels that this thread calls, and note the calls."""
    _thread.rehearsal = rehearsal
    try:
        yield
    finally:
        _thread.rehearsal = None


def current() -> Rehearsal | None:
    """The rehearsal of this thread, if there is one."""
    return getattr(_thread, "rehearsal", None)


def start() -> None:
    """Called when a kernel is about to be compiled: start the second process, once per query."""
    if _this.offer is None or not _this.lock.acquire(blocking=False):
        return
    try:
        offer = _this.asked()
        if offer is None or _this.partner is not None or not offer.ready():
            return
        _this.helper = helper = _started()
        if helper is not None:
            assert helper.stdin is not None
            with suppress(OSError), helper.stdin as pipe:
                pipe.write(pickle.dumps(sys.path))
                pipe.flush()
                pipe.write(pickle.dumps((os.getpid(), offer.rehearse().tasks())))
    finally:
        _this.lock.release()


def _started() -> subprocess.Popen[bytes] | None:
    from skyband.kernels.jit import cache_folder  # which needs this module

    folder, executable = cache_folder(), Path(sys.executable or "")
    wanted = os.environ.get("SKYBAND_COMPILE_AHEAD", "1") != "0"
    if not wanted or _cores() < 2 or folder is None or "python" not in executable.name.lower():
        return None  # in the last case, Python is part of another program
    try:
        helper = subprocess.Popen(  # noqa: S603 - our own code
            [executable, "-c", _CODE],
            env=os.environ | {"NUMBA_CACHE_DIR": str(folder)},
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    except OSError:
        return None
    atexit.register(finish, helper)
    return helper


def _cores() -> int:
    usable = getattr(os, "sched_getaffinity", None)  # not on every system
    return len(usable(0)) if usable is not None else os.cpu_count() or 1


def finish(helper: subprocess.Popen[bytes] | None = None, wait: float = 0.0) -> None:
    """End the second process, after waiting for its work for so many seconds."""
    helper = helper or _this.helper
    if helper is None:
        return
    with suppress(subprocess.TimeoutExpired):
        helper.wait(wait)
    if helper.poll() is None:
        helper.terminate()
        helper.wait()


def _length(kernel: Any, seen: set[int]) -> int:
    """The length of the code of a kernel, with all kernels that it calls."""
    if id(kernel) in seen:
        return 0
    seen.add(id(kernel))
    code, names = kernel.py_func.__code__, kernel.py_func.__globals__
    called = [names[name] for name in code.co_names if hasattr(names.get(name), "py_func")]
    return len(code.co_code) + sum(_length(each, seen) for each in called)


def _is_kept(kernel: Any, types: tuple[Any, ...]) -> bool:
    return bool(kernel._cache.path_of(types).exists())  # noqa: SLF001


# Marks in the cache ------------------------------------------------------------------------------


def awaited(path: Path) -> bool:
    """Whether the other process was at work on this file; returns when it has finished."""
    waited = False
    while (partner := _this.partner) is not None and _mark(path, partner).exists():
        if _this.parent is not None:
            return True  # the second process does something else meanwhile
        waited = True
        time.sleep(0.005)
    return waited


def begun(path: Path) -> None:
    """Say that this process is at work on a file."""
    if _this.partner is None:
        return
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        _mark(path, os.getpid()).touch()
        _this.mine.add(path)


def ended(path: Path) -> None:
    """Say that it is there, or that it will not be."""
    if path in _this.mine:
        _this.mine.discard(path)
        _mark(path, os.getpid()).unlink(missing_ok=True)


def _mark(path: Path, process: int) -> Path:
    return path.with_name(f"{path.name}.{process}")


# In the second process ---------------------------------------------------------------------------


def serve() -> None:
    """Compile what the other process asks for."""
    _this.parent, tasks = pickle.load(sys.stdin.buffer)  # noqa: S301 - from our own parent
    for module, name, types in tasks:
        if _this.partner is None:
            return
        kernel = _entry(module, name)
        path = None if kernel is None else kernel._cache.path_of(types)  # noqa: SLF001
        if path is None or path.exists() or awaited(path):
            continue
        with suppress(Exception):  # whoever needs the kernel sees the error
            kernel.compile(types)
        for path in list(_this.mine):
            ended(path)


def _entry(module: str, name: str) -> Any:
    """The compiled function behind a name."""
    found = getattr(import_module(module), name, None)
    twin = getattr(found, "twin", None)
    return twin() if twin is not None else getattr(found, "__wrapped__", None)
