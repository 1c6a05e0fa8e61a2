"""The HTTP interface of a service: rows in, answers out, events, metrics, the page."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from skyband.errors import EngineError
from skyband.serve.bodies import CONTENT_TYPES, Unreadable, read_body, same_columns
from skyband.serve.describe import describe
from skyband.serve.doors import COOKIE, SESSION_SECONDS, Doors
from skyband.serve.event_stream import EventStream
from skyband.serve.history import Event
from skyband.serve.hub import Hub
from skyband.serve.journal import Packed
from skyband.serve.metrics import prometheus
from skyband.serve.payload import text_of
from skyband.serve.service import Busy, KeyReused, Refused, Service
from skyband.serve.service import Request as Rows
from skyband.serve.shown import Shown
from skyband.serve.status import ROWS

__all__ = ["make_app"]

_STATIC = {
    "board.js": "text/javascript; charset=utf-8",
    "board.css": "text/css; charset=utf-8",
    "icon.png": "image/png",
}
_DEFAULT_LAST = 20
_KEY_CHARACTERS = 255


class Problem(Exception):  # noqa: N818
    """A reply that is not a success; ``more`` are further fields of its body."""

    def __init__(
        self, status: int, error: str, headers: dict[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(error)
        self.status = status
        self.headers = headers or {}
        self.body = {"error": error} | {name: v for name, v in more.items() if v is not None}


def make_app(
    service: Shown,
    sources: dict[str, str],
    title: str = "skyband",
    engine: str = "local",
    host: str = "127.0.0.1",
    token: str | None = None,
    names: tuple[str, ...] = (),
) -> Doors:
    """The application; ``sources`` maps each source to its kind."""
    api = _Api(service, sources, title, engine)
    routes = [
        Route("/", api.page),
        Route("/static/{name}", api.static),
        Route("/api/board", api.board),
        Route("/api/answers/{name:path}", api.answers),
        Route("/api/events", api.events),
        Route("/api/rows/{source:path}", api.rows, methods=["POST"]),
        Route("/api/session", api.session, methods=["POST"]),
        Route("/api/openapi.json", api.openapi),
        Route("/metrics", api.metrics),
        Route("/healthz", api.health),
    ]
    app = Starlette(
        routes=routes,
        lifespan=api.lifespan,
        exception_handlers={Problem: _problem, HTTPException: _plain, Exception: _failed},  # type: ignore[dict-item]
    )
    app.router.redirect_slashes = False
    doors = Doors(app, host, token, names)
    api.doors = doors
    return doors


async def _problem(_: Request, problem: Problem) -> Response:
    return _reply(problem.body, problem.status, problem.headers)


async def _plain(_: Request, problem: HTTPException) -> Response:
    said = {404: "there is nothing here", 405: "this method is not allowed here"}
    headers = dict(problem.headers or {})
    error = said.get(problem.status_code, "the request cannot be answered")
    return _reply({"error": error}, problem.status_code, headers)


async def _failed(_: Request, __: Exception) -> Response:
    return _reply({"error": "something went wrong in the service; its log says more"}, 500)


def _reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(text_of(value), status, headers, "application/json")


class _Api:
    """The handlers of one service."""

    doors: Doors
    hub: Hub

    def __init__(self, service: Shown, sources: dict[str, str], title: str, engine: str) -> None:
        self.service = service
        self.sources = {name or ROWS: (name, kind) for name, kind in sources.items()}
        self.engine = engine
        self.taker = service if isinstance(service, Service) else None
        """What takes rows, if anything does."""
        self.told = describe(service, sources, title, engine)
        self.reading = 0
        """Bytes of request bodies that are being received."""
        self.pool = ThreadPoolExecutor(2, "skyband-read")

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Start the event streams, and close the service at the end."""
        loop = asyncio.get_running_loop()
        self.hub = Hub(self.service.history, self._status)
        self.service.on_answers = lambda: _call(loop, self.hub.wake)
        self.doors.stop = self.hub.close
        ticking = asyncio.create_task(self.hub.tell_status())
        yield
        ticking.cancel()
        await asyncio.to_thread(self.service.close)

    # The page ----------------------------------------------------------------------------------

    async def page(self, _: Request) -> Response:
        """The page itself; it holds no data."""
        return _file("index.html", "text/html; charset=utf-8")

    async def static(self, request: Request) -> Response:
        """Script and style of the page, by a fixed list of names."""
        name = request.path_params["name"]
        if name not in _STATIC:
            raise Problem(404, "there is nothing here")
        return _file(name, _STATIC[name])

    # Reading -----------------------------------------------------------------------------------

    async def board(self, _: Request) -> Response:
        """The queries, the engine and the sources."""
        return _reply(self.told)

    async def answers(self, request: Request) -> Response:
        """The last answers of a query, or the one with a given end."""
        name, asked = request.path_params["name"], request.query_params
        if name not in self.service.board.queries:
            known = ", ".join(self.service.board.queries)
            raise Problem(404, f"there is no query of this name; there are {known}")
        if "end" in asked:
            if "last" in asked:
                raise Problem(400, "give last or end, not both")
            found = self._with_end(name, asked["end"])
            if not found:
                raise Problem(404, "no answer with this end is kept; see ?last=1000")
        else:
            text = asked.get("last", str(_DEFAULT_LAST))
            if not (text.isascii() and text.isdigit()):
                raise Problem(400, "last must be a number of answers, for example ?last=20")
            found = self.service.history.newest(name, int(text[:9]))
        body = f'{{"name":{json.dumps(name)},"answers":[{",".join(e.text for e in found)}]}}'
        return Response(body, media_type="application/json")

    def _with_end(self, name: str, text: str) -> list[Event]:
        kept = self.service.history.newest(name, self.service.history.most)
        wanted = _moment(text)
        return [event for event in kept if _moment(json.loads(event.end)) == wanted]

    async def events(self, request: Request) -> Response:
        """Server-sent events."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self.hub.subscribers >= self.service.limits.subscribers:
            said = "too many pages are open; close one, or try again later"
            raise Problem(503, said, {"Retry-After": "30"})
        return EventStream(self.hub, request.headers.get("last-event-id"))

    # Writing -----------------------------------------------------------------------------------

    async def rows(self, request: Request) -> Response:
        """Take rows; the reply comes when they are safe on disk."""
        public = request.path_params["source"]
        source, kind = self.sources.get(public, ("", None))
        if kind != "http" or self.taker is None:
            takers = [name for name, (_, kind) in self.sources.items() if kind == "http"]
            said = f"sources that take rows: {', '.join(takers)}" if takers else "no source does"
            raise Problem(404, f"there is no source of this name that takes rows; {said}")
        form = self._form(request)
        key = request.headers.get("idempotency-key")
        if key is not None and not (0 < len(key) <= _KEY_CHARACTERS and key.isprintable()):
            raise Problem(
                400, f"an Idempotency-Key has 1 to {_KEY_CHARACTERS} printable characters"
            )
        body = await self._body(request, self.taker)
        self.reading += len(body)
        try:
            loop = asyncio.get_running_loop()
            work = partial(_read, self.taker, source, form, body, key)
            return _reply(await asyncio.wrap_future(await loop.run_in_executor(self.pool, work)))
        except Unreadable as problem:
            raise _unreadable(problem) from None
        except Refused as problem:
            where: dict[str, Any] = {"row": problem.row, "column": problem.column}
            raise Problem(400, str(problem), **where, reason=problem.reason) from None
        except KeyReused:
            said = "this Idempotency-Key was used with another body; use a new key for new rows"
            raise Problem(422, said) from None
        except Busy:
            raise _busy() from None
        except EngineError as problem:
            raise Problem(503, str(problem), {"Retry-After": "10"}) from None
        finally:
            self.reading -= len(body)

    def _form(self, request: Request) -> str:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoded = request.headers.get("content-encoding", "identity").lower() != "identity"
        if given not in CONTENT_TYPES or encoded:
            known = ", ".join(CONTENT_TYPES)
            said = "send the body without Content-Encoding" if encoded else f"use one of {known}"
            raise Problem(415, f"this content type is not taken; {said}", {"Accept-Post": known})
        return CONTENT_TYPES[given]

    async def _body(self, request: Request, taker: Service) -> bytes:
        limits = taker.limits
        too_large = Problem(
            413,
            f"the body is larger than {limits.body_bytes:,} bytes; send the rows in smaller parts",
            {"Connection": "close"},
        )
        told = request.headers.get("content-length", "")
        if told.isdigit() and int(told) > limits.body_bytes:
            raise too_large
        size = int(told) if told.isdigit() else 0
        _, waiting = taker.waiting
        if taker.full(size) or self.reading + waiting + size > 2 * limits.waiting_bytes:
            raise _busy()
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
                        raise _busy()
        except TimeoutError:
            said = f"the body did not arrive within {limits.body_seconds:g} s; send less at once"
            raise Problem(408, said, {"Connection": "close"}) from None
        except ClientDisconnect:
            raise Problem(400, "the connection was closed before the body was complete") from None
        finally:
            self.reading -= size
        return b"".join(parts)

    async def session(self, request: Request) -> Response:
        """Take the token and set a cookie that proves it."""
        if self.doors.token is None:
            return _reply({"token": "not needed"})
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            if (
                request.headers.get("content-type", "").partition(";")[0].strip()
                != "application/json"
            ):
                raise Problem(415, 'send JSON: {"token": "..."}')
            given = await self._token(request)
        if not self.doors.is_token(given.strip().encode()):
            await asyncio.sleep(0.3)  # slows down guessing
            raise Problem(401, "this is not the token")
        reply = _reply({"ok": True})
        reply.set_cookie(
            COOKIE, self.doors.session(), max_age=SESSION_SECONDS, httponly=True, samesite="strict"
        )
        return reply

    async def _token(self, request: Request) -> str:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > 10_000:
                raise Problem(413, "this is too long for a token")
        try:
            found = json.loads(body)
            token = found["token"]
            token.encode()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise Problem(400, 'send JSON: {"token": "..."}') from None
        return str(token)

    # Watching ----------------------------------------------------------------------------------

    def _status(self) -> dict[str, Any]:
        service, status = self.service, self.service.status
        stats = service.stats.values()
        requests, _ = service.waiting
        mark = status.watermark()
        trouble = [*([service.failure] if service.failure else []), *status.trouble()]
        return {
            "engine": self.engine,
            "rows": sum(status.rows.values()),
            "rows_per_second": round(status.rate(), 1),
            "watermark": status.moment(mark),
            "behind": status.behind,
            "late": max((int(each["rows_late"]) for each in stats), default=0),
            "bad": max((int(each["rows_bad"]) for each in stats), default=0),
            "state_bytes": sum(int(each["state_bytes"]) for each in stats),
            "waiting": requests,
            "subscribers": self.hub.subscribers,
            "trouble": trouble,
        }

    async def metrics(self, _: Request) -> Response:
        """Prometheus' text format."""
        text = prometheus(self.service, self.hub.subscribers)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def health(self, _: Request) -> Response:
        """Whether the service is alive, and how far behind."""
        service = self.service
        requests, waiting = service.waiting
        told: dict[str, Any] = {
            "status": "ok" if service.failure is None else "failed",
            "behind": service.status.behind,
            "waiting_requests": requests,
            "waiting_bytes": waiting,
        }
        return _reply(told, 200 if service.failure is None else 503)

    async def openapi(self, _: Request) -> Response:
        """The interface in OpenAPI's form."""
        return _file("openapi.json", "application/json")


