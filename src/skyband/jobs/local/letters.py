"""Bad rows of a local job: why they are bad, and a dead letter for each, as on Spark."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.contract.rows import Faults
from skyband.data.columns import take, take_rows
from skyband.data.letters import CarriedColumns, row_letters
from skyband.engine.intake import Intake, RowLimits
from skyband.engine.per_group import make_synopsis
from skyband.jobs.job import Job
from skyband.jobs.local.posts import RowFault
from skyband.jobs.sinks.base import Sink, TableRows
from skyband.jobs.sinks.files import make_sink

__all__ = ["BatchJudge", "letters_of", "letters_sink"]


class BatchJudge:
    """Reads batches as the queries do, and says which rows are bad; keeps nothing of them."""

    def __init__(self, job: Job, limits: Mapping[str, RowLimits]) -> None:
        self.job, self.limits = job, limits
        self._intakes: dict[str, Intake] = {}

    def faults(
        self, source: str, table: pa.Table, queries: Collection[str], clock: float
    ) -> Iterator[tuple[str, Intake, Faults]]:
        """The bad rows of a batch at this moment, for each of these queries that finds some."""
        for name in queries:
            query = self.job.queries[name]
            if source and source not in query.sources:
                continue
            if name not in self._intakes:
                self._intakes[name] = Intake(query, make_synopsis(query))
            intake = self._intakes[name]
            intake.limit(self.limits[name], clock)
            faults = intake.take(source, table).faults
            if faults is not None:
                yield name, intake, faults

    def first_fault(self, source: str, table: pa.Table, clock: float) -> RowFault | None:
        """The first row that a query finds bad, and how many there are."""
        bad = np.zeros(table.num_rows, np.bool_)
        first: RowFault | None = None
        for name, _, faults in self.faults(source, table, self.job.queries, clock):
            bad |= faults.mask
            for column, reason, mask in faults.tests:
                row = int(np.flatnonzero(mask)[0])
                if first is None or row < first.row:
                    value = _python(table[column][row]) if column in table.column_names else None
                    first = RowFault(row, column, f"{reason} ({value!r}) in query {name!r}", 0)
        return None if first is None else first._replace(rows=int(bad.sum()))

    def letters(
        self,
        source: str,
        table: pa.Table,
        queries: Collection[str],
        origin: Mapping[str, pa.Array],
        clock: float,
    ) -> pa.Table:
        """A letter for each row that is bad for some of these queries."""
        reasons: dict[int, list[str]] = {}
        for name, intake, faults in self.faults(source, table, queries, clock):
            shown = intake.widened(source, table.select(intake.bound[source].names))
            rows = np.flatnonzero(faults.mask).tolist()
            for row, reason in zip(rows, faults.each(shown), strict=True):
                told = reason if self.job.alone else f"{name}: {reason}"
                reasons.setdefault(row, []).append(told)
        rows = sorted(reasons)
        return letters_of(source, table, rows, ["; ".join(reasons[row]) for row in rows], origin)


def letters_of(
    source: str,
    table: pa.Table,
    rows: list[int],
    reasons: list[str],
    origin: Mapping[str, pa.Array],
) -> pa.Table:
    """Letters for some rows of a batch."""
    places = np.array(rows, np.int64)
    bad = take_rows(table, places)
    hidden = {}
    for name, column in origin.items():
        hidden[name] = f"_skyband_{name}"
        bad = bad.append_column(hidden[name], take(column, places))
    return row_letters(source, CarriedColumns(origin=hidden), bad, reasons)


def _python(value: pa.Scalar) -> Any:
    """A value as Python has it; a time beyond its range as an integer."""
    try:
        return value.as_py()
    except (ValueError, OverflowError):
        return value.value


def letters_sink(job: Job) -> Sink[TableRows] | None:
    """The job's ``[dead_letters]``, if it has any."""
    if job.dead_letters is None or job.on_bad == "raise":
        return None
    name = f"{job.name}-dead-letters"
    return make_sink(job.dead_letters, "[dead_letters]", job.name, name, "json")
