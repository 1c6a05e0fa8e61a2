"""Runs an application on an address: uvicorn with limits, and nothing said about versions."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from skyband.errors import EngineError
from skyband.serve.access import ADMIT, HEADER_BYTES, AccessGuard
from skyband.serve.hub import CONNECTION
from skyband.serve.limits import ServiceLimits

_AT_ONCE = struct.pack("ii", 1, 0)
"""Closes a connection without waiting for what the system has not sent yet."""


class _Patient(H11Protocol):
    """Uvicorn's protocol, which also closes connections that keep us waiting, or are too many.

    It hands its connection to handlers that write to it themselves.
    """

    limits: ServiceLimits
    strangers: dict[Any, None]
    """The server's connections on which no request was admitted yet, oldest first."""
    _waiting: asyncio.TimerHandle | None = None
    _for_body = False
    _silent: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        inner = self.app
        more = {CONNECTION: transport, ADMIT: self._admit}

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await inner({**scope, **more}, receive, send)

        self.app = app
        self._wait()
        self.strangers[transport] = None
        if len(self.strangers) > self.limits.strangers:
            oldest = next(iter(self.strangers))
            del self.strangers[oldest]
            oldest.abort()

    def _admit(self) -> None:
        self.strangers.pop(self.transport, None)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._wait()  # part of the next request's headers is there
        elif self.conn.their_state is h11.SEND_BODY:
            self._wait(for_body=True)
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_silence()
        self._admit()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_silence()

    def resume_writing(self) -> None:
        self._stop_silence()
        super().resume_writing()

    def _watch_silence(self, before: int | None = None) -> None:
        """Close the connection if it has taken nothing since we looked last."""
        unsent = self.transport.get_write_buffer_size()
        if before is not None and unsent >= before:
            line = self.transport.get_extra_info("socket")
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            self.transport.abort()
            return
        watch = self._watch_silence
        self._silent = self.loop.call_later(self.limits.silent_seconds, watch, unsent)

    def _stop_silence(self) -> None:
        if self._silent is not None:
            self._silent.cancel()
            self._silent = None

    def _wait(self, for_body: bool = False) -> None:
        if self._for_body != for_body:
            self._stop_waiting()
        if self._waiting is None:
            self._for_body = for_body
            # A handler that reads the body says first that it takes too long.
            seconds = 2 * self.limits.body_seconds if for_body else self.limits.header_seconds
            self._waiting = self.loop.call_later(seconds, self._too_late)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _too_late(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()


def listen(host: str, port: int) -> socket.socket:
    """A socket on this address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=2048)
    except OSError as problem:
        said = problem.strerror or problem
        raise EngineError(
            f"cannot listen on {host}, port {port} ({said}); give another --port or --host"
        ) from None


def make_server(
    app: AccessGuard,
    taken: socket.socket,
    limits: ServiceLimits,
    started: Callable[[str], None] | None = None,
) -> uvicorn.Server:
    """A server that is not running yet; ``started`` is called with its address."""
    config = uvicorn.Config(
        app,
        http=type("Patient", (_Patient,), {"limits": limits, "strangers": {}}),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=HEADER_BYTES,
    )
    return _Server(config, taken, started, app)


class _Server(uvicorn.Server):
    def __init__(
        self,
        config: uvicorn.Config,
        taken: socket.socket,
        started: Callable[[str], None] | None,
        app: AccessGuard,
    ) -> None:
        super().__init__(config)
        self._taken, self._told, self._app = taken, started, app

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._app.stop()  # event streams would never end by themselves
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._told is not None and not self.should_exit:
            host, port = self._taken.getsockname()[:2]
            self._told(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
