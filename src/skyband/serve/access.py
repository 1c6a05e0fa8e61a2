"""Who may come in: the checks before every request, and the headers after it.

Without a token the service listens on loopback only. A page of another site can still make a
browser on this machine send requests, so the Host header must be a name of ours (a foreign name
that was rebound to our address is refused) and an Origin header, if any, must be our own.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import secrets
import socket
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from typing import Any

from skyband.errors import QueryError

ADMIT = "skyband.admit"
"""Where the server puts a function to call when a request was admitted."""
HEADER_BYTES = 16 << 10
"""Bytes of a request's first line and headers. The server counts those that come in pieces."""

COOKIE = "skyband_session"
SESSION_SECONDS = 7 * 24 * 3600
_TOKEN_CHARACTERS = 16
_OPEN = ("/", "/healthz", "/api/session")
"""Paths that need no token: they show nothing of the board."""
_REST_BYTES, _REST_SECONDS, _SILENT_SECONDS = 1 << 30, 30.0, 1.0
"""What is still read of a request that was refused, for how long, and with what pauses."""
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = [
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"x-frame-options", b"DENY"),
]


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_host(host: str, token: str | None) -> None:
    """Raise QueryError if others could reach the service without a token, or could guess it."""
    if token and len(token) < _TOKEN_CHARACTERS:
        raise QueryError(
            f"SKYBAND_TOKEN has {len(token)} characters and needs at least {_TOKEN_CHARACTERS}; "
            "make one, for example with: openssl rand -hex 16"
        )
    if not token and not is_loopback(host):
        raise QueryError(
            f"--host {host} can be reached from other machines, so a token is needed: set the "
            "environment variable SKYBAND_TOKEN, or leave out --host"
        )


async def slow_down() -> None:
    """Wait before a wrong token is answered, so that guessing takes long."""
    await asyncio.sleep(0.3)


async def _let_finish(receive: Any) -> None:
    """Read what a sender still sends, up to a limit, and drop it.

    Most clients read the reply only when they have sent everything. If the connection were closed
    before, they would report a broken connection instead of the reason.
    """
    left = _REST_BYTES
    with suppress(TimeoutError):
        async with asyncio.timeout(_REST_SECONDS):
            while left > 0:
                async with asyncio.timeout(_SILENT_SECONDS):
                    message = await receive()
                if not message.get("more_body"):
                    return
                left -= len(message["body"])


