"""Time competing work in turns, so that a busy moment of the machine affects all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Progress", "best_of", "compared"]

Progress = Callable[[str], None]

OURS = "skyband"
PATIENCE = 15.0


def best_of(work: Mapping[str, Callable[[], Any]], repeat: int = 3) -> dict[str, float]:
    """The shortest time of each piece of work in seconds, run in turns ``repeat`` times.

    Work that has taken ``PATIENCE`` seconds in total is not repeated.

    >>> sorted(best_of({"a": lambda: None, "b": lambda: None}, repeat=1))
    ['a', 'b']
    """
    least = dict.fromkeys(work, float("inf"))
    spent = dict.fromkeys(work, 0.0)
    for _ in range(repeat):
        for name, run in work.items():
            if spent[name] >= PATIENCE:
                continue
            gc.collect()
            began = time.perf_counter()
            result = run()
            took = time.perf_counter() - began
            spent[name] += took
            least[name] = min(least[name], took)
            del result
    return least


def compared(
    settings: Mapping[str, Any],
    rows: Mapping[str, int],
    work: Mapping[str, Callable[[], Any]],
    repeat: int = 3,
) -> dict[str, Any]:
    """One measured row: each rate in millions of rows per second, and our ratio to the others.

    Ours runs once untimed, to warm up. ``rows`` says how many rows each piece of work processes; a
    slow peer may get fewer of them. ``rows`` and ``work`` have the same keys; ours is ``skyband``.

    >>> row = compared({"k": 1}, {"skyband": 10}, {"skyband": lambda: sum(range(10))}, repeat=1)
    >>> list(row)
    ['k', 'rows', 'skyband M rows/s']
    """
    work[OURS]()  # compiles what is not cached yet
    seconds = best_of(work, repeat)
    rate = {name: rows[name] / seconds[name] / 1e6 for name in work}
    row: dict[str, Any] = {**settings, "rows": rows[OURS]}
    row |= {f"{name} M rows/s": rate[name] for name in work}
    row |= {f"× {name}": rate[OURS] / rate[name] for name in work if name != OURS}
    return row
