"""Turns rows into packed summaries where the rows are: this runs inside ``mapInArrow``.

A partition gives one packed row per (label, bucket, shard) that it has rows for, with all panes in
it; the label is that of queries that can be readers of one fold. Bad records wanted as dead letters
travel in separate rows:

    label bucket shard seen                payload          letters     rows_in  rows_bad  ...
    TopK  0      0     2124-07-01 10:09    runs of panes    null          9,431        2
    TopK  0      0     2124-07-01 10:09    null             2 letters         0        0

In a stream, ``latest`` is ``seen`` as it is, in milliseconds. On a board, each partition with rows
sends a packed row to every key, so that a key without state in a later batch belongs to a query
that was added.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
from pyspark import TaskContext

from skyband.contract.capabilities import LeanSummaries
from skyband.contract.rows import Faults
from skyband.contract.runs import Runs
from skyband.data import letters
from skyband.data.group_table import GroupTable
from skyband.data.ipc import table_to_bytes
from skyband.data.keys import hash_columns
from skyband.data.letters import UNREAD, CarriedColumns
from skyband.data.time_axis import MOMENT
from skyband.engine.intake import refuse
from skyband.engine.open_panes import OpenPanes
from skyband.engine.placement import ReadBatch
from skyband.engine.session import LateRows
from skyband.errors import EngineError
from skyband.query.board import named
from skyband.spark.locations import open_location
from skyband.spark.parcels import pack_runs, schema_of
from skyband.spark.plan import SHIFT_MS, BoardPlan

PACKED_DDL = (
    "label string, bucket int, shard int, seen timestamp, latest bigint, payload binary, "
    "letters binary, rows_in bigint, rows_bad bigint, rows_unused bigint, rows_filtered bigint"
)
PACKED = schema_of(PACKED_DDL)
COUNTS = ("rows_in", "rows_bad", "rows_unused", "rows_filtered")
CHUNK_ROWS = 1 << 17
"""Rows summarised per call; Spark's batches of ten thousand are too small to be efficient."""
FLUSH_BYTES = 32 << 20
"""Bytes of summaries that are held before they are sent on."""

NOTHING = CarriedColumns()
Batches = Iterator[pa.RecordBatch]


def summariser(
    board: BoardPlan, source: str, carried: CarriedColumns = NOTHING
) -> Callable[[Batches], Batches]:
    """The function that Spark runs over the partitions of a source: one pass for all queries."""

    def run(batches: Batches) -> Batches:
        workers = [Summariser(board, label, source, carried) for label in board.labels]
        watermark_ms = None if board.late is None else planned_watermark(board.late)
        for chunk in chunks(batches, board.schemas[source], carried.names):
            take(workers, chunk, watermark_ms)
            if sum(worker.nbytes for worker in workers) > FLUSH_BYTES:
                yield from _flushed(workers)
        yield from _flushed(workers)

    return run


def take(workers: Sequence[Summariser], chunk: pa.Table, watermark_ms: int | None = None) -> None:
    """Let every label summarise some rows; a bad row is one letter, with all queries' reasons.

    The first one counts and keeps what could not be read, and it keeps the letters. With Spark's
    watermark, late rows are letters too.
    """
    first, board = workers[0], workers[0].board
    rows = first.readable(chunk)
    reasons: dict[int, dict[str, Any]] = {}
    for worker in workers:
        with named(worker.names[0]):
            faults = worker.summarise(rows)
        for row, late in () if watermark_ms is None else worker.late(watermark_ms):
            reasons.setdefault(row, {}).update(late)
        if faults is None or not first.carried.letters:
            continue
        bad = np.flatnonzero(faults.mask).tolist()
        for row, reason in zip(bad, worker.reasons(rows, faults), strict=True):
            own = {name: reason if board.alone else f"{name}: {reason}" for name in worker.names}
            reasons.setdefault(row, {}).update(own)
    if reasons:
        places = sorted(reasons)
        bad_rows = rows.take(pa.array(places, pa.int64()))
        lines = ["; ".join(reasons[r][n] for n in board.plans if n in reasons[r]) for r in places]
        first.letters.append(letters.row_letters(first.source, first.carried, bad_rows, lines))


