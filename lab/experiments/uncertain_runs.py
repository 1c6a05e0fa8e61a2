"""Single measurements of the uncertain synopses: rows kept, compact sets, time per row."""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import skyband as sb
from skyband.arrays import Ints
from skyband.uncertain.base import rule_of
from skyband.uncertain.kernels import queue
from skyband.uncertain.kernels.compact import compact_end
from skyband.uncertain.kernels.types import KEEP, READ, SemanticsCode
from skyband.uncertain.queue import BufferedSegments

__all__ = [
    "ALGORITHMS", "OURS", "PRINTED", "Point", "Stream", "as_printed", "measure", "needed",
    "query_of", "semantics_of", "set_size",
]  # fmt: skip

ALGORITHMS = {
    "BS": "bs",
    "CSQ": "csq",
    "CCSQ": "ccsq",
    "SCSQ": "scsq",
    "SCSQ-Buffer": "scsq-buffer",
}
PRINTED, OURS = "SCSQ-Buffer", "SCSQ-Buffer, in batches"
"""As the paper has it, emptied whenever it has kH rows; and as ours is, once per batch."""
FAST = ("bs", "scsq-buffer")
THRESHOLD = 0.3
WARM_UP = 25
"""Rows after the first window that are not timed, because kernels may compile during them."""
ROW_BYTES, ENTRY_BYTES = 6, 4


def semantics_of(kind: str, k: int) -> SemanticsCode:
    """The semantics as used in all measurements."""
    return rule_of(kind, k, THRESHOLD if kind == "pt-k" else None)


def set_size(
    semantics: SemanticsCode, p: npt.NDArray[np.float64], slack: float = READ
) -> int | None:
    """How many of these rows, in row order, are in the compact set; None if there is none."""
    end = int(compact_end(semantics, p, np.arange(len(p)), len(p), slack))
    return None if end < 0 else end


@dataclass(frozen=True)
class Point:
    """One run: its setting, rows kept at its end, the largest compact set, microseconds per row."""

    k: int
    size: int
    retained: int
    largest: int
    micros: float
    rows: int = 1
    """Rows that were timed."""
    sets: int = 0
    """Compact sets at the end."""
    updates: float = 0.0
    """Compact sets updated per row."""
    emptied: int = 0
    """How often the buffer was emptied."""

    @property
    def space(self) -> int:
        """Bytes as the paper counts them: the rows, and the array r of one compact set."""
        return ROW_BYTES * self.retained + ENTRY_BYTES * self.k * self.largest


class Stream:
    """A table with its rows numbered, and a cache of the rows that its first windows need."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table.append_column("seq", pa.array(np.arange(table.num_rows)))
        self._needed: dict[tuple[str, int, int], npt.NDArray[np.int64]] = {}

    def needed(self, kind: str, k: int, size: int) -> npt.NDArray[np.int64]:
        """Like the function ``needed``, for the first window; computed once."""
        setting = kind, k, size
        if setting not in self._needed:
            first = self.table.slice(0, size)
            columns = first["score"].to_numpy(), first["p"].to_numpy()
            self._needed[setting] = needed(semantics_of(kind, k), *columns)
        return self._needed[setting]


def needed(
    semantics: SemanticsCode, score: npt.NDArray[np.float64], p: npt.NDArray[np.float64]
) -> npt.NDArray[np.int64]:
    """Rows in the compact set of the newest n rows for some n: these are all that a queue holds.

    >>> scores, p = np.array([1, 9, 2, 3, 1]), np.ones(5)
    >>> needed(rule_of("pk-topk", 2), scores, p).tolist()
    [1, 2, 3, 4]
    """
    best: list[tuple[float, int]] = []  # the compact set of the rows so far, or all of them
    closed = False
    found = []
    for row in range(len(score) - 1, -1, -1):
        place = (-float(score[row]), -row)
        if closed and place > best[-1]:
            continue
        bisect.insort(best, place)
        found.append(row)
        end = set_size(semantics, p[[-number for _, number in best]], KEEP)
        if end is not None:
            closed = True
            del best[end:]
    return np.array(found[::-1], np.int64)


@contextmanager
def as_printed() -> Iterator[None]:
    """Let SCSQ-Buffer empty its buffer as soon as it has kH rows, as algorithm 2 does.

    Ours takes all rows of a batch that no window needs before, and empties the buffer once.
    """
    take = BufferedSegments.take  # what the paper does is no option of ours

    def in_pieces(self: BufferedSegments, offsets: Ints, gone: Ints) -> None:
        panes, start = len(offsets) - 1, 0
        while True:
            num = self.queue.num
            free = max(1, int(num[queue.ROOM] - (num[queue.HIGH] - num[queue.FRESH])))
            end = min(panes, int(np.searchsorted(offsets, offsets[start] + free)))
            take(self, offsets[start : end + 1], gone[start : end + 1])
            if end == panes:
                return
            start = end

    with patch.object(BufferedSegments, "take", in_pieces):
        yield


def query_of(kind: Any, algorithm: str, k: int, window: Any, time: str | None) -> sb.UncertainTopK:
    """The query as used in all measurements."""
    return sb.UncertainTopK(
        k=k, score="score", probability="p", window=window, time=time, semantics=kind,
        threshold=THRESHOLD if kind == "pt-k" else None, algorithm=algorithm,
    )  # fmt: skip


def measure(stream: Stream, kind: str, label: str, k: int, size: int, seconds: float) -> Point:
    """Fill the window, then time rows for about ``seconds``.

    The slow queues are filled only with what they would hold of the first window: the other rows
    would leave no trace. These queues use time windows, one time unit per row, so that rows keep
    their positions in the window.
    """
    algorithm = ALGORITHMS[PRINTED if label == OURS else label]
    with as_printed() if label == PRINTED else nullcontext():
        return _measure(stream, kind, algorithm, k, size, seconds)


def _measure(stream: Stream, kind: str, algorithm: str, k: int, size: int, seconds: float) -> Point:
    fast = algorithm in FAST
    window = sb.CountWindow(size, slide=1) if fast else sb.TimeWindow(size, slide=1)
    monitor = sb.Monitor(query_of(kind, algorithm, k, window, None if fast else "seq"))
    table = stream.table
    first = table.slice(0, size)
    # A board of sessions computes answers without making a Python object for each.
    monitor.board.push(first if fast else first.take(pa.array(stream.needed(kind, k, size))))
    monitor.board.push(table.slice(size, WARM_UP))
    start, rows, spent = size + WARM_UP, 0, 0.0
    batch = 5_000 if fast else 25
    before = monitor.stats()
    while spent < seconds and start + rows < table.num_rows:
        some = table.slice(start + rows, batch)
        started = time.process_time()
        monitor.board.push(some)
        spent += time.process_time() - started
        rows += some.num_rows
        batch *= 2
    stats = monitor.stats()
    largest = int(stats.get("largest_compact_set", 0)) or _compact_set(stream, kind, k, size)
    done = {name: stats.get(name, 0) - before.get(name, 0) for name in stats}
    return Point(
        k, size, int(stats["retained"]), largest, spent * 1e6 / rows, rows,
        int(stats.get("compact_sets", 0)), done.get("compact_sets_updated", 0) / rows,
        int(done.get("buffers_emptied", 0)),
    )  # fmt: skip


def _compact_set(stream: Stream, kind: str, k: int, size: int) -> int:
    """The size of the compact set of the first window."""
    score = stream.table["score"].to_numpy()[:size]
    order = np.lexsort((-np.arange(len(score)), -score))
    end = set_size(semantics_of(kind, k), stream.table["p"].to_numpy()[:size][order])
    return end or len(score)
