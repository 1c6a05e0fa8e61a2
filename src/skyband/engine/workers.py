"""Threads that summarise. Work is cut by the source, never by the number of threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from skyband.errors import QueryError

__all__ = ["Workers", "cores", "thread_count"]

Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1  # macOS and Windows


def thread_count(threads: Any) -> int:
    """The number of threads that a user asks for; None means all cores."""
    if threads is None:
        return cores()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise QueryError(
            f"threads must be a positive integer, or None for all cores of this process; "
            f"got {threads!r}"
        )
    return threads


class Workers:
    """A pool that applies a function to some items and keeps their order.

    The pool is started when there are several items for the first time.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The results in the order of the items; with one thread, or one item, in this thread."""
        if self.threads < 2 or len(items) < 2:
            return [function(item) for item in items]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="skyband")
        return list(self._pool.map(function, items))
