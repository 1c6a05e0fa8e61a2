"""What a session exchanges with those that summarise for it, and what it tells about rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skyband.contract.runs import Runs
from skyband.contract.synopsis import Synopsis
from skyband.engine.fold import Fold
from skyband.engine.placement import Placed
from skyband.engine.taken import Taken
from skyband.engine.workers import Workers
from skyband.errors import DataError
from skyband.query.base import Query
from skyband.window import CountWindow, duration_text

__all__ = [
    "OutOfOrder", "Summarise", "Summary", "columns_of_answers", "lateness_for", "summarised",
    "too_late",
]  # fmt: skip


@dataclass
class Summary:
    """The summaries of a batch's rows, and counts of the rows left out."""

    runs: Runs | None = None
    late: int = 0
    unused: int = 0
    earliest_late: int = 0
    """The least time among the late rows."""


Summarise = Callable[[Sequence[Taken], Fold, int], list[Summary]]
"""From chunks of rows, a fold and its first open pane to summaries of the fold's panes."""


def summarised(
    synopsis: Synopsis[Any], placed: Sequence[Placed], workers: Workers
) -> list[Summary]:
    """The summaries of placed rows, by several threads if the algorithm allows it."""
    some = [each.rows for each in placed if each.rows is not None]
    if synopsis.parallel:
        runs = iter(workers.map(synopsis.summarise, some))
    else:
        runs = map(synopsis.summarise, some)
    return [
        Summary(
            None if each.rows is None else next(runs), each.late, each.unused, each.earliest_late
        )
        for each in placed
    ]


class OutOfOrder(Exception):  # noqa: N818  no error: the reader sorts the source and starts again
    """A row came too late in a source that can be sorted."""


def lateness_for(query: Query, fold: Fold, earliest: int) -> str:
    """What a window needs to take a late row of this time: ``lateness='90 s'``."""
    window, mark = query.window, fold.time.watermark
    assert not isinstance(window, CountWindow)
    assert mark is not None
    needed = mark + window.lateness_ticks - earliest
    return f"lateness={needed}" if window.integer else f"lateness='{duration_text(needed)}'"


def too_late(count: int, lateness: str, source: str) -> DataError:
    """The error for late rows, which names the lateness that would take them."""
    where = f" of source {source!r}" if source else ""
    return DataError(
        f"{count:,} row{'s' if count != 1 else ''}{where} came too late: the source is out of "
        f"order, and their panes were already sealed. A window with {lateness} would take "
        "them; on_bad='skip' counts them and goes on; rank sorts a table or the files of a folder "
        "or glob, but no iterable"
    )


def columns_of_answers(
    query: Query, fold: Fold | None, complete: bool, untyped: Iterable[pa.Schema]
) -> pa.Schema:
    """Columns of the answers; those whose types are not known yet have type null.

    ``complete`` tells that the columns of all sources are known, ``untyped`` are those of sources
    that have sent no types so far.
    """
    if fold is not None and complete:
        return fold.schema()
    known = {} if fold is None else {field.name: field.type for field in fold.schema()}
    known["rank"] = pa.int32()
    if isinstance(query.window, CountWindow) or query.window.integer:
        known |= {"window_start": pa.int64(), "window_end": pa.int64()}
    names = query.answer_names([name for schema in untyped for name in schema.names])
    return pa.schema([(name, known.get(name, pa.null())) for name in names])
