"""Dead letters of a local job: each bad row once, with a reason per query, as on Spark."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import pyarrow as pa

from skyband.data.letters import LETTERS, Carried, row_letters
from skyband.engine.intake import Intake
from skyband.engine.per_group import make_synopsis
from skyband.engine.row_limits import RowLimits
from skyband.jobs.job import Job
from skyband.jobs.local.source import LocalSource
from skyband.jobs.rows import Sink, TableRows, written
from skyband.jobs.sinks import make_sink

__all__ = ["Letters"]


class Letters:
    """Writes the bad rows of each batch to the job's ``[dead_letters]``, if it has any."""

    def __init__(self, job: Job, limits: Mapping[str, RowLimits]) -> None:
        self.limits = limits
        self.queries = job.queries
        self.alone = job.alone
        self.sink: Sink[TableRows] | None = None
        self.counted: dict[str, int] = {}
        """Bad rows of each query before this batch."""
        if job.dead_letters is not None and job.on_bad == "skip":
            name = f"{job.name}-dead-letters"
            self.sink = make_sink(job.dead_letters, "[dead_letters]", job.name, name, "json")

    def open(self, run: str) -> None:
        """Check that letters can be written."""
        if self.sink is not None:
            self.sink.open(run)

    def write(
        self,
        batch: int,
        tables: Mapping[str, pa.Table],
        sources: Mapping[str, LocalSource],
        counts: Mapping[str, int],
        clock: float,
    ) -> None:
        """Write the bad rows of a batch that was judged at this moment.

        ``counts`` are the bad rows of each query so far.
        """
        worse = [name for name in self.queries if counts[name] > self.counted.get(name, 0)]
        self.counted = dict(counts)
        if self.sink is None:
            return
        found = [sources[source].unread() for source in tables]
        found += [
            self.of_rows(source, table, worse, sources[source].origin(), clock)
            for source, table in tables.items()
            if worse
        ]
        written(self.sink, batch, TableRows(found, LETTERS))

    def of_rows(
        self,
        source: str,
        table: pa.Table,
        queries: Collection[str],
        origin: Mapping[str, pa.Array],
        clock: float,
    ) -> pa.Table:
        """A letter for each row that is bad for some of these queries."""
        reasons: dict[int, list[str]] = {}
        for name in queries:
            for row, reason in self._faults(name, source, table, clock):
                reasons.setdefault(row, []).append(reason if self.alone else f"{name}: {reason}")
        rows = sorted(reasons)
        bad = table.take(pa.array(rows, pa.int64()))
        hidden = {}
        for name, column in origin.items():
            hidden[name] = f"_skyband_{name}"
            bad = bad.append_column(hidden[name], column.take(pa.array(rows, pa.int64())))
        carried = Carried(origin=hidden)
        return row_letters(source, carried, bad, ["; ".join(reasons[row]) for row in rows])

    def _faults(
        self, name: str, source: str, table: pa.Table, clock: float
    ) -> list[tuple[int, str]]:
        """The bad rows of a batch, judged once more, and why they are bad."""
        query = self.queries[name]
        if source and source not in query.sources:
            return []
        intake = Intake(query, make_synopsis(query))
        intake.limit(self.limits[name], clock)
        taken = intake.take(source, table)
        if taken.faults is None:
            return []
        rows = np.flatnonzero(taken.faults.mask).tolist()
        shown = intake.widened(source, table.select(intake.bound[source].names))
        return list(zip(rows, taken.faults.each(shown), strict=True))
