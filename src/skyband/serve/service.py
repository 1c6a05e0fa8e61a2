"""The service: applies requests, makes them safe, and keeps the answers.

    request ──► engine thread: push ──► commit thread: journal, one sync ──► reply, answers shown

A request is applied to the board in memory, appended to the journal, made safe with one sync for
all requests that were waiting, and only then answered. Its answers are shown after that too, so
nobody sees an answer that a crash could take back. While one group of requests is made safe, the
next one is applied.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from skyband.answers.answer import Answer
from skyband.data.ipc import table_to_bytes
from skyband.engine.row_limits import RowLimits
from skyband.errors import DataError, EngineError, SkybandError
from skyband.jobs.report import changed_lines
from skyband.query import Query
from skyband.serve.board import Schemas
from skyband.serve.dead_letters import DeadLetters, Post
from skyband.serve.history import Event
from skyband.serve.journal import Journal, Packed
from skyband.serve.keys import Applied
from skyband.serve.requests import Busy, Group, KeyReused, Refused, Request, reply_of
from skyband.serve.shown import Limits, Shown

__all__ = ["Busy", "KeyReused", "Limits", "Refused", "Request", "Service"]


log = logging.getLogger("skyband.serve")
Writer = Callable[[int, list[Answer]], None]
"""Writes the answers of a batch to sinks; a batch that comes again has the same number."""


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
        post: Post | None = None,
        takes: Mapping[str, RowLimits] | None = None,
    ) -> None:
        self.journal = Journal(folder)
        try:
            super().__init__(queries, schemas, folder, on_bad, history, limits)
        except BaseException:
            self.journal.close()
            raise
        self.board.limits = takes or {}
        self.marks: dict[str, Any] = {}
        """How far the sources have come that the service reads itself."""
        self.batch = 0
        """How many requests were applied."""
        self.dead = DeadLetters(post)
        self._write = write
        self._waiting: deque[Request] = deque()
        self._waiting_bytes = 0
        self._change = threading.Condition()
        self._closing = False
        self._taken = 0
        """How many of the waiting requests the engine has applied."""
        self._groups: deque[Group | None] = deque()
        """Groups that wait to be made safe; None ends the commit thread."""
        try:
            self._recover()
        except BaseException:
            self.journal.close()
            raise
        self.stats = self.dead.counted(self.board.stats())
        self._thread = threading.Thread(target=self._run, name="skyband-engine", daemon=True)
        self._committer = threading.Thread(target=self._commits, name="skyband-commit", daemon=True)
        self._thread.start()
        self._committer.start()

    # Requests ----------------------------------------------------------------------------------

    def submit(self, request: Request) -> Future[dict[str, Any]]:
        """Hand rows to the engine; the result is the reply, once the rows are safe on disk."""
        if request.packed is None and not self.full(request.size):
            request.packed = Packed.of(table_to_bytes(request.table))
        with self._change:
            if self.failure is not None or self._closing:
                raise EngineError(self.failure or "the service is closing")
            if request.packed is None or self.full(request.size):
                raise Busy
            self._waiting.append(request)
            self._waiting_bytes += request.size
            self._change.notify_all()
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
        return self.journal.size

    @property
    def waiting(self) -> tuple[int, int]:
        """How many requests and bytes wait for the engine."""
        return len(self._waiting), self._waiting_bytes

    def close(self) -> None:
        """Apply what is waiting, take a snapshot and stop."""
        with self._change:
            self._closing = True
            self._change.notify_all()
        self._thread.join()
        self._committer.join()
        if self.failure is None:
            self._snapshot()
        self.journal.close()

    # The engine's thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (found := self._next()) is not None:
                group = self._apply(found)
                with self._change:
                    self._groups.append(group)
                    self._change.notify_all()
                if self.journal.size > self.limits.journal_bytes:
                    self._settle()
                    self._snapshot()
        except Exception as problem:  # noqa: BLE001  (/healthz reports it)
            self._fail(problem)
        finally:
            with self._change:
                self._groups.append(None)
                self._change.notify_all()

    def _next(self) -> list[Request] | None:
        """The requests to apply next; None if there will be no more.

        They stay in the queue until they are safe, so that it bounds all memory. No more than one
        group is applied while another one is made safe.
        """
        with self._change:
            while self.failure is None:
                if len(self._waiting) > self._taken and len(self._groups) < 2:
                    found = list(islice(self._waiting, self._taken, None))
                    self._taken = len(self._waiting)
                    return found
                if self._closing and len(self._waiting) == self._taken:
                    return None
                self._change.wait()
        return None

    def _settle(self) -> None:
        """Wait until everything that was applied is safe."""
        with self._change:
            while self._groups and self.failure is None:
                self._change.wait()
        if self.failure is not None:
            raise EngineError(self.failure)

    def _apply(self, requests: list[Request]) -> Group:
        """Apply requests to the board."""
        group = Group(requests)
        for request in requests:
            try:
                reply, answers = self._one(request, group)
            except (Refused, KeyReused) as problem:
                group.replies.append((request, problem))
            else:
                group.replies.append((request, reply))
                if answers:
                    group.answers.append((self.batch, answers))
        group.stats = self.dead.counted(self.board.stats())
        return group

    # The commit thread --------------------------------------------------------------------------

    def _commits(self) -> None:
        while True:
            with self._change:
                while not self._groups:
                    self._change.wait()
                group = self._groups[0]
            if group is None or self.failure is not None:
                return
            try:
                self._commit(group)
            except Exception as problem:  # noqa: BLE001
                self._fail(problem)
                return

    def _commit(self, group: Group) -> None:
        """Make a group safe with one sync, then answer its requests and show its answers."""
        for header, packed in group.records:
            self.journal.append(header, packed)
        if group.records:
            self.journal.sync()
        events: list[Event] = []
        for batch, found in group.bad:
            self.dead.deliver(batch, found)
        for batch, answers in group.answers:
            self._sinks(batch, answers)
            events += self._events(answers)
        self.stats = group.stats
        self.history.add(events, self.number)
        with self._change:
            if self.failure is not None:
                return  # every waiting request has got the error
            for _ in group.requests:
                self._waiting_bytes -= self._waiting.popleft().size
            self._taken -= len(group.requests)
            self._groups.popleft()
            self._change.notify_all()
        for request, outcome in group.replies:
            if request.done.done():
                continue  # it failed in the meantime
            if isinstance(outcome, Exception):
                request.done.set_exception(outcome)
            else:
                request.done.set_result(outcome)
        if events:
            self.on_answers()

    def _sinks(self, batch: int, answers: list[Answer]) -> None:
        """Write answers to the job's sinks, which know the batches that they have."""
        if self._write is not None and answers:
            self._write(batch, answers)

    def _one(self, request: Request, group: Group) -> tuple[dict[str, Any], list[Answer]]:
        """Apply one request, and note what the journal needs of it."""
        if request.key is not None:
            self.check_key(request.key, request.digest)
            known = self.keys.find(request.key)
            if known is not None:
                return known.reply, []
        before, at = self.status.counts(), time.time()
        self.board.limit(at)
        try:
            answers = self.board.push(request.source, request.table)
        except DataError as problem:
            fault = self.board.fault(request.source, request.table)
            raise Refused(str(problem), fault) from None
        except SkybandError as problem:
            raise Refused(str(problem)) from None
        self.status.took(request.source, request.table)
        find = partial(self.board.fault, request.source, request.table)
        now = self.status.counts()
        reply = reply_of(request, before, now, find)
        bad = self.dead.of(request, before, now, at)
        header = {"source": request.source, "at": at, "reply": reply, **bad}
        if request.key is not None:
            header |= {"key": request.key, "digest": request.digest}
            self.keys.add(request.key, Applied(request.digest, at, reply))
        if request.mark is not None:
            header["mark"] = self.marks[request.source] = request.mark
        assert request.packed is not None
        group.records.append((header, request.packed))
        self.batch += 1
        self.dead.took(bad)
        group.bad.append((self.batch, bad))
        return reply, answers

    def _fail(self, problem: Exception) -> None:
        """Stop taking rows: memory may be ahead of the disk, so only a restart helps."""
        with self._change:
            told = f"the engine stopped ({type(problem).__name__}: {problem}); restart it"
            self.failure = self.failure or told
            log.error("%s", told)
            waiting, self._waiting = list(self._waiting), deque()
            self._change.notify_all()
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
            "unread": self.dead.unread,
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
            self.dead.took(header)
            self.status.load(header["status"])
        for header, rows in self.journal.records():
            table = self.board.again(header["source"], rows)
            self.board.limit(header["at"])
            answers = self.board.push(header["source"], table)
            self.status.took(header["source"], table)
            if "key" in header:
                applied = Applied(header["digest"], header["at"], header["reply"])
                self.keys.add(header["key"], applied)
            if "mark" in header:
                self.marks[header["source"]] = header["mark"]
            self.history.add(self._events(answers), self.number)
            self.batch += 1
            self.dead.took(header)
            self.dead.deliver(self.batch, header)
            self._sinks(self.batch, answers)
        if changed is not None and any(changed):
            for line in changed_lines(changed):
                log.warning("%s", line)
            # Other queries have other answers, so a page that comes back starts with the newest.
            self.number += 1
            self.history.skip(self.number)
            self.history.add([], self.number)
        if found is None or (changed is not None and any(changed)):
            # So that a board that was changed is recognised from now on.
            self._snapshot()
