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

from skyband.serve.history import Event, History

__all__ = ["Hub", "Subscriber"]

_STATUS_SECONDS = 1.0
_MOST = 200
"""Answers that are sent in one piece, so that a long catch-up does not fill memory."""


_UNSENT = 256 << 10
"""Bytes that a connection may leave unsent before it is left out."""
_SHARED = 64
"""Pieces that are kept for others who are at the same place."""


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
    """Writes new answers to all subscribers."""

    def __init__(self, history: History, status: Callable[[], dict[str, Any]]) -> None:
        self.history = history
        self.status = status
        self.closed = False
        self._open: set[Subscriber] = set()
        self._status = b""
        self._shared: dict[tuple[int, int], tuple[bytes, int]] = {}

    @property
    def subscribers(self) -> int:
        """How many streams are open."""
        return len(self._open)

    def wake(self) -> None:
        """Write what is new to every subscriber; call it in the event loop's thread."""
        self._shared.clear()
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
                each.told = self._status
                piece += self._status
            if not piece:
                each.number = number
                return
            self._write(each, piece)
            each.number = number

    @staticmethod
    def _write(each: Subscriber, piece: bytes) -> None:
        each.write(b"%x\r\n%b\r\n" % (len(piece), piece) if each.chunked else piece)

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
        found = self._shared.get((number, last))
        if found is not None:
            return found
        events = self.history.since(number)
        found = self._begin(None, reset=True) if events is None else _joined(events, last)
        if len(self._shared) < _SHARED:
            self._shared[number, last] = found
        return found


def _joined(events: list[Event], last: int) -> tuple[bytes, int]:
    if len(events) > _MOST:
        events = events[:_MOST]
        last = events[-1].number
    return b"".join(event.line for event in events), max(last, events[-1].number if events else 0)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
