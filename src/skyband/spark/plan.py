"""What every process of a job needs to know: the queries, their columns, how the work is split.

The driver makes a plan once; Spark ships it with the functions that run. It holds no rows. A query
is a board of one. Queries that can be readers of one fold have one *label*, and the keys of the
state begin with it: it follows from what they have in common and not from which of them are there,
so queries may be added and removed while the checkpoint is kept.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import pyarrow as pa

from skyband import registry
from skyband.answers.changes import Kinds, changes_schema
from skyband.answers.tables import Shape, answer_schema
from skyband.contract.capabilities import Preparation
from skyband.data.group_table import GroupTable
from skyband.data.time_axis import window_value
from skyband.engine.clock import Clock, TimeClock, clock_for
from skyband.engine.fold import Fold, fold_key, widest
from skyband.engine.intake import Intake, RowLimits, TimeLimits, refuse
from skyband.engine.per_group import make_synopsis
from skyband.errors import EngineError
from skyband.query.base import Query
from skyband.query.board import named
from skyband.window import CountWindow, EventWindow

BUCKETS = 16
"""State keys that the groups are spread over; a key costs one or two milliseconds per batch."""
SHIFT_MS = 36_525 * 86_400_000
"""A century: `seen` is shifted ahead by it, so that Spark's own filter of late rows never fires."""
STATE_VERSION = 5
EDGES = ("window_start", "window_end")
PROMISE = pa.schema([("exact", pa.bool_()), ("bounds", pa.map_(pa.string(), pa.float64()))])
"""The columns of ``bounds=True``; most exact algorithms leave ``bounds`` empty."""
_LAST_MS = (2**63 - 1) // 1000 - SHIFT_MS
"""The last time that still fits, in microseconds, when shifted a century ahead."""
_EARLY = "before 1970, which Spark's watermark cannot hold; use a batch DataFrame for such times"
_FAR = (
    "too far ahead for Spark's watermark; over an integer time one unit counts as a millisecond, "
    "so give smaller numbers"
)


@dataclass(frozen=True)
class Closing:
    """How the last windows of a finite job were answered."""

    watermark_ms: int
    """The watermark of the batch that answered them."""
    ends_ms: Mapping[str, int]
    """The end of the last window of each query."""


