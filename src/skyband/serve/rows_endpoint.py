"""``POST /api/rows``: receives a body within limits, reads it, and hands its rows to the engine."""

from __future__ import annotations

import asyncio
import hashlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from skyband.errors import EngineError
from skyband.jobs.local.posts import Busy, KeyReused, PostRefused
from skyband.jobs.local.posts import Request as Rows
from skyband.serve.bodies import CONTENT_TYPES, read_body
from skyband.serve.limits import TooLarge, UnreadableBody
from skyband.serve.replies import RequestProblem, busy, reply
from skyband.serve.service import Service

_KEY_CHARACTERS = 255


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