def _read(taker: Service, source: str, form: str, body: bytes, key: str | None) -> Any:
    """Read a body and hand its rows to the engine; runs in a thread of its own."""
    digest = ""
    if key is not None:
        digest = hashlib.sha256(f"{source}\0{form}\0".encode() + body).hexdigest()
        taker.check_key(key, digest)
    schema = taker.board.schemas[source]
    table, own = read_body(form, body, schema), None
    if form == "arrow" and same_columns(body, schema):
        own = Packed.of(body)  # the body can stand in the journal as it is
    return taker.submit(Rows(source, table, len(body), key, digest, packed=own))


def _call(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
    """Call something in the event loop's thread, unless the loop has ended."""
    try:
        loop.call_soon_threadsafe(wake)
    except RuntimeError:
        return


def _file(name: str, media_type: str) -> Response:
    content = (resources.files("skyband.serve") / "static" / name).read_bytes()
    headers = {"Cache-Control": "no-cache"}
    return Response(content, media_type=media_type, headers=headers)


def _busy() -> Problem:
    return Problem(
        429, "the engine is behind; send this again after a moment", {"Retry-After": "1"}
    )


def _unreadable(problem: Unreadable) -> Problem:
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
    return Problem(400, said, **more, reason=problem.reason)


def _moment(value: Any) -> Any:
    """A window's end as a value to compare: a moment in UTC, or an integer."""
    if isinstance(value, int):
        return value
    text = str(value).strip()
    if text.lstrip("-").isdigit() and text.isascii():
        return int(text)
    if " " in text and "T" in text:
        text = text.replace(" ", "+")  # a plus sign that was not escaped
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Problem(400, "end must be a time in ISO 8601, or an integer") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
