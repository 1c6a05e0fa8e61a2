"""Rows that are posted to a job: requests, where they wait, and keys to repeat them safely."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.data.ipc import table_to_bytes
from skyband.embedded.text_files import sound
from skyband.errors import EngineError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import JobSection
from skyband.jobs.local.source import LocalSource, Place
from skyband.jobs.world import MACHINE, World


class PostedSource(LocalSource):
    """A source whose rows are posted. They come by way of the job's ``Inbox``."""

    first = None
    journalled = True

    def __init__(self, where: str, section: JobSection) -> None:
        self.where = where
        self.columns = arrow_schema(where, section["schema"])

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """Nothing: rows are handed over, not read."""
        return None


# Requests -----------------------------------------------------------------------------------------


class RowFault(NamedTuple):
    """The first bad row of a request."""

    row: int
    column: str
    reason: str
    rows: int
    """How many rows are bad for any query."""


class PostRefused(Exception):  # noqa: N818
    """Rows that a query finds bad; nothing was applied."""

    def __init__(self, message: str, fault: RowFault | None = None) -> None:
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
    rows: bytes | memoryview | None = None
    """The rows as they will stand in the journal; an Arrow stream."""
    done: Future[dict[str, Any]] = field(default_factory=Future)


Counts = Mapping[str, Mapping[str, int | float]]
"""What is known of each query, late and bad rows among it."""


def reply_of(
    table: pa.Table, before: Counts, now: Counts, fault: Callable[[], RowFault | None]
) -> dict[str, Any]:
    """The number of rows; how many were late or bad, if any, and the first reason.

    ``fault`` finds the first row that is bad by itself.
    """
    reply: dict[str, Any] = {"rows": table.num_rows}
    late, bad = (
        max((int(now[name][what] - before[name][what]) for name in now), default=0)
        for what in ("rows_late", "rows_bad")
    )
    if bad:
        first = fault()
        # A row may also be bad only because of the rows that are live.
        reply["bad"] = max(bad, 0 if first is None else first.rows)
        reply["reason"] = (
            "the row contradicts rows that are still in the window"
            if first is None
            else f"row {first.row}, column {first.column!r}: {first.reason}"
        )
    if late:
        reply["late"] = late
    return reply


class Inbox:
    """Requests that wait for a job, up to some number and size.

    They stay here until they are safe, so that this bounds all memory that they take.
    """

    def __init__(self, most: int = 256, most_bytes: int = 256 << 20) -> None:
        self.most, self.most_bytes = most, most_bytes
        self.failure: str | None = None
        """Why no more requests are taken, if that is so."""
        self._waiting: deque[Request] = deque()
        self._questions: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._bytes = 0
        self._taken = 0
        """How many of those that wait the job has begun to apply."""
        self._change = threading.Condition()

    def submit(self, request: Request) -> Future[dict[str, Any]]:
        """Hand rows to the job; the result is the reply, once the rows are safe on disk."""
        if not self.full(request.size):
            request.rows = table_to_bytes(request.table)
        with self._change:
            if self.failure is not None:
                raise EngineError(self.failure)
            if request.rows is None or self.full(request.size):
                raise Busy
            self._waiting.append(request)
            self._bytes += request.size
            self._change.notify_all()
        return request.done

    def ask(self, question: Callable[[], Any]) -> Future[Any]:
        """Have the job's thread answer a question about its state, between batches."""
        answer: Future[Any] = Future()
        with self._change:
            if self.failure is not None:
                raise EngineError(self.failure)
            if len(self._questions) >= self.most:
                raise Busy
            self._questions.append((question, answer))
            self._change.notify_all()
        return answer

    @property
    def asked(self) -> bool:
        """Whether there are questions to answer."""
        return bool(self._questions)

    def answer(self) -> None:
        """Answer the questions that have come; called by the job's thread."""
        while self._questions:
            question, answer = self._questions.popleft()
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(question())
                except Exception as problem:  # noqa: BLE001  (raised where the answer is awaited)
                    answer.set_exception(problem)

    def full(self, size: int = 0) -> bool:
        """Whether a request of this size has to wait outside."""
        beyond = bool(self._waiting) and self._bytes + size > self.most_bytes
        return beyond or len(self._waiting) >= self.most

    @property
    def waiting(self) -> tuple[int, int]:
        """How many requests and bytes wait."""
        return len(self._waiting), self._bytes

    def next(self) -> list[Request]:
        """The requests that have come since."""
        with self._change:
            requests = list(islice(self._waiting, self._taken, None))
            self._taken = len(self._waiting)
            return requests

    @property
    def quiet(self) -> bool:
        """Whether nothing waits that the job has not begun to apply."""
        return len(self._waiting) == self._taken and not self._questions

    def wait(self, seconds: float) -> None:
        """Wait for a request, or for the end of them; at most so long."""
        with self._change:
            if self.quiet:
                self._change.wait(seconds)

    def forget(self, requests: int) -> None:
        """Let go of the first requests: they are safe."""
        with self._change:
            for _ in range(requests):
                self._bytes -= self._waiting.popleft().size
            self._taken -= requests

    def shut(self, failure: str) -> None:
        """Take no more requests, for this reason."""
        with self._change:
            self.failure = self.failure or failure
            self._change.notify_all()

    def fail(self, failure: str) -> None:
        """Take no more requests. Those that wait and were not answered get this as an error."""
        self.shut(failure)
        with self._change:
            waiting, self._waiting = list(self._waiting), deque()
            questions, self._questions = list(self._questions), deque()
            self._taken = self._bytes = 0
            self._change.notify_all()
        for _, answer in questions:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(EngineError(failure))
        for request in waiting:
            if not request.done.done():
                request.done.set_exception(EngineError(failure))


