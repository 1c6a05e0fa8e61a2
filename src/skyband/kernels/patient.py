"""Kernels that are interpreted until there is enough work to make compiling worthwhile.

Compiling the kernels of a query takes seconds, once per machine; running them in plain Python on
a few hundred rows takes milliseconds. So a kernel that Python calls, decorated with ``@kernel``,
runs interpreted while its arguments are small, until these calls together have taken as long as is
worth waiting for. A kernel that is compiled already, in this process or in the cache, is never
interpreted.

Some kernels say more about themselves, with ``@kernel_of(...)``: how to count the work of a call,
if the sizes of its arrays say little about it; or a stand-in that does the same with numpy, at a
speed that makes even a million rows no reason to compile.
"""

from __future__ import annotations

import functools
import gc
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numpy as np

from skyband.kernels.jit import for_python

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

_config: Any = numba.config
_LARGE = 1 << 13  # a call with so many items in its arrays is compiled at once
_LARGE_FOR_NUMPY = 1 << 24  # the same, if there is a stand-in
_PATIENCE = 0.2  # seconds in total
_told = {"hurry": False}


def hurry() -> None:
    """From now on compile kernels at once: measurements warm up on few rows."""
    _told["hurry"] = True


def kernel(function: Kernel) -> Kernel:
    """Compile a function that only Python calls, no other kernel; it is interpreted at first."""
    return patient(for_python(function))


def kernel_of(
    *, work: Callable[..., int] | None = None, stand_in: Callable[..., Any] | None = None
) -> Callable[[Kernel], Kernel]:
    """As `kernel`, with a count of the work of a call, or numpy code to run at first."""

    def decorate(function: Kernel) -> Kernel:
        return patient(for_python(function), work=work, stand_in=stand_in)

    return decorate


def patient(
    kernel: Kernel,
    *,
    work: Callable[..., int] | None = None,
    stand_in: Callable[..., Any] | None = None,
) -> Kernel:
    """The kernel, interpreted at first. Other kernels call the kernel itself, not this."""
    if _config.DISABLE_JIT:
        return kernel
    twin = getattr(kernel, "twin", None)
    if twin is not None:
        kernel = twin()
    compiled: Any = kernel
    compiled._compilation_chain_init_hook = _no_extensions  # noqa: SLF001
    left = _PATIENCE
    plain: Callable[..., Any] | None = None
    limit = _LARGE if stand_in is None else _LARGE_FOR_NUMPY

    @functools.wraps(kernel)
    def run(*args: Any) -> Any:
        nonlocal left, plain
        if left <= 0 or _told["hurry"]:
            return kernel(*args)
        size = _size(args) if work is None else work(*args)
        large = size >= limit
        if large or plain is None:
            ready = _is_compiled(kernel)
            if large or ready:
                left = 0.0
                return kernel(*args) if ready else _compiled(kernel, args)
        plain = plain or stand_in or interpreted(kernel)
        began = time.thread_time()  # not what other processes take
        with np.errstate(all="ignore"):
            result = plain(*args)
        left -= time.thread_time() - began
        return result

    wrapped: Any = run
    wrapped.stand_in = stand_in
    return cast(Kernel, wrapped)


def _no_extensions() -> None:
    """Instead of looking for extensions of numba in all installed packages: kernels use none."""


def _compiled(kernel: Any, args: tuple[Any, ...]) -> Any:
    """Call a kernel that has to be compiled, without collecting garbage meanwhile.

    Compiling makes many objects that stay, and going through them again and again takes 5 %.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return kernel(*args)
    finally:
        if collects:
            gc.enable()


def interpreted(kernel: Any) -> Callable[..., Any]:
    """The same code in plain Python, including all kernels that it calls."""
    return _interpreted(kernel, {})


def _interpreted(kernel: Any, done: dict[int, FunctionType]) -> FunctionType:
    if id(kernel) in done:
        return done[id(kernel)]
    source = kernel.py_func
    names = dict(source.__globals__)
    copy = FunctionType(source.__code__, names, source.__name__, source.__defaults__)
    done[id(kernel)] = copy
    for name in source.__code__.co_names:
        value: Any = names.get(name)
        if hasattr(value, "py_func"):
            names[name] = _interpreted(value, done)
        elif hasattr(value, "plain"):
            names[name] = value.plain
    return copy


def _is_compiled(kernel: Any) -> bool:
    if kernel.signatures:
        return True
    folder = kernel.stats.cache_path
    name = kernel.py_func.__qualname__
    return folder is not None and any(Path(folder).glob(f"*.{name}-*.nbi"))


def _size(values: tuple[Any, ...]) -> int:
    return sum(
        value.size
        if isinstance(value, np.ndarray)
        else _size(value)
        if isinstance(value, tuple)
        else 0
        for value in values
    )
