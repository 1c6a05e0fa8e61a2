"""A session runs one query. Monitor, ``rank``, ``watch`` and Spark's buckets are built on it.

In the embedded engine a ``Session`` takes batches and returns answers. On Spark, rows are
summarised elsewhere, so a ``SummarySession`` takes summaries and is given the watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.answers.position import Position
from skyband.contract.rows import Faults
from skyband.data.group_table import GroupTable
from skyband.engine.chunks import as_table
from skyband.engine.clocks import NEVER
from skyband.engine.fold import Fold, Step
from skyband.engine.intake import Intake, refuse
from skyband.engine.moves import Move, make_moves
from skyband.engine.peek import peek
from skyband.engine.per_group import make_synopsis
from skyband.engine.position import position
from skyband.engine.silence import Silence
from skyband.engine.small_pushes import SmallPushes, small_pushes
from skyband.engine.summary import (
    OutOfOrder,
    Summarise,
    Summary,
    columns_of_answers,
    summarised,
    too_late,
)
from skyband.engine.taken import Taken
from skyband.engine.workers import Workers
from skyband.errors import EngineError, SchemaError, SkybandError
from skyband.query.base import Query

__all__ = ["ONLY", "OutOfOrder", "Session", "Summarise", "Summary", "make_synopsis"]

ONLY = ""
"""The name of the source if there is only one."""
COUNTS = ("rows_in", "rows_late", "rows_bad", "rows_unused", "rows_filtered")


class Session:
    """Reads batches, keeps open panes and state, and answers. An error leaves it unchanged."""

    def __init__(
        self,
        query: Query,
        on_bad: str = "raise",
        idle: float | None = None,
        intake: Intake | None = None,
        workers: Workers | None = None,
        positions: bool = False,
    ) -> None:
        self.query = query
        self.workers = Workers() if workers is None else workers
        self.on_bad = on_bad
        self.idle = idle
        """Seconds after which a silent source stops holding the watermark back; None for never."""
        self.late_is_an_error = False
        self.late_is_sorted = False
        """Whether a late row raises ``OutOfOrder``, whatever ``on_bad``, to sort its source."""
        self.in_order = False
        """Whether all batches are known to be in order of time."""
        self.positions = positions
        self._use(intake or Intake(query, make_synopsis(query)))
        self.fold: Fold | None = None
        """None until the columns of a source are known."""
        self.several: bool | None = None
        """Whether batches come as a mapping of sources; None until the first push."""
        self.name: str | None = None
        """The query's name on a board."""
        self.joined = False
        """Whether this query was added to a board that was already running."""
        self.joins: int | None = None
        """The greatest time that others had seen, if this session joins a running stream."""
        self.rows = dict.fromkeys(COUNTS, 0)
        self._silence = Silence(idle)
        self._small: tuple[SmallPushes | None] | None = None

    # Rows --------------------------------------------------------------------------------------

    def push(self, data: Any) -> Answers | None:
        """Take a batch, or a mapping from source to batch; return the answers that are due."""
        return self._made(self.pushing(data))

    def pushing(self, data: Any) -> Move | None:
        """Read a batch as ``push`` does; rows are taken when the move is made."""
        taken = self.reading(self.by_source(data))
        self.refuse(taken)
        begin = partial(self.taking, taken, self._summaries)
        return Move(self, self.start(), begin) if taken else None

    @property
    def small(self) -> SmallPushes | None:
        """The short way for pushes of a few rows; None if there is none, or not yet."""
        if self._small is None and self.fold is not None:
            self._small = (small_pushes(self),)
        return None if self._small is None else self._small[0]

    def reading(self, batches: Mapping[str, Any]) -> list[Taken]:
        """The good and bad rows of batches, by source and chunk; none where a batch says nothing.

        If a batch of several chunks has bad rows, they are refused here, by their row numbers.
        """
        found: list[Taken] = []
        for source, batch in batches.items():
            table = as_table(batch)
            chunks = self.intake.read(source, table, self.in_order)
            if len(chunks) > 1 and self.on_bad == "raise" and any(c.faults for c in chunks):
                self.intake.refuse_bad(source, table)
            found += chunks
        return found

    def refuse(self, taken: list[Taken]) -> None:
        """Raise DataError for bad rows, unless they are to be skipped."""
        for each in taken:
            if each.faults is not None and self.on_bad == "raise":
                refuse(each.faults)

    def end(self, source: str) -> Answers | None:
        """One of several sources is exhausted, so it no longer holds the watermark back."""
        return self._made(self.ending(source))

    def ending(self, source: str) -> Move | None:
        """The move of ``end``."""
        self.intake.end(source)
        return None if self.fold is None else Move(self, self.fold, partial(_ended, source))

    def flush(self) -> Answers | None:
        """End the stream: answer all windows up to the first window end after the last row."""
        return self._made(self.flushing())

    def flushing(self) -> Move | None:
        """The move of ``flush``."""
        if self.fold is None or self.fold.counting:
            return None
        watermark = self.fold.time.final()
        if watermark is None:
            return None
        return Move(self, self.fold, lambda fold: fold.begin(watermark))

    @staticmethod
    def _made(move: Move | None) -> Answers | None:
        return None if move is None else make_moves([move])[0]

    def peek(self, last: int | None) -> Answers:
        """The answer as of now, over sealed panes; only over the last ``last`` ticks if given."""
        if self.fold is None:
            raise EngineError("there is nothing to see yet: no batch has been pushed")
        return peek(self.fold, last)

    def position(self, id_: Any, group: Any) -> Position | None:
        """Where an id stands as of now, over sealed panes; None if it is not live."""
        if self.fold is None:
            raise EngineError("there is nothing to see yet: no batch has been pushed")
        return position(self.fold, id_, group)

    def taking(self, taken: list[Taken], summarise: Summarise, fold: Fold) -> Step | None:
        """Take the rows that were read; ``summarise`` turns them into summaries of open panes."""
        for each in taken:
            self.rows["rows_in"] += each.rows_in
            self.rows["rows_bad"] += 0 if each.faults is None else each.faults.count
            self.rows["rows_filtered"] += each.filtered
        if fold.counting:
            return self._count(fold, taken, summarise)
        return self._clock(fold, taken, summarise)

    def _count(self, fold: Fold, taken: list[Taken], summarise: Summarise) -> Step | None:
        known = fold.count.counts.copy()
        self._take(fold, summarise(taken, fold, NEVER))
        before = np.zeros_like(fold.count.counts)
        before[: len(known)] = known
        groups = np.flatnonzero(before != fold.count.counts)
        return fold.begin_counts(groups, before[groups])

    def _summaries(self, taken: Sequence[Taken], fold: Fold, sealed: int) -> list[Summary]:
        if fold.counting:
            placed = [self.intake.place_counted(each, fold.groups, fold.count) for each in taken]
        else:
            placed = [self.intake.place(each, fold.groups, sealed) for each in taken]
        return summarised(self.synopsis, placed, self.workers)

    def _take(self, fold: Fold, summaries: Sequence[Summary]) -> None:
        for each in summaries:
            self.rows["rows_unused"] += each.unused
            if each.runs is not None:
                fold.take(each.runs)

    def _clock(self, fold: Fold, taken: list[Taken], summarise: Summarise) -> Step | None:
        found = summarise(taken, fold, fold.time.sealed)
        for each, summary in zip(taken, found, strict=True):
            if summary.late and fold.time.waiting:
                self.rows["rows_unused"] += summary.late  # from before its first window
            elif summary.late:
                self._late(fold, summary.late, summary.earliest_late, each.source)
            if each.greatest is not None:
                fold.time.observe(each.source, each.greatest)
                self._silence.heard(each.source)
        self._take(fold, found)
        self._silence.ignore_idle(fold.time)
        watermark = fold.time.mark()
        return None if watermark is None else fold.begin(watermark)

    def _late(self, fold: Fold, count: int, earliest: int, source: str) -> None:
        self.rows["rows_late"] += count
        if self.late_is_sorted:
            raise OutOfOrder
        if not self.late_is_an_error or self.on_bad == "skip":
            return
        raise too_late(self.query, fold, count, earliest, source)

    def _judge(self, faults: Faults) -> None:
        if self.on_bad == "raise":
            refuse(faults)
        self.rows["rows_bad"] += faults.count

    def by_source(self, data: Any) -> dict[str, Any]:
        """The batches by source; raises SchemaError if the query cannot read them."""
        several = isinstance(data, Mapping)
        self.query.check_sources(data if several else None, whole=False)
        if self.several is not None and several != self.several:
            wanted = "a mapping of sources" if self.several else "one batch"
            raise SchemaError(
                f"earlier pushes to this {self.query.kind} were {wanted}; push the same form again"
            )
        self.several = several
        return dict(data) if several else {ONLY: data}

    # The fold ----------------------------------------------------------------------------------

    def bind(self, source: str, schema: pa.Schema) -> None:
        """Set the columns of a source before its first batch."""
        self.intake.bind(source, schema)

    @property
    def bound(self) -> dict[str, pa.Schema]:
        """The needed columns of each source whose columns are known."""
        return self.intake.bound

    @property
    def schema(self) -> pa.Schema:
        """Columns of the answers; those whose types are not known yet have type null.

        For a source without any batch, they are the columns that the query names.
        """
        complete = not self.query.needs_mapping or not set(self.query.sources) - set(self.bound)
        return columns_of_answers(self.query, self.fold, complete, self.intake.untyped.values())

    def needed(self, source: str, schema: pa.Schema) -> tuple[str, ...] | None:
        """The columns to read of a file with this schema; None for all of them.

        If a column is missing, all are read, so that the message can list them.
        """
        known = self.intake.bound.get(source)
        try:
            names = self.intake.needed(source, schema) if known is None else tuple(known.names)
        except SchemaError:
            return None
        there = all(schema.get_field_index(name) >= 0 for name in names)
        return tuple(dict.fromkeys(names)) if there else None

    def restart(self) -> None:
        """Forget all rows and columns, to read a source again from its beginning."""
        self.reset()
        self.rows = dict.fromkeys(COUNTS, 0)

    def refuse_bad(self, table: pa.Table) -> None:
        """Raise DataError if a table has bad rows; row numbers are those of the table."""
        self.intake.refuse_bad(ONLY, table)

    def start(self, sources: Sequence[str] = ()) -> Fold:
        """The fold, made at the first call, when columns are known.

        ``sources`` hold the watermark back; by default, all that the query reads.
        """
        if self.fold is None:
            sources = sources or (self.query.sources if self.several else (ONLY,))
            schema = next(iter(self.intake.bound.values()))
            groups = GroupTable(self.query.groups, schema)
            self.fold = Fold(self.query, self.synopsis, groups, self._judge, sources)
            if self.joins is not None:
                self.fold.time.join(self.joins)
        return self.fold

    def reset(self, known: Mapping[str, pa.Schema] | None = None) -> None:
        """Forget all columns but the known ones; only for a session that has taken no rows."""
        self._use(Intake(self.query, make_synopsis(self.query)))
        self.fold, self.several, self._small = None, self.several if known else None, None
        for source, schema in (known or {}).items():
            self.bind(source, schema)

    def _use(self, intake: Intake) -> None:
        self.intake, self.synopsis = intake, intake.synopsis
        if self.positions:
            self.synopsis.track_positions()

    @contextmanager
    def named(self) -> Iterator[None]:
        """Begin the messages of errors with the query's name, if it has one."""
        try:
            yield
        except SkybandError as error:
            if self.name is None:
                raise
            raise type(error)(f"query {self.name!r}: {error}") from error

    # State -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert every invariant; only tests call it."""
        if self.synopsis.ready:
            self.synopsis._check()

    def stats(self) -> dict[str, int | float]:
        """Rows read and left out, windows answered, state size and operation counts."""
        empty: dict[str, int | float] = {"windows_out": 0, "retained": 0, "state_bytes": 0}
        return {**self.rows, **(empty if self.fold is None else self.fold.stats())}

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The row counts and the fold, as plain values and flat arrays."""
        header: dict[str, Any] = {"several": self.several, "rows": self.rows, "fold": None}
        header["raise_late"] = self.late_is_an_error
        header |= {"joins": self.joins} if self.joined else {}
        if self.fold is None:
            return header, {}
        header["fold"], arrays = self.fold.snapshot()
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Restore a snapshot; its sources must already be bound."""
        self.several, self.rows = header["several"], {**self.rows, **header["rows"]}
        self.late_is_an_error = header["raise_late"]
        self.joined, self.joins = "joins" in header, header.get("joins")
        if header["fold"] is not None:
            self.start().restore(header["fold"], arrays)


def _ended(source: str, fold: Fold) -> Step | None:
    fold.time.ignored.add(source)
    watermark = fold.time.mark()
    return None if watermark is None else fold.begin(watermark)
