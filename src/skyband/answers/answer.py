"""Answers: light views over the columns that a push produced.

A push that reads a million windows makes a handful of arrays and one table. An ``Answer`` is a
number and a reference into them; it builds its tables when they are requested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.answers.changes import ALERTS, Kinds, changes, kinds_of
from skyband.answers.show import answer_html, answer_text
from skyband.arrays import Ints
from skyband.data.columns import equal_to
from skyband.data.time_axis import window_value
from skyband.errors import QueryError
from skyband.query.base import REVISION, Query


class Position(NamedTuple):
    """Where an id or item stands: its rank, its score or count, and out of how many.

    Ids that tie share a rank if they do so in the query's answers.
    """

    rank: int
    value: Any
    of: int


class LazyTable:
    """A table that is not built yet.

    A live monitor may answer thousands of times per second, and nobody looks at every answer.
    """

    __slots__ = ("_build", "_table", "schema")

    def __init__(self, schema: pa.Schema, build: Callable[[], pa.Table]) -> None:
        self.schema = schema
        self._build: Callable[[], pa.Table] | None = build
        self._table: pa.Table | None = None

    @property
    def table(self) -> pa.Table:
        """The table; built once."""
        build = self._build
        if build is not None:
            self._table = build()
            self._build = None  # it holds the columns
        return self._table

    def slice(self, offset: int, length: int) -> LazyTable:
        """Some rows of it, also built when they are read."""
        return LazyTable(self.schema, lambda: self.table.slice(offset, length))


def now(table: pa.Table | LazyTable) -> pa.Table:
    """The table itself."""
    return table.table if isinstance(table, LazyTable) else table


@dataclass(frozen=True, eq=False)
class Promises:
    """The guarantees of each run of rows; a run is the rows of one window and one group."""

    lengths: Ints
    """The number of rows of each run, in the order of the table."""
    exact: npt.NDArray[np.bool_]
    bounds: Mapping[str, Any]
    """For each bound, one value for all runs or an array with one value per run."""
    empty: bool
    """Whether the answer of a group without rows is exact."""
    nothing: Mapping[str, Any] = field(default_factory=dict)
    """The bounds of a group without rows; minus infinity for those that are not named."""


NOTHING = Promises(np.zeros(0, np.int64), np.zeros(0, np.bool_), {}, empty=True)


@dataclass(frozen=True, eq=False)
class Answers:
    """All answers of one push: one table, cut into answers by ``offsets``."""

    query: Query
    made: pa.Table | LazyTable
    """The rows of all answers; the table may not be built yet."""
    start: Ints
    end: Ints
    offsets: Ints
    exact: npt.NDArray[np.bool_]
    bounds: Mapping[str, Any]
    """For each bound, one value for all answers or an array with one value per answer."""
    total: npt.NDArray[Any]
    group: npt.NDArray[np.int32] | None = None
    """The group of each answer, if every group has its own windows."""
    before: Mapping[int, pa.Table | LazyTable] = field(default_factory=dict)
    """The last table of each group before this push (key 0 if all groups share windows)."""
    promises: Promises = NOTHING
    """The guarantees of the rows, group by group."""
    only: Kinds | None = None
    """The kinds of changes that an answer shows, each with its row; None for all, without rows."""
    name: str | None = None
    """The query's name on a board; None if the query stands alone."""
    revision: Ints | None = None
    """How often the window of each answer had been answered before, if answers are corrected."""
    compared: Sequence[pa.Table | LazyTable | None] | None = None
    """What the changes of each answer are against, if answers are corrected."""

    def __len__(self) -> int:
        return len(self.end)

    @property
    def table(self) -> pa.Table:
        """The rows of all answers."""
        return self.made.table if isinstance(self.made, LazyTable) else self.made

    @property
    def edge(self) -> pa.DataType:
        """The type of window starts and ends."""
        return self.made.schema.field("window_end").type

    def slice(self, i: int) -> pa.Table:
        return now(self.cut(i))

    def cut(self, i: int) -> pa.Table | LazyTable:
        """The rows of the i-th answer, which may not be built yet."""
        low, high = int(self.offsets[i]), int(self.offsets[i + 1])
        return self.made.slice(low, high - low)

    def previous(self, i: int) -> pa.Table | None:
        """The answer before the i-th; of the same group, if groups have their own windows."""
        if self.compared is not None:
            found = self.compared[i]
        elif self.group is None:
            found = self.cut(i - 1) if i else self.before.get(0)
        else:
            at = int(self._previous[i])
            found = self.cut(at) if at >= 0 else self.before.get(int(self.group[i]))
        return None if found is None else now(found)

    @cached_property
    def _previous(self) -> Ints:
        """For each answer, the previous answer of the same group, or -1."""
        assert self.group is not None
        order = np.argsort(self.group, kind="stable")
        ranked = self.group[order]
        previous = np.full(len(self), -1, np.int64)
        same = ranked[1:] == ranked[:-1]
        previous[order[1:][same]] = order[:-1][same]
        return previous

    def last(self) -> dict[int, pa.Table | LazyTable]:
        """The last table of each group that answered in this push."""
        if self.group is None:
            return {0: self.cut(len(self) - 1)} if len(self) else {}
        latest = dict(zip(self.group.tolist(), range(len(self)), strict=True))
        return {group: self.cut(i) for group, i in latest.items()}

    def views(self) -> list[Answer]:
        return [Answer(self, i) for i in range(len(self))]

    def alerts(self, only: Kinds) -> Iterator[Answer]:
        """The answers in which there are changes of these kinds; they show no others."""
        for answer in replace(self, only=only).views():
            if answer.changes.num_rows:
                yield answer


