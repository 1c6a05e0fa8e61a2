"""Receives large bodies straight into one buffer.

Through the layers of the server a body is copied five times, in pieces that each wake the event
loop twice. For a body of some megabytes this costs more than reading its rows. So the rest of such
a body is taken from the connection itself: the handler that wants it gives a buffer
(``TAKE`` in the scope), and the bytes go from the socket into it.
"""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ["LARGE", "TAKE", "Inflow"]

TAKE = "skyband.take"
"""Where the server puts a function that receives the rest of a body into a buffer."""
LARGE = 128 << 10
"""Bytes for which it is worth the trouble."""


class Inflow(asyncio.BufferedProtocol):
    """Fills a buffer, then gives the connection back to the protocol that had it before."""

    def __init__(self, owner: Any, transport: asyncio.Transport, room: memoryview) -> None:
        self.owner, self.transport, self.room = owner, transport, room
        self.filled: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the buffer is full; fails if the connection ends before."""

    def get_buffer(self, sizehint: int) -> memoryview:
        """The room that is left: never more than that is read."""
        return self.room

    def buffer_updated(self, nbytes: int) -> None:
        """Note what has come."""
        self.room = self.room[nbytes:]
        if not self.room:
            self.give_back()
            if not self.filled.done():
                self.filled.set_result(None)

    def give_back(self) -> None:
        """Let the former protocol have the connection."""
        if self.transport.get_protocol() is self:
            self.transport.set_protocol(self.owner)

    def eof_received(self) -> bool | None:
        """The sender stopped too early; the connection is closed then."""
        self._cut_off()
        found: bool | None = self.owner.eof_received()
        return found

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection broke."""
        self._cut_off()
        self.owner.connection_lost(exc)

    def pause_writing(self) -> None:
        """For the owner."""
        self.owner.pause_writing()

    def resume_writing(self) -> None:
        """For the owner."""
        self.owner.resume_writing()

    def _cut_off(self) -> None:
        if not self.filled.done():
            self.filled.set_exception(ConnectionError("the body is not complete"))
