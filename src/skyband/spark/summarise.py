"""Turns rows into packed summaries where the rows are: this runs inside ``mapInArrow``.

A partition gives one packed row per (bucket, shard) that it has rows for, with all panes in it.
Bad records wanted as dead letters travel in separate rows:

    bucket shard seen                payload          letters     rows_in  rows_bad  rows_unused
    0      0     2124-07-01 10:09    runs of panes    null          9,431        2            0
    0      0     2124-07-01 10:09    null             2 letters         0        0            0

In a stream, ``latest`` is ``seen`` as it is, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.arrays import Ints
from skyband.contract.rows import Faults
from skyband.contract.runs import Runs
from skyband.data.ipc import table_to_bytes
from skyband.data.time_axis import MOMENT
from skyband.engine.clock import NEVER
from skyband.engine.intake import refuse
from skyband.engine.open_panes import OpenPanes
from skyband.engine.taken import Taken
from skyband.spark import letters
from skyband.spark.family_plan import FamilyPlan
from skyband.spark.letters import UNREAD, Carried
from skyband.spark.parcels import by_bucket, pack_runs, schema_of
from skyband.spark.plan import SHIFT_MS, Plan

__all__ = ["COUNTS", "PACKED", "PACKED_DDL", "summariser"]

PACKED_DDL = (
    "bucket int, shard int, seen timestamp, latest bigint, payload binary, letters binary, "
    "rows_in bigint, rows_bad bigint, rows_unused bigint, rows_filtered bigint"
)
PACKED = schema_of(PACKED_DDL)
COUNTS = ("rows_in", "rows_bad", "rows_unused", "rows_filtered")
CHUNK_ROWS = 1 << 17
"""Rows summarised per call; Spark's batches of ten thousand are too small to be efficient."""
FLUSH_BYTES = 32 << 20
"""Bytes of summaries that are held before they are sent on."""

NOTHING = Carried()
Batches = Iterator[pa.RecordBatch]


def summariser(plan: Plan, source: str, carried: Carried = NOTHING) -> Callable[[Batches], Batches]:
    """The function that Spark runs over the partitions of a source."""

    def run(batches: Batches) -> Batches:
        worker = Summariser(plan, source, carried)
        for chunk in chunks(batches, plan.schemas[source], carried.names):
            worker.take(chunk)
            if worker.nbytes > FLUSH_BYTES:
                yield worker.flush()
        yield worker.flush()

    return run


