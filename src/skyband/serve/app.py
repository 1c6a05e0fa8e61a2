"""The HTTP interface of a service: rows in, answers out, events, metrics, the page."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from skyband.serve.access import COOKIE, SESSION_SECONDS, AccessGuard, slow_down
from skyband.serve.endpoints import (
    BetweenWindows,
    RequestProblem,
    RowsEndpoint,
    failed_reply,
    known_query,
    plain_reply,
    problem_reply,
    reply,
)
from skyband.serve.history import Event, moment_of
from skyband.serve.hub import EventStream, Hub
from skyband.serve.page import Page, describe, prometheus
from skyband.serve.service import Service
from skyband.serve.status import ROWS

_STATIC = {
    "board.js": "text/javascript; charset=utf-8",
    "board.css": "text/css; charset=utf-8",
    "icon.png": "image/png",
}
_DEFAULT_LAST = 20
_PIECE = 1 << 16
_CLOSE = {"Connection": "close"}


def make_app(
    service: Page,
    sources: dict[str, str],
    title: str = "skyband",
    engine: str = "local",
    host: str = "127.0.0.1",
    token: str | None = None,
    names: tuple[str, ...] = (),
) -> AccessGuard:
    """The application; ``sources`` maps each source to its kind."""
    api = _Api(service, sources, title, engine)
    routes = [
        Route("/", api.page),
        Route("/static/{name}", api.static),
        Route("/api/board", api.board),
        Route("/api/answers/{name:path}", api.answers),
        Route("/api/peek/{name:path}", api.now.peek),
        Route("/api/position/{name:path}", api.now.position),
        Route("/api/events", api.events),
        Route("/api/rows/{source:path}", api.rows.rows, methods=["POST"]),
        Route("/api/session", api.session, methods=["POST"]),
        Route("/api/openapi.json", api.openapi),
        Route("/metrics", api.metrics),
        Route("/healthz", api.health),
    ]
    handlers: dict[Any, Any] = {
        RequestProblem: problem_reply,
        HTTPException: plain_reply,
        Exception: failed_reply,
    }
    app = Starlette(
        routes=routes,
        lifespan=api.lifespan,
        exception_handlers=handlers,
    )
    app.router.redirect_slashes = False
    guard = AccessGuard(app, host, token, names)
    api.guard = guard
    return guard


class _Api:
    """The handlers of one service."""

    guard: AccessGuard
    hub: Hub

    def __init__(self, service: Page, sources: dict[str, str], title: str, engine: str) -> None:
        self.service = service
        self.sources = {name or ROWS: (name, kind) for name, kind in sources.items()}
        self.engine = engine
        taker = service if isinstance(service, Service) else None
        self.rows = RowsEndpoint(taker, self.sources)
        self.now = BetweenWindows(service)
        self.told = describe(service, sources, title, engine)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Start the event streams, and close the service at the end."""
        loop = asyncio.get_running_loop()
        self.hub = Hub(self.service.history, self._status, self.service.limits.unsent_bytes)
        self.service.on_answers = lambda: _call(loop, self.hub.wake)
        self.guard.stop = self.hub.close
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
            raise RequestProblem(404, "there is nothing here")
        return _file(name, _STATIC[name])

    # Reading -----------------------------------------------------------------------------------

    async def board(self, _: Request) -> Response:
        """The queries, the engine and the sources."""
        return reply(self.told)

    async def answers(self, request: Request) -> Response:
        """The last answers of a query, or the one with a given end."""
        name, asked = known_query(self.service, request), request.query_params
        if "end" in asked:
            if "last" in asked:
                raise RequestProblem(400, "give last or end, not both")
            events = self._with_end(name, asked["end"])
            if not events:
                raise RequestProblem(404, "no answer with this end is kept; see ?last=1000")
        else:
            text = asked.get("last", str(_DEFAULT_LAST))
            if not (text.isascii() and text.isdigit()):
                raise RequestProblem(400, "last must be a number of answers, for example ?last=20")
            events = self.service.history.newest(name, int(text[:9]))
        return StreamingResponse(_pieces(name, events), media_type="application/json")

    def _with_end(self, name: str, text: str) -> list[Event]:
        text = text.strip()
        if " " in text and "T" in text:
            text = text.replace(" ", "+")  # a plus sign that was not escaped
        try:
            wanted = moment_of(text)
        except (ValueError, OverflowError):
            raise RequestProblem(400, "end must be a time in ISO 8601, or an integer") from None
        history = self.service.history
        return [event for event in history.newest(name, history.most) if event.order == wanted]

    async def events(self, request: Request) -> Response:
        """Server-sent events."""
        if request.method == "HEAD":
            return Response(media_type="text/event-stream")
        if self.hub.subscribers >= self.service.limits.subscribers or self.hub.full:
            said = "too many pages are open, or do not read their answers; try again later"
            raise RequestProblem(503, said, {"Retry-After": "30"})
        return EventStream(self.hub, request.headers.get("last-event-id"))

    # Sessions ----------------------------------------------------------------------------------

    async def session(self, request: Request) -> Response:
        """Take the token and set a cookie that proves it."""
        if self.guard.token is None:
            return reply({"token": "not needed"})
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            if (
                request.headers.get("content-type", "").partition(";")[0].strip()
                != "application/json"
            ):
                raise RequestProblem(415, 'send JSON: {"token": "..."}')
            given = await self._token(request)
        if not self.guard.is_token(given.strip().encode()):
            await slow_down()
            raise RequestProblem(401, "wrong token")
        response = reply({"ok": True})
        response.set_cookie(
            COOKIE,
            self.guard.session(),
            max_age=SESSION_SECONDS,
            secure=_by_https(request),
            httponly=True,
            samesite="strict",
        )
        return response

    async def _token(self, request: Request) -> str:
        body = b""
        try:
            async with asyncio.timeout(self.service.limits.header_seconds):
                async for part in request.stream():
                    body += part
                    if len(body) > 10_000:
                        raise RequestProblem(413, "this is too long for a token", _CLOSE)
        except TimeoutError:
            raise RequestProblem(
                408, "the token did not arrive in time; send it again", _CLOSE
            ) from None
        except ClientDisconnect:
            raise RequestProblem(400, "the connection was closed before the token came") from None
        try:
            given = json.loads(body)
            token = given["token"]
            token.encode()
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise RequestProblem(400, 'send JSON: {"token": "..."}') from None
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
            "bad_rows": service.bad_rows(),
            "state": service.state,
            "windows": service.history.counts(),
            "waiting": requests,
            "subscribers": self.hub.subscribers,
            "trouble": trouble,
        }

    async def metrics(self, _: Request) -> Response:
        """Prometheus' text format."""
        text = prometheus(self.service, self.hub.subscribers)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    async def health(self, request: Request) -> Response:
        """Whether the service is alive, and how far behind."""
        service = self.service
        requests, waiting = service.waiting
        failure = service.failure or service.status.failure
        told: dict[str, Any] = {
            "status": "ok" if failure is None else "failed",
            "behind": service.status.behind,
            "waiting_requests": requests,
            "waiting_bytes": waiting,
        }
        if failure is not None and self.guard.is_known(request.scope):
            told["reason"] = failure
        return reply(told, 200 if failure is None else 503)

    async def openapi(self, _: Request) -> Response:
        """The interface in OpenAPI's form."""
        return _file("openapi.json", "application/json")


def _call(loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
    """Call something in the event loop's thread, unless the loop has ended."""
    try:
        loop.call_soon_threadsafe(wake)
    except RuntimeError:
        return


def _by_https(request: Request) -> bool:
    """Whether the sender's own connection is encrypted, perhaps up to a proxy before us."""
    forwarded = request.headers.get("x-forwarded-proto", request.url.scheme)
    return forwarded == "https" or request.headers.get("origin", "").startswith("https:")


def _file(name: str, media_type: str) -> Response:
    content = (resources.files("skyband.serve") / "static" / name).read_bytes()
    headers = {"Cache-Control": "no-cache"}
    return Response(content, media_type=media_type, headers=headers)


async def _pieces(name: str, events: list[Event]) -> AsyncIterator[str]:
    """Answers as JSON, in pieces: a reader that is slow holds no more than one of them."""
    piece = f'{{"name":{json.dumps(name)},"answers":['
    for i, event in enumerate(events):
        if len(piece) > _PIECE:
            yield piece
            piece = ""
        piece += f",{event.text}" if i else event.text
    yield f"{piece}]}}"
