"""The queries of a service as one engine, and what is said about rows that they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.embedded.monitor import Monitor
from skyband.embedded.snapshots import BoardDiff
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.engine.session import ONLY
from skyband.query import Query

__all__ = ["Board", "Fault", "Schemas"]

Schemas = Mapping[str, pa.Schema]
"""The columns of each source; the name of a single source is ``""``."""


class Fault(NamedTuple):
    """The first bad row of a batch."""

    row: int
    column: str
    reason: str
    rows: int
    """How many rows are bad for any query."""


class Board:
    """Queries over the same sources. An error in one of them leaves all as they were."""

    def __init__(self, queries: Mapping[str, Query], schemas: Schemas, on_bad: str) -> None:
        self.queries = dict(queries)
        self.schemas = dict(schemas)
        self.on_bad = on_bad
        self._monitor = Monitor(self.queries, on_bad)
        self._judges = {name: _judge(query, schemas) for name, query in queries.items()}

    def push(self, source: str, table: pa.Table) -> list[Answer]:
        """Take a batch of a source; the answers that are due, query by query."""
        return self._monitor.push(table if source == ONLY else {source: table})

    def fault(self, source: str, table: pa.Table) -> Fault | None:
        """The first row that a query finds bad; changes nothing."""
        bad = np.zeros(table.num_rows, np.bool_)
        first: Fault | None = None
        for name, judge in self._judges.items():
            if source not in judge.bound:
                continue
            faults = judge.take(source, table).faults
            if faults is None:
                continue
            bad |= faults.mask
            for column, reason, mask in faults.tests:
                row = int(np.flatnonzero(mask)[0])
                if first is None or row < first.row:
                    value = table[column][row].as_py() if column in table.column_names else None
                    first = Fault(row, column, f"{reason} ({value!r}) in query {name!r}", 0)
        return None if first is None else first._replace(rows=int(bad.sum()))

    def stats(self) -> dict[str, dict[str, int | float]]:
        """The counts of each query."""
        found = self._monitor.stats()
        return {name: found[name] for name in self.queries}

    def columns(self, name: str) -> pa.Schema:
        """The columns of a query's answers."""
        monitor = Monitor(self.queries[name], self.on_bad)
        session = monitor.session
        for source, schema in self.schemas.items():
            if source == ONLY or source in self.queries[name].sources:
                session.bind(source, schema)
        session.several = ONLY not in self.schemas
        session.start()
        return session.schema(None)

    # State -------------------------------------------------------------------------------------

    def snapshot(self) -> bytes:
        """Everything that is needed to continue."""
        return self._monitor.snapshot()

    def resume(self, blob: bytes) -> BoardDiff:
        """Continue from a snapshot, and say which queries are new since, and which are gone."""
        self._monitor, changed = Monitor.resume(blob, self.queries, self.on_bad)
        return changed


def _judge(query: Query, schemas: Schemas) -> Intake:
    """Reads batches as the engine does, and says which rows are bad; keeps nothing."""
    judge = Intake(query, make_synopsis(query))
    for source, schema in schemas.items():
        if source == ONLY or source in query.sources:
            judge.bind(source, schema)
    return judge
