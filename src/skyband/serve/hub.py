"""Event streams: every subscriber reads from the shared history, at its own pace.

There is no queue per subscriber. Each one remembers the number of the last answer that it was sent.
One that is too slow finds its next answers gone from the history and is told to start afresh.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from skyband.serve.history import Event, History

__all__ = ["Hub"]

_STATUS_SECONDS = 1.0
_MOST = 200
"""Answers that are sent in one piece, so that a long catch-up does not fill memory."""


class Hub:
    """Wakes subscribers when there are new answers."""

    def __init__(self, history: History, status: Callable[[], dict[str, Any]]) -> None:
        self.history = history
        self.status = status
        self.subscribers = 0
        self.closed = False
        self._changed = asyncio.Event()
        self._status = b""
        self._shared: tuple[int, int, bytes] = (-1, -1, b"")

    def wake(self) -> None:
        """Tell every subscriber to look again; call it in the event loop's thread."""
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self.closed = True
        self.wake()

    async def tell_status(self) -> None:
        """Send the status to all subscribers every second, until cancelled."""
        while True:
            if self.subscribers:
                self._status = b"event: status\ndata: %b\n\n" % _json(self.status())
                self.wake()
            await asyncio.sleep(_STATUS_SECONDS)

    async def stream(self, last: str | None) -> AsyncIterator[bytes]:
        """The events of one subscriber; ``last`` is its Last-Event-ID header, if it has one."""
        number = int(last) if last is not None and last.isascii() and last.isdigit() else None
        self.subscribers += 1
        try:
            told = self._status = b"event: status\ndata: %b\n\n" % _json(self.status())
            piece, number = self._begin(number, reset=last is not None)
            yield b"retry: 1000\n" + piece + told
            while not self.closed:
                changed = self._changed
                piece, number = self._next(number)
                if self._status is not told:
                    told = self._status
                    piece += told
                if piece:
                    yield piece
                else:
                    await changed.wait()
        finally:
            self.subscribers -= 1

    def _begin(self, number: int | None, reset: bool) -> tuple[bytes, int]:
        """What a subscriber gets first: what it missed, or the newest answer of each query."""
        if number is not None and self.history.since(number) is not None:
            return b"", number
        last = self.history.last
        lines = b"".join(event.line for event in self.history.first() if event.number <= last)
        return (b"event: reset\ndata: {}\n\n" if reset else b"") + lines, last

    def _next(self, number: int) -> tuple[bytes, int]:
        if number == self.history.last:
            return b"", number
        if self._shared[0] == number and self._shared[1] == self.history.last:
            return self._shared[2], self._shared[1]
        events = self.history.since(number)
        if events is None:
            return self._begin(None, reset=True)
        piece, upto = _joined(events, self.history.last)
        self._shared = (number, upto, piece)
        return piece, upto


def _joined(events: list[Event], last: int) -> tuple[bytes, int]:
    if len(events) > _MOST:
        events = events[:_MOST]
        last = events[-1].number
    return b"".join(event.line for event in events), max(last, events[-1].number if events else 0)


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
