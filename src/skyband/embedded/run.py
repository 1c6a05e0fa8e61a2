"""``rank`` and ``watch``: run a query over a source in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answer, Answers
from skyband.data.order import order_by_value
from skyband.data.time_axis import TimeAxis
from skyband.embedded.monitor import new_session
from skyband.embedded.sources import (
    Reading,
    Source,
    batches_of,
    is_files,
    is_table,
    sorted_by,
)
from skyband.engine.intake import as_table
from skyband.engine.session import ONLY, OutOfOrder, Session
from skyband.errors import DataError
from skyband.query import Query
from skyband.window import CountWindow, Duration

__all__ = ["rank", "rank_with", "tables_with", "watch", "watch_with"]

Progress = Callable[[int], None]
Step = Callable[[], Answers | None]
Read = Callable[[Any, str | None], Iterator[Any]]

_MOST_ROWS = 1 << 22
"""Rows per push: large, because each push costs a few hundred microseconds in Python."""
_MOST_ROWS_GROUPED = 1 << 20
"""Fewer rows per push with groups: their answers can be many times larger than the rows."""
_MOST_ANSWERS = 1 << 19
"""Answers per push: arrays above 32 MB are returned to the system and paged in again each time."""


def rank(
    source: Source | Mapping[str, Source],
    query: Query,
    on_bad: str = "raise",
    progress: Progress | None = None,
    threads: int | None = None,
) -> pa.Table:
    """Every answer of a query over a finite source, as one table.

    Over a time window, a single table is sorted by time first, and files are read in the order of
    their times: by Parquet's statistics, otherwise by name, and sorted if that is not enough. With
    an iterable, a row that comes too late raises DataError, which names the lateness that would
    accept it. ``progress`` is called with the number of rows read so far. ``threads`` read and
    summarise, None for all cores that this process may use; answers do not depend on it.

    >>> import skyband as sb
    >>> flows = pa.table({"flow": ["a", "b", "c"], "bytes": [10, 30, 20]})
    >>> query = sb.TopK(k=2, score="bytes", id="flow", window=sb.CountWindow(3))
    >>> sb.rank(flows, query)["flow"].to_pylist()
    ['b', 'c']
    """
    return rank_with(new_session(query, on_bad, None, threads), source, progress)


def rank_with(session: Session, source: Any, progress: Progress | None = None) -> pa.Table:
    """Like ``rank``, with a new session from the caller, who can then read its stats."""
    query = session.query
    session.late_is_sorted = _all_files(source)
    try:
        tables = _tables(source, session, progress)
    except OutOfOrder:
        # Statistics could not tell. Nothing was returned yet, so sort the files and start again.
        session.restart()
        session.late_is_sorted = False
        tables = _tables(source, session, progress, late=True)
    schema = session.schema
    table = (
        pa.concat_tables([t.cast(schema) if t.schema != schema else t for t in tables])
        if tables
        else schema.empty_table()
    )
    if isinstance(query.window, CountWindow) and query.groups:
        # Groups complete their windows at different times, so windows are out of order.
        names = ["window_end", *query.groups]
        order = order_by_value(
            [table[name].combine_chunks() for name in names] + [pa.array(np.arange(table.num_rows))]
        )
        table = table.take(pa.array(order))
    return table


def tables_with(
    session: Session, source: Any, progress: Progress | None = None
) -> Iterator[pa.Table]:
    """Like ``watch_with``, but all answers of a push in one table."""
    return (answers.table for answers in _run(source, session, progress))


def _tables(
    source: Any, session: Session, progress: Progress | None, late: bool = False
) -> list[pa.Table]:
    found = _run(source, session, progress, sorts=True, late=late)
    return [answers.table for answers in found if len(answers.table)]


def _all_files(source: Any) -> bool:
    """Whether a source, or each of several, is files, which can be read again."""
    sources = source.values() if isinstance(source, Mapping) else [source]
    return all(is_files(each) or is_table(each) for each in sources)


def watch(
    source: Source | Mapping[str, Source],
    query: Query,
    on_bad: str = "raise",
    idle: Duration | float | None = None,
    threads: int | None = None,
) -> Iterator[Answer]:
    """Yield answers as they become due, over any source; a finite source is flushed at its end.

    Files are read in the order of their times, but a file that is out of order by itself is not
    sorted: a row that comes too late raises DataError. ``threads`` as for ``rank``.
    """
    return watch_with(new_session(query, on_bad, idle, threads), source)


def watch_with(session: Session, source: Any, progress: Progress | None = None) -> Iterator[Answer]:
    """Like ``watch``, with a new session from the caller."""
    return (answer for answers in _run(source, session, progress) for answer in answers.views())


def _run(
    source: Any,
    session: Session,
    progress: Progress | None,
    sorts: bool = False,
    late: bool = False,
) -> Iterator[Answers]:
    several = isinstance(source, Mapping)
    session.query.check_sources(source if several else None)
    # Tables are sorted first, so nothing in them is late.
    session.in_order = all(is_table(each) for each in (source.values() if several else [source]))
    session.late_is_an_error = not session.in_order
    read_one = partial(_batches, session, sorts=sorts, late=late)
    read = 0
    steps = _several(source, session, read_one) if several else _single(source, session, read_one)
    for step in steps:
        try:
            answers = step()
        except DataError:
            if is_table(source):
                # The piece was cut from a table, which may have been sorted: check the whole table
                # again, so that the error names its row numbers.
                session.refuse_bad(as_table(source))
            raise
        if answers is not None and len(answers):
            yield answers
        if progress is not None and session.rows["rows_in"] > read:
            read = session.rows["rows_in"]
            progress(read)


def _single(source: Any, session: Session, read: Read) -> Iterator[Step]:
    """Push every batch, then flush."""
    for batch in read(source, None):
        yield partial(session.push, batch)
    yield session.flush


def _several(sources: Mapping[str, Any], session: Session, read: Read) -> Iterator[Step]:
    """Push batches, always from the source that is furthest behind; end exhausted sources."""
    query = session.query
    streams = {name: read(source, name) for name, source in sources.items()}
    ended = [name for name in query.sources if name not in streams]
    while streams:
        name = session.furthest_behind(list(streams))
        batch = next(streams[name], None)
        if batch is None:
            del streams[name]
            ended.append(name)
        else:
            yield partial(session.push, {name: batch})
        if session.bound:
            for gone in ended:
                yield partial(session.end, gone)
            ended = []
    yield session.flush


def _batches(
    session: Session, source: Any, name: str | None, sorts: bool, late: bool
) -> Iterator[Any]:
    """The batches of a source; a table is sorted by time and cut into pieces."""
    query = session.query
    if not is_table(source):
        time = None if isinstance(query.window, CountWindow) else query.time_of(name)
        needed = partial(session.needed, name or ONLY)
        threads = session.workers.threads
        yield from batches_of(source, Reading(needed, threads, time, query.window, sorts, late))
        return
    whole = as_table(source)
    yield whole.slice(0, 0)  # so that its columns are known
    names = session.needed(name or ONLY, whole.schema)
    table = _in_time(whole if names is None else whole.select(names), query, name)
    rows = _piece_rows(query)
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _in_time(table: pa.Table, query: Query, source: str | None) -> pa.Table:
    """The table sorted by time, if the query has a time window."""
    if isinstance(query.window, CountWindow) or not table.num_rows:
        return table
    name = query.time_of(source)
    if name is None or table.schema.get_field_index(name) < 0:  # missing, or ambiguous
        return table
    axis = TimeAxis(name, table.schema.field(name).type, query.window)
    return sorted_by(table, name, axis.ticks)


def _piece_rows(query: Query) -> int:
    most = _MOST_ROWS_GROUPED if query.groups else _MOST_ROWS
    if not isinstance(query.window, CountWindow):
        return most
    shown = getattr(query, "k", 1)
    return min(max(_MOST_ANSWERS * query.window.panes.slide // shown, 1 << 14), most)
