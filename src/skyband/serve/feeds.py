"""Sources that the service reads itself: their rows take the same way as rows that are posted."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.data.ipc import schema_from
from skyband.data.letters import LETTERS, refuse
from skyband.errors import EngineError
from skyband.jobs.durable import write_whole
from skyband.jobs.local.source import LocalSource
from skyband.serve.service import Busy, Request, Service
from skyband.serve.status import ROWS

__all__ = ["Feed", "Taken", "known_schema", "source_feed"]

_LOOK = 0.1
"""Seconds between looks at a source that has nothing new."""


@dataclass(frozen=True)
class Taken:
    """A batch of a source."""

    table: pa.Table
    mark: Any = None
    """How far the source has come with it."""
    unread: pa.Table = field(default_factory=LETTERS.empty_table)
    """Letters for its records that could not be read."""
    origin: Mapping[str, pa.Array] = field(default_factory=dict)
    """Where each row came from."""


class Feed:
    """A thread that hands batches to a service."""

    def __init__(self, service: Service, source: str, batches: Iterator[Taken]) -> None:
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
            for taken in self.batches:
                if self._stop.is_set():
                    return
                if taken.unread.num_rows and self.service.board.on_bad == "raise":
                    refuse(taken.unread, taken.unread.num_rows)
                if taken.table.num_rows or taken.unread.num_rows:
                    self._hand_over(taken)
        except Exception as problem:  # noqa: BLE001  (/healthz, the page and the log report it)
            self.service.status.stopped(f"source {self.source or ROWS} stopped: {problem}")

    def _hand_over(self, taken: Taken) -> None:
        size = taken.table.nbytes + taken.unread.nbytes
        while not self._stop.is_set():
            try:
                request = Request(
                    self.source,
                    taken.table,
                    size,
                    mark=taken.mark,
                    unread=taken.unread,
                    origin=taken.origin,
                )
                self.service.submit(request).result()
                return
            except Busy:
                time.sleep(0.05)
            except EngineError:
                return


def source_feed(source: LocalSource, place: Any) -> Iterator[Taken]:
    """The batches of a source of a local job, from a place on; an empty one while it waits."""
    while True:
        found = source.take(place, last=False)
        if found is None:
            time.sleep(_LOOK)
            yield Taken(pa.table({}), place)
        else:
            table, place = found
            yield Taken(table, place, source.unread(), source.origin())


def known_schema(source: LocalSource, path: Path) -> pa.Schema:
    """The columns of a source: those of its first rows, which are kept in a file."""
    if path.exists():
        return schema_from(path.read_bytes())
    while True:
        found = source.take(source.first, last=False)
        if found is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, found[0].schema.serialize().to_pybytes())
            return found[0].schema
        time.sleep(_LOOK)
