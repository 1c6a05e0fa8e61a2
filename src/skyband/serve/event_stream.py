"""A response that never ends: the hub writes events straight to its connection.

Sending each event through the layers of the server costs some hundred microseconds per subscriber,
which a thousand subscribers feel. So the server hands over the connection (``CONNECTION`` in the
scope) once the head of the response is sent, and takes it back when the stream ends.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from skyband.serve.hub import Hub, Subscriber

__all__ = ["CONNECTION", "EventStream"]

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
