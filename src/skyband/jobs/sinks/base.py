"""The rows that a sink writes, and the duties of a sink; the same on both engines.

A query whose windows may be corrected (``TimeWindow(revise=)``) has a column ``revision``. A window
comes again then, whole, with a greater revision, and sinks keep the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

import pyarrow as pa

from skyband.answers.tables import last_revisions
from skyband.data.json_text import json_text
from skyband.engine.intake import ValueTest
from skyband.errors import EngineError, SkybandError
from skyband.query.base import REVISION

_PLAIN = '[]", '
"""Characters of a group that a key holds as they are, besides letters and digits."""


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


def messages_of(
    rows: SinkRows, job: str, query: str, groups: Sequence[str] = (), revises: bool = False
) -> Iterator[dict[str, Any]]:
    """A message for each window: its key, what it is of, and its rows.

    If groups count their own arrivals, a window is of one of these ``groups``. ``revises`` says
    that windows may be corrected.
    """
    if not rows:
        return
    table = pa.concat_tables(rows.tables())
    table = last_revisions(table) if revises else table
    keys = [table[name].to_pylist() for name in (*groups, "window_end")]
    places: dict[tuple[Any, ...], list[int]] = {}
    for row, key in enumerate(zip(*keys, strict=True)):
        places.setdefault(key, []).append(row)
    for (*group, end), at in places.items():
        shown = end.isoformat() if hasattr(end, "isoformat") else end
        # The key is a header, too, which holds few characters.
        named = f"{quote(json_text(group), _PLAIN)}/" if group else ""
        message: dict[str, Any] = {
            "key": f"{job}/{query}/{named}{shown}",
            "job": job,
            "query": query,
        }
        message["window_end"] = shown
        if revises:
            message[REVISION] = table[REVISION][at[0]].as_py()
        if group:
            message["group"] = dict(zip(groups, group, strict=True))
        yield message | {"rows": table.take(pa.array(at)).to_pylist()}


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
        reason = str(problem).strip().split("\n")[0] or type(problem).__name__
        raise EngineError(f"{sink.where} could not write batch {batch}: {reason}") from problem
