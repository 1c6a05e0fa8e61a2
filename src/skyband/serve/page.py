"""What a page shows, wherever the answers come from: a board, its kept answers, its status."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.answers.units import units_of
from skyband.embedded.monitor import Monitor
from skyband.engine.session import ONLY
from skyband.errors import EngineError
from skyband.jobs import CardView
from skyband.jobs.local.posts import PostKeys
from skyband.query import Query
from skyband.query.checks import OnBad
from skyband.serve.history import Event, History
from skyband.serve.limits import ServiceLimits
from skyband.serve.payload import WindowAnswer, answer_text, revision_of, text_of
from skyband.serve.status import ROWS, Schemas, Status
from skyband.serve.words import asks
from skyband.window import SideWindows

_MORE = re.compile(r" \(and [\d,]+ more like it\)$")
"""Ends a reason: how many rows of the same batch are bad in the same way."""


class Page:
    """Answers that are kept and shown. By itself it takes no rows: ``show`` takes answers."""

    def __init__(
        self,
        queries: Mapping[str, Query],
        schemas: Schemas,
        folder: Path,
        on_bad: OnBad = "skip",
        history: int = 1_000,
        limits: ServiceLimits | None = None,
        cards: Mapping[str, CardView] | None = None,
    ) -> None:
        self.limits = limits or ServiceLimits()
        self.cards = {name: (cards or {}).get(name, CardView()) for name in queries}
        self.queries, self.schemas, self.on_bad = dict(queries), dict(schemas), on_bad
        self.status = Status(self.queries, self.schemas)
        path = folder / "answers"
        self.history = History(list(queries), history, path, self.limits.history_bytes)
        self.keys = PostKeys()
        self.number = 0
        """The number of the newest answer."""
        stats = Monitor(dict(queries), on_bad).stats()
        self.stats: Mapping[str, Mapping[str, int | float]] = {n: stats[n] for n in queries}
        """The counts of each query; other threads may read it."""
        self.first_bad: Mapping[str, str | None] = {}
        """Why the first bad row of each query was, where that is known."""
        self.failure: str | None = None
        """Why the engine stopped, if it did."""
        self.on_answers: Callable[[], None] = lambda: None
        """Called by the engine's thread when there are new answers."""

    @property
    def waiting(self) -> tuple[int, int]:
        """How many requests and bytes wait for the engine."""
        return 0, 0

    @property
    def state(self) -> str:
        """``live``, ``finished``, or ``all read`` where more files may come."""
        return "finished" if self.status.finished else "live"

    @property
    def journal_bytes(self) -> int:
        """Bytes in the journal since the last snapshot."""
        return 0

    def positions(self, name: str) -> bool:
        """Whether it can be asked where an id of a query stands."""
        return False

    def ask(self, question: Callable[[Monitor], Any]) -> Future[Any]:
        """Have a question answered between batches; raises EngineError where nothing can be."""
        raise EngineError(
            "these answers were computed elsewhere; between windows, only a job that skyband serve "
            "runs on the local engine can answer"
        )

    def columns(self, name: str) -> pa.Schema:
        """The columns of a query's answers."""
        session = Monitor(self.queries[name], self.on_bad).session
        for source, schema in self.schemas.items():
            if source == ONLY or source in self.queries[name].sources:
                session.bind(source, schema)
        session.several = ONLY not in self.schemas
        session.start()
        return session.schema(None)

    def show(self, answers: Iterable[WindowAnswer]) -> None:
        """Keep answers and tell everyone who is watching."""
        events = self._events(list(answers))
        self.history.add(events, self.number)
        if events:
            self.on_answers()

    def bad_rows(self) -> list[dict[str, Any]]:
        """Of each query that has bad rows: how many of how many, and why the first one was."""
        return [
            {"query": name, "bad": int(each["rows_bad"]), "rows": int(each["rows_in"]),
             "reason": _MORE.sub("", self.first_bad.get(name) or "") or None}
            for name, each in self.stats.items() if each["rows_bad"]
        ]  # fmt: skip

    def close(self) -> None:
        """Nothing to write down."""

    def _events(self, answers: Sequence[WindowAnswer]) -> list[Event]:
        """Number the answers, and write those that will be kept as JSON."""
        only = next(iter(self.queries))  # an answer without a name is of the only query
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
                end, text = text_of(answer.end), answer_text(answer)
                event = Event(number, name, end, text, revision_of(answer))
                size += event.size
                events.append(event)
        return events[::-1]


# What ``GET /api/board`` tells about a service ---------------------------------------------------


def describe(service: Page, sources: Mapping[str, str], title: str, engine: str) -> dict[str, Any]:
    """The queries, the engine and the sources."""
    return {
        "name": title,
        "engine": engine,
        "on_bad": service.on_bad,
        "history": service.history.most,
        "queries": [_query(service, name, query) for name, query in service.queries.items()],
        "sources": [
            {
                "name": name or ROWS,
                "kind": kind,
                "columns": {each.name: str(each.type) for each in service.schemas[name]},
            }
            for name, kind in sources.items()
        ],
    }


def _query(service: Page, name: str, query: Query) -> dict[str, Any]:
    spec = query.spec()
    schema = service.columns(name)
    value, weight = _value(query, schema.names), spec.get("weight")
    ((kind, window),) = spec["window"].items()
    return {
        "name": name,
        "title": service.cards[name].title or name,
        "asks": asks(query),
        "wide": service.cards[name].wide,
        "units": units_of(query, schema.names, service.cards[name].unit),
        "kind": query.kind,
        "spec": spec,
        "columns": list(schema.names),
        "types": {each.name: str(each.type) for each in schema},
        "window": {"kind": kind, "step": _step(query)} | window,
        "by": list(query.groups),
        "key": [column for column in query.key if column not in query.groups],
        "value": value,
        "heading": f"sum of {weight}" if weight and value == "count" else value or "Value",
        "total_of": weight if weight and not spec.get("aggregate") else "rows",
        "ranked": query.ranked,
        "positions": service.positions(name),
    }


def _step(query: Query) -> float | None:
    """Seconds from one window to the next; None where times are integers."""
    window = query.window
    each = next(iter(window.values())) if isinstance(window, SideWindows) else window
    return None if getattr(each, "integer", True) else each.panes.slide / 1e6


def _value(query: Query, names: list[str]) -> str | None:
    """The column by which the answer is ranked: what a bar shows."""
    vector = getattr(query, "semantics", None) == "u-topk"  # its rows share one probability
    value = getattr(query, "score", None) if vector else query.ranked_by
    return value if value in names else None
