"""Run queries over a few of their rows, to learn which kernels they will need.

This happens only if kernels have to be compiled, so that a second process can compile some of them
meanwhile: see ``kernels.core.ahead``. Nothing of a rehearsal is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.embedded.monitor import new_board
from skyband.engine.chunks import as_table
from skyband.kernels.core.ahead import Rehearsal, rehearsing
from skyband.query import Query
from skyband.window import CountWindow

__all__ = ["Seen"]

_PLACES, _LENGTH = 20, 20
"""A rehearsal has so many stretches of so many rows: enough for all steps of a query, few enough
for plain Python."""

Read = Callable[[Any, str | None], Iterator[dict[str | None, Any]]]


class Seen:
    """What was seen of the sources of a board: the first batch of each."""

    def __init__(self, queries: Mapping[str | None, Query]) -> None:
        # A count window may be longer than the few rows, and a user's function may count its calls.
        self._queries = [
            query
            for query in queries.values()
            if not isinstance(query.window, CountWindow)
            and not callable(getattr(query, "combine", None))
        ]
        self._first: dict[str | None, pa.Table] = {}

    def note(self, source: str | None, batch: Any) -> None:
        """Remember the first batch of a source."""
        self._first.setdefault(source, as_table(batch))

    def noting(self, read: Read) -> Read:
        """The same reader, of whose batches the first is remembered until the second comes."""

        def noted(source: Any, name: str | None) -> Iterator[dict[str | None, Any]]:
            for i, batches in enumerate(read(source, name)):
                if i:
                    self._queries.clear()
                    self._first.clear()
                elif batches:
                    self.note(name, next(iter(batches.values())))
                yield batches

        return noted

    def ready(self) -> bool:
        """Whether there is a query that can be rehearsed."""
        return any(
            None in self._first or (query.sources and set(query.sources) <= self._first.keys())
            for query in self._queries
        )

    def rehearse(self) -> Rehearsal:
        """Run each query over rows from all of the first batches."""
        rows = max(table.num_rows for table in self._first.values())
        rehearsal = Rehearsal(scale=max(rows / (_PLACES * _LENGTH), 1.0))
        queries, self._queries = self._queries, []  # once
        with rehearsing(rehearsal):
            for query in queries:
                batch = self._read(query)
                if batch is None:
                    continue
                try:
                    board = new_board(query, on_bad="skip", threads=1)
                    board.push(batch)
                    board.flush()
                except Exception:  # noqa: BLE001, S110 - the query itself will raise it
                    pass
        return rehearsal

    def _read(self, query: Query) -> Any:
        """The rows for a query: a table, or a table per source; None if they were not seen."""
        if None in self._first:
            return _some(self._first[None])
        if not query.sources or not set(query.sources) <= self._first.keys():
            return None
        return {source: _some(self._first[source]) for source in query.sources}


def _some(table: pa.Table) -> pa.Table:
    """Rows from all over a table, in their order."""
    if table.num_rows <= _PLACES * _LENGTH:
        return table
    starts = np.linspace(0, table.num_rows - _LENGTH, _PLACES).astype(np.int64)
    return pa.concat_tables([table.slice(at, _LENGTH) for at in starts.tolist()]).combine_chunks()
