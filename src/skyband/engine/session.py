"""A session reads batches for one fold, and answers the queries that are its readers."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.answers.tables import TOTAL
from skyband.arrays import Ints
from skyband.contract.capabilities import Preparation
from skyband.contract.rows import Faults
from skyband.data.columns import as_table
from skyband.data.group_table import GroupTable
from skyband.engine.fold import Fold, Step, widest
from skyband.engine.intake import Intake, refuse
from skyband.engine.per_group import make_synopsis
from skyband.engine.placement import NEVER, ReadBatch
from skyband.engine.row_buffer import RowBuffer, row_buffer_for
from skyband.errors import DataError, QueryError, SchemaError
from skyband.query.base import REVISION, Query
from skyband.query.board import named
from skyband.window import duration_text

# Transactions: changes of one or several sessions that happen all together or not at all ---------
#
# A transaction has three stages, and every session completes a stage before any begins the next:
#
#     begin      take rows and advance the clock; everything it changes can be undone
#     finished   fold the sealed panes into the synopses, first those that keep a savepoint
#     answered   make the answers
#
# A synopsis without a savepoint does not raise once its fold has changed something. So whichever
# session raises, all of them can go back to where they were.


@dataclass(frozen=True, eq=False)
class Transaction:
    """What a session is about to do."""

    session: Session
    fold: Fold
    begin: Callable[[Fold], Step | None]


def commit(
    transactions: Sequence[Transaction], begun: Callable[[], None] | None = None
) -> list[list[Answers | None]]:
    """Carry out all transactions; the answers of each one's readers. If one raises, undo all.

    ``begun`` is called once all rows are taken; if it raises, that undoes all, too.
    """
    marks = [(each.fold.mark(), dict(each.session.rows)) for each in transactions]
    order = sorted(range(len(marks)), key=lambda i: marks[i][0][-1] is None)  # savepoints first
    try:
        steps: list[Step | None] = []
        for each in transactions:
            with each.session.named():
                steps.append(each.begin(each.fold))
        if begun is not None:
            begun()
        finished: list[Any] = [None] * len(steps)
        for i in order:
            step = steps[i]
            if step is not None:
                with transactions[i].session.named():
                    finished[i] = transactions[i].fold.finished(step)
    except BaseException:
        for i in reversed(order):  # a savepoint may call the user's function, which may fail again
            mark, transactions[i].session.rows = marks[i]
            transactions[i].fold.rewind(mark)
        raise
    return [
        [] if step is None else each.fold.answered(step, runs)
        for each, step, runs in zip(transactions, steps, finished, strict=True)
    ]


# Threads that summarise. Work is cut by the source, never by the number of threads ---------------


Item = TypeVar("Item")
Result = TypeVar("Result")


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1  # macOS and Windows


def thread_count(threads: Any) -> int:
    """The number of threads that a user asks for; None means all cores."""
    if threads is None:
        return cores()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise QueryError(
            f"threads must be a positive integer, or None for all cores of this process; "
            f"got {threads!r}"
        )
    return threads


class Workers:
    """A pool that applies a function to some items and keeps their order.

    The pool is started when there are several items for the first time.
    """

    def __init__(self, threads: int = 1) -> None:
        self.threads = threads
        self._pool: ThreadPoolExecutor | None = None

    def map(self, function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """The results in the order of the items; with one thread, or one item, in this thread."""
        if self.threads < 2 or len(items) < 2:
            return [function(item) for item in items]
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="skyband")
        return list(self._pool.map(function, items))


ONLY = ""
"""The name of the source if there is only one."""
COUNTS = ("rows_in", "rows_late", "rows_bad", "rows_unused", "rows_filtered")
Name = str | None


@dataclass(frozen=True, eq=False)
class LateRows:
    """Late rows of one push, of one source."""

    source: str
    numbers: Ints
    """Their row numbers in the table that was pushed."""
    behind: Ints
    """How far each was behind the watermark, in ticks."""
    integer: bool
    """Whether ticks are plain integers, and not microseconds."""
    queries: Sequence[str]
    """The queries that left them out; none if there is one without a name."""

    @property
    def reasons(self) -> list[str]:
        """For each row, why it was left out."""
        whose = f" for query {', '.join(self.queries)}" if self.queries else ""
        texts = map(str if self.integer else duration_text, self.behind.tolist())
        return [f"late by {text}{whose}" for text in texts]


class OutOfOrder(Exception):  # noqa: N818  no error: the reader sorts the source and starts again
    """A row came too late in a source that can be sorted."""


class Session:
    """Reads batches, keeps a fold, and answers. An error leaves it unchanged."""

    def __init__(
        self,
        queries: Mapping[Name, Query],
        on_bad: str = "raise",
        idle: float | None = None,
        workers: Workers | None = None,
        positions: bool = False,
        served: Query | None = None,
    ) -> None:
        """``queries`` are the readers of one fold; a query that stands alone has the name None.

        ``served`` is what the fold serves, if it has had more readers.
        """
        self.queries = dict(queries)
        self.query = widest(list(queries.values())) if served is None else served
        self.workers = Workers() if workers is None else workers
        self.on_bad = on_bad
        self.idle = idle
        """Seconds after which a silent source stops holding the watermark back; None for never."""
        self.late_is_an_error = False
        self.late_is_kept = False
        """Whether ``late`` holds the late rows of a push, for who wants them."""
        self.late: list[LateRows] = []
        self.late_is_sorted = False
        """Whether a late row raises ``OutOfOrder``, whatever ``on_bad``, to sort its source."""
        self.in_order = False
        """Whether all batches are known to be in order of time."""
        self.positions = positions
        self.total = False
        """Whether answers show the total of their window and group."""
        self.fold: Fold | None = None
        """None until the columns of a source are known."""
        self.several: bool | None = None
        """Whether batches come as a mapping of sources; None until the first push."""
        self.joined = False
        """Whether these queries were added to a board that was already running."""
        self.joins: int | None = None
        """The greatest time that others had seen, if this session joins a running stream."""
        self.rows = dict.fromkeys(COUNTS, 0)
        self.reason: str | None = None
        """Why the first bad or late row was left out."""
        self.first_bad: str | None = None
        """Why the first bad row was."""
        self._use_new_intake()

    def _use_new_intake(self) -> None:
        self.synopsis = make_synopsis(self.query, list(self.queries.values()))
        self.intake = Intake(self.query, self.synopsis)
        self._buffer: tuple[RowBuffer | None] | None = None
        if isinstance(self.synopsis, Preparation):
            stored = self.query.window.revise_ticks is not None  # while rows may correct them
            self.synopsis.prepare(stored=stored, positions=self.positions)

    def place_of(self, name: Name) -> int:
        """Which of the fold's readers a query is."""
        return list(self.queries).index(name)

    # Rows --------------------------------------------------------------------------------------

    def pushing(self, data: Any) -> Transaction | None:
        """Read a batch, or a mapping from source to batch; rows are taken by the transaction."""
        self.late = []
        with self.named():
            batches = self.read(self.by_source(data))
            for each in batches:
                if each.faults is not None and self.on_bad == "raise":
                    refuse(each.faults)
        return Transaction(self, self.start(), partial(self._take, batches)) if batches else None

    @property
    def buffer(self) -> RowBuffer | None:
        """Where the rows of small pushes wait; None if they cannot, or not yet."""
        if self._buffer is None and self.fold is not None:
            self._buffer = (row_buffer_for(self),)
        return None if self._buffer is None else self._buffer[0]

    def read(self, batches: Mapping[str, Any]) -> list[ReadBatch]:
        """The good and bad rows of batches, by source and chunk; none where a batch says nothing.

        If a batch of several chunks has bad rows, they are refused here, by their row numbers.
        """
        pieces: list[ReadBatch] = []
        for source, batch in batches.items():
            table = as_table(batch)
            chunks = self.intake.read(source, table, self.in_order)
            if len(chunks) > 1 and self.on_bad == "raise" and any(c.faults for c in chunks):
                self.intake.refuse_bad(source, table)
            pieces += chunks
        return pieces

    def ending(self, source: str) -> Transaction | None:
        """One of several sources is exhausted, so it no longer holds the watermark back."""
        self.intake.end(source)
        return None if self.fold is None else Transaction(self, self.fold, partial(_end, source))

    def flushing(self) -> Transaction | None:
        """The stream ends: answer all windows up to the first window end after the last row."""
        last = None if self.fold is None else self.fold.clock.final()
        if self.fold is None or last is None:
            return None
        return Transaction(self, self.fold, lambda fold: fold.begin(last))

    def _take(self, batches: Sequence[ReadBatch], fold: Fold) -> Step | None:
        """Place and summarise rows that were read, and advance the clock."""
        clock = fold.clock
        sealed = clock.sealed if self.late_is_sorted else NEVER
        placements = []
        for each in batches:
            self.rows["rows_in"] += each.rows_in
            self.rows["rows_filtered"] += each.filtered
            if each.faults is not None:
                self._judge(each.faults)
            axis = self.synopsis.axes.get(each.source)
            placements.append(clock.place(each, axis, fold.groups))
        placed = [each.rows for each in placements if each.rows is not None]
        if sealed > NEVER and any((each.pane < sealed).any() for each in placed):
            raise OutOfOrder  # rather than that answers are corrected
        map_ = self.workers.map if self.synopsis.parallel else Workers().map
        summaries = map_(self.synopsis.summarise, placed)
        for each, placement in zip(batches, placements, strict=True):
            self.rows["rows_unused"] += placement.unused
            if len(placement.late) and clock.waiting:
                self.rows["rows_unused"] += len(placement.late)  # from before its first window
            elif len(placement.late):
                self._note_late(fold, each, placement.late)
        for runs in summaries:
            fold.take(runs)
        return fold.begin()

    def _note_late(self, fold: Fold, read: ReadBatch, late: Ints) -> None:
        self.rows["rows_late"] += len(late)
        if self.late_is_sorted:
            raise OutOfOrder
        assert read.ticks is not None
        window, behind = self.query.window, fold.clock.behind(read.ticks[late])
        needed = int(behind.max()) + window.lateness_ticks
        text = str(needed) if window.integer else f"'{duration_text(needed)}'"
        lateness = f"lateness={text}"
        if self.late_is_an_error:
            raise _too_late(len(late), lateness, read.source)
        if self.late_is_kept:
            named = [name for name in self.queries if name is not None]
            numbers = read.numbers(late)
            self.late.append(LateRows(read.source, numbers, behind, window.integer, named))
        if self.reason is None:
            self.reason = f"late, but a window with {lateness} would accept it"

    def _judge(self, faults: Faults) -> None:
        if self.on_bad == "raise":
            refuse(faults)
        self.rows["rows_bad"] += faults.count
        self.reason = self.reason or faults.reasons[0]
        self.first_bad = self.first_bad or faults.reasons[0]

    def by_source(self, data: Any) -> dict[str, Any]:
        """The batches by source; raises SchemaError if the queries cannot read them."""
        several = isinstance(data, Mapping)
        self.query.check_sources(data if several else None, whole=False)
        if self.several is not None and several != self.several:
            wanted = "a mapping of sources" if self.several else "one batch"
            raise SchemaError(
                f"earlier pushes to this {self.query.kind} were {wanted}; push the same form"
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

    def schema(self, name: Name) -> pa.Schema:
        """Columns of a query's answers; those whose types are not known yet have type null.

        For a source without any batch, they are the columns that the query names.
        """
        query = self.queries[name]
        complete = not query.needs_mapping or not set(query.sources) - set(self.bound)
        if self.fold is not None and complete:
            return self.fold.schema(self.place_of(name))
        known = {} if self.fold is None else {f.name: f.type for f in self.fold.schema()}
        known |= {"rank": pa.int32(), REVISION: pa.int32()}
        if query.window.integer:
            known |= {"window_start": pa.int64(), "window_end": pa.int64()}
        untyped = [column for schema in self.intake.untyped.values() for column in schema.names]
        names = [*query.answer_names(untyped), *([TOTAL] if self.total else [])]
        return pa.schema([(column, known.get(column, pa.null())) for column in names])

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
        self.rows, self.reason, self.first_bad = dict.fromkeys(COUNTS, 0), None, None

    def start(self) -> Fold:
        """The fold, made at the first call, when columns are known."""
        if self.fold is None:
            sources = self.query.sources if self.several else (ONLY,)
            groups = GroupTable(self.query.groups, next(iter(self.intake.bound.values())))
            readers = list(self.queries.values())
            times = sources, self.idle, self.joins
            self.fold = Fold(readers, self.synopsis, groups, self._judge, *times, self.total)
        return self.fold

    def reset(self, known: Mapping[str, pa.Schema] | None = None) -> None:
        """Forget all columns but the known ones; only for a session that has taken no rows."""
        self._use_new_intake()
        self.fold, self.several = None, self.several if known else None
        for source, schema in (known or {}).items():
            self.bind(source, schema)

    def remove(self, names: Sequence[Name]) -> None:
        """Go on without some of the queries."""
        gone = [self.place_of(name) for name in names]
        if self.fold is not None:
            self.fold.without(gone)
        self.queries = {name: q for name, q in self.queries.items() if name not in names}

    def named(self) -> AbstractContextManager[None]:
        """Begin the messages of errors with the name of the first query, if it has one."""
        return named(next(iter(self.queries)))

    # State -------------------------------------------------------------------------------------

    def check(self) -> None:
        """Assert every invariant; only tests call it."""
        if self.fold is not None and self.synopsis.ready:
            self.fold.state._check()

    def stats(self, name: Name) -> dict[str, int | float]:
        """Rows read and left out, windows answered, state size and operation counts.

        The readers of a fold share its size: their shares add up to the whole.
        """
        empty: dict[str, int | float] = {"windows_out": 0, "retained": 0, "state_bytes": 0}
        if self.fold is None:
            return {**self.rows, **empty}
        place, many = self.place_of(name), len(self.queries)
        stats = {"windows_out": self.fold.readers[place].windows_out, **self.fold.stats()}
        for shared in ("retained", "state_bytes"):
            share, rest = divmod(stats[shared], many)
            stats[shared] = share + (0 if place else rest)  # the first also has what is left over
        return {**self.rows, **stats}

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


def _end(source: str, fold: Fold) -> Step | None:
    fold.clock.ignored.add(source)
    return fold.begin()


def _too_late(count: int, lateness: str, source: str) -> DataError:
    """The error for late rows, which names the lateness that would take them."""
    where = f" of source {source!r}" if source else ""
    return DataError(
        f"{count:,} row{'s' if count != 1 else ''}{where} came too late: the source is out of "
        f"order, and their panes were already sealed. A window with {lateness} would accept them; "
        "on_bad='skip' (of a Monitor, late='count') counts them and continues; rank sorts a table, "
        "or the files of a folder or glob, but not an iterable"
    )