def rows_again(where: str, rows: bytes | memoryview, schema: pa.Schema | None) -> pa.Table:
    """Rows of the journal; raises EngineError if a source has other columns by now."""
    with pa.ipc.open_stream(pa.py_buffer(rows)) as reader:
        table = sound(reader.read_all())
    if schema is None:
        return table
    columns = []
    for each in schema:
        places = table.schema.get_all_field_indices(each.name)
        kind = table.schema.field(places[0]).type if len(places) == 1 else None
        if kind != each.type:
            difference = (
                "is missing" if kind is None else f"of type {kind} is not of type {each.type}"
            )
            raise EngineError(
                f"the columns of {where} do not match the rows before them: column "
                f"{each.name!r} {difference}. Put the old columns back, or give the job a new "
                "checkpoint. Columns may be added if the service was stopped, not killed"
            )
        columns.append(table.column(places[0]))
    return pa.table(columns, schema=schema)


# Keys ---------------------------------------------------------------------------------------------

MOST = 100_000
SECONDS = 24 * 3600.0


class AppliedPost(NamedTuple):
    """A request that was applied."""

    digest: str
    """Of its source and body."""
    at: float
    """When, in seconds since 1970."""
    reply: dict[str, Any]


class PostKeys:
    """The last 100,000 keys, or those of 24 hours, whichever are fewer."""

    def __init__(self, most: int = MOST, seconds: float = SECONDS, world: World = MACHINE) -> None:
        self.most, self.seconds, self._world = most, seconds, world
        self._known: OrderedDict[str, AppliedPost] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def check(self, key: str, digest: str) -> AppliedPost | None:
        """What is known of a key; raises KeyReused if it was used for another body."""
        with self._lock:
            self._forget(self._world.time())
            known = self._known.get(key)
        if known is not None and known.digest != digest:
            raise KeyReused(key)
        return known

    def add(self, key: str, applied: AppliedPost) -> None:
        """Remember a request."""
        with self._lock:
            self._known[key] = applied
            self._forget(self._world.time())

    def _forget(self, now: float) -> None:
        known = self._known
        while known:
            first = next(iter(known))
            if len(known) <= self.most and known[first].at > now - self.seconds:
                return
            del known[first]

    def save(self) -> str:
        """All keys as text, for a snapshot."""
        with self._lock:
            saved = [[key, *applied] for key, applied in self._known.items()]
        return json.dumps(saved)

    def load(self, text: str) -> None:
        """The inverse of ``save``."""
        with self._lock:
            self._known = OrderedDict((key, AppliedPost(*rest)) for key, *rest in json.loads(text))
