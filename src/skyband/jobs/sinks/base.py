"""The rows that a sink writes, and the duties of a sink; the same on both engines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa

from skyband.engine.intake import ValueTest
from skyband.errors import EngineError, SkybandError

__all__ = ["Sink", "SinkRows", "TableRows", "written"]


class SinkRows(Protocol):
    """The answer rows, or the dead letters, of one query in one batch."""

    @property
    def schema(self) -> pa.Schema: ...

    def __bool__(self) -> bool:
        """Whether there are any."""

    def tables(self) -> Iterator[pa.Table]:
        """The rows, table by table."""


R_contra = TypeVar("R_contra", bound=SinkRows, contravariant=True)


class TableRows:
    """Rows that are tables in this process."""

    def __init__(self, tables: Sequence[pa.Table], schema: pa.Schema) -> None:
        self.schema = schema
        self._tables = [table for table in tables if table.num_rows]

    def __bool__(self) -> bool:
        return bool(self._tables)

    def tables(self) -> Iterator[pa.Table]:
        """The rows, table by table."""
        for table in self._tables:
            yield table if table.schema == self.schema else table.cast(self.schema)


class Sink(Protocol[R_contra]):
    """Where rows are written. After a failure ``write`` may be called again with the same batch."""

    where: str
    """The name that messages use for this sink."""

    @property
    def refuses(self) -> Sequence[ValueTest]:
        """What values it cannot hold; rows with such values are bad (``limits.py``)."""

    def open(self, run: str) -> None:
        """Called once before the first batch; raises if the sink cannot be written to."""

    def write(self, batch: int, rows: R_contra) -> None:
        """Write the rows of a batch, all of them or none."""


def written(sink: Sink[R_contra], batch: int, rows: R_contra) -> None:
    """Write the rows of a batch; any error names the sink."""
    try:
        sink.write(batch, rows)
    except SkybandError:
        raise
    except Exception as problem:
        told = str(problem).strip().split("\n")[0] or type(problem).__name__
        raise EngineError(f"{sink.where} could not write batch {batch}: {told}") from problem
