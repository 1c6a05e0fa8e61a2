"""Requests to a service, why they may be refused, and groups of them that are made safe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.serve.board import Fault
from skyband.serve.journal import Packed

__all__ = ["Busy", "Counts", "Group", "KeyReused", "Refused", "Request", "reply_of"]


class Refused(Exception):  # noqa: N818
    """Rows that a query finds bad; nothing was applied."""

    def __init__(self, message: str, fault: Fault | None = None) -> None:
        super().__init__(message)
        self.row = None if fault is None else fault.row
        self.column = None if fault is None else fault.column
        self.reason = message if fault is None else fault.reason


class Busy(Exception):  # noqa: N818
    """Too much is waiting for the engine; come back later."""


class KeyReused(Exception):  # noqa: N818
    """A key that was used for another body."""


@dataclass
class Request:
    """Rows that are to be applied."""

    source: str
    table: pa.Table
    size: int
    key: str | None = None
    digest: str = ""
    mark: Any = None
    """How far the reader of a source has come, kept with the rows."""
    packed: Packed | None = None
    """The rows as they will stand in the journal, if they were packed already."""
    unread: pa.Table | None = None
    """Letters for records that could not be read."""
    origin: Mapping[str, pa.Array] = field(default_factory=dict)
    """Where each row came from, for the letters of bad rows."""
    done: Future[dict[str, Any]] = field(default_factory=Future)


@dataclass
class Group:
    """Requests that were applied and are to be made safe together."""

    requests: list[Request]
    replies: list[tuple[Request, dict[str, Any] | Exception]] = field(default_factory=list)
    records: list[tuple[dict[str, Any], Packed]] = field(default_factory=list)
    """What is appended to the journal."""
    answers: list[tuple[int, list[Answer]]] = field(default_factory=list)
    """The batch of each request that has answers, and these."""
    bad: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    """The batch of each request, and what the journal keeps of its bad records."""
    stats: dict[str, dict[str, int | float]] = field(default_factory=dict)


Counts = Mapping[str, Mapping[str, int]]
"""Late and bad rows of each query."""


def reply_of(
    request: Request, before: Counts, now: Counts, fault: Callable[[], Fault | None]
) -> dict[str, Any]:
    """The number of rows; how many were late or bad, if any, and the first reason.

    ``fault`` finds the first row that is bad by itself.
    """
    reply: dict[str, Any] = {"rows": request.table.num_rows}
    more = {
        what: max((now[name][what] - before[name][what] for name in now), default=0)
        for what in ("rows_late", "rows_bad")
    }
    if more["rows_bad"]:
        found = fault()
        # A row may also be bad only because of the rows that are live.
        reply["bad"] = max(more["rows_bad"], 0 if found is None else found.rows)
        reply["reason"] = (
            "the row contradicts rows that are still in the window"
            if found is None
            else f"row {found.row}, column {found.column!r}: {found.reason}"
        )
    if more["rows_late"]:
        reply["late"] = more["rows_late"]
    return reply
