"""What a page shows, wherever the answers come from: a board, its kept answers, its status."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from skyband.embedded.monitor import Monitor
from skyband.jobs.local.posts import Keys
from skyband.query import Query
from skyband.serve.board import Board, Schemas
from skyband.serve.history import Event, History
from skyband.serve.limits import Limits
from skyband.serve.payload import Answered, answer_text, text_of
from skyband.serve.status import Status

__all__ = ["Limits", "Page"]


class Page:
    """Answers that are kept and shown. By itself it takes no rows: ``show`` takes answers."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        schemas: Schemas,
        folder: Path,
        on_bad: str = "skip",
        history: int = 1_000,
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits or Limits()
        self.board = Board(queries, schemas, on_bad)
        self.status = Status(self.board)
        path = folder / "answers"
        self.history = History(list(queries), history, path, self.limits.history_bytes)
        self.keys = Keys()
        self.number = 0
        """The number of the newest answer."""
        stats = Monitor(dict(queries), on_bad).stats()
        self.stats: Mapping[str, Mapping[str, int | float]] = {n: stats[n] for n in queries}
        """The counts of each query; other threads may read it."""
        self.failure: str | None = None
        """Why the engine stopped, if it did."""
        self.on_answers: Callable[[], None] = lambda: None
        """Called by the engine's thread when there are new answers."""

    @property
    def waiting(self) -> tuple[int, int]:
        """How many requests and bytes wait for the engine."""
        return 0, 0

    @property
    def journal_bytes(self) -> int:
        """Bytes in the journal since the last snapshot."""
        return 0

    def show(self, answers: Iterable[Answered]) -> None:
        """Keep answers and tell everyone who is watching."""
        events = self._events(list(answers))
        self.history.add(events, self.number)
        if events:
            self.on_answers()

    def close(self) -> None:
        """Nothing to write down."""

    def _events(self, answers: Sequence[Answered]) -> list[Event]:
        """Number the answers, and write those that will be kept as JSON."""
        only = next(iter(self.board.queries))  # an answer without a name is of the only query
        events: list[Event] = []
        seen: Counter[str] = Counter()
        size, before = 0, self.number
        self.number += len(answers)
        for number, answer in zip(range(self.number, before, -1), reversed(answers), strict=True):
            name = answer.name or only
            seen[name] += 1
            beyond = size > self.history.most_bytes and seen[name] > 1
            if beyond or seen[name] > self.history.most:
                self.history.skip(number)
            elif number > self.history.last:
                event = Event(number, name, text_of(answer.end), answer_text(answer))
                size += event.size
                events.append(event)
        return events[::-1]