class AccessGuard:
    """Wraps an ASGI application."""

    def __init__(
        self, app: Any, host: str = "127.0.0.1", token: str | None = None, names: Iterable[str] = ()
    ) -> None:
        self.app = app
        self.token = token or None
        self.stop: Callable[[], None] = lambda: None
        """Called when the server is about to stop, to end what would never end by itself."""
        self.local = is_loopback(host)
        self.names = {"localhost", host.lower().strip("[]"), *(name.lower() for name in names)}
        if not self.local:
            self.names.add(socket.gethostname().lower())

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Refuse a request, or pass it on."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        closing = False

        async def guarded(message: Any) -> None:
            nonlocal closing
            if message["type"] == "http.response.start":
                headers = [each for each in message["headers"] if each[0].lower() != b"server"]
                names = {name.lower() for name, _ in headers}
                if b"cache-control" not in names:
                    headers.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*headers, *_HEADERS]}
                closing = (b"connection", b"close") in headers
            elif closing and not message.get("more_body"):
                await send({**message, "more_body": True})
                await _let_finish(receive)
                message = {"type": "http.response.body"}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is None:
            await self.app(scope, receive, guarded)
            return
        status, reason = refusal
        if status == 401 and any(name == b"authorization" for name, _ in scope["headers"]):
            await slow_down()
        body = json.dumps({"error": reason}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        headers.append((b"connection", b"close"))  # what the request still sends is not taken
        if status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        await guarded({"type": "http.response.start", "status": status, "headers": headers})
        await guarded({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Any) -> tuple[int, str] | None:
        size = len(scope.get("raw_path", b"")) + len(scope.get("query_string", b""))
        size += sum(len(name) + len(value) for name, value in scope["headers"])
        if size > HEADER_BYTES:
            return 431, f"address and headers have more than {HEADER_BYTES:,} bytes; send less"
        headers = _by_name(scope)
        hosts, origins = headers.get(b"host", []), headers.get(b"origin", [])
        host = hosts[0].decode("latin-1").strip().lower() if len(hosts) == 1 else ""
        if not self._known(host):
            return 403, "the Host header is not an address of this service"
        for origin in origins:
            if origin.decode("latin-1").strip().lower() not in (
                f"http://{host}",
                f"https://{host}",
            ):
                return 403, "requests from pages of other sites are refused"
        if headers.get(b"sec-fetch-site", [b"none"])[0] in (b"cross-site", b"same-site"):
            top = headers.get(b"sec-fetch-mode", [b""])[0] == b"navigate" and scope["path"] == "/"
            if not top:
                return 403, "requests from pages of other sites are refused"
        path = scope["path"]
        if self.is_known(scope):
            scope.get(ADMIT, lambda: None)()
            return None
        if path in _OPEN or path.startswith("/static/"):
            return None
        return 401, "give the token: a header 'Authorization: Bearer TOKEN', or POST /api/session"

    def _known(self, host: str) -> bool:
        """Whether a Host header names this service; the port may be that of a tunnel."""
        name = _without_port(host)
        if name is None:
            return False
        if name in self.names or is_loopback(name):
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return not self.local  # an address cannot be rebound, only a name can

    def is_known(self, scope: Any) -> bool:
        """Whether a request shows the token or a session; without a token all are known."""
        if self.token is None:
            return True
        headers = _by_name(scope)
        for value in headers.get(b"authorization", []):
            scheme, _, given = value.partition(b" ")
            if scheme.lower() == b"bearer" and self.is_token(given.strip()):
                return True
        return any(
            self.is_session(cookie.decode("latin-1")) for cookie in headers.get(b"cookie", [])
        )

    # The token ---------------------------------------------------------------------------------

    def is_token(self, given: bytes) -> bool:
        """Whether this is the token; takes the same time whatever is given."""
        wanted = (self.token or "").encode()
        return self.token is not None and hmac.compare_digest(_digest(given), _digest(wanted))

    def session(self) -> str:
        """A new value for the cookie; it proves the token without holding it."""
        until, salt = int(time.time()) + SESSION_SECONDS, secrets.token_hex(8)
        return f"{until}.{salt}.{self._seal(f'{until}.{salt}')}"

    def is_session(self, header: str) -> bool:
        """Whether a Cookie header holds a session of ours that has not expired."""
        try:
            cookie = SimpleCookie(header).get(COOKIE)
        except CookieError:
            return False
        if cookie is None:
            return False
        payload, _, seal = cookie.value.rpartition(".")
        until = payload.partition(".")[0]
        if not hmac.compare_digest(seal.encode(), self._seal(payload).encode()):
            return False
        return until.isdigit() and int(until) > time.time()

    def _seal(self, payload: str) -> str:
        key = hashlib.sha256(b"skyband session " + (self.token or "").encode()).digest()
        return hmac.new(key, payload.encode(), hashlib.sha256).hexdigest()


def _by_name(scope: Any) -> dict[bytes, list[bytes]]:
    """The headers of a request."""
    headers: dict[bytes, list[bytes]] = {}
    for name, value in scope["headers"]:
        headers.setdefault(name.lower(), []).append(value)
    return headers


def _digest(value: bytes) -> bytes:
    return hashlib.sha256(value).digest()


def _without_port(host: str) -> str | None:
    """The name in a Host header; None if it is not one."""
    if host.startswith("["):
        name, closing, port = host[1:].partition("]")
        return name if closing and (not port or port[1:].isdigit()) else None
    name, colon, port = host.partition(":")
    return name if name and (not colon or port.isdigit()) else None