def planned_watermark(checkpoint: str) -> int:
    """The watermark of the batch that this task belongs to, in milliseconds.

    Before Spark runs a batch, it plans it in the checkpoint, with the watermark that the stateful
    operator will be told. Only that operator is told it, so others read the plan:

        offsets/7   {"batchWatermarkMs": 1995, ...}
    """
    task = TaskContext.get()
    batch = None if task is None else task.getLocalProperty("streaming.sql.batchId")
    path = f"{checkpoint}/offsets/{batch}"
    try:
        system, place = (
            open_location(path, {}) if "://" in path else (pa.fs.LocalFileSystem(), path)
        )
        with system.open_input_stream(place) as file:
            _, planned, *_ = file.read().split(b"\n")
        return int(json.loads(planned)["batchWatermarkMs"])
    except (OSError, ValueError, KeyError, pa.ArrowException) as problem:
        raise EngineError(
            "late = 'letters' needs the checkpoint where the rows are read, to tell which of "
            f"them are late, but {path} cannot be read there ({problem}); give a checkpoint "
            "that all workers can read, or leave out late"
        ) from problem


def _flushed(workers: Sequence[Summariser]) -> Batches:
    """The packed rows of all labels; only those of the first count the rows read."""
    for i, worker in enumerate(workers):
        if i:
            worker.counts["rows_in"] = 0
        yield worker.flush()


def chunks(batches: Batches, schema: pa.Schema, carried: tuple[str, ...]) -> Iterator[pa.Table]:
    """Gather batches into chunks of about ``CHUNK_ROWS`` rows, in the types of the plan.

    The session's time zone may differ from theirs. Carried columns follow unchanged.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        more = [batch.schema.field(name) for name in carried if name not in schema.names]
        wanted = pa.schema([*schema, *more])
        held.append(batch.select(wanted.names).cast(wanted))
        rows += batch.num_rows
        if rows >= CHUNK_ROWS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def by_bucket(runs: Runs, groups: GroupTable, buckets: int) -> Iterator[tuple[int, Runs]]:
    """Split runs by the bucket of their group; a group's bucket is the same in every process."""
    if not groups.names or buckets == 1:
        yield 0, runs
        return
    codes, dense = np.unique(runs.group, return_inverse=True)
    own = (hash_columns(groups.gather(codes)) % np.uint64(buckets)).astype(np.int64)[dense]
    order = np.argsort(own, kind="stable")
    cuts = np.flatnonzero(np.diff(own[order])) + 1
    for members in np.split(order, cuts):
        if len(members):
            yield int(own[members[0]]), runs.take(members)


