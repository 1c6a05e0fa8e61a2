"""What a source of a local job can do.

A place is a plain value that is kept in the checkpoint. ``take`` reads the next batch and tells
where it ends; ``again`` reads the rows between two places once more, after a crash. What a socket
or a request has sent cannot be read again: such rows are ``journalled``, and stand in the
checkpoint themselves.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa

from skyband.data.computed import ComputedColumn
from skyband.data.letters import LETTERS
from skyband.errors import EngineError, QueryError
from skyband.query.expressions import parse

# The ``columns`` of a source in a local job: names of columns, or arithmetic over them -----------


class ColumnChoice:
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
        return ComputedColumn(text, self.nodes[name], table.schema).of(table.column)


Place: TypeAlias = Any
Needed: TypeAlias = Callable[[pa.Schema], Sequence[str] | None]
"""From the columns that there are to those that are needed; None for all of them."""


@dataclass
class SourceNeeds:
    """What a source has to know of the queries that read it."""

    needed: Needed
    """Which columns they need. A source may read only those."""
    time: str | None
    """The column of their times, if all have the same. A source may sort what it finds by it."""
    bound: Callable[[], pa.Schema]
    """The columns that they have read so far, in the types that later batches must have."""
    skips: bool
    """Whether bad records are left out; otherwise they stop the job."""


NO_NEEDS = SourceNeeds(lambda _: None, None, lambda: pa.schema([]), skips=False)
"""Of a source that no query reads."""


class LocalSource(ABC):
    """Reads one source of a job, batch by batch."""

    where: str
    """The name that messages use for this source."""
    first: Place
    """Where a new job begins to read."""
    journalled = False
    """Whether its rows stand in the checkpoint, because they cannot be read again."""
    columns: pa.Schema | None = None
    """The columns that its rows have, if the job says it. They may be others at the next start."""

    def read_by(self, needs: SourceNeeds) -> None:  # noqa: B027
        """Told once what the queries need."""

    @abstractmethod
    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The next batch and where it ends; None if there is nothing new at the moment.

        ``last`` means that nothing will come later, so that nothing is left waiting.
        """

    def again(self, begin: Place, end: Place) -> pa.Table:
        """The rows between two places, as they were read before; never of a journalled source."""
        raise EngineError(f"{self.where} cannot be read again")

    def origin(self) -> dict[str, pa.Array]:
        """Where each row of the last batch came from, as columns of a dead letter."""
        return {}

    def unread(self) -> pa.Table:
        """Letters for the records of the last batch that could not be read."""
        return LETTERS.empty_table()

    def close(self) -> None:  # noqa: B027 - most sources have nothing to close
        """Let go of files and connections."""