@dataclass(frozen=True)
class QueryPlan:
    """A query bound to the columns of its sources."""

    query: Query
    schemas: Mapping[str, pa.Schema]
    """Needed columns by source; if a query has a single source, its name is ``""``."""
    shards: int
    on_bad: str
    changes: bool | Kinds
    """Whether rows are changes; if only some kinds, each comes with the rest of its row."""
    streaming: bool
    bounds: bool = False
    """Whether rows carry their answer's guarantees; not part of the state's identity."""
    total: bool = False
    """Whether rows carry the total of their window and group; no part of that either."""
    letters: bool = False
    """Whether bad rows are emitted as dead letters along with the answers."""
    limits: RowLimits = field(default_factory=RowLimits)
    """What a job takes of the rows; no part of the state's identity."""
    algorithm: str = field(init=False)
    """The name of the query's algorithm."""
    registered: registry.Algorithm = field(init=False)
    """The query's algorithm, so that workers know one that the driver registered."""

    def __post_init__(self) -> None:
        name = registry.choose(self.query)
        object.__setattr__(self, "algorithm", name)
        object.__setattr__(self, "registered", registry.registered(self.query.kind, name))
        if self._at_once:
            object.__setattr__(self, "shards", 1)

    @property
    def only(self) -> Kinds | None:
        """The kinds of changes that are asked for; None for all of them, or for tables."""
        return None if isinstance(self.changes, bool) else self.changes

    @property
    def buckets(self) -> int:
        return BUCKETS if self.query.groups and not self._at_once else 1

    @property
    def _at_once(self) -> bool:
        """Whether one process folds everything.

        Which windows without a size are answered depends on the rows of all groups and shards.
        """
        return not self.streaming and not self.query.window.panes.sized

    @property
    def shared_ends(self) -> bool:
        """Whether every key has to know in which panes others have rows.

        That decides which windows of a decay window are answered, and which are corrected.
        """
        alike = self.query.window.sort == "decay" or (self.streaming and self.revises)
        return alike and self.buckets * self.shards > 1

    @property
    def revises(self) -> bool:
        """Whether late rows correct answers."""
        return self.query.window.revise_ticks is not None

    @property
    def lateness_ms(self) -> int:
        return self.window.lateness_ticks // self.tick_ms

    @property
    def window(self) -> EventWindow:
        window = self.query.window
        assert isinstance(window, EventWindow)
        return window

    @property
    def tick_ms(self) -> int:
        """Ticks of the window per millisecond; an integer time counts as milliseconds."""
        return 1 if self.window.integer else 1_000

    def last_end_ms(self, latest_ms: int) -> int:
        """The first end of a window after the last row."""
        panes = self.window.panes
        last = panes.last_window_ending_by(latest_ms * self.tick_ms) + 1
        return int(panes.end_of(last)) // self.tick_ms

    def first_start(self, seen_ms: int | None) -> Any:
        """Where the first window begins of a query that joins when others have seen this much.

        None if nothing was seen, or if its windows have no beginning.
        """
        if not seen_ms:
            return None
        panes = self.window.panes
        first = TimeClock(panes, 0, ()).join(seen_ms * self.tick_ms)
        return window_value(int(panes.start_of(first)), self.answer.field("window_start").type)

    def register(self) -> None:
        """Let this process know the algorithm, if only the driver did."""
        kind, name = self.query.kind, self.algorithm
        if name not in registry.algorithms(kind, self.query.window.sort):
            registry.register(kind, name, *self.registered)

    def groups(self) -> GroupTable:
        return GroupTable(self.query.groups, next(iter(self.schemas.values())))

    # Columns ------------------------------------------------------------------------------------

    @cached_property
    def answer(self) -> pa.Schema:
        """Columns of the answer tables."""
        self.register()
        intake = Intake(self.query, make_synopsis(self.query))
        for source, schema in self.schemas.items():
            intake.bind(source, schema)
        return answer_schema(Shape(self.query, intake.synopsis, self.groups(), self.total))

    @cached_property
    def output(self) -> pa.Schema:
        """Columns of the job's output: answer tables, or the changelog with its windows."""
        fields, last = list(self.answer), []
        if self.changes:
            edges = [self.answer.field(name) for name in self.query.window_columns]
            fields = [*edges, *changes_schema(self.query, self.answer, self.only is not None)]
        elif self.total:
            last = [fields.pop()]
        return pa.schema([*fields, *(PROMISE if self.bounds else ()), *last])

    # Identity -----------------------------------------------------------------------------------

    @cached_property
    def identity(self) -> dict[str, Any]:
        """What a state belongs to: written into every state, and compared when it is read."""
        columns = {name: str(schema.remove_metadata()) for name, schema in self.schemas.items()}
        digest = hashlib.sha256(json.dumps(columns, sort_keys=True).encode()).hexdigest()[:16]
        return {
            "version": STATE_VERSION,
            "query": self.query.fingerprint,
            "algorithm": self.algorithm,
            "columns": digest,
            "buckets": self.buckets,
            "shards": self.shards,
            "changes": self.changes if self.only is None else list(self.only),
        }

    def differs(self, found: Any) -> EngineError:
        """What to raise for a state that belongs to another query, split or version."""
        wanted = self.identity
        found = found if isinstance(found, dict) else {}
        if found.get("version") != STATE_VERSION:
            return wrong_version(found.get("version"))
        differ = ", ".join(sorted(name for name in wanted if found.get(name) != wanted[name]))
        return EngineError(
            f"the state in this checkpoint belongs to another query (different: {differ}); "
            "continue with the query, columns and shards it was started with, or start from a new "
            "checkpoint"
        )


