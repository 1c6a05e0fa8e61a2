"""``rank`` and ``watch``: a query over a source, embedded in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answer, Answers
from skyband.data.order import order_by_value
from skyband.data.time_axis import TimeAxis
from skyband.embedded.monitor import Monitor
from skyband.embedded.sources import batches_of, is_table, sorted_by
from skyband.engine.intake import as_table
from skyband.errors import DataError, SchemaError
from skyband.query import Query
from skyband.window import CountWindow, Duration

__all__ = ["rank", "rank_with", "watch", "watch_with"]

Progress = Callable[[int], None]

# Arrays of answers past 32 MB are given back to the system and paged in again each time.
_MOST_ANSWERS = 1 << 19


def rank(
    source: Any, query: Query, on_bad: str = "raise", progress: Progress | None = None
) -> pa.Table:
    """Every answer of a query over a finite source, as one table.

    A single table is sorted by time first; over a path or an iterable a row that comes too late is
    an error that says which lateness would do. ``progress`` is told the rows read so far.

    >>> import skyband as sb
    >>> flows = pa.table({"flow": ["a", "b", "c"], "bytes": [10, 30, 20]})
    >>> query = sb.TopK(k=2, score="bytes", id="flow", window=sb.CountWindow(3))
    >>> sb.rank(flows, query)["flow"].to_pylist()
    ['b', 'c']
    """
    return rank_with(Monitor(query, on_bad=on_bad), source, progress)


def rank_with(monitor: Monitor, source: Any, progress: Progress | None = None) -> pa.Table:
    """As ``rank``, with a fresh Monitor of the caller's, whose stats tell what was left out."""
    query = monitor.query
    tables = [answers.table for answers in _run(source, monitor, progress) if len(answers.table)]
    schema = _schema(monitor)
    table = (
        pa.concat_tables([t.cast(schema) if t.schema != schema else t for t in tables])
        if (tables)
        else schema.empty_table()
    )
    if isinstance(query.window, CountWindow) and query.groups:
        # Groups complete their windows at different times, so pushes interleave.
        names = ["window_end", *query.groups]
        order = order_by_value(
            [table[name].combine_chunks() for name in names] + [pa.array(np.arange(table.num_rows))]
        )
        table = table.take(pa.array(order))
    return table


def watch(
    source: Any, query: Query, on_bad: str = "raise", idle: Duration | float | None = None
) -> Iterator[Answer]:
    """Answers as they come, over a source of any kind; a finite one is flushed at its end."""
    return watch_with(Monitor(query, on_bad=on_bad, idle=idle), source)


def watch_with(monitor: Monitor, source: Any, progress: Progress | None = None) -> Iterator[Answer]:
    """As ``watch``, with a fresh Monitor of the caller's."""
    return (answer for answers in _run(source, monitor, progress) for answer in answers.views())


def _run(source: Any, monitor: Monitor, progress: Progress | None) -> Iterator[Answers]:
    query = monitor.query
    sources = source.values() if isinstance(source, Mapping) else [source]
    # Tables are sorted first.
    monitor._intake.in_order = all(is_table(each) for each in sources)
    monitor._raise_late = not monitor._intake.in_order
    rows = 0
    if isinstance(source, Mapping):
        steps = _several(source, monitor)
    elif query.needs_mapping:
        raise SchemaError(
            f"{query.kind} reads several streams; give a mapping such as "
            f"{{{', '.join(f'{name!r}: ...' for name in query.sources)}}}"
        )
    else:
        steps = _single(source, monitor)
    for step in steps:
        try:
            answers = step if isinstance(step, Answers) else monitor._push(step)
        except DataError:
            if is_table(source):
                # The piece was cut from a table, maybe sorted: tell the rows by the table's own.
                monitor._intake.refuse_bad(as_table(source))
            raise
        if answers is not None and len(answers):
            yield answers
        if progress is not None and not isinstance(step, Answers):
            rows = int(monitor.stats()["rows_in"])
            progress(rows)
    answers = monitor._flush()
    if answers is not None and len(answers):
        yield answers


def _single(source: Any, monitor: Monitor) -> Iterator[Any]:
    if is_table(source):
        yield from _slices(_in_time(as_table(source), monitor.query, None), monitor)
    else:
        yield from batches_of(source)


def _in_time(table: pa.Table, query: Query, source: str | None) -> pa.Table:
    """A table in order of time, where the query's windows are of time."""
    if isinstance(query.window, CountWindow) or not table.num_rows:
        return table
    name = query.time_of(source)
    if name is None or table.schema.get_field_index(name) < 0:  # absent, or there twice
        return table
    axis = TimeAxis(name, table.schema.field(name).type, query.window)
    return sorted_by(table, name, axis.ticks)


def _slices(table: pa.Table, monitor: Monitor) -> Iterator[pa.Table]:
    """Pieces of a table; an empty one is one piece, for its columns."""
    query = monitor.query
    if not table.num_rows:
        yield table
    size = monitor._synopsis.most_rows
    if isinstance(query.window, CountWindow):
        shown = getattr(query, "k", 1)
        size = min(max(_MOST_ANSWERS * query.window.panes.slide // shown, 1 << 14), size)
    for batch in table.to_batches(max_chunksize=size):
        yield pa.Table.from_batches([batch])


def _several(sources: Mapping[str, Any], monitor: Monitor) -> Iterator[Any]:
    """Batches of several sources, always from the one that is furthest behind."""
    query = monitor.query
    missing = [name for name in query.sources if name not in sources]
    if not query.sources:
        raise SchemaError(f"{query.kind} over this window reads one source, not a mapping")
    if query.needs_mapping and missing:
        raise SchemaError(f"source {missing[0]!r} is missing; the query reads {query.sources}")
    unknown = [name for name in sources if name not in query.sources]
    if unknown:
        raise SchemaError(f"unknown source {unknown[0]!r}; the query reads {query.sources}")
    streams: dict[str, Iterator[Any]] = {}
    for name, source in sources.items():
        if is_table(source):
            streams[name] = _slices(_in_time(as_table(source), query, name), monitor)
        else:
            streams[name] = batches_of(source)
    ended = [name for name in query.sources if name not in streams]
    while streams:
        seen = {} if monitor._fold is None else monitor._fold.time.seen
        name = min(streams, key=lambda n: (seen.get(n) is not None, seen.get(n) or 0))
        table = next(streams[name], None)
        if table is None:
            del streams[name]
            ended.append(name)
        else:
            yield {name: table}
        if monitor._fold is not None:
            for gone in ended:
                answers = monitor._end_source(gone)
                if answers is not None:
                    yield answers
            ended = []


def _schema(monitor: Monitor) -> pa.Schema:
    """Columns of the answers; where a source has shown no types they are of type null.

    Of a source without any batch an answer has the columns that the query names.
    """
    query, fold, intake = monitor.query, monitor._fold, monitor._intake
    if fold is not None and not (query.needs_mapping and set(query.sources) - set(intake.bound)):
        return fold.schema()
    known = {} if fold is None else {field.name: field.type for field in fold.schema()}
    known["rank"] = pa.int32()
    if isinstance(query.window, CountWindow) or query.window.integer:
        known |= {"window_start": pa.int64(), "window_end": pa.int64()}
    seen = [name for schema in intake.untyped.values() for name in schema.names]
    names = query.answer_names(seen)
    return pa.schema([(name, known.get(name, pa.null())) for name in names])
