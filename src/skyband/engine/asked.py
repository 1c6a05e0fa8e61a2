"""What a query asks of one source's rows before an algorithm sees them: a filter, computed columns.

columns of the source ──► rows that ``where`` wants ──► "price * volume" ──► validate, place, ...
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

import pyarrow as pa

from skyband.contract.checks import check_names
from skyband.data.computed import Computed
from skyband.data.row_filter import RowFilter
from skyband.errors import QueryError, SchemaError
from skyband.query.base import Query
from skyband.query.expressions import Call, columns_of, parse

__all__ = ["Asked", "Rows", "check_somewhere"]

Rows = TypeVar("Rows", pa.RecordBatch, pa.Table)

_LONG = 100
"""Letters of an expression that a message shows."""


class Asked:
    """The filter and the computed columns of one source."""

    def __init__(self, query: Query, source: str, schema: pa.Schema) -> None:
        """Raises SchemaError for columns that are missing or cannot be used as asked."""
        # With several sources, each one is filtered by the columns that it has.
        wanted = [name for name in query.where if not source or name in schema.names]
        if wanted:
            check_names(source, schema, wanted)
        self.filtering = tuple(wanted)
        self.filter = RowFilter({name: query.where[name] for name in wanted}, schema)
        self.computed = _computed(query, schema)

    def wide(self, schema: pa.Schema) -> pa.Schema:
        """The source's columns and the computed ones."""
        return pa.schema([*schema, *(pa.field(each.text, each.type) for each in self.computed)])

    def inputs(self, needed: Iterable[str]) -> tuple[str, ...]:
        """The columns of the source to read, if these columns of ``wide`` are needed."""
        made = {each.text: each.columns for each in self.computed}
        names = [name for name in needed if name not in made]
        names += [name for columns in made.values() for name in columns]
        return tuple(dict.fromkeys((*names, *self.filtering)))

    def judged(self, rows: pa.RecordBatch, needed: Iterable[str]) -> pa.RecordBatch:
        """The rows without columns that only the filter reads."""
        made = {each.text for each in self.computed}
        names = {name for each in self.computed for name in each.columns} | set(needed) - made
        return rows.select([name for name in rows.schema.names if name in names])

    def widened(self, rows: Rows) -> Rows:
        """The rows with the computed columns."""
        for each in self.computed:
            rows = rows.append_column(each.text, each.of(rows.column))
        return rows


def check_somewhere(
    query: Query, source: str, known: Mapping[str, pa.Schema], absent: Collection[str]
) -> None:
    """Raise SchemaError if no source has a column of ``where``; ``absent`` ones send nothing."""
    if set(query.sources) - set(known) - set(absent) - {source}:
        return  # a source that is still to come may have the column
    there = dict.fromkeys(name for schema in known.values() for name in schema.names)
    for name in query.where:
        if name not in there:
            raise SchemaError(
                f"where: no source has a column {name!r}; their columns are: {', '.join(there)}"
            )


def _computed(query: Query, schema: pa.Schema) -> list[Computed]:
    """The columns to compute: texts of the query that name no column."""
    found = []
    for text in dict.fromkeys(query.expressions):
        if text in schema.names:
            continue
        try:
            node = parse(text)
        except QueryError as problem:
            if query.needs_mapping:
                continue  # the other source may have a column of this name
            there = ", ".join(schema.names) or "none"
            shown = text if len(text) <= _LONG else f"{text[:_LONG]}..."
            raise SchemaError(
                f"column {shown!r} is missing, and it is no expression either: {problem}; the "
                f"columns are: {there}"
            ) from None
        columns = columns_of(node)
        elsewhere = query.needs_mapping and set(columns) - set(schema.names)
        if isinstance(node, Call) and columns and not elsewhere:
            found.append(Computed(text, node, schema))
        # Otherwise, the algorithm that needs the column says that it is missing.
    return found
