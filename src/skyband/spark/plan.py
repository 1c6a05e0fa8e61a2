"""What every process of a job needs to know: the query, its columns, how the work is split.

The driver makes a plan once; Spark ships it with the functions that run. It holds no rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from skyband import registry
from skyband.answers.changes import Kinds, changes_schema
from skyband.answers.tables import Shape, answer_schema
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.data.time_axis import window_value
from skyband.engine.clocks import TimeClock
from skyband.engine.intake import Intake
from skyband.engine.open_panes import OpenPanes
from skyband.engine.per_group import make_synopsis
from skyband.engine.summary_session import SummarySession
from skyband.engine.time_limits import TimeLimits
from skyband.errors import EngineError
from skyband.query.base import Query
from skyband.spark.promises import PROMISE
from skyband.window import CountWindow, EventWindow

__all__ = ["BUCKETS", "SHIFT_MS", "Closing", "Plan", "buckets_of", "check_window", "state_keys"]

BUCKETS = 16
"""State keys that the groups are spread over; a key costs one or two milliseconds per batch."""
SHIFT_MS = 36_525 * 86_400_000
"""A century: `seen` is shifted ahead by it, so that Spark's own filter of late rows never fires."""
STATE_VERSION = 2
_READABLE = (1, 2)
"""Versions of the state that are read; 2 has pieces of panes, and columns in few bytes."""
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
class Plan:
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
    letters: bool = False
    """Whether bad rows are emitted as dead letters along with the answers."""
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
        return 1 if self._at_once else buckets_of(self.query)

    @property
    def keys(self) -> int:
        """How many state keys there are."""
        return state_keys(self.query, self.shards)

    @property
    def _at_once(self) -> bool:
        """Whether one process folds everything.

        Which windows without a size are answered depends on the rows of all groups and shards.
        """
        return not self.streaming and not self.query.window.panes.sized

    @property
    def shared_ends(self) -> bool:
        """Whether every key has to know in which panes others have rows."""
        return self.query.window.sort == "decay" and self.buckets * self.shards > 1

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

    # What processes build from a plan -----------------------------------------------------------

    def intake(self) -> Intake:
        """A reader of rows, bound to every source."""
        kind, name = self.query.kind, self.algorithm
        if name not in registry.algorithms(kind, self.query.window.sort):
            registry.register(kind, name, *self.registered)
        intake = Intake(self.query, make_synopsis(self.query))
        if self.streaming:
            assert intake.limits is not None
            spark = TimeLimits(0, (_LAST_MS + 1) * self.tick_ms - 1, _EARLY, _FAR)
            intake.limits = spark.within(intake.limits)
            intake.synopsis.foresee_late_rows()
        for source, schema in self.schemas.items():
            intake.bind(source, schema)
        return intake

    def groups(self) -> GroupTable:
        return GroupTable(self.query.groups, next(iter(self.schemas.values())))

    def session(self) -> SummarySession:
        """A session that has taken nothing yet."""
        return SummarySession(self.intake(), self.on_bad)

    def open_panes(self) -> OpenPanes:
        """An empty holder for summaries of this query."""
        return OpenPanes(self._combine)

    @cached_property
    def _combine(self) -> Callable[[Runs], Runs]:
        """How summaries are combined; this reads no state, so one synopsis does it for all keys."""
        combine: Callable[[Runs], Runs] = self.intake().synopsis.combine
        return combine

    # Columns ------------------------------------------------------------------------------------

    @cached_property
    def answer(self) -> pa.Schema:
        """Columns of the answer tables."""
        return answer_schema(Shape(self.query, self.intake().synopsis, self.groups()))

    @cached_property
    def output(self) -> pa.Schema:
        """Columns of the job's output: answer tables, or the changelog with its windows."""
        fields = list(self.answer)
        if self.changes:
            edges = [self.answer.field("window_start"), self.answer.field("window_end")]
            fields = [*edges, *changes_schema(self.query, self.answer, self.only is not None)]
        return pa.schema([*fields, *(PROMISE if self.bounds else ())])

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

    def check_identity(self, found: Any) -> None:
        """Raise EngineError if a state belongs to another query, split or version."""
        wanted = self.identity
        if isinstance(found, dict) and found.get("version") in _READABLE:
            found = found | {"version": STATE_VERSION}
        if found == wanted:
            return
        if not isinstance(found, dict) or found.get("version") != wanted["version"]:
            version = found.get("version") if isinstance(found, dict) else None
            raise EngineError(
                f"the state in this checkpoint has version {version}, but this Skyband reads "
                f"version {wanted['version']}; use the Skyband that wrote it, or start from a new "
                "checkpoint"
            )
        differ = ", ".join(sorted(name for name in wanted if found.get(name) != wanted[name]))
        raise EngineError(
            f"the state in this checkpoint belongs to another query (different: {differ}); "
            "continue with the query, columns and shards it was started with, or start from a new "
            "checkpoint"
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
    ]
    for name, ticks in given:
        if ticks % 1_000:
            raise EngineError(
                f"the window's {name} is {ticks} microseconds, but Spark's watermark counts whole "
                "milliseconds; give a multiple of 1 ms, or use a batch DataFrame"
            )
