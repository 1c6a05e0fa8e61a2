"""A board on Spark: one plan per query, one source schema, and rows with answers as JSON text.

    query     window_start  window_end  rank  answer
    busiest   10:00         10:10       1     {"flow": "a", "bytes": 90}
    talkers   10:00         10:20       1     {"host": "web", "count": 3, "error": 0}

The metadata of the column ``answer`` maps each query's name to its Arrow schema, in base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Any

import pyarrow as pa

from skyband.answers.json_text import json_text
from skyband.data.ipc import schema_from
from skyband.errors import EngineError
from skyband.spark.family_plan import FamilyPlan, families_of
from skyband.spark.plan import SHIFT_MS, Closing, Plan

__all__ = ["BoardPlan", "answer_rows", "schema_from_text", "schema_text", "typed_rows"]

_EDGES = ("window_start", "window_end")
_BY_FAMILY = "family"
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class BoardPlan:
    """The plans of a board's queries, which read the same sources."""

    plans: Mapping[str, Plan]
    closing: Closing | None = None
    """How the job was last closed, if it was."""
    by_family: bool = True
    """Whether the state is keyed by families of queries; version 0.2.0 keyed it by query."""

    @cached_property
    def families(self) -> dict[str, FamilyPlan]:
        """Queries whose state lies under one key, by the label that the key begins with."""
        return families_of(self.plans) if self.by_family else {}

    @cached_property
    def labels(self) -> dict[str, list[str]]:
        """What the keys of the state begin with, and the queries whose state is there.

        That is the label of a family, or the name of a query that is in none.
        """
        owner = {name: label for label, each in self.families.items() for name in each.plans}
        found: dict[str, list[str]] = {}
        for name in self.plans:
            found.setdefault(owner.get(name, name), []).append(name)
        return found

    def plan_of(self, label: str) -> Plan:
        """The plan of a query, or of the first one of a family."""
        return self.families[label].first if label in self.families else self.plans[label]

    @property
    def first(self) -> Plan:
        return next(iter(self.plans.values()))

    @property
    def delay(self) -> str:
        """How far Spark's watermark stays behind ``seen``: a century, and no lateness."""
        return f"{SHIFT_MS} milliseconds"

    def held_ms(self, name: str) -> int:
        """How far a query's watermark is behind that of its sources: its lateness."""
        plan = self.plans[name]
        return plan.window.lateness_ticks // plan.tick_ms

    def reached_ms(self, name: str, watermark_ms: int) -> int:
        """How far a query's own watermark has come, given that of the sources."""
        if self.closing is not None and watermark_ms == self.closing.watermark_ms:
            # Windows end at different times, and each query ends with its own last window.
            return self.closing.ends_ms.get(name, 0)
        return max(watermark_ms - self.held_ms(name), 0)

    @cached_property
    def schemas(self) -> dict[str, pa.Schema]:
        """The columns of each source that some query needs."""
        found: dict[str, dict[str, pa.Field]] = {}
        for plan in self.plans.values():
            for source, schema in plan.schemas.items():
                found.setdefault(source, {}).update({field.name: field for field in schema})
        return {source: pa.schema(list(fields.values())) for source, fields in found.items()}

    @cached_property
    def output(self) -> pa.Schema:
        """The columns of the board's rows."""
        edges = [self.first.output.field(name) for name in _EDGES]
        for name, plan in self.plans.items():
            if [plan.output.field(edge).type for edge in _EDGES] != [edge.type for edge in edges]:
                raise EngineError(
                    f"the windows of query {name!r} have edges of another type than those of "
                    "the board's first query; give all queries of a board times of one type"
                )
        given = [pa.field("query", pa.string()), *edges, pa.field("rank", pa.int32())]
        return pa.schema([*given, pa.field("answer", pa.string())])

    @property
    def keys(self) -> int:
        """How many keys the state has."""
        return sum(self.plan_of(label).keys for label in self.labels)

    @property
    def identity(self) -> dict[str, Any]:
        """What a checkpoint belongs to, query by query."""
        told: dict[str, Any] = {"board": {n: plan.identity for n, plan in self.plans.items()}}
        return told | ({"keys": _BY_FAMILY} if self.by_family else {})

    def keyed_as(self, found: Any) -> BoardPlan:
        """This board with the keys of a checkpoint that has this identity."""
        by_family = not isinstance(found, dict) or found.get("keys") == _BY_FAMILY
        return self if by_family == self.by_family else replace(self, by_family=by_family)

    def check_identity(self, found: Any) -> None:
        """Raise EngineError if a query has changed; queries may be added and taken away."""
        told = found.get("board") if isinstance(found, dict) else None
        if not isinstance(told, dict):
            raise EngineError(
                "it was written by a job with a single [query]; give a job with [queries.NAME] a "
                "folder of its own"
            )
        for name, plan in self.plans.items():
            if name in told:
                try:
                    plan.check_identity(told[name])
                except EngineError as problem:
                    raise EngineError(f"query {name!r}: {problem}") from None

    @property
    def metadata(self) -> dict[str, str]:
        """Each query's Arrow schema, as the metadata of the column ``answer``."""
        return {name: schema_text(plan.output) for name, plan in self.plans.items()}


