"""Runs a job in this process: read a batch, answer it, enter it, write what came of it.

    posted rows ─┐
    sources ─────┴► apply in memory ─► enter in the checkpoint ─► sinks ─► letters ─► observer
                    (one batch after    (one sync for all posts               │
                     the other)          that waited)                        reply
                                      └──────── while the next rows are applied, if served ───┘

A batch is judged when it is applied, before it is entered: one that is refused leaves no trace. It
is entered before anybody sees what came of it, so a crash takes nothing back. After a crash the
batches since the last snapshot are applied once more, under the same numbers, which sinks know.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answer, with_edges
from skyband.contract.rows import Faults
from skyband.data.columns import take, take_rows
from skyband.data.ipc import table_to_bytes
from skyband.data.letters import LETTERS, CarriedColumns, refuse, row_letters
from skyband.embedded.monitor import Monitor
from skyband.embedded.snapshots import BoardDiff
from skyband.engine.intake import Intake, RowLimits
from skyband.engine.per_group import make_synopsis
from skyband.engine.session import LateRows, Session
from skyband.errors import DataError, EngineError, SkybandError
from skyband.jobs.job import Job, source_table
from skyband.jobs.local.checkpoint import Batch, Checkpoint
from skyband.jobs.local.posts import (
    AppliedPost,
    Inbox,
    KeyReused,
    PostedSource,
    PostKeys,
    PostRefused,
    Request,
    RowFault,
    reply_of,
    rows_again,
)
from skyband.jobs.local.source import LocalSource, Place, SourceNeeds
from skyband.jobs.local.sources import make_source
from skyband.jobs.report import Report, changed_lines
from skyband.jobs.sinks.base import Sink, TableRows, row_limits, written
from skyband.jobs.sinks.files import letters_sink, sink_of
from skyband.jobs.stopping import Stop
from skyband.jobs.world import MACHINE, World, clear_errors
from skyband.kernels.notice import clock
from skyband.window import CountWindow, parse_duration

log = logging.getLogger("skyband.jobs")

_SAVE_EVERY = 10.0
"""Seconds between snapshots."""
_SAVE_SHARE = 20
"""A snapshot waits for so many times what the last one took: at most a twentieth of the time."""
_SAVE_BYTES = 256 << 20
"""Bytes of journal after which a snapshot is taken in any case."""
_LOOK = 0.1
"""Seconds between looks at the sources when they have nothing new."""


@dataclass
class JobProgress:
    """What a job has done since it was started."""

    batches: int = 0
    rows: int = 0
    windows: int = 0
    saves: int = 0
    saving: float = 0.0
    """Seconds spent on snapshots."""
    unread: int = 0
    """Records that could not be read, or that no query could take."""
    late: int = 0
    """Late rows, and below bad ones: of several queries, those of the query that has most."""
    bad: int = 0
    state_bytes: int = 0
    replayed: int = 0
    """Batches that were applied once more after a crash."""
    began: float = field(default_factory=clock)
    newest: dict[str, Answer] = field(default_factory=dict)
    """The last answer of each query that has rows."""

    def report(self) -> Report:
        """The same for those who look at the job."""
        rate = self.rows / max(clock() - self.began, 1e-9)
        answers = {name: answer.table for name, answer in self.newest.items()}
        return Report(
            self.batches - 1,
            self.rows + self.unread,
            rate,
            late=self.late,
            bad=self.bad + self.unread,
            windows=self.windows,
            state_bytes=self.state_bytes,
            answers=answers,
        )


def run_local(
    job: Job, observer: Callable[[JobProgress], None] | None = None, seconds: float | None = None
) -> JobProgress:
    """Run a job until it ends, is interrupted, or has run for some seconds.

    Answers already written stay valid.
    """
    with Stop() as stop:
        running = LocalJob(job)
        stop.listen()
        stop.after(seconds)
        try:
            for progress in running.steps(stop.asked):
                if observer is not None:
                    observer(progress)
        finally:
            running.close()
    return running.progress


@dataclass
class BatchOutcome:
    """What came of a batch that was applied."""

    batch: Batch
    answers: list[Answer] = field(default_factory=list)
    letters: pa.Table = field(default_factory=LETTERS.empty_table)


@dataclass
class BatchGroup:
    """Batches that are entered together, and the requests that wait for it."""

    outcomes: list[BatchOutcome] = field(default_factory=list)
    replies: list[tuple[Request, dict[str, Any] | Exception]] = field(default_factory=list)
    stats: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The counts of each query afterwards."""


