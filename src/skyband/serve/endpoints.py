"""The endpoints that ask the engine: rows in, and what a query knows between two windows.

Replies are JSON: successes, problems, and failures that tell nothing of the inside.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow as pa
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from skyband.contract.capabilities import IdRanking
from skyband.data.columns import output_type
from skyband.embedded.monitor import Monitor
from skyband.engine.session import Session
from skyband.errors import EngineError, QueryError
from skyband.jobs.local.posts import Busy, KeyReused, PostRefused
from skyband.jobs.local.posts import Request as Rows
from skyband.serve.bodies import CONTENT_TYPES, read_body
from skyband.serve.limits import TooLarge, UnreadableBody
from skyband.serve.page import Page
from skyband.serve.payload import answer_text, text_of
from skyband.serve.service import Service

_KEY_CHARACTERS = 255

# Replies ------------------------------------------------------------------------------------------


class RequestProblem(Exception):  # noqa: N818
    """A reply that is not a success; ``more`` are further fields of its body."""

    def __init__(
        self, status: int, error: str, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}
        self.body = {"error": error} | {name: v for name, v in more.items() if v is not None}


def busy() -> RequestProblem:
    """The engine has too much to do."""
    return RequestProblem(
        429, "the engine is behind; send this again in a moment", {"Retry-After": "1"}
    )


async def problem_reply(_: Request, problem: RequestProblem) -> Response:
    """The reply to a problem that we raised."""
    return reply(problem.body, problem.status, problem.headers)


async def plain_reply(_: Request, problem: HTTPException) -> Response:
    """The reply to a path or method that is not there."""
    said = {404: "there is nothing here", 405: "this method is not allowed here"}
    headers = dict(problem.headers or {})
    error = said.get(problem.status_code, "the request cannot be answered")
    return reply({"error": error}, problem.status_code, headers)


async def failed_reply(_: Request, __: Exception) -> Response:
    """The reply to a failure of ours; it tells nothing about it."""
    return reply({"error": "something went wrong in the service; its log says more"}, 500)


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    return Response(text_of(value), status, headers, "application/json")


# ``POST /api/rows`` -------------------------------------------------------------------------------


class RowsEndpoint:
    """Takes rows for a service; ``sources`` maps public names to names and kinds."""

    def __init__(self, taker: Service | None, sources: dict[str, tuple[str, str]]) -> None:
        self.taker = taker
        """What takes rows, if anything does."""
        self.sources = sources
        self.reading = 0
        """Bytes of request bodies that are being received."""
        self.pool = ThreadPoolExecutor(2, "skyband-read")

    async def rows(self, request: Request) -> Response:
        """Take rows; the reply comes when they are safe on disk."""
        public = request.path_params["source"]
        source, kind = self.sources.get(public, ("", None))
        if kind != "http" or self.taker is None:
            takers = [name for name, (_, kind) in self.sources.items() if kind == "http"]
            said = f"sources that take rows: {', '.join(takers)}" if takers else "no source does"
            raise RequestProblem(404, f"there is no source of this name that takes rows; {said}")
        form = self._form(request)
        key = request.headers.get("idempotency-key")
        if key is not None and not (0 < len(key) <= _KEY_CHARACTERS and key.isprintable()):
            raise RequestProblem(
                400, f"an Idempotency-Key has 1 to {_KEY_CHARACTERS} printable characters"
            )
        body = await self._body(request, self.taker)
        self.reading += len(body)
        try:
            loop = asyncio.get_running_loop()
            work = partial(_read, self.taker, source, form, body, key)
            return reply(await asyncio.wrap_future(await loop.run_in_executor(self.pool, work)))
        except TooLarge as problem:
            raise RequestProblem(413, f"{problem}; send the rows in smaller parts") from None
        except UnreadableBody as problem:
            raise _unreadable(problem) from None
        except PostRefused as problem:
            where: dict[str, Any] = {"row": problem.row, "column": problem.column}
            raise RequestProblem(400, str(problem), **where, reason=problem.reason) from None
        except KeyReused:
            said = "this Idempotency-Key was used with another body; use a new key for new rows"
            raise RequestProblem(422, said) from None
        except Busy:
            raise busy() from None
        except EngineError as problem:
            raise RequestProblem(503, str(problem), {"Retry-After": "10"}) from None
        finally:
            self.reading -= len(body)

    def _form(self, request: Request) -> str:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoded = request.headers.get("content-encoding", "identity").lower() != "identity"
        if given not in CONTENT_TYPES or encoded:
            known = ", ".join(CONTENT_TYPES)
            said = "send the body without Content-Encoding" if encoded else f"use one of {known}"
            raise RequestProblem(
                415, f"this content type is not supported; {said}", {"Accept-Post": known}
            )
        return CONTENT_TYPES[given]

    async def _body(self, request: Request, taker: Service) -> bytes:
        limits = taker.limits
        too_large = RequestProblem(
            413,
            f"the body is larger than {limits.body_bytes:,} bytes; send the rows in smaller parts",
            {"Connection": "close"},
        )
        told = request.headers.get("content-length", "")
        if told.isdigit() and int(told) > limits.body_bytes:
            raise too_large
        wanted = int(told) if told.isdigit() else 0
        _, waiting = taker.waiting
        if taker.inbox.full(wanted) or self.reading + waiting + wanted > 2 * limits.waiting_bytes:
            raise busy()
        parts, size = [], 0
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for part in request.stream():
                    size += len(part)
                    self.reading += len(part)
                    parts.append(part)
                    if size > limits.body_bytes:
                        raise too_large
                    if self.reading > 2 * limits.waiting_bytes:
                        raise busy()
        except TimeoutError:
            said = f"the body did not arrive within {limits.body_seconds:g} s; send less at once"
            raise RequestProblem(408, said, {"Connection": "close"}) from None
        except ClientDisconnect:
            raise RequestProblem(
                400, "the connection was closed before the body was complete"
            ) from None
        finally:
            self.reading -= size
        return b"".join(parts)


def _read(taker: Service, source: str, form: str, body: bytes, key: str | None) -> Any:
    """Read a body and hand its rows to the engine; runs in a thread of its own."""
    digest = ""
    if key is not None:
        hashed = hashlib.sha256(f"{source}\0{form}\0".encode())
        hashed.update(body)
        digest = hashed.hexdigest()
        taker.keys.check(key, digest)
    schema = taker.schemas[source]
    table = read_body(form, body, schema, taker.limits)
    size = max(len(body), table.nbytes)
    return taker.inbox.submit(Rows(source, table, size, key, digest))


def _unreadable(problem: UnreadableBody) -> RequestProblem:
    parts = []
    if problem.row is not None:
        parts.append(f"row {problem.row}")
    if problem.line is not None:
        parts.append(f"line {problem.line}")
    if problem.column is not None and problem.row is not None:
        parts.append(f"column {problem.column!r}")
    where = ", ".join(parts)
    text = f"{where}: {problem.reason}" if where else problem.reason
    said = f"{text}. Nothing of this request was applied"
    more: dict[str, Any] = {"row": problem.row, "line": problem.line, "column": problem.column}
    return RequestProblem(400, said, **more, reason=problem.reason)


# ``GET /api/peek`` and ``GET /api/position`` -----------------------------------------------------


def known_query(service: Page, request: Request) -> str:
    """The query that a request names."""
    name = str(request.path_params["name"])
    if name not in service.queries:
        known = ", ".join(service.queries)
        raise RequestProblem(404, f"there is no query of this name; choose from {known}")
    return name


class BetweenWindows:
    """Asks the engine of a service, which answers between two batches."""

    def __init__(self, service: Page) -> None:
        self.service = service

    async def peek(self, request: Request) -> Response:
        """What a query would answer now, over the panes that are sealed."""
        name = known_query(self.service, request)

        def question(monitor: Monitor) -> str:
            board = monitor.board
            session = board.session_of(None if board.alone else name)
            with _refusals(able=session.synopsis.peeks):
                return answer_text(monitor.peek() if board.alone else monitor.peek(name))

        text = await self._ask(question)
        body = f'{{"name":{json.dumps(name)},"answers":[{text}]}}'
        return Response(body, media_type="application/json")

    async def position(self, request: Request) -> Response:
        """Where an id stands now, also beyond the best k."""
        name, given = known_query(self.service, request), request.query_params
        if "id" not in given:
            raise RequestProblem(400, "give the id, for example ?id=a")

        def question(monitor: Monitor) -> Any:
            board = monitor.board
            session = board.session_of(None if board.alone else name)
            able = isinstance(session.synopsis, IdRanking)
            with _refusals(able):
                if not able:
                    return monitor.position(given["id"], (), None if board.alone else name)
                id_ = _values(session, "id", session.query.key, given["id"])
                group: Any = ()
                if "group" in given:
                    group = _values(session, "group", session.query.groups, given["group"])
                id_ = id_ if len(session.query.key) > 1 else id_[0]
                return monitor.position(id_, group, None if board.alone else name)

        position = await self._ask(question)
        if position is None:
            raise RequestProblem(404, "no row of this id is live")
        return reply({"name": name, **position._asdict()})

    async def _ask(self, question: Callable[[Monitor], Any]) -> Any:
        try:
            answer = self.service.ask(question)
        except Busy:
            raise busy() from None
        except EngineError as problem:
            status = 409 if self.service.failure is None else 503
            raise RequestProblem(status, str(problem)) from None
        try:
            return await asyncio.wrap_future(answer)
        except EngineError as problem:  # the service was closed meanwhile
            raise RequestProblem(503, str(problem)) from None


@contextmanager
def _refusals(able: bool) -> Iterator[None]:
    """Turns what the engine refuses into replies: 409 if it never can, 404 if there is nothing."""
    try:
        yield
    except EngineError as problem:
        raise RequestProblem(404 if able else 409, str(problem)) from None
    except QueryError as problem:
        raise RequestProblem(400, str(problem)) from None


def _values(session: Session, role: str, names: tuple[str, ...], text: str) -> tuple[Any, ...]:
    """The values of an id or a group, in the types of their columns."""
    values: Any = [text]
    if len(names) > 1:
        try:
            values = json.loads(text)
        except ValueError:
            values = None
        if not isinstance(values, list) or len(values) != len(names):
            example = json.dumps([f"{name} ..." for name in names])
            raise RequestProblem(
                400, f"{role} must be a JSON list of {', '.join(names)}, such as {example}"
            )
    if not names or session.fold is None:
        return tuple(values)  # which the engine refuses
    schema = next(iter(session.synopsis.schemas.values()))
    kinds = [output_type(schema.field(name).type) for name in names]
    return tuple(map(_value, names, values, kinds))


def _value(name: str, value: Any, kind: pa.DataType) -> Any:
    """A value of JSON, or text, as one of this type."""
    if value is None:
        return None
    try:
        if pa.types.is_binary(kind):
            return base64.b64decode(str(value), validate=True)
        text = json.dumps(value) if isinstance(value, bool) else str(value)
        return pa.scalar(text).cast(kind)
    except (pa.ArrowException, NotImplementedError, binascii.Error):
        shown = f"{value!r} cannot be a value of column {name!r}, which has type {kind}"
        raise RequestProblem(400, shown) from None
