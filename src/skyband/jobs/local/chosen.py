"""The ``columns`` of a source in a local job: names of columns, or arithmetic over them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from skyband.data.computed import Computed
from skyband.errors import QueryError
from skyband.query.expressions import parse

__all__ = ["Chosen"]


class Chosen:
    """Makes the columns that a job chooses; without a choice, all columns stay as they are."""

    def __init__(self, where: str, columns: Mapping[str, str] | None) -> None:
        self.columns = columns or {}
        self.nodes = {}
        for name, text in self.columns.items():
            try:
                self.nodes[name] = parse(text)
            except QueryError as problem:
                raise QueryError(
                    f"{where} columns.{name}: {problem}. A local job computes + - * / of columns; "
                    "with engine = 'spark' it may be any SQL expression"
                ) from None

    def of(self, table: pa.Table) -> pa.Table:
        """The chosen columns of a table."""
        if not self.columns:
            return table
        return pa.table({name: self._column(name, table) for name in self.columns})

    def of_schema(self, schema: pa.Schema) -> pa.Schema:
        """The chosen columns of tables with this schema."""
        return self.of(schema.empty_table()).schema if self.columns else schema

    def _column(self, name: str, table: pa.Table) -> pa.ChunkedArray | pa.Array:
        text = self.columns[name]
        if text in table.column_names:
            return table[text]
        return Computed(text, self.nodes[name], table.schema).of(table.column)