class Answer:
    """The answer of one window.

    ``table`` holds the rows of the answer; ``changes`` lists what entered, left or moved since the
    previous answer. ``exact`` and ``bounds`` say what the answer guarantees; ``total`` is the
    number of rows, or their weight, in the window.
    """

    __slots__ = ("_all", "_at")

    def __init__(self, answers: Answers, at: int) -> None:
        self._all = answers
        self._at = at

    @property
    def name(self) -> str | None:
        """The name of the query on its board; None if the query stands alone."""
        return self._all.name

    @property
    def start(self) -> Any:
        """The first time (or arrival) in the window."""
        return window_value(int(self._all.start[self._at]), self._all.edge)

    @property
    def end(self) -> Any:
        """The first time (or arrival) after the window."""
        return window_value(int(self._all.end[self._at]), self._all.edge)

    @property
    def revision(self) -> int:
        """How often late rows have corrected the window: 0 for its first answer, then 1, 2, ..."""
        every = self._all.revision
        return 0 if every is None else int(every[self._at])

    @property
    def table(self) -> pa.Table:
        """The rows of the answer, best first."""
        return self._all.slice(self._at)

    @property
    def changes(self) -> pa.Table:
        """What entered, left or moved since the previous answer.

        The previous answer is that of the window before or, for a correction, of the same window.
        """
        every = self._all
        return changes(every.previous(self._at), self.table, every.query, every.only)

    def alerts(self, only: str | Sequence[str] = ALERTS) -> pa.Table:
        """Return changes of one kind or several, followed by the other columns of each row."""
        every = self._all
        return changes(every.previous(self._at), self.table, every.query, kinds_of("only", only))

    def rank_of(
        self,
        id: Any,
        by: Mapping[str, Any] | None = None,
        **group: Any,
    ) -> int | None:
        """Return the rank of an id or item; None if this answer does not show it.

        Pass an item of several columns as a tuple. If the query has ``by``, give the group as
        keywords (``rank_of("a", host="web-1")``) or as a mapping. If an id has several rows, return
        its best rank.
        """
        query, table = self._all.query, self.table
        if not query.ranked or not query.key:
            what = "has no ranks" if not query.ranked else "has no id="
            raise QueryError(f"rank_of needs a query with ranks and id; this {query.kind} {what}")
        wanted = {**(by or {}), **group}
        if set(wanted) != set(query.groups):
            groups = ", ".join(f"{name}=..." for name in query.groups) or "nothing more"
            raise QueryError(f"rank_of takes the id and its group: {groups}; got {wanted!r}")
        values = id if len(query.key) > 1 and isinstance(id, tuple) else (id,)
        if len(values) != len(query.key):
            raise QueryError(f"pass an item as a tuple of {', '.join(query.key)}; got {id!r}")
        wanted |= dict(zip(query.key, values, strict=True))
        found = np.ones(table.num_rows, np.bool_)
        for name, value in wanted.items():
            found &= equal_to(table[name], value)
        return int(table["rank"][int(found.argmax())].as_py()) if found.any() else None

    @property
    def exact(self) -> bool:
        """Whether this answer certainly equals the query's definition."""
        return bool(self._all.exact[self._at])

    @property
    def bounds(self) -> dict[str, Any]:
        """The error bounds of an approximate answer; with all ties, how many rows were cut off."""
        return {
            name: value[self._at].item() if isinstance(value, np.ndarray) else value
            for name, value in self._all.bounds.items()
        }

    @property
    def total(self) -> int | float:
        """The number of rows, or the total weight, in the window."""
        value: int | float = self._all.total[self._at].item()
        return value

    @property
    def query(self) -> Query:
        """The query that was answered."""
        return self._all.query

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Give the rows to anything that reads Arrow: ``pl.DataFrame(answer)``, DuckDB, ..."""
        return self.table.__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self.table.to_pandas()

    def __repr__(self) -> str:
        return answer_text(self)

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        return answer_html(self)


def with_edges(answer: Answer, rows: pa.Table) -> pa.Table:
    """Rows of an answer, such as its changes, after the columns of its window."""
    edges = [("window_start", answer.start), ("window_end", answer.end)]
    if REVISION in answer.query.window_columns:
        edges.append((REVISION, answer.revision))
    for place, (name, value) in enumerate(edges):
        field = answer.table.schema.field(name)
        rows = rows.add_column(place, field, pa.repeat(pa.scalar(value, field.type), rows.num_rows))
    return rows