class Observer(Protocol):
    """Sees what a served job does. Such a job goes on when one of its sources stops."""

    def applied(self, source: str) -> None:
        """Rows of a source were applied.

        Called by the job's thread, in which the next two come as well.
        """

    def stopped(self, source: str, problem: Exception) -> None:
        """A source stopped for good."""

    def saving(self) -> None:
        """A snapshot is about to be taken."""

    def entered(self, outcomes: Sequence[BatchOutcome], stats: dict[str, dict[str, Any]]) -> None:
        """What came of some batches is safe, and sinks have it. Called by one other thread."""


class LocalJob:
    """A job in this process."""

    def __init__(
        self,
        job: Job,
        observer: Observer | None = None,
        inbox: Inbox | None = None,
        save_bytes: int = _SAVE_BYTES,
        sources: Mapping[str, LocalSource] | None = None,
        world: World = MACHINE,
    ) -> None:
        """``sources`` are given where the job does not say what to read."""
        self.job, self.observer, self.save_bytes, self.world = job, observer, save_bytes, world
        self.inbox = inbox or Inbox()
        self.keys = PostKeys(world=world)
        fingerprints = {name: query.fingerprint for name, query in job.queries.items()}
        with clear_errors():
            self.checkpoint = Checkpoint(
                job.checkpoint, job.name, fingerprints, job.reads, job.columns, world
            )
        try:
            with clear_errors():
                self._begin(sources)
        except BaseException:
            self.close()
            raise

    sources: Mapping[str, LocalSource] = {}
    idle = False
    """Whether all there is was read."""

    def _begin(self, sources: Mapping[str, LocalSource] | None) -> None:
        job = self.job
        self.sources = sources or {
            name: make_source(name, section, self.checkpoint.folder, self.world)
            for name, section in job.sources.items()
        }
        self._reading = [
            n for n, each in self.sources.items() if not isinstance(each, PostedSource)
        ]
        """The sources that are read, until they stop."""
        paged = self.observer is not None  # a page takes the place of the console
        self.sinks: dict[str, Sink[TableRows]] = {
            name: sink_of(job, name, self.world)
            for name, section in job.sinks.items()
            if not (paged and section.kind == "console")
        }
        self.limits = row_limits(job, self.sinks)
        self.judge, self.letters = BatchJudge(job, self.limits), letters_sink(job, self.world)
        self.progress = JobProgress()
        self.places: dict[str, Place] = {name: each.first for name, each in self.sources.items()}
        self.batch, self.answers, self.unread = -1, 0, 0
        """The last batch, and how many answers and unread records there were up to it."""
        self.rows = dict.fromkeys(self.sources, 0)
        """The rows of each source."""
        self.first_unread: str | None = None
        """Why the first record could not be read, or taken by any query."""
        self.renumbered = False
        """Whether answers have other numbers than before, because the queries are others."""
        self.monitor = Monitor(job.asked, on_bad=job.on_bad)
        self._pool = None if self.observer is None else self.world.worker("skyband-commit")
        self._flight: Future[None] | None = None
        self._saved, self._cost = self.world.monotonic(), 0.0
        self._refers = False
        """Whether there are batches since the last snapshot that would have to be read again."""
        self._replayed = False
        for name, source in self.sources.items():
            bound, needed = partial(self.bound, name), partial(self._needed, name)
            source.read_by(SourceNeeds(needed, self._time(name), bound, job.on_bad == "skip"))
        self._changed = self._resume()
        self._late_rows: dict[int, list[str]] = {}
        """Why rows of the last push are late, if that is written down."""
        if job.late == "letters" and self.letters is not None:
            self.monitor.board.tell_late(self._note_late)
        self._stats = self._counted()
        self._late, self._bad = (
            max(int(each[what]) for each in self._stats.values())
            for what in ("rows_late", "rows_bad")
        )
        """Late and bad rows of earlier starts."""

    # Running -----------------------------------------------------------------------------------

    def steps(self, stopped: Callable[[], bool]) -> Generator[JobProgress, None, None]:
        """Work batch by batch until all is read, or until ``stopped``."""
        try:
            with clear_errors():
                yield from self.replay()
                once = bool(self.job.trigger.get("once"))
                once = once and len(self._reading) == len(self.sources)
                while not stopped() or not self.inbox.quiet:
                    began = self.world.monotonic()
                    self.idle = not self._next(once)
                    if not self.idle:
                        yield self.progress
                    elif once:
                        self._close()
                        yield self.progress
                        break
                    else:
                        self._wait(began, stopped)
                self._settle()
                self._save()
        finally:
            self.close()

    def replay(self) -> Generator[JobProgress, None, None]:
        """Apply the batches again that were entered since the last snapshot; called once."""
        if self._replayed:
            return
        self._replayed = True
        batches = self.checkpoint.batches(self.batch)
        for sink in (*self.sinks.values(), *([self.letters] if self.letters else [])):
            sink.open(self.checkpoint.run)
        answers = 0
        for batch in batches:
            answers = max(answers, batch.answers)
            self.progress.replayed += 1
            outcome = self._again(batch)
            self._finish(outcome)
            if self.observer is not None:
                self.observer.entered([outcome], self.stats)
            yield self.progress
        if self._changed is not None:
            for line in changed_lines(self._changed):
                log.warning("%s: %s", self.job.name, line)
            # The queries are others, so the same number may have meant another answer.
            self.answers, self.renumbered = max(self.answers, answers) + 1, True
            self._save()
        self.checkpoint.adopt()

    def close(self) -> None:
        """Let go of files and connections, without saving the state."""
        if getattr(self, "_pool", None) is not None:
            self._pool.shutdown()  # type: ignore[union-attr]
        for source in self.sources.values():
            with suppress(Exception):
                source.close()
        self.checkpoint.close()

    def _next(self, last: bool) -> bool:
        """Apply the requests that wait, and the next batch of the source furthest behind."""
        if self.inbox.asked:
            self._settle()  # nobody is told of what is not safe
            self.inbox.answer()
        group = self._requests(self.inbox.next())
        for name in self.monitor.board.in_turn(self._reading):
            try:
                outcome = self._read(name, last)
            except Exception as problem:
                if self.observer is None:
                    raise
                self._reading.remove(name)
                self.observer.stopped(name, problem)
                continue
            if outcome is not None:
                group.outcomes.append(outcome)
                break
        if not group.outcomes and not group.replies:
            return False
        group.stats = self.stats
        self._commit(group)
        if self._due():
            self._settle()
            self._save()
        return True

    def _wait(self, began: float, stopped: Callable[[], bool]) -> None:
        every = self.job.trigger.get("every")
        seconds = _LOOK if every is None else parse_duration(every, "[trigger] every") / 1e6
        while not stopped() and self.inbox.quiet and self.world.monotonic() < began + seconds:
            if self._flight is not None and self._flight.done():
                self._settle()
            self.inbox.wait(min(_LOOK, seconds))

    def _close(self) -> None:
        """Answer the last windows of a finite job, if it asks for that."""
        if self.job.trigger.get("close"):
            batch = Batch(self.batch + 1, clock=self.world.time())
            self._commit(BatchGroup([self._apply(batch, None)], stats=self.stats))

    # Applying ----------------------------------------------------------------------------------

    def _read(self, name: str, last: bool) -> BatchOutcome | None:
        """Read and apply the next batch of a source; None if there is nothing new."""
        source = self.sources[name]
        read = source.take(self.places[name], last)
        if read is None:
            return None
        table, end = read
        unread = source.unread()
        if unread.num_rows and self.job.on_bad == "raise":
            refuse(unread, unread.num_rows)
        clock = self.world.time()
        batch = Batch(self.batch + 1, name, self.places[name], end, clock)
        if source.journalled:
            batch.rows, batch.unread = table_to_bytes(table), unread.to_pylist()
        return self._apply(batch, table)

    def _requests(self, requests: Sequence[Request]) -> BatchGroup:
        """Apply requests."""
        group = BatchGroup()
        for request in requests:
            try:
                reply, outcome = self._request(request)
            except (PostRefused, KeyReused) as problem:
                group.replies.append((request, problem))
            else:
                group.replies.append((request, reply))
                group.outcomes += [] if outcome is None else [outcome]
        return group

    def _request(self, request: Request) -> tuple[dict[str, Any], BatchOutcome | None]:
        """Apply one request; its reply."""
        if request.key is not None:
            known = self.keys.check(request.key, request.digest)
            if known is not None:
                return known.reply, None
        clock = self.world.time()
        batch = Batch(self.batch + 1, request.source, clock=clock, rows=request.rows)
        find = partial(self.judge.first_fault, request.source, request.table, batch.clock)
        before = self._stats
        try:
            outcome = self._apply(batch, request.table, whole=True)
        except DataError as problem:
            raise PostRefused(str(problem), find()) from None
        except SkybandError as problem:
            raise PostRefused(str(problem)) from None
        reply = reply_of(request.table, before, self._stats, find)
        batch.request = {"reply": reply}
        if request.key is not None:
            batch.request |= {"key": request.key, "digest": request.digest}
            self.keys.add(request.key, AppliedPost(request.digest, batch.clock, reply))
        return reply, outcome

    def _again(self, batch: Batch) -> BatchOutcome:
        """Apply a batch that was entered before."""
        if batch.source is None:
            return self._apply(batch, None)
        source = self.sources.get(batch.source)
        if source is None:
            raise EngineError(
                f"the job has no source {batch.source!r}, but the checkpoint needs its rows once "
                "more; put the source back"
            )
        if batch.rows is None:
            return self._apply(batch, source.again(batch.begin, batch.end))
        table = rows_again(f"[{source_table(batch.source)}]", batch.rows, source.columns)
        if batch.request is not None and "key" in batch.request:
            request = batch.request
            self.keys.add(
                request["key"], AppliedPost(request["digest"], batch.clock, request["reply"])
            )
        return self._apply(batch, table)

    def _apply(self, batch: Batch, table: pa.Table | None, whole: bool = False) -> BatchOutcome:
        """Apply a batch in memory. If that raises an error, nothing has changed.

        Where bad records are left out, a row that no query can take is one, unless the batch is
        applied as a ``whole`` or not at all.
        """
        outcome, name, before = BatchOutcome(batch), batch.source, self._stats
        if table is None:
            outcome.answers = self.monitor.flush()
            rows, self._stats = 0, self._counted()
        else:
            assert name is not None
            rows, refused, late = table.num_rows, dict[int, str](), dict[int, list[str]]()
            if rows:
                self.monitor.board.limit(self.limits, batch.clock)
                parted = not whole and self.job.on_bad == "skip"
                outcome.answers, refused, late = self._push(batch, table, parted)
                self._stats = self._counted()
            unread, origin = self.sources[name].unread(), self.sources[name].origin
            if batch.rows is not None:
                unread, origin = pa.Table.from_pylist(batch.unread, LETTERS), dict
            if self.letters is not None:
                letters = self._letters_of(batch, table, refused, late, before, origin())
                outcome.letters = pa.concat_tables([unread, letters])
            why = [*unread["reason"].slice(0, 1).to_pylist(), *refused.values()]
            self.first_unread = self.first_unread or next(iter(why), None)
            lost = unread.num_rows + len(refused)
            self.unread += lost
            self.progress.unread += lost
            self.places[name] = batch.end
            self.rows[name] += rows
            if self.observer is not None:
                self.observer.applied(name)
            self._refers |= batch.rows is None
            rows -= len(refused)  # which are counted already
        self.answers += len(outcome.answers)
        self.batch, batch.answers = batch.number, self.answers
        self._note(rows, outcome.answers)
        return outcome

    def _push(
        self, batch: Batch, table: pa.Table, parted: bool
    ) -> tuple[list[Answer], dict[int, str], dict[int, list[str]]]:
        """The answers of rows; by their place, why no query can take some, and why some are late.

        What is refused is halved until one row is left. After a crash it ends in the same way.
        """
        name = batch.source or ""
        answers, refused, late = list[Answer](), dict[int, str](), dict[int, list[str]]()
        parts = [(0, table.num_rows)]
        while parts:
            first, rows = parts.pop()
            part = table.slice(first, rows)
            self._late_rows = {}
            try:
                answers += self.monitor.push({name: part} if name else part)
            except (DataError, EngineError) as problem:
                if not parted:
                    raise
                half = rows // 2
                if half:
                    parts += [(first + half, rows - half), (first, half)]
                else:
                    refused[first] = str(problem)
                continue
            late |= {first + row: reasons for row, reasons in self._late_rows.items()}
        return answers, refused, late

    def _note_late(self, _: pa.Table, late: Sequence[LateRows]) -> None:
        """Told which rows of a push are late, and why."""
        for each in late:
            for row, why in zip(each.numbers.tolist(), each.reasons, strict=True):
                self._late_rows.setdefault(row, []).append(why)

    def _note(self, rows: int, answers: Sequence[Answer]) -> None:
        progress, stats = self.progress, self._stats.values()
        progress.batches += 1
        progress.rows += rows
        progress.windows += len(answers)
        progress.late = max(int(each["rows_late"]) for each in stats) - self._late
        progress.bad = max(int(each["rows_bad"]) for each in stats) - self._bad
        progress.state_bytes = sum(int(each["state_bytes"]) for each in stats)
        for answer in answers:
            name = answer.name or next(iter(self.job.queries))
            corrects = name in progress.newest and progress.newest[name].end > answer.end
            if answer.table.num_rows and not (corrects and self.job.revises(name)):
                progress.newest[name] = answer

    def _letters_of(
        self,
        batch: Batch,
        table: pa.Table,
        refused: Mapping[int, str],
        late: Mapping[int, list[str]],
        before: Mapping[str, Any],
        origin: Mapping[str, pa.Array],
    ) -> pa.Table:
        """The dead letters for the rows of a batch."""
        name, letters = batch.source or "", [LETTERS.empty_table()]
        if refused:
            rows = list(refused)
            letters.append(letters_of(name, table, rows, list(refused.values()), origin))
            others = np.ones(table.num_rows, np.bool_)
            others[rows] = False
            places = np.cumsum(others) - 1
            late = {int(places[row]): reasons for row, reasons in late.items()}
            table = table.filter(pa.array(others))
            origin = {column: values.filter(pa.array(others)) for column, values in origin.items()}
        now = self._stats
        worse = [name for name in now if now[name]["rows_bad"] > before[name]["rows_bad"]]
        if (self.job.on_bad == "skip" and worse) or late:
            letters.append(self.judge.letters(name, table, worse, late, origin, batch.clock))
        return pa.concat_tables(letters)

    # Entering ----------------------------------------------------------------------------------

    def _commit(self, group: BatchGroup) -> None:
        """Enter batches and write what came of them; of a served job in another thread."""
        if self._pool is None:
            self._enter(group)
            return
        self._settle()  # one group is on its way while another one is applied
        self._flight = self._pool.submit(self._enter, group)

    def _settle(self) -> None:
        """Wait until everything that was applied is safe; raises what went wrong."""
        flight, self._flight = self._flight, None
        if flight is not None:
            flight.result()

    def _enter(self, group: BatchGroup) -> None:
        if group.outcomes:
            self.checkpoint.enter([outcome.batch for outcome in group.outcomes])
        for outcome in group.outcomes:
            self._finish(outcome)
        if self.observer is not None:
            self.observer.entered(group.outcomes, group.stats)
        self.inbox.forget(len(group.replies))
        for request, reply in group.replies:
            if request.done.done():
                continue  # it failed in the meantime
            if isinstance(reply, Exception):
                request.done.set_exception(reply)
            else:
                request.done.set_result(reply)

    def _finish(self, outcome: BatchOutcome) -> None:
        """Write what came of a batch; a sink leaves out a batch that it has."""
        number = outcome.batch.number
        for name, sink in self.sinks.items():
            mine = [answer for answer in outcome.answers if answer.name in (None, name)]
            if mine or outcome.batch.rows is None:
                written(sink, number, rows_for(self.job, name, mine))
        if self.letters is not None and outcome.letters.num_rows:
            written(self.letters, number, TableRows([outcome.letters], LETTERS))

    # Rows --------------------------------------------------------------------------------------

    def session_of(self, name: str) -> Session:
        """What answers a query."""
        return self.monitor.board.session_of(None if self.job.alone else name)

    def _needed(self, source: str, schema: pa.Schema) -> list[str] | None:
        """The columns that the queries need of a source; dead letters need all of them."""
        if self.job.dead_letters is not None:
            return None
        wanted = self.monitor.board.needed(source, schema)
        return [name for name in schema.names if name in wanted]

    def bound(self, source: str) -> pa.Schema:
        """The columns of a source that the queries have read, and their types."""
        kinds = {
            each.name: each
            for session in self.monitor.board.sessions
            for each in session.bound.get(source, ())
        }
        return pa.schema(list(kinds.values()))

    def _time(self, source: str) -> str | None:
        """The column of time, if all queries of a source have the same."""
        found = {
            None if isinstance(query.window, CountWindow) else query.time_of(source or None)
            for query in self.job.queries.values()
            if not source or source in query.sources
        }
        return next(iter(found)) if len(found) == 1 else None

    def _counted(self) -> dict[str, dict[str, Any]]:
        """The monitor's counts, by query."""
        stats = self.monitor.stats()
        return {name: stats if self.job.alone else stats[name] for name in self.job.queries}

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """The counts of each query; what could not be read is a bad row of all of them."""
        lost = self.unread
        more = ("rows_in", "rows_bad")
        return {
            name: {**each, **{what: each[what] + lost for what in more}}
            for name, each in self._stats.items()
        }

    @property
    def first_bad(self) -> dict[str, str | None]:
        """Why the first bad row of each query was, since the start."""
        return {n: self.session_of(n).first_bad or self.first_unread for n in self.job.queries}

    # State -------------------------------------------------------------------------------------

    def _resume(self) -> BoardDiff | None:
        """Go on from the last snapshot; which queries are new since, and which are gone."""
        saved = self.checkpoint.load()
        before, now = self.checkpoint.known, list(self.job.queries)
        diff = BoardDiff(
            {name: None for name in now if name not in before},
            [name for name in before if name not in now],
        )
        if saved is not None:
            header, blob = saved
            for name in self.sources:
                if name not in header["places"]:
                    raise EngineError(
                        f"source {name!r} is new to the checkpoint {self.job.checkpoint!r}; give "
                        "the job a new checkpoint to read another source"
                    )
            self.places |= header["places"]
            self.batch, self.answers = header["batch"], header["answers"]
            self.unread = header["unread"]
            self.rows |= header["rows"]
            self.keys.load(header["keys"])
            self.monitor, diff = Monitor.resume(blob, self.job.asked, self.job.on_bad)
        for session in self.monitor.board.sessions:
            for name, source in self.sources.items():
                if source.columns is not None and name in session.bound:
                    with session.named():
                        session.bind(name, source.columns)
        return diff if any(diff) else None

    def _due(self) -> bool:
        if self.checkpoint.journal_bytes > self.save_bytes:
            return True
        waited = self.world.monotonic() - self._saved
        return self._refers and waited >= max(_SAVE_EVERY, _SAVE_SHARE * self._cost)

    def _save(self) -> None:
        """Save the state, so that a restart need not apply again what came before."""
        if self.batch < 0:
            return
        began = self.world.monotonic()
        if self.observer is not None:
            self.observer.saving()
        header = {
            "places": self.places,
            "answers": self.answers,
            "unread": self.unread,
            "rows": self.rows,
            "keys": self.keys.save(),
        }
        self.checkpoint.save(self.batch, header, self.monitor.snapshot())
        self._refers, self._saved = False, self.world.monotonic()
        self._cost = self._saved - began
        self.progress.saves += 1
        self.progress.saving += self._cost


