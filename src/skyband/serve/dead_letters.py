"""Bad records of a service: those that could not be read are counted, all may become letters.

Letters stand in the journal with the rows of their request, so that a request which is applied
again after a crash has the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from skyband.serve.requests import Counts, Request

__all__ = ["DeadLetters", "Letter", "Post"]

Letter = dict[str, Any]
"""A dead letter: a row of ``LETTERS``."""
Stats = dict[str, dict[str, int | float]]


class Post(Protocol):
    """Finds the dead letters of a request, and writes them."""

    def found(self, request: Request, queries: Collection[str], clock: float) -> list[Letter]:
        """The letters of a request that has bad rows for these queries at this moment."""

    def deliver(self, batch: int, letters: list[Letter]) -> None:
        """Write the letters of a batch; a batch that comes again has the same number."""


class DeadLetters:
    """The bad records of a service."""

    def __init__(self, post: Post | None) -> None:
        self.post = post
        """Where letters go, if the job wants them."""
        self.unread = 0
        """Records that could not be read."""

    def of(self, request: Request, before: Counts, now: Counts, clock: float) -> dict[str, Any]:
        """What the journal keeps of a request's bad records; empty if it has none."""
        unread = 0 if request.unread is None else request.unread.num_rows
        worse = [name for name in now if now[name]["rows_bad"] > before[name]["rows_bad"]]
        if not (unread or worse):
            return {}
        letters = [] if self.post is None else self.post.found(request, worse, clock)
        return {"letters": letters, "unread": unread}

    def took(self, header: Mapping[str, Any]) -> None:
        """Count the records of a request that was applied."""
        self.unread += header.get("unread", 0)

    def deliver(self, batch: int, header: Mapping[str, Any]) -> None:
        """Write the letters of a request that is safe."""
        if self.post is not None and header.get("letters"):
            self.post.deliver(batch, header["letters"])

    def counted(self, stats: Stats) -> Stats:
        """The counts of each query: what could not be read is a bad row of all of them."""
        for each in stats.values():
            each["rows_in"] += self.unread
            each["rows_bad"] += self.unread
        return stats
