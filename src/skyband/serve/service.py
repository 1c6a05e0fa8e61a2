"""A local job that is served: rows that are posted are a source of it, a page shows its answers.

    request ──► inbox ──► the job: apply, enter with one sync, sinks ──► reply, answers shown

The job does the work (``jobs.local.local_job``). The service hands it the rows, keeps the last
answers of each query for readers, and says how all is doing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.contract.capabilities import IdRanking
from skyband.embedded.monitor import Monitor
from skyband.errors import SkybandError
from skyband.jobs import Job
from skyband.jobs.job import source_table
from skyband.jobs.local.local_job import BatchOutcome, LocalJob
from skyband.jobs.local.posts import Inbox
from skyband.jobs.local.source import LocalSource, Place
from skyband.jobs.local.sources import known_columns
from skyband.jobs.world import clear_errors
from skyband.serve.history import Event
from skyband.serve.limits import DEFAULT, ServiceLimits
from skyband.serve.page import Page
from skyband.serve.status import ROWS

log = logging.getLogger("skyband.serve")
_LOOK = 0.1
"""Seconds between looks at a source whose columns are not known yet."""


class Service(Page):
    """A job in this process that takes rows and keeps answers."""

    def __init__(
        self,
        job: Job,
        limits: ServiceLimits = DEFAULT,
        sources: Mapping[str, LocalSource] | None = None,
    ) -> None:
        """``sources`` are given where the job does not say what to read."""
        self.inbox = Inbox(limits.waiting_requests, limits.waiting_bytes)
        self.job = LocalJob(job, self, self.inbox, limits.journal_bytes, sources)
        self._closing = False
        try:
            with clear_errors():
                self._begin(job, limits)
        except BaseException:
            self.job.close()
            raise
        self._thread = threading.Thread(target=self._run, name="skyband-engine", daemon=True)
        self._thread.start()

    def _begin(self, job: Job, limits: ServiceLimits) -> None:
        schemas = {name: _columns(self.job, name) for name in self.job.sources}
        folder = self.job.checkpoint.folder
        super().__init__(job.queries, schemas, folder, job.on_bad, job.history, limits, job.cards)
        self.status.files = all(each.kind == "files" for each in job.sources.values())
        self.keys = self.job.keys
        self.number = self.job.answers
        self.history.expect(self.number)
        self.status.rows |= self.job.rows  # of earlier starts
        self.status.seen = self.job.monitor.board.seen
        for _ in self.job.replay():
            pass
        self.number = self.job.answers
        self.history.expect(self.number)
        if self.job.renumbered:  # a page that comes back starts with the newest answers
            self.history.skip(self.number)
        self.stats, self.first_bad = self.job.stats, self.job.first_bad

    @property
    def waiting(self) -> tuple[int, int]:
        """How many requests and bytes wait for the engine."""
        return self.inbox.waiting

    @property
    def state(self) -> str:
        """``live``, ``finished``, or ``all read`` where more files may come."""
        if self.status.finished or not (self.status.files and self.job.idle):
            return super().state
        paths = (str(each["path"]) for each in self.job.job.sources.values())
        return "finished" if all(Path(path).is_file() for path in paths) else "all read"

    @property
    def journal_bytes(self) -> int:
        """Bytes in the journal since the last snapshot."""
        return self.job.checkpoint.journal_bytes

    def positions(self, name: str) -> bool:
        """Whether it can be asked where an id of a query stands."""
        return isinstance(self.job.session_of(name).synopsis, IdRanking)

    def ask(self, question: Callable[[Monitor], Any]) -> Future[Any]:
        """Have a question answered between batches, about rows that are safe on disk."""
        if self._thread.is_alive() or self.failure is not None:
            return self.inbox.ask(lambda: question(self.job.monitor))
        answer: Future[Any] = Future()  # the job has ended, so nothing changes any more
        try:
            answer.set_result(question(self.job.monitor))
        except Exception as problem:  # noqa: BLE001  (raised where the answer is awaited)
            answer.set_exception(problem)
        return answer

    def close(self) -> None:
        """Apply what is waiting, take a snapshot and stop."""
        self._closing = True
        self.inbox.shut("the service is closing")
        self._thread.join()

    def _run(self) -> None:
        try:
            for _ in self.job.steps(lambda: self._closing):
                pass
            if not self._closing:
                self.status.finished = True
        except Exception as problem:  # noqa: BLE001  (/healthz reports it)
            # Memory may be ahead of the disk, so only a restart helps.
            reason = f"the engine stopped ({type(problem).__name__}: {problem}); restart it"
            self.failure = self.failure or reason
            log.error("%s", reason)
        self.inbox.fail(self.failure or "the job has ended")

    # What the job does -------------------------------------------------------------------------

    def applied(self, source: str) -> None:
        """Rows of a source were applied."""
        self.status.counted(source, self.job.rows[source], self.job.monitor.board.seen)

    def stopped(self, source: str, problem: Exception) -> None:
        """A source stopped for good."""
        self.status.stopped(f"source {source or ROWS} stopped: {problem}")

    def saving(self) -> None:
        """A snapshot is about to be taken."""
        self.history.write()

    def entered(
        self, outcomes: Sequence[BatchOutcome], stats: Mapping[str, Mapping[str, Any]]
    ) -> None:
        """Show what came of batches that are safe."""
        events: list[Event] = []
        for outcome in outcomes:
            events += self._events(outcome.answers)
        self.stats, self.first_bad = stats, self.job.first_bad
        self.history.add(events, self.number)
        if events:
            self.on_answers()


def _columns(job: LocalJob, name: str) -> pa.Schema:
    """The columns of a source; waits until it has shown them."""
    source = job.sources[name]
    if source.columns is not None:
        return source.columns
    section = job.job.sources[name]
    while True:
        try:
            schema = known_columns(f"[{source_table(name)}]", section)
        except SkybandError:
            schema = None  # a folder that is not there yet, or a first file that cannot be read
        if schema is None:
            schema = job.bound(name) if job.bound(name).names else None
        if schema is None and (section.kind != "files" or "://" in section["path"]):
            batch = source.take(source.first, last=False)
            schema = None if batch is None else batch[0].schema
        if schema is not None:
            return schema
        time.sleep(_LOOK)


class StreamSource(LocalSource):
    """Batches that this process makes; they cannot be read again."""

    first = 0
    journalled = True
    where = "the stream"

    def __init__(self, batches: Iterator[pa.Table], schema: pa.Schema) -> None:
        self.batches, self.columns = batches, schema

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The next batch."""
        table = next(self.batches, None)
        return None if table is None else (table, place + 1)
