"""What bounds the memory and the disk that a service uses, and what is said of a body beyond it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class ServiceLimits:
    """What bounds the memory and the disk that a service uses."""

    body_bytes: int = 64 << 20
    """Bytes of one request."""
    body_rows: int = 8 << 20
    """Rows of one request: as many as ``body_bytes`` hold of one column of integers."""
    decoded_bytes: int = 256 << 20
    """Bytes that the rows of one request may take when they are read."""
    waiting_requests: int = 256
    waiting_bytes: int = 256 << 20
    """Bytes of the requests that wait for the engine."""
    journal_bytes: int = 256 << 20
    """Bytes of journal after which a snapshot is taken."""
    history_bytes: int = 256 << 20
    """Bytes of the answers that are kept. The newest one of each query is kept in any case."""
    unsent_bytes: int = 256 << 20
    """Bytes that wait for all the subscribers to take them."""
    subscribers: int = 2_000
    connections: int = 4_000
    strangers: int = 500
    """Connections on which no request was admitted yet. One more, and the oldest is closed."""
    header_seconds: float = 10.0
    """For the headers of a request, and for the token of a session."""
    body_seconds: float = 60.0
    silent_seconds: float = 60.0
    """A connection that takes nothing of what is sent for so long is closed."""


DEFAULT = ServiceLimits()


class UnreadableBody(Exception):  # noqa: N818  (a finding about a request, not a failure of ours)
    """A body that cannot be read: where, and why. ``row`` counts from 0, ``line`` from 1."""

    def __init__(
        self,
        reason: str,
        row: int | None = None,
        line: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.row, self.line, self.column = reason, row, line, column


class TooLarge(UnreadableBody):
    """A body whose rows would take too much memory."""


def shortened(text: str, most: int = 200) -> str:
    """The beginning of a text, as far as a message shows it."""
    return text if len(text) <= most else text[:most] + "…"


def check_size(limits: ServiceLimits, schema: pa.Schema, rows: int, more: int = 0) -> None:
    """Raise TooLarge if a table with this schema has too many rows, or takes too many bytes.

    ``more`` are bytes that do not follow from the number of rows, as those of text.
    """
    if rows > limits.body_rows:
        raise TooLarge(f"the body has more than {limits.body_rows:,} rows")
    size = rows * sum(map(_width, schema.types))
    if size + more > limits.decoded_bytes:
        raise TooLarge(f"the rows take more than {limits.decoded_bytes:,} bytes when they are read")


def _width(kind: pa.DataType) -> int:
    """The bytes of a value, those of a text left out."""
    text = pa.types.is_string(kind) or pa.types.is_binary(kind)
    return 4 if text else -(-kind.bit_width // 8)