class Summariser:
    """Summaries of one partition, for the queries with one label."""

    def __init__(
        self, board: BoardPlan, label: str, source: str, carried: CarriedColumns = NOTHING
    ) -> None:
        self.board, self.label, self.source, self.carried = board, label, source, carried
        self.names = board.labels[label]
        self.plan = board.plans[self.names[0]]
        self.letters: list[pa.Table] = []
        self.intake, self.clock = board.summarising(label)
        if self.plan.limits.ahead is not None:
            # By the clock of the process: a batch that is done again may be judged a bit later.
            self.intake.limit(self.plan.limits, time.time())
        self.synopsis = self.intake.synopsis
        self.shards = [OpenPanes(self.synopsis.combine) for _ in range(self.plan.shards)]
        self.groups = self.plan.groups()
        self.seen: int | None = None
        self.counts = dict.fromkeys(COUNTS, 0)
        self.read: ReadBatch | None = None
        """The rows that were summarised last."""

    @property
    def nbytes(self) -> int:
        held = sum(panes.nbytes for panes in self.shards)
        return held + sum(int(table.nbytes) for table in self.letters)

    def summarise(self, chunk: pa.Table) -> Faults | None:
        """Summarise rows that could be read; raises for bad ones, or counts and returns them."""
        read = self.intake.take(self.source, chunk.select(self.plan.schemas[self.source].names))
        if read.faults is not None:
            if self.plan.on_bad == "raise":
                self._refuse(chunk, read.faults)
            self.counts["rows_bad"] += read.faults.count * len(self.names)
        self._place(read)
        self.read = read
        return read.faults

    def reasons(self, chunk: pa.Table, faults: Faults) -> list[str | None]:
        """Why each of the bad rows is bad."""
        return list(faults.each(self.intake.widened(self.source, chunk)))

    def late(self, watermark_ms: int) -> Iterator[tuple[int, dict[str, str]]]:
        """The rows summarised last that the state will find late, and how late each is."""
        from skyband.spark.bucket import reached_ms  # which is not needed otherwise

        read, panes, window = self.read, self.plan.window.panes, self.plan.window
        if read is None or read.ticks is None:
            return
        watermark = reached_ms(self.board, self.names[0], watermark_ms) * self.plan.tick_ms
        pane = panes.of(self.source).pane_of(read.ticks)
        late = panes.of(self.source).used(pane)
        late &= pane < panes.pane_of(watermark - (window.revise_ticks or 0))
        if panes.since is not None:
            late &= read.ticks >= panes.since
        rows, names = np.flatnonzero(late), [] if self.board.alone else self.names
        behind = watermark - read.ticks[rows]
        found = LateRows(self.source, read.numbers(rows), behind, window.integer, names)
        for row, why in zip(found.numbers.tolist(), found.reasons, strict=True):
            yield row, {self.names[0]: why}

    def _place(self, read: ReadBatch) -> None:
        self.counts["rows_in"] += read.rows_in
        self.counts["rows_filtered"] += read.filtered * len(self.names)
        if read.greatest is None:
            return
        self.seen = read.greatest if self.seen is None else max(self.seen, read.greatest)
        if read.ticks is None:
            return  # bad and filtered rows move the source's mark and have no other effect
        for shard, part in enumerate(self._shards(read)):
            placement = self.clock.place(part, self.synopsis.axes.get(self.source), self.groups)
            self.counts["rows_unused"] += placement.unused
            if placement.rows is not None:
                self.shards[shard].take(self.synopsis.summarise(placement.rows))

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

    def _shards(self, read: ReadBatch) -> list[ReadBatch]:
        shards = self.plan.shards
        if shards == 1:
            return [read]
        owner = self.intake.synopsis.shard(self.source, read.batch, shards)
        parts = []
        for rows in (np.flatnonzero(owner == shard) for shard in range(shards)):
            ticks = read.ticks[rows] if read.ticks is not None and len(rows) else None
            parts.append(replace(read, batch=read.batch.take(pa.array(rows)), ticks=ticks))
        return parts

    def flush(self) -> pa.RecordBatch:
        """Packed rows of everything taken since the last flush."""
        rows: list[dict[str, Any]] = []
        whole = [panes.whole() for panes in self.shards]
        for panes in self.shards:
            panes.empty()
        some = [runs for runs in whole if runs is not None and len(runs)]
        more: dict[str, Any] = {}
        if some and self.plan.shared_ends:
            more = {"filled": np.unique(np.concatenate([runs.stamp for runs in some]))}
        for shard, runs in enumerate(whole):
            mine = {}
            if runs is not None and len(runs):
                if self.plan.on_bad == "raise" and isinstance(self.synopsis, LeanSummaries):
                    runs = self.synopsis.lean(runs)  # noqa: PLW2901
                mine = dict(by_bucket(runs, self.groups, self.plan.buckets))
            if more:  # every key has to know which panes have rows
                mine = dict.fromkeys(range(self.plan.buckets), some[0].slice(0, 0)) | mine
            for bucket, part in mine.items():
                blob = pack_runs(part, self.groups, **more)
                rows.append({"bucket": bucket, "shard": shard, "payload": blob})
        rows += [
            {"bucket": 0, "shard": 0, "letters": table_to_bytes(table)} for table in self.letters
        ]
        self.letters = []
        if not rows and any(self.counts.values()):
            rows.append({"bucket": 0, "shard": 0})
        if rows and not self.board.alone:
            known = {(row["bucket"], row["shard"]) for row in rows}
            for bucket, shard in product(range(self.plan.buckets), range(self.plan.shards)):
                if (bucket, shard) not in known:
                    rows.append({"bucket": bucket, "shard": shard})
        seen, latest = self.seen, None
        if self.plan.streaming:
            latest = None if seen is None else seen // self.plan.tick_ms
            seen = ((latest or 0) + SHIFT_MS) * 1_000
        for i, row in enumerate(rows):
            row |= {name: 0 if i else count for name, count in self.counts.items()}
            row |= {"label": self.label, "seen": seen, "latest": latest}
        if rows:
            self.counts = dict.fromkeys(self.counts, 0)
        columns = [
            pa.array([row[field.name] for row in rows], pa.int64()).view(MOMENT)
            if field.name == "seen"
            else pa.array([row.get(field.name) for row in rows], field.type)
            for field in PACKED
        ]
        return pa.record_batch(columns, schema=PACKED)
