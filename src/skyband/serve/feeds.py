"""Sources that the service reads itself: their rows take the same way as rows that are posted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from skyband.embedded.sources import batches_of, paths_of
from skyband.errors import EngineError, SkybandError
from skyband.serve.service import Busy, Refused, Request, Service
from skyband.serve.status import ROWS

__all__ = ["Feed", "files_feed"]

Marked = tuple[pa.Table, Mapping[str, int] | None]
"""A batch, and how far the source has come with it."""


class Feed:
    """A thread that hands batches to a service."""

    def __init__(self, service: Service, source: str, batches: Iterator[Marked]) -> None:
        self.service, self.source, self.batches = service, source, batches
        self._stop = threading.Event()
        name = f"skyband-feed-{source}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; what was handed over is still applied."""
        self._stop.set()

    def _run(self) -> None:
        try:
            for table, mark in self.batches:
                if self._stop.is_set():
                    return
                if table.num_rows:
                    self._hand_over(table, mark)
        except (SkybandError, Refused, OSError) as problem:
            self.service.status.troubles.append(f"source {self.source or ROWS} stopped: {problem}")

    def _hand_over(self, table: pa.Table, mark: Mapping[str, int] | None) -> None:
        while not self._stop.is_set():
            try:
                request = Request(self.source, table, table.nbytes, mark=mark)
                self.service.submit(request).result()
                return
            except Busy:
                time.sleep(0.05)
            except EngineError:
                return


def files_feed(
    path: str, mark: Mapping[str, int] | None, look_seconds: float = 1.0
) -> Iterator[Marked]:
    """The batches of all files that match, in the order of their names, and of those that come.

    ``mark`` tells how many batches of each file were applied before.
    """
    done: set[Path] = set()
    while True:
        for file in sorted(set(paths_of(path)) - done):
            yield from _file_batches(file, (mark or {}).get(str(file), 0))
            done.add(file)
        time.sleep(look_seconds)


def _file_batches(file: Path, applied: int) -> Iterator[Marked]:
    for number, table in enumerate(batches_of(file), start=1):
        if number > applied:
            yield table, {str(file): number}
