"""Tables that are built when they are first read."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

__all__ = ["Later", "now"]


class Later:
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

    def slice(self, offset: int, length: int) -> Later:
        """Some rows of it, also built when they are read."""
        return Later(self.schema, lambda: self.table.slice(offset, length))


def now(table: pa.Table | Later) -> pa.Table:
    """The table itself."""
    return table.table if isinstance(table, Later) else table
