"""The queries of a service as one engine, and what is said about rows that they refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.embedded.monitor import Monitor
from skyband.embedded.snapshots import BoardDiff
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.engine.row_limits import RowLimits
from skyband.engine.session import ONLY
from skyband.errors import EngineError
from skyband.query import Query
from skyband.serve.bodies import Unreadable, read_body

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
        self.limits: Mapping[str, RowLimits] = {}
        """What a job takes of the rows of each query."""
        self.latest = 2**63 - 1
        """The greatest time that is not too far ahead of the clock, in ticks."""
        self._monitor = Monitor(self.queries, on_bad)
        self._judges = {name: _judge(query, schemas) for name, query in queries.items()}

    def limit(self, clock: float) -> None:
        """Judge what comes next as at this moment, in seconds since 1970."""
        self._monitor.board.limit(self.limits, clock)
        for name, limits in self.limits.items():
            self._judges[name].limit(limits, clock)
            if limits.ahead is not None:
                self.latest = int(clock * 1e6) + limits.ahead

    def push(self, source: str, table: pa.Table) -> list[Answer]:
        """Take a batch of a source; the answers that are due, query by query."""
        return self._monitor.push(table if source == ONLY else {source: table})

    def again(self, source: str, rows: bytes) -> pa.Table:
        """Rows of the journal; raises EngineError if they have other columns than the source."""
        try:
            return read_body("arrow", rows, self.schemas[source])
        except Unreadable as problem:
            where = f"[sources.{source}]" if source else "[source]"
            raise EngineError(
                f"the columns of {where} do not fit rows that were taken before: {problem}. "
                "Put the old columns back, or give the job a new checkpoint. Once a service was "
                "stopped and not killed, columns may be added"
            ) from None

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
                    value = _python(table[column][row]) if column in table.column_names else None
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
        for session in self._monitor.board.sessions:
            for source, schema in self.schemas.items():  # columns may have changed
                if source in session.bound:
                    with session.named():
                        session.bind(source, schema)
        return changed


def _python(value: pa.Scalar) -> Any:
    """A value as Python has it; a time beyond its range as an integer."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return value.value


def _judge(query: Query, schemas: Schemas) -> Intake:
    """Reads batches as the engine does, and says which rows are bad; keeps nothing."""
    judge = Intake(query, make_synopsis(query))
    for source, schema in schemas.items():
        if source == ONLY or source in query.sources:
            judge.bind(source, schema)
    return judge