def schema_text(schema: pa.Schema) -> str:
    """An Arrow schema as text."""
    return base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode("ascii")


def schema_from_text(text: str) -> pa.Schema:
    """The inverse of ``schema_text``."""
    return schema_from(base64.b64decode(text))


# From a query's rows to those of the board, and back ----------------------------------------------


def answer_rows(board: BoardPlan, name: str, table: pa.Table) -> pa.Table:
    """A query's output as rows of the board."""
    schema = board.output
    inner = [field for field in table.schema if field.name not in (*_EDGES, "rank")]
    columns = {field.name: _to_json(table.column(field.name)) for field in inner}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    ranked = "rank" in table.column_names
    found = {
        "query": pa.array([name] * table.num_rows, pa.string()),
        **{edge: table.column(edge) for edge in _EDGES},
        "rank": table.column("rank") if ranked else pa.nulls(table.num_rows, pa.int32()),
        "answer": pa.array([json_text(row) for row in rows], pa.string()),
    }
    return pa.table(found).cast(schema)


def typed_rows(schema: pa.Schema) -> Callable[[Batches], Batches]:
    """The function that turns rows of a board, all of one query, into the query's own columns."""

    def run(batches: Batches) -> Batches:
        for batch in batches:
            rows = [json.loads(text) for text in batch.column("answer").to_pylist()]
            columns = []
            for field in schema:
                if field.name in (*_EDGES, "rank"):
                    columns.append(batch.column(field.name).cast(field.type))
                else:
                    columns.append(_from_json([row[field.name] for row in rows], field.type))
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return run


def _in_microseconds(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.duration("us") if pa.types.is_duration(kind) else None


def _to_json(column: pa.ChunkedArray) -> list[Any]:
    """Values for JSON; times are written in microseconds."""
    exact = _in_microseconds(column.type)
    if exact is not None:
        return list(column.cast(exact).cast(pa.int64()).to_pylist())
    values = column.to_pylist()
    if pa.types.is_map(column.type):
        return [None if value is None else dict(value) for value in values]
    return list(values)


def _from_json(values: list[Any], kind: pa.DataType) -> pa.Array:
    exact = _in_microseconds(kind)
    if exact is not None:
        return pa.array(values, pa.int64()).cast(exact).cast(kind)
    read: Callable[[Any], Any] = lambda value: value  # noqa: E731
    if pa.types.is_floating(kind):
        read = float
    elif pa.types.is_decimal(kind):
        read = Decimal
    elif pa.types.is_date(kind):
        read = date.fromisoformat
    elif pa.types.is_map(kind):
        read = _entries
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        read = base64.b64decode
    return pa.array([None if value is None else read(value) for value in values], kind)


def _entries(value: Mapping[str, Any]) -> list[tuple[str, float]]:
    return [(name, float(each)) for name, each in value.items()]