def rows_for(job: Job, query: str, answers: list[Answer]) -> TableRows:
    """What a query's sink is given: the tables of its answers, or the changes."""
    wanted = job.changes_of(query)
    if not wanted:
        tables = [answer.table for answer in answers]
    else:
        kinds = None if isinstance(wanted, bool) else wanted
        changes = (
            with_edges(answer, answer.changes if kinds is None else answer.alerts(kinds))
            for answer in answers
        )
        tables = [table for table in changes if table.num_rows]
    schema = tables[0].schema if tables else pa.schema([])
    return TableRows(tables, schema)


# Bad rows: why they are bad, and a dead letter for each, as on Spark ------------------------------


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
        late: Mapping[int, list[str]],
        origin: Mapping[str, pa.Array],
        clock: float,
    ) -> pa.Table:
        """A letter for each row that is bad for some of these queries, or late."""
        reasons: dict[int, list[str]] = {}
        for name, intake, faults in self.faults(source, table, queries, clock):
            shown = intake.widened(source, table.select(intake.bound[source].names))
            rows = np.flatnonzero(faults.mask).tolist()
            for row, reason in zip(rows, faults.each(shown), strict=True):
                text = reason if self.job.alone else f"{name}: {reason}"
                reasons.setdefault(row, []).append(text)
        for row, why in late.items():
            reasons.setdefault(row, []).extend(why)
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