@dataclass(frozen=True)
class BoardPlan:
    """The plans of queries that read the same sources."""

    plans: Mapping[str, QueryPlan]
    alone: bool = False
    """Whether this is one query, to which no other is ever added."""
    closing: Closing | None = None
    """How the job was last closed, if it was."""
    late: str | None = None
    """The checkpoint that tells workers which rows are late, if these are to be dead letters."""

    @property
    def first(self) -> QueryPlan:
        return next(iter(self.plans.values()))

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """What the keys of the state begin with, and the queries whose state is there."""
        labels: dict[str, list[str]] = {}
        for name, plan in self.plans.items():
            plan.register()
            key = fold_key(plan.query)
            digest = None if key is None else hashlib.sha256(key.encode()).hexdigest()[:12]
            label = name if digest is None else f"{plan.query.kind} {digest}"
            labels.setdefault(label, []).append(name)
        return labels

    @property
    def keys(self) -> int:
        """How many keys the state has."""
        firsts = (self.plans[names[0]] for names in self.labels.values())
        return sum(plan.buckets * plan.shards for plan in firsts)

    # Time ---------------------------------------------------------------------------------------

    @cached_property
    def held_ms(self) -> dict[str, int]:
        """How far each query's watermark is behind Spark's.

        Spark's watermark has the lateness of a query that stands alone. Otherwise each query's
        lateness is subtracted where its state is: queries come and go, and a watermark never goes
        back.
        """
        return {name: 0 if self.alone else plan.lateness_ms for name, plan in self.plans.items()}

    @property
    def delay(self) -> str:
        """How far Spark's watermark stays behind ``seen``, which is shifted a century ahead."""
        return f"{SHIFT_MS + (self.first.lateness_ms if self.alone else 0)} milliseconds"

    # What processes build from a plan -------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        """Plans travel as bytes, so that a worker has one plan in all batches and functions."""
        from pyspark import cloudpickle

        state: Any = (dict(self.plans), self.alone, self.closing, self.late)
        return _unpacked_plan, (cloudpickle.dumps(state),)  # type: ignore[no-untyped-call]

    @cached_property
    def _summarising(self) -> dict[str, tuple[Intake, Clock]]:
        return {}

    def summarising(self, label: str) -> tuple[Intake, Clock]:
        """What reads, places, summarises and combines for a label; it has no state."""
        if label not in self._summarising:
            intake = self.intake(self.labels[label])
            queries = [self.plans[name].query for name in self.labels[label]]
            clock = clock_for(intake.query, queries, tuple(intake.bound))  # here no row is late
            self._summarising[label] = intake, clock
        return self._summarising[label]

    def intake(self, names: Sequence[str]) -> Intake:
        """A reader of rows for queries with one label, bound to every source."""
        plans = [self.plans[name] for name in names]
        queries, first = [plan.query for plan in plans], plans[0]
        first.register()
        served = widest(queries)
        intake = Intake(served, make_synopsis(served, queries))
        if isinstance(intake.synopsis, Preparation):
            intake.synopsis.prepare(stored=True, late=first.streaming)
        if first.streaming:
            assert intake.limits is not None
            spark = TimeLimits(0, (_LAST_MS + 1) * first.tick_ms - 1, _EARLY, _FAR)
            intake.limits = spark.within(intake.limits)
        intake.limit(first.limits, time.time())
        for source, schema in first.schemas.items():
            intake.bind(source, schema)
        return intake

    def fold(self, names: Sequence[str]) -> Fold:
        """A fold for these readers that has taken nothing yet."""
        intake, first = self.intake(names), self.plans[names[0]]
        queries = [self.plans[name].query for name in names]
        sources = tuple(intake.bound)
        # Rows that are refused late are counted by those who seal.
        judge = refuse if first.on_bad == "raise" else lambda faults: None
        return Fold(queries, intake.synopsis, first.groups(), judge, sources, total=first.total)

    # Columns ------------------------------------------------------------------------------------

    @cached_property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each source that some query needs."""
        fields: dict[str, dict[str, pa.Field]] = {}
        for plan in self.plans.values():
            for source, schema in plan.schemas.items():
                fields.setdefault(source, {}).update({field.name: field for field in schema})
        return {source: pa.schema(list(own.values())) for source, own in fields.items()}

    @cached_property
    def output(self) -> pa.Schema:
        """The columns of the rows: those of the only query, or those of a board."""
        if self.alone:
            return self.first.output
        edges = [self.first.output.field(name) for name in EDGES]
        for name, plan in self.plans.items():
            if _in_utc(plan.output.field(EDGES[1]).type) != _in_utc(edges[1].type):
                raise EngineError(
                    f"the windows of query {name!r} have edges of another type than those of "
                    "the board's first query; give all queries of a board times of one type"
                )
        given = [pa.field("query", pa.string()), *edges, pa.field("rank", pa.int32())]
        return pa.schema([*given, pa.field("answer", pa.string())])

    # Identity -----------------------------------------------------------------------------------

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint belongs to, query by query."""
        return {"board": {n: plan.identity for n, plan in self.plans.items()}, "alone": self.alone}

    def check_identity(self, found: Any) -> None:
        """Raise EngineError if a query has changed; a board's may be added and taken away."""
        known = found.get("board") if isinstance(found, dict) else None
        if not isinstance(known, dict) or found.get("alone") != self.alone:
            raise EngineError(
                "it was written by a job of another form (a single [query], [queries.NAME], or "
                "another version of Skyband); give this job a folder of its own"
            )
        for name, plan in self.plans.items():
            saved = known.get(name)
            if (name in known or self.alone) and saved != plan.identity:
                with named(name):
                    raise plan.differs(saved)


