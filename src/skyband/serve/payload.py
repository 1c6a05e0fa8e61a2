"""Answers as JSON text, with numbers that every reader of JSON holds exactly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.answers.changes import changes
from skyband.data.columns import python_values
from skyband.data.json_text import json_text
from skyband.query import Query

_EXACT = 1 << 53
"""The greatest integer up to which a JSON number, read as a double, is exact."""


@dataclass(frozen=True)
class SparkWindow:
    """The answer of one window, read from the rows that Spark wrote."""

    name: str
    query: Query
    table: pa.Table
    before: pa.Table | None
    exact: bool | None
    bounds: Mapping[str, float]
    revision: int = 0
    total: None = None
    """Spark's rows do not say how many rows a window had."""

    @property
    def start(self) -> Any:
        """The first moment of the window."""
        return self.table["window_start"][0].as_py()

    @property
    def end(self) -> Any:
        """The first moment after the window."""
        return self.table["window_end"][0].as_py()

    @property
    def changes(self) -> pa.Table:
        """What entered, left or moved since the previous answer."""
        return changes(self.before, self.table, self.query, None)


WindowAnswer = Answer | SparkWindow
"""The answer of one window, from either engine."""


def revision_of(answer: WindowAnswer) -> int | None:
    """How often a window was corrected; None if its query corrects none."""
    if answer.query.window.revise_ticks is None:
        return None
    return answer.revision


def text_of(value: Any) -> str:
    """A value as compact JSON.

    >>> text_of({"n": 2**53 + 1, "x": float("inf"), "id": b"ab"})
    '{"n":"9007199254740993","x":"Infinity","id":"YWI="}'
    """
    return json_text(value, most=_EXACT, separators=(",", ":"))


def answer_text(answer: WindowAnswer) -> str:
    """An answer as JSON: start, end, rows, changes, exact, bounds, total, and revision if any."""
    parts = {
        "start": answer.start,
        "end": answer.end,
        "rows": _rows(answer.table),
        "changes": _rows(answer.changes),
        "exact": answer.exact,
        "bounds": answer.bounds,
        "total": answer.total,
    }
    revision = revision_of(answer)
    return text_of(parts if revision is None else parts | {"revision": revision})


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    columns = {name: _values(table.column(name)) for name in table.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        column = column.cast(pa.timestamp("us", kind.tz), safe=False)
    return python_values(column)