def chunks(batches: Batches, schema: pa.Schema, carried: tuple[str, ...]) -> Iterator[pa.Table]:
    """Gather batches into chunks of about ``CHUNK_ROWS`` rows, in the types of the plan."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(conform(batch, schema, carried))
        rows += batch.num_rows
        if rows >= CHUNK_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def conform(batch: pa.RecordBatch, schema: pa.Schema, carried: tuple[str, ...]) -> pa.RecordBatch:
    """The needed columns in the types of the plan: the session's time zone may differ.

    Carried columns follow unchanged.
    """
    more = [batch.schema.field(name) for name in carried if name not in schema.names]
    wanted = pa.schema([*schema, *more])
    return batch.select(wanted.names).cast(wanted)


class Summariser:
    """Summaries of one partition."""

    def __init__(
        self, plan: Plan, source: str, carried: Carried = NOTHING, family: FamilyPlan | None = None
    ) -> None:
        """``family`` are the queries for which rows are summarised; by default that of the plan."""
        self.plan = plan
        self.source = source
        self.carried = carried
        self.letters: list[pa.Table] = []
        self.intake = plan.intake() if family is None else family.intake()
        self.groups = plan.groups()
        self.family = family
        self.synopsis = self.intake.synopsis if family is None else family.summariser
        self.queries = 1 if family is None else len(family.plans)
        self.shards = [OpenPanes(self.synopsis.combine) for _ in range(plan.shards)]
        self.seen: int | None = None
        self.counts = dict.fromkeys(COUNTS, 0)

    @property
    def nbytes(self) -> int:
        held = sum(panes.nbytes for panes in self.shards)
        return held + sum(int(table.nbytes) for table in self.letters)

    def take(self, chunk: pa.Table) -> None:
        """Summarise some rows; bad ones are raised, or counted and kept as letters."""
        chunk = self.readable(chunk)
        faults = self.summarise(chunk)
        if faults is not None and self.carried.letters:
            bad = chunk.filter(pa.array(faults.mask))
            reasons = self.reasons(chunk, faults)
            self.letters.append(letters.row_letters(self.source, self.carried, bad, reasons))

    def summarise(self, chunk: pa.Table) -> Faults | None:
        """Summarise rows that could be read; raises for bad ones, or counts and returns them."""
        taken = self.intake.take(self.source, chunk.select(self.plan.schemas[self.source].names))
        if taken.faults is not None:
            if self.plan.on_bad == "raise":
                self._refuse(chunk, taken.faults)
            self.counts["rows_bad"] += taken.faults.count * self.queries
        self._place(taken)
        return taken.faults

    def reasons(self, chunk: pa.Table, faults: Faults) -> list[str | None]:
        """Why each of the bad rows is bad."""
        return list(faults.each(self.intake.widened(self.source, chunk)))

    def _place(self, taken: Taken) -> None:
        self.counts["rows_in"] += taken.rows_in
        self.counts["rows_filtered"] += taken.filtered * self.queries
        if taken.greatest is None:
            return
        self.seen = taken.greatest if self.seen is None else max(self.seen, taken.greatest)
        if taken.ticks is None:
            return  # bad and filtered rows move the source's mark and have no other effect
        for shard, part in enumerate(self._shards(taken)):
            runs = self._summaries(part)
            if runs is not None:
                self.shards[shard].take(runs)

    def _summaries(self, taken: Taken) -> Runs | None:
        """Summaries in the panes of the query, or between the cuts of all windows of a family."""
        if self.family is not None:
            if taken.ticks is None:
                return None
            return self.family.one_pass.summarise(taken, self.groups, self.synopsis)
        placed = self.intake.place(taken, self.groups, NEVER)
        self.counts["rows_unused"] += placed.unused
        return None if placed.rows is None else self.synopsis.summarise(placed.rows)

    def readable(self, chunk: pa.Table) -> pa.Table:
        """The rows whose records could be read; the others are handled as bad rows."""
        if self.carried.unreadable is None:
            return chunk
        flags = chunk.column(UNREAD)
        count = pc.sum(flags).as_py()
        if not count:
            return chunk
        bad = chunk.filter(flags)
        if self.plan.on_bad == "raise":
            letters.refuse(letters.unread(self.source, self.carried, bad.slice(0, 1)), count)
        self.counts["rows_in"] += count
        self.counts["rows_bad"] += count
        if self.carried.letters:
            self.letters.append(letters.unread(self.source, self.carried, bad))
        return chunk.filter(pc.invert(flags))

    def _refuse(self, chunk: pa.Table, faults: Faults) -> None:
        """Raise for bad rows; if the source says where its rows came from, so does the error."""
        if not (self.carried.letters or self.carried.origin):
            refuse(faults)
        bad = chunk.filter(pa.array(faults.mask))
        reasons = self.reasons(chunk, faults)
        letters.refuse(letters.row_letters(self.source, self.carried, bad, reasons), faults.count)

    def _shards(self, taken: Taken) -> list[Taken]:
        shards = self.plan.shards
        if shards == 1:
            return [taken]
        owner = self.intake.synopsis.shard(self.source, taken.batch, shards)
        return [_of_rows(taken, np.flatnonzero(owner == shard)) for shard in range(shards)]

    def flush(self) -> pa.RecordBatch:
        """Packed rows of everything taken since the last flush."""
        rows: list[dict[str, Any]] = []
        whole = [panes.whole() for panes in self.shards]
        some = [runs for runs in whole if runs is not None and len(runs)]
        told: dict[str, Any] = {}
        if some and self.plan.shared_ends:
            told = {"filled": np.unique(np.concatenate([runs.stamp for runs in some]))}
        for shard, runs in enumerate(whole):
            mine = {}
            if runs is not None and len(runs):
                if self.plan.on_bad == "raise":
                    runs = self.synopsis.lean(runs)  # noqa: PLW2901
                mine = dict(by_bucket(runs, self.groups, self.plan.buckets))
            if told:  # every key has to know which panes have rows
                mine = dict.fromkeys(range(self.plan.buckets), some[0].slice(0, 0)) | mine
            for bucket, part in mine.items():
                blob = pack_runs(part, self.groups, **told)
                rows.append({"bucket": bucket, "shard": shard, "payload": blob})
            self.shards[shard].empty()
        rows += [
            {"bucket": 0, "shard": 0, "letters": table_to_bytes(table)} for table in self.letters
        ]
        self.letters = []
        if not rows and any(self.counts.values()):
            rows.append({"bucket": 0, "shard": 0})
        seen, latest = self.seen, None
        if self.plan.streaming:
            latest = None if seen is None else seen // self.plan.tick_ms
            seen = ((latest or 0) + SHIFT_MS) * 1_000
        for i, row in enumerate(rows):
            row |= {name: 0 if i else count for name, count in self.counts.items()}
            row |= {"seen": seen, "latest": latest}
        if rows:
            self.counts = dict.fromkeys(self.counts, 0)
        columns = [
            pa.array([row[field.name] for row in rows], pa.int64()).view(MOMENT)
            if field.name == "seen"
            else pa.array([row.get(field.name) for row in rows], field.type)
            for field in PACKED
        ]
        return pa.record_batch(columns, schema=PACKED)


def _of_rows(taken: Taken, rows: Ints) -> Taken:
    ticks = taken.ticks[rows] if taken.ticks is not None and len(rows) else None
    return replace(taken, batch=taken.batch.take(pa.array(rows)), ticks=ticks)