@lru_cache(maxsize=16)
def _in_utc(kind: pa.DataType) -> pa.DataType:
    """The type with any zone replaced: it only decides how the same instants are shown."""
    return pa.timestamp(kind.unit, "UTC") if pa.types.is_timestamp(kind) and kind.tz else kind


def _unpacked_plan(packed: bytes) -> BoardPlan:
    return BoardPlan(*pickle.loads(packed))  # noqa: S301 - Spark itself sends functions like this


def wrong_version(version: Any) -> EngineError:
    """What to raise for a state in another format."""
    return EngineError(
        f"the state in this checkpoint has version {version}, but this Skyband reads version "
        f"{STATE_VERSION}; use the Skyband that wrote it, or start from a new checkpoint"
    )


def buckets_of(query: Query) -> int:
    """How many buckets the groups of a query are spread over."""
    return BUCKETS if query.groups else 1


def state_keys(query: Query, shards: int | None = None) -> int:
    """How many state keys a query has."""
    return buckets_of(query) * (shards or 1)


def check_window(query: Query, streaming: bool) -> None:
    """Raise EngineError for a window that Spark's watermark cannot serve."""
    window = query.window
    if isinstance(window, CountWindow):
        raise EngineError(
            "Spark has no order of arrival, so it cannot count arrivals; number the rows and use a "
            "TimeWindow of integers over that column (time=, one unit counts as a millisecond), or "
            "use the embedded engine"
        )
    if not streaming or window.integer:
        return
    panes = window.panes
    given = [
        *(("size", size) for size in panes.sizes),
        ("slide", panes.slide),
        ("offset", panes.offset),
        ("lateness", window.lateness_ticks),
        ("revise", window.revise_ticks or 0),
    ]
    for name, ticks in given:
        if ticks % 1_000:
            raise EngineError(
                f"the window's {name} is {ticks} microseconds, but Spark's watermark counts whole "
                "milliseconds; give a multiple of 1 ms, or use a batch DataFrame"
            )
