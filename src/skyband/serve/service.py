"""The service: one engine thread that applies requests, makes them safe, and keeps the answers.

A request is applied to the board in memory, appended to the journal, made safe with one sync for
all requests that were waiting, and only then answered. Its answers are shown after that too, so
nobody sees an answer that a crash could take back.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.errors import DataError, EngineError, SkybandError
from skyband.jobs.local.run import changed_lines
from skyband.query import Query
from skyband.serve.board import Fault, Schemas
from skyband.serve.history import Event
from skyband.serve.journal import Journal
from skyband.serve.keys import Applied
from skyband.serve.shown import Limits, Shown

__all__ = ["Busy", "KeyReused", "Limits", "Refused", "Request", "Service"]


log = logging.getLogger("skyband.serve")
Writer = Callable[[int, list[Answer]], None]
"""Writes the answers of a batch to sinks; a batch that comes again has the same number."""


class Refused(Exception):  # noqa: N818
    """Rows that a query finds bad; nothing was applied."""

    def __init__(self, message: str, fault: Fault | None = None) -> None:
        super().__init__(message)
        self.row = None if fault is None else fault.row
        self.column = None if fault is None else fault.column
        self.reason = message if fault is None else fault.reason


class Busy(Exception):  # noqa: N818
    """Too much is waiting for the engine; come back later."""


class KeyReused(Exception):  # noqa: N818
    """A key that was used for another body."""


@dataclass
class Request:
    """Rows that are to be applied."""

    source: str
    table: pa.Table
    size: int
    key: str | None = None
    digest: str = ""
    mark: Any = None
    """How far the reader of a source has come, kept with the rows."""
    done: Future[dict[str, Any]] = field(default_factory=Future)


class Service(Shown):
    """A board that takes rows and keeps answers, in a folder."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        schemas: Schemas,
        folder: Path,
        on_bad: str = "skip",
        history: int = 1_000,
        limits: Limits | None = None,
        write: Writer | None = None,
    ) -> None:
        self.journal = Journal(folder)
        try:
            super().__init__(queries, schemas, folder, on_bad, history, limits)
        except BaseException:
            self.journal.close()
            raise
        self.marks: dict[str, Any] = {}
        """How far the sources have come that the service reads itself."""
        self.batch = 0
        """How many requests were applied."""
        self._write = write
        self._waiting: deque[Request] = deque()
        self._waiting_bytes = 0
        self._change = threading.Condition()
        self._closing = False
        try:
            self._recover()
        except BaseException:
            self.journal.close()
            raise
        self.stats = self.board.stats()
        self._thread = threading.Thread(target=self._run, name="skyband-engine", daemon=True)
        self._thread.start()

    # Requests ----------------------------------------------------------------------------------

    def submit(self, request: Request) -> Future[dict[str, Any]]:
        """Hand rows to the engine; the result is the reply, once the rows are safe on disk."""
        with self._change:
            if self.failure is not None or self._closing:
                raise EngineError(self.failure or "the service is closing")
            if self.full(request.size):
                raise Busy
            self._waiting.append(request)
            self._waiting_bytes += request.size
            self._change.notify()
        return request.done

    def check_key(self, key: str, digest: str) -> None:
        """Raise KeyReused if a key was used for another body."""
        known = self.keys.find(key)
        if known is not None and known.digest != digest:
            raise KeyReused(key)

    def full(self, size: int = 0) -> bool:
        """Whether a request of this size has to wait outside."""
        many = len(self._waiting) >= self.limits.waiting_requests
        return many or (
            bool(self._waiting) and self._waiting_bytes + size > self.limits.waiting_bytes
        )

    @property
    def journal_bytes(self) -> int:
        return self.journal.bytes

    @property
    def waiting(self) -> tuple[int, int]:
        """How many requests and bytes wait for the engine."""
        return len(self._waiting), self._waiting_bytes

    def close(self) -> None:
        """Apply what is waiting, take a snapshot and stop."""
        with self._change:
            self._closing = True
            self._change.notify()
        self._thread.join()
        if self.failure is None:
            self._snapshot()
        self.journal.close()

    # The engine's thread ------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._change:
                while not self._waiting and not self._closing:
                    self._change.wait()
                if not self._waiting:
                    return
                group = list(self._waiting)
                # They stay in the queue until they are done, so that it bounds all memory.
            try:
                self._apply(group)
            except Exception as problem:  # noqa: BLE001  (the reader of /healthz is told)
                self._fail(problem)
                return

    def _apply(self, group: list[Request]) -> None:
        """Apply requests, make them safe together, then answer them."""
        replies: list[tuple[Request, dict[str, Any] | Exception]] = []
        events: list[Event] = []
        due: list[tuple[int, list[Answer]]] = []
        for request in group:
            try:
                reply, answers = self._one(request)
            except (Refused, KeyReused) as problem:
                replies.append((request, problem))
            else:
                replies.append((request, reply))
                events += self._events(answers)
                due.append((self.batch, answers))
        self.journal.sync()
        for batch, answers in due:
            self._sinks(batch, answers)
        self.stats = self.board.stats()
        self.history.add(events, self.number)
        with self._change:
            for _ in group:
                self._waiting_bytes -= self._waiting.popleft().size
        for request, outcome in replies:
            if not request.done.set_running_or_notify_cancel():
                continue
            if isinstance(outcome, Exception):
                request.done.set_exception(outcome)
            else:
                request.done.set_result(outcome)
        if events:
            self.on_answers()
        if self.journal.bytes > self.limits.journal_bytes:
            self._snapshot()

    def _sinks(self, batch: int, answers: list[Answer]) -> None:
        """Write answers to the job's sinks, which know the batches that they have."""
        if self._write is not None and answers:
            self._write(batch, answers)

    def _one(self, request: Request) -> tuple[dict[str, Any], list[Answer]]:
        if request.key is not None:
            self.check_key(request.key, request.digest)
            known = self.keys.find(request.key)
            if known is not None:
                return known.reply, []
        before = self.status.counts()
        try:
            answers = self.board.push(request.source, request.table)
        except DataError as problem:
            fault = self.board.fault(request.source, request.table)
            raise Refused(str(problem), fault) from None
        except SkybandError as problem:
            raise Refused(str(problem)) from None
        self.status.took(request.source, request.table)
        reply = self._reply(request, before)
        at = time.time()
        header = {"source": request.source, "at": at, "reply": reply}
        if request.key is not None:
            header |= {"key": request.key, "digest": request.digest}
            self.keys.add(request.key, Applied(request.digest, at, reply))
        if request.mark is not None:
            header["mark"] = self.marks[request.source] = request.mark
        self.journal.append(header, request.table)
        self.batch += 1
        return reply, answers

    def _reply(self, request: Request, before: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
        """The number of rows; how many were late or bad, if any, and the first reason."""
        reply: dict[str, Any] = {"rows": request.table.num_rows}
        now = self.status.counts()
        more = {
            what: max((now[name][what] - before[name][what] for name in now), default=0)
            for what in ("rows_late", "rows_bad")
        }
        if more["rows_bad"]:
            fault = self.board.fault(request.source, request.table)
            # A row may also be bad only because of the rows that are live.
            reply["bad"] = max(more["rows_bad"], 0 if fault is None else fault.rows)
            reply["reason"] = (
                "the row contradicts rows that are still in the window"
                if fault is None
                else f"row {fault.row}, column {fault.column!r}: {fault.reason}"
            )
        if more["rows_late"]:
            reply["late"] = more["rows_late"]
        return reply

    def _fail(self, problem: Exception) -> None:
        """Stop taking rows: memory may be ahead of the disk, so only a restart helps."""
        with self._change:
            self.failure = f"the engine stopped ({type(problem).__name__}: {problem}); restart it"
            waiting, self._waiting = list(self._waiting), deque()
        for request in waiting:
            if not request.done.done():
                request.done.set_exception(EngineError(self.failure))

    # State -------------------------------------------------------------------------------------

    def _snapshot(self) -> None:
        self.history.write()
        header = {
            "service": 1,
            "number": self.number,
            "batch": self.batch,
            "keys": self.keys.save(),
            "marks": self.marks,
            "status": self.status.save(),
        }
        self.journal.replace(header, self.board.snapshot())

    def _recover(self) -> None:
        """Continue from the snapshot and the journal after it, with the same answers as before."""
        found, changed = self.journal.snapshot(), None
        if found is not None:
            header, blob = found
            changed = self.board.resume(blob)
            self.number, self.batch = header["number"], header["batch"]
            self.keys.load(header["keys"])
            self.marks = dict(header["marks"])
            self.status.load(header["status"])
        for header, table in self.journal.records():
            answers = self.board.push(header["source"], table)
            self.status.took(header["source"], table)
            if "key" in header:
                applied = Applied(header["digest"], header["at"], header["reply"])
                self.keys.add(header["key"], applied)
            if "mark" in header:
                self.marks[header["source"]] = header["mark"]
            self.history.add(self._events(answers), self.number)
            self.batch += 1
            self._sinks(self.batch, answers)
        if changed is not None and any(changed):
            for line in changed_lines(changed):
                log.warning("%s", line)
            # Other queries have other answers, so whoever comes back starts afresh.
            self.number += 1
            self.history.skip(self.number)
            self.history.add([], self.number)
        if found is None or (changed is not None and any(changed)):
            # So that a board that was changed is recognised from now on.
            self._snapshot()
