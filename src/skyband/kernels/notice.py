"""What people hear of compiling, which makes a first answer wait: that it happens, and how long.

It is said once per process, and only if something is compiled: to the logger ``skyband`` at level
INFO, and in a line on a terminal, in a notebook, and in what a job writes.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_log = logging.getLogger("skyband")


class _Waits:
    """The waits of this process for its compiler, of all threads together."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.said = False
        self.in_any_case = False
        self.under_way = 0
        self.began = 0.0
        self.seconds = 0.0


_waits = _Waits()


@contextmanager
def waiting() -> Iterator[None]:
    """While a kernel is compiled, or loaded, by any thread."""
    with _waits.lock:
        _waits.under_way += 1
        if _waits.under_way == 1:
            _waits.began = time.perf_counter()
    try:
        yield
    finally:
        with _waits.lock:
            _waits.under_way -= 1
            if not _waits.under_way:
                _waits.seconds += time.perf_counter() - _waits.began


def clock() -> float:
    """Seconds, as ``time.perf_counter``, which pass only while no kernel is compiled or loaded."""
    with _waits.lock:
        return (_waits.began if _waits.under_way else time.perf_counter()) - _waits.seconds


def say_nothing() -> None:
    """For a command whose purpose is to compile."""
    _waits.said = True


def say_in_any_case() -> None:
    """For jobs: what they write on the error stream is a log, though no terminal."""
    _waits.in_any_case = True


def compiling(folder: object) -> None:
    """Say that something is compiled now; it is kept in the folder, or not at all."""
    if _waits.said:
        return
    _waits.said = True
    kept = "kept on this machine" if folder else "not kept, because no folder can be written to"
    text = (
        "compiling what this query needs for the first time, which takes some seconds; the result "
        f"is {kept}. `skyband warm` compiles everything in advance"
    )
    _log.info(text)
    if not (_log.isEnabledFor(logging.INFO) and _log.hasHandlers()) and _is_seen():
        print(f"skyband: {text}", file=sys.stderr)  # noqa: T201  for somebody who waits


def _is_seen() -> bool:
    return _waits.in_any_case or in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


def in_notebook() -> bool:
    """Whether this process runs the cells of a notebook."""
    shell = sys.modules.get("IPython")
    return shell is not None and getattr(shell.get_ipython(), "kernel", None) is not None
