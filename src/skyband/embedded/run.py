"""``rank`` and ``watch``: run a query or a board of queries over a source in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answer, Answers
from skyband.answers.changes import ALERTS, Kinds
from skyband.data.columns import as_table, empty_table, to_arrow
from skyband.data.order import order_by_value
from skyband.data.time_forms import TimeForm
from skyband.embedded.left_out import Watch, warn_of_left_out, with_left_out
from skyband.embedded.monitor import new_board
from skyband.embedded.progress import Progress, ProgressBar, progress_of
from skyband.embedded.sources import (
    ReadSettings,
    Source,
    batches_of,
    in_time_order,
    is_files,
    is_table,
)
from skyband.engine.board import BoardSession
from skyband.engine.session import ONLY, OutOfOrder
from skyband.errors import DataError
from skyband.query import Query
from skyband.query.base import REVISION
from skyband.query.board import Board
from skyband.query.checks import OnBad, one_of
from skyband.window import CountWindow, Duration

Step = Callable[[], list[Answers]]
Read = Callable[[Any, str | None], Iterator[dict[str | None, Any]]]
Sources: TypeAlias = "Source | Mapping[str, Source]"

_MOST_ROWS = 1 << 22
"""Rows per push: large, because each push costs a few hundred microseconds in Python."""
_MOST_ROWS_GROUPED = 1 << 20
"""Fewer rows per push with groups: their answers can be many times larger than the rows."""
_MOST_ANSWERS = 1 << 19
"""Answers per push: arrays above 32 MB are returned to the system and paged in again each time."""


@overload
def rank(
    source: Sources,
    query: Query,
    on_bad: OnBad = "raise",
    progress: bool | Progress | None = None,
    threads: int | None = None,
    total: bool = False,
) -> pa.Table: ...


@overload
def rank(
    source: Sources,
    query: Board,
    on_bad: OnBad = "raise",
    progress: bool | Progress | None = None,
    threads: int | None = None,
    total: bool = False,
) -> dict[str, pa.Table]: ...


def rank(
    source: Sources,
    query: Query | Board,
    on_bad: OnBad = "raise",
    progress: bool | Progress | None = None,
    threads: int | None = None,
    total: bool = False,
) -> pa.Table | dict[str, pa.Table]:
    """Answer a query over a finite source; return every answer in one table.

    For a board of queries, return a dict of tables by name; the source is read once for all.

    Args:
        source: A table, a path or glob, an iterable of those, or a mapping for several streams.
        query: A query, or a board: a mapping from names to queries.
        on_bad: ``"raise"``, or ``"skip"`` to leave out bad and late rows and warn once.
        progress: Whether to show a bar after two seconds; by default only in notebooks and at
            prompts. A function is called with the number of rows read so far.
        threads: How many threads read and summarise; by default one per core.
        total: Add a last column ``total``: the rows, or the weight, of the window and group.

    Over a time window, a table is sorted by time first. Files are read in the order of their times
    (from Parquet's statistics, otherwise by name) and sorted if they are out of order. In an
    iterable, a row that comes too late raises DataError, which says what lateness would accept it.
    The SkybandWarning of ``on_bad="skip"`` says how many rows were left out and why; so does the
    table's schema metadata, as JSON under ``skyband``.

    >>> import skyband as sb
    >>> flows = pa.table({"flow": ["a", "b", "c"], "bytes": [10, 30, 20]})
    >>> query = sb.TopK(k=2, score="bytes", id="flow", window=sb.CountWindow(3))
    >>> sb.rank(flows, query)["flow"].to_pylist()
    ['b', 'c']
    >>> sb.rank(flows, {"busiest": query})["busiest"]["flow"].to_pylist()
    ['b', 'c']
    """
    board = new_board(query, on_bad, None, threads)
    for session in board.sessions:
        session.total = total
    told = progress_of(progress, board, source)
    try:
        tables = rank_board(board, source, told)
    finally:
        if isinstance(told, ProgressBar):
            told.close()
    warn_of_left_out(board)
    return tables[None] if board.alone else {str(name): table for name, table in tables.items()}


def rank_board(
    board: BoardSession, source: Any, progress: Progress | None = None
) -> dict[str | None, pa.Table]:
    """Like ``rank``, with a new board session from the caller."""
    for session in board.sessions:
        session.late_is_sorted = _all_files(source)
    try:
        tables = _collected(source, board, progress)
    except OutOfOrder:
        # Statistics could not tell. Nothing was returned yet, so sort the files and start again.
        board.restart()
        for session in board.sessions:
            session.late_is_sorted = False
        tables = _collected(source, board, progress, late=True)
    if is_table(source):
        board.find_reasons(as_table(source))
    return {name: _table(board, name, pieces) for name, pieces in tables.items()}


def _collected(
    source: Any, board: BoardSession, progress: Progress | None, late: bool = False
) -> dict[str | None, list[pa.Table]]:
    tables: dict[str | None, list[pa.Table]] = {name: [] for name in board.queries}
    for answers in _run(source, board, progress, sorts=True, late=late):
        if len(answers.table):
            tables[answers.name].append(answers.table)
    return tables


def _table(board: BoardSession, name: str | None, tables: list[pa.Table]) -> pa.Table:
    """The answers of all pushes as one table, in the order of windows."""
    query, schema = board.queries[name], board.schema(name)
    alike = [t.cast(schema) if t.schema != schema else t for t in tables]
    table = pa.concat_tables(alike) if alike else empty_table(schema)
    names = []
    if isinstance(query.window, CountWindow) and query.groups:
        # Groups complete their windows at different times, so windows are out of order.
        names = ["window_end", *query.groups]
    elif REVISION in query.window_columns:  # corrections come later than their windows
        names = ["window_end", REVISION]
    if names:
        order = order_by_value(
            [table[name].combine_chunks() for name in names] + [to_arrow(np.arange(table.num_rows))]
        )
        table = table.take(to_arrow(order))
    return with_left_out(table, board.session_of(name))


def tables_of(
    board: BoardSession, source: Any, progress: Progress | None = None
) -> Iterator[pa.Table]:
    """Like ``watch_board``, but all answers of a push in one table."""
    return (answers.table for answers in _run(source, board, progress))


def _all_files(source: Any) -> bool:
    """Whether a source, or each of several, is files, which can be read again."""
    sources = source.values() if isinstance(source, Mapping) else [source]
    return all(is_files(each) or is_table(each) for each in sources)


def watch(
    source: Sources,
    query: Query | Board,
    on_bad: OnBad = "raise",
    idle: Duration | float | None = None,
    only: Literal["changes"] | None = None,
    threads: int | None = None,
) -> Watch:
    """Yield answers as windows end, over any source; the end of a finite source ends all windows.

    Args:
        source: As for ``rank``, or an iterable that never ends.
        query: A query, or a board: a mapping from names to queries.
        on_bad: ``"raise"``, or ``"skip"`` to leave out and count bad and late rows.
        idle: After how long without rows a source no longer holds back the others.
        only: ``"changes"``: yield only answers in which something entered or left; their
            ``changes`` list just that, followed by the other columns of each row.
        threads: How many threads read and summarise; by default one per core.

    On a board, the answers of one batch come query by query, in order of windows; ``Answer.name``
    is the name of the query. Files are read in the order of their times, but a file that is out of
    order in itself is not sorted: a row that comes too late raises DataError. The iterator's
    ``stats()`` says how many rows have been read and left out so far.
    """
    if only is not None:
        one_of("only", only, ("changes",))
    kinds = None if only is None else ALERTS
    board = new_board(query, on_bad, idle, threads)
    return Watch(board, watch_board(board, source, only=kinds))


def watch_board(
    board: BoardSession, source: Any, progress: Progress | None = None, only: Kinds | None = None
) -> Iterator[Answer]:
    """Like ``watch``, with a new board session from the caller.

    ``only`` gives the answers with changes of these kinds.
    """
    for answers in _run(source, board, progress):
        yield from answers.views() if only is None else answers.alerts(only)


def _run(
    source: Any,
    board: BoardSession,
    progress: Progress | None,
    sorts: bool = False,
    late: bool = False,
) -> Iterator[Answers]:
    several = isinstance(source, Mapping)
    board.check_sources(source if several else None)
    # Tables are sorted first, so nothing in them is late.
    in_order = all(is_table(each) for each in (source.values() if several else [source]))
    for session in board.sessions:
        session.in_order = in_order
        session.late_is_an_error = not in_order and session.on_bad != "skip"
    read = 0
    read_one = partial(_batches, board, sorts, late)
    for step in (_several if several else _single)(source, board, read_one):
        try:
            answers = step()
        except DataError:
            if is_table(source):
                # The piece was cut from a table, which may have been sorted: check the whole table
                # again, so that the error names its row numbers.
                board.refuse_bad(as_table(source))
            raise
        yield from answers
        if progress is not None and board.rows_in > read:
            read = board.rows_in
            progress(read)


def _single(source: Any, board: BoardSession, read: Read) -> Iterator[Step]:
    """Push every batch, then flush."""
    for batches in read(source, None):
        yield partial(board.push_each, batches)
    yield board.flush


def _several(sources: Mapping[str, Any], board: BoardSession, read: Read) -> Iterator[Step]:
    """Push batches, always from the source that is furthest behind; end exhausted sources."""
    streams = {name: read(source, name) for name, source in sources.items()}
    named = [source for query in board.queries.values() for source in query.sources]
    ended = [name for name in dict.fromkeys(named) if name not in streams]
    while streams:
        name = board.in_turn(streams)[0]
        batches = next(streams[name], None)
        if batches is None:
            del streams[name]
            ended.append(name)
        else:
            yield partial(board.push_each, {q: {name: batch} for q, batch in batches.items()})
        for gone in ended:
            if board.awaits(gone):
                yield partial(board.end, gone)
    yield board.flush


def _batches(
    board: BoardSession, sorts: bool, late: bool, source: Any, name: str | None
) -> Iterator[dict[str | None, Any]]:
    """The batches of a source, for each query that reads it.

    A table is sorted by time and cut into pieces. If queries ask for different orders of a table or
    of files, each gets its own; the batches of all of them are pushed side by side.
    """
    queries = {q: query for q, query in board.queries.items() if name in (None, *query.sources)}
    if not (is_table(source) or is_files(source)):
        reading = ReadSettings(partial(_needed, board, queries, name), _threads(board))
        for batch in batches_of(source, reading):
            yield dict.fromkeys(queries, batch)
        return
    orders: dict[tuple[str | None, TimeForm | None], list[str | None]] = {}
    for each, query in queries.items():
        orders.setdefault((_order(query, name), TimeForm.of_query(query)), []).append(each)
    streams = []
    for (time, form), names in orders.items():
        needed = partial(_needed, board, names, name)
        window = queries[names[0]].window
        reading = ReadSettings(needed, _threads(board), time, window, form, sorts, late=late)
        rows = min(_piece_rows(query) for query in queries.values())
        found = _pieces(source, reading, rows) if is_table(source) else batches_of(source, reading)
        streams.append(found)
    for side_by_side in zip_longest(*streams):
        sides = zip(orders.values(), side_by_side, strict=True)
        yield {each: piece for names, piece in sides if piece is not None for each in names}


def _threads(board: BoardSession) -> int:
    return board.sessions[0].workers.threads


def _needed(
    board: BoardSession, names: Iterable[str | None], source: str | None, schema: pa.Schema
) -> tuple[str, ...] | None:
    """The columns that some queries of a board need of a source; None for all of them."""
    each = [board.session_of(name).needed(source or ONLY, schema) for name in names]
    known = [columns for columns in each if columns is not None]
    if len(known) < len(each):
        return None
    wanted = set(chain(*known))
    return tuple(name for name in schema.names if name in wanted)


def _order(query: Query, source: str | None) -> str | None:
    """The column by which a query's rows are sorted; None for the order of arrival."""
    return None if isinstance(query.window, CountWindow) else query.time_of(source)


def _pieces(source: Any, reading: ReadSettings, rows: int) -> Iterator[pa.Table]:
    """A table with the needed columns, in order of time, in pieces of so many rows."""
    table = as_table(source)
    names = reading.needed(table.schema)
    table = in_time_order(table if names is None else table.select(names), reading)
    for start in range(0, max(table.num_rows, 1), rows):
        yield table.slice(start, rows)


def _piece_rows(query: Query) -> int:
    most = _MOST_ROWS_GROUPED if query.groups else _MOST_ROWS
    if not isinstance(query.window, CountWindow):
        return most
    shown = getattr(query, "k", 1)
    return min(max(_MOST_ANSWERS * query.window.panes.slide // shown, 1 << 14), most)
