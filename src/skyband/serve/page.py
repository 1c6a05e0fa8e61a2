"""What a page shows, wherever the answers come from: a board, its kept answers, its figures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.answers.units import units_of
from skyband.data.prometheus import metric_name, prometheus_text
from skyband.embedded.monitor import Monitor
from skyband.engine.session import ONLY
from skyband.errors import EngineError
from skyband.jobs import CardView
from skyband.jobs.local.posts import PostKeys
from skyband.query import Query
from skyband.query.checks import OnBad
from skyband.serve.history import Event, History
from skyband.serve.limits import DEFAULT, ServiceLimits
from skyband.serve.payload import WindowAnswer, answer_text, revision_of, text_of
from skyband.serve.status import ROWS, Schemas, Status
from skyband.window import CountWindow, DecayWindow, SideWindows, TimeWindow, Window

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
        limits: ServiceLimits = DEFAULT,
        cards: Mapping[str, CardView] | None = None,
    ) -> None:
        self.limits = limits
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
    step = None if query.window.integer else query.window.panes.slide / 1e6  # in seconds
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
        "window": {"kind": kind, "step": step} | window,
        "by": list(query.groups),
        "key": [column for column in query.key if column not in query.groups],
        "value": value,
        "heading": f"sum of {weight}" if weight and value == "count" else value or "Value",
        "total_of": weight if weight and not spec.get("aggregate") else "rows",
        "ranked": query.ranked,
        "positions": service.positions(name),
    }


def _value(query: Query, names: list[str]) -> str | None:
    """The column by which the answer is ranked: what a bar shows."""
    vector = getattr(query, "semantics", None) == "u-topk"  # its rows share one probability
    value = getattr(query, "score", None) if vector else query.ranked_by
    return value if value in names else None


# What a query asks, in words for the head of its card --------------------------------------------


def asks(query: Query) -> str:
    """A query in a line.

    >>> import skyband as sb
    >>> asks(sb.HeavyHitters(k=3, item="host", weight="bytes", by="site", window=sb.CountWindow(9)))
    'Top 3 host by bytes, for each site · last 9 rows, every 9 rows'
    """
    spec = query.spec()
    per = f", for each {', '.join(query.groups)}" if query.groups else ""
    return f"{_ranking(query, spec)}{per} · {_window(query.window)}"


def _ranking(query: Query, spec: dict[str, Any]) -> str:
    largest, k = spec.get("largest", True), spec.get("k")
    top = f"{'Top' if largest else 'Lowest'} {k}"
    match spec["kind"]:
        case "HeavyHitters":
            what = spec["weight"] or "number of rows"
            what = f"{spec['aggregate']} of {what}" if spec["aggregate"] else what
            grown = f"growth of {what}" if spec["against"] else what
            return f"{top} {', '.join(query.key)} by {grown}"
        case "UncertainTopK":
            best = "highest" if largest else "lowest"
            return f"The {k} likeliest to be {best} by {spec['score']}"
        case "FusedTopK":
            return f"{top} over {', '.join(spec['streams'])}"
        case "TopK":
            return f"{top} by {spec['score']}"
    words = {"min": "low", "max": "high", "diff": "each"}
    wishes = ", ".join(f"{words[wish]} {name}" for name, wish in spec["prefer"].items())
    sides = f"{spec['left']} and {spec['right']}: " if "left" in spec else ""
    return f"Skyline of {sides}{wishes}"


def _window(window: Window) -> str:
    if isinstance(window, CountWindow):
        return f"last {window.size:,} rows, every {window.slide or window.size:,} rows"
    each = next(iter(window.values())) if isinstance(window, SideWindows) else window
    every = f", every {_plain(each.slide)}" if each.slide is not None else ""
    if isinstance(each, DecayWindow):
        return f"half-life of {each.half_life}{every}"
    if not isinstance(each, TimeWindow):
        return f"everything so far{every}"
    return f"{'last' if every else 'each'} {_plain(each.size)}{every}"


def _plain(size: Any) -> str:
    return f"{size:,}" if isinstance(size, int) else re.sub(r"^1 (?=[a-z]{3})", "", str(size))


# Figures in Prometheus' text format --------------------------------------------------------------


_COUNTERS = {
    "rows_in": "Rows that the query has read",
    "rows_late": "Rows that came too late for the query",
    "rows_bad": "Rows that the query found bad",
    "rows_unused": "Rows that no window of the query covers",
    "windows_out": "Windows that the query has answered",
}
_GAUGES = {
    "retained": "Items that the query's synopsis keeps",
    "state_bytes": "Bytes of the query's state",
}
_KINDS: dict[str, tuple[str, str]] = {
    **{name: ("counter", text) for name, text in _COUNTERS.items()},
    **{name: ("gauge", text) for name, text in _GAUGES.items()},
    "source_rows": ("counter", "Rows that a source has sent"),
    "seen_seconds": ("gauge", "The greatest event time of a source, in seconds since 1970"),
    "watermark_seconds": ("gauge", "The time that all sources have reached, in seconds since 1970"),
    "answers": ("counter", "Answers of all queries"),
    "waiting_requests": ("gauge", "Requests that wait for the engine"),
    "waiting_bytes": ("gauge", "Bytes of the requests that wait for the engine"),
    "journal_bytes": ("gauge", "Bytes in the journal since the last snapshot"),
    "idempotency_keys": ("gauge", "Idempotency keys that are remembered"),
    "subscribers": ("gauge", "Open event streams"),
    "up": ("gauge", "1 while the engine runs"),
}
METRICS = tuple(metric_name(name, kind) for name, (kind, _) in _KINDS.items())
"""Every metric there is."""


def prometheus(service: Page, subscribers: int) -> str:
    """All metrics as text."""
    values: dict[str, list[tuple[Mapping[str, str], float]]] = {name: [] for name in _KINDS}
    for query, stats in service.stats.items():
        for name in (*_COUNTERS, *_GAUGES):
            values[name].append(({"query": query}, stats.get(name, 0)))
    status = service.status
    for source, rows in status.rows.items():
        label = {"source": source or ROWS}
        values["source_rows"].append((label, rows))
        seen = status.seconds(status.seen.get(source))
        if seen is not None:
            values["seen_seconds"].append((label, seen))
    requests, waiting = service.waiting
    whole = {
        "watermark_seconds": status.seconds(status.watermark()),
        "answers": service.number,
        "waiting_requests": requests,
        "waiting_bytes": waiting,
        "journal_bytes": service.journal_bytes,
        "idempotency_keys": len(service.keys),
        "subscribers": subscribers,
        "up": int(service.failure is None),
    }
    for name, value in whole.items():
        if value is not None:
            values[name].append(({}, value))
    return prometheus_text((name, *_KINDS[name], each) for name, each in values.items())
