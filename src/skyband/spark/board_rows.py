"""Rows of a board: window edges and rank as columns, the rest of each answer as JSON text.

    query     window_start  window_end  rank  answer
    busiest   10:00         10:10       1     {"flow": "a", "bytes": 90}
    talkers   10:00         10:20       1     {"host": "web", "count": 3, "error": 0}

The metadata of the column ``answer`` maps each query's name to its Arrow schema, in base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from skyband.data.ipc import schema_from
from skyband.data.json_text import json_text
from skyband.spark.plan import EDGES, BoardPlan

__all__ = ["answer_rows", "schema_from_text", "schema_text", "schema_texts", "typed_rows"]

Batches = Iterator[pa.RecordBatch]


def schema_texts(board: BoardPlan) -> dict[str, str]:
    """Each query's Arrow schema, as the metadata of the column ``answer``."""
    return {name: schema_text(plan.output) for name, plan in board.plans.items()}


def schema_text(schema: pa.Schema) -> str:
    """An Arrow schema as text."""
    return base64.b64encode(schema.remove_metadata().serialize().to_pybytes()).decode("ascii")


def schema_from_text(text: str) -> pa.Schema:
    """The inverse of ``schema_text``."""
    return schema_from(base64.b64decode(text))


def answer_rows(board: BoardPlan, name: str, table: pa.Table) -> pa.Table:
    """A query's output as rows of the board."""
    schema = board.output
    inner = [field for field in table.schema if field.name not in (*EDGES, "rank")]
    columns = {field.name: _to_json(table.column(field.name)) for field in inner}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    ranked = "rank" in table.column_names
    found = {
        "query": pa.array([name] * table.num_rows, pa.string()),
        **{edge: table.column(edge) for edge in EDGES},
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
                if field.name in (*EDGES, "rank"):
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
