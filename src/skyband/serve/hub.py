"""Event streams: every subscriber reads from the shared history, at its own pace.

There is no queue and no task per subscriber. Each one remembers the number of the last answer that
it was sent. When there is something new, it is written to all connections in one go; those who are
at the same place get the same bytes, which are made once. A connection that does not take what it
was sent is left out until it does. If its next answers are gone from the history by then, it gets
the event `reset` and continues with the newest ones.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.responses import Response

from skyband.serve.history import Event, History

_STATUS_SECONDS = 1.0
_PIECE = 1 << 20
"""Bytes that are sent in one piece, if an answer is not larger by itself."""


_UNSENT = 256 << 10
"""Bytes that a connection may leave unsent before it is left out."""
_SHARED_BYTES = 32 << 20
"""Bytes of pieces that are kept for others who are at the same place."""


@dataclass(eq=False)
class Subscriber:
    """An open event stream."""

    write: Callable[[bytes], None]
    unsent: Callable[[], int]
    """The bytes that were written and not sent yet."""
    chunked: bool
    """Whether pieces are framed as chunks, as all streams of HTTP/1.1 are."""
    number: int = 0
    """The last answer that it was sent."""
    told: bytes = b""
    """The last status that it was sent."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Hub:
    """Writes new answers to all subscribers, which may leave ``most_unsent`` bytes together."""

    def __init__(
        self, history: History, status: Callable[[], dict[str, Any]], most_unsent: int
    ) -> None:
        self.history = history
        self.status = status
        self.most_unsent = most_unsent
        self.closed = False
        self._open: set[Subscriber] = set()
        self._status = b""
        self._shared: dict[tuple[int, int], tuple[bytes, int]] = {}
        self._shared_bytes = 0
        self._unsent = 0

    @property
    def subscribers(self) -> int:
        """How many streams are open."""
        return len(self._open)

    @property
    def full(self) -> bool:
        """Whether so much waits for subscribers to take it that no more of them should come."""
        return 2 * sum(each.unsent() for each in self._open) > self.most_unsent

    def wake(self) -> None:
        """Write what is new to every subscriber; call it in the event loop's thread."""
        self._shared.clear()
        self._shared_bytes = 0
        self._unsent = sum(each.unsent() for each in self._open)
        for each in list(self._open):
            self._tell(each)

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        for each in self._open:
            each.ended.set()

    async def tell_status(self) -> None:
        """Send the status to all subscribers every second, until cancelled."""
        while True:
            if self._open:
                self._status = b"event: status\ndata: %b\n\n" % _json(self.status())
                self.wake()
            await asyncio.sleep(_STATUS_SECONDS)

    def join(self, subscriber: Subscriber, last: str | None) -> None:
        """Begin a stream; ``last`` is its Last-Event-ID header, if it has one."""
        known = last is not None and last.isascii() and last.isdigit() and len(last) < 19
        number = int(last) if known and last is not None else None
        self._status = b"event: status\ndata: %b\n\n" % _json(self.status())
        piece, subscriber.number = self._begin(number, reset=last is not None)
        subscriber.told = self._status
        self._write(subscriber, b"retry: 1000\n" + piece + self._status)
        self._open.add(subscriber)
        self._tell(subscriber)
        if self.closed:
            subscriber.ended.set()

    def leave(self, subscriber: Subscriber) -> None:
        """Forget a stream that has ended."""
        self._open.discard(subscriber)

    def _tell(self, each: Subscriber) -> None:
        """Write what a subscriber has not seen, as far as its connection takes it."""
        while each.unsent() <= _UNSENT:
            piece, number = self._next(each.number)
            if each.told is not self._status:
                piece += self._status
            if not piece:
                each.number = number
                return
            if self._unsent and self._unsent + len(piece) > self.most_unsent:
                return  # it has its turn again after a second at the latest
            each.told = self._status
            self._write(each, piece)
            each.number = number

    def _write(self, each: Subscriber, piece: bytes) -> None:
        before = each.unsent()
        each.write(b"%x\r\n%b\r\n" % (len(piece), piece) if each.chunked else piece)
        self._unsent += each.unsent() - before

    def _begin(self, number: int | None, reset: bool) -> tuple[bytes, int]:
        """What a subscriber gets first: what it missed, or the newest answer of each query."""
        if number is not None and self.history.since(number) is not None:
            return b"", number
        last = self.history.last
        lines = b"".join(event.line for event in self.history.first() if event.number <= last)
        return (b"event: reset\ndata: {}\n\n" if reset else b"") + lines, last

    def _next(self, number: int) -> tuple[bytes, int]:
        last = self.history.last
        if number == last:
            return b"", number
        piece = self._shared.get((number, last))
        if piece is not None:
            return piece
        events = self.history.since(number)
        piece = self._begin(None, reset=True) if events is None else _joined(events, last)
        if self._shared_bytes + len(piece[0]) <= _SHARED_BYTES:
            self._shared[number, last] = piece
            self._shared_bytes += len(piece[0])
        return piece


def _joined(events: list[Event], last: int) -> tuple[bytes, int]:
    """The lines of answers up to the size of a piece, and the number after which to go on."""
    number = 0
    lines: list[bytes] = []
    size = 0
    for event in events:
        size += len(event.text)
        if lines and size > _PIECE:
            return b"".join(lines), number
        lines.append(event.line)
        number = event.number
    return b"".join(lines), max(last, number)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


# A response that never ends: the hub writes events straight to its connection --------------------
#
# An event through the layers of the server costs some hundred microseconds per subscriber, which a
# thousand of them feel. So the server hands over the connection (``CONNECTION`` in the scope) once
# the head of the response is sent, and takes it back when the stream ends.


CONNECTION = "skyband.connection"
"""Where the server puts the connection of a request: an ``asyncio.Transport``."""


class EventStream(Response):
    """The events of one subscriber."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, last: str | None) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.hub, self.last = hub, last

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the head, then let the hub write until the reader leaves or the server stops."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        connection: asyncio.Transport = scope[CONNECTION]
        subscriber = Subscriber(
            lambda piece: None if connection.is_closing() else connection.write(piece),
            connection.get_write_buffer_size,
            chunked=scope["http_version"] != "1.0",
        )
        self.hub.join(subscriber, self.last)
        gone = asyncio.ensure_future(_left(receive))
        ended = asyncio.ensure_future(subscriber.ended.wait())
        try:
            await asyncio.wait((gone, ended), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.hub.leave(subscriber)
            gone.cancel()
            ended.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Any) -> None:
    """Wait until the reader has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
