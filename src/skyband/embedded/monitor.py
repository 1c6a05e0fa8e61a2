"""The embedded engine: push rows, get answers, of one query or of a board of queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answer, Answers, Position
from skyband.data.columns import is_rows, table_of_rows, to_arrow
from skyband.embedded.left_out import left_out
from skyband.embedded.snapshots import (
    BoardDiff,
    MakeSession,
    restored,
    resumed,
    snapshot_of,
)
from skyband.engine.board import BoardSession
from skyband.engine.fold import folds_of
from skyband.engine.session import ONLY, LateRows, Session, Workers, thread_count
from skyband.errors import QueryError, did_you_mean
from skyband.query import Query
from skyband.query.board import Board, board_of
from skyband.query.checks import OnBad, one_of
from skyband.window import Duration, parse_duration

Late = Literal["count", "raise"] | Callable[[pa.Table], object]


def new_board(
    query: Query | Board,
    on_bad: str = "raise",
    idle: Duration | float | None = None,
    threads: int | None = None,
    positions: bool = False,
) -> BoardSession:
    """Sessions of a query or a board, after checking the user's arguments.

    ``positions`` says that the position of any id may be asked for, which can take more memory.
    """
    queries = board_of(query, on_bad)
    seconds = _seconds(idle)
    # A source that falls silent does so at a moment of its own for each query.
    folds = folds_of(queries) if seconds is None else [[name] for name in queries]
    make = _session_maker(threads, positions)
    made = [make({n: queries[n] for n in names}, on_bad=on_bad, idle=seconds) for names in folds]
    return BoardSession(made, list(queries))


def _session_maker(threads: int | None, positions: bool) -> MakeSession:
    """What makes the sessions of a monitor, which share their threads."""
    return partial(Session, workers=Workers(thread_count(threads)), positions=positions)


class Monitor:
    """Answers a query, or a board of queries, over rows that are pushed to it.

    Args:
        query: A query, or a board: a mapping from names to queries.
        on_bad: ``"raise"``, or ``"skip"`` to leave out and count bad rows.
        idle: After how long without rows a source no longer holds back the others.
        threads: How many threads summarise large batches; by default one per core.
        late: ``"count"`` late rows, ``"raise"`` an error, or a function that receives them.

    An error leaves the monitor as it was before the push. A snapshot can be taken at any time and
    restored in another process, which continues as if nothing had happened.

    A late row is left out and counted, whatever ``on_bad`` says, and so is a row in no window.
    After ``flush``, rows of the windows that it answered are late. ``stats`` and the ``repr`` say
    how many rows were left out. With ``late="raise"``, a push with a late row fails as a whole. A
    function receives the late rows of each push (and source) as one table with all columns; if it
    raises an error, the push fails.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="score", id="id", window=sb.CountWindow(3, slide=2))
    >>> monitor = sb.Monitor(query)
    >>> batch = pa.table({"id": ["a", "b", "c", "d"], "score": [3.0, 9.0, 5.0, 7.0]})
    >>> [answer.table["id"].to_pylist() for answer in monitor.push(batch)]
    [['b'], ['b']]

    The answers of a board come query by query, in order of windows.

    >>> last = sb.TopK(k=1, score="score", id="id", window=sb.CountWindow(1, slide=4))
    >>> monitor = sb.Monitor({"best": query, "last": last})
    >>> [(answer.name, answer.table["id"].to_pylist()) for answer in monitor.push(batch)]
    [('best', ['b']), ('best', ['b']), ('last', ['d'])]

    A function can keep late rows elsewhere:

    >>> query = sb.TopK(k=1, score="score", time="t", window=sb.TimeWindow(10))
    >>> monitor = sb.Monitor(query, late=lambda rows: print(rows.to_pylist()))
    >>> _ = monitor.push(pa.table({"t": [3, 12], "score": [1.0, 2.0]}))
    >>> _ = monitor.push(pa.table({"t": [4, 13], "score": [9.0, 8.0]}))
    [{'t': 4, 'score': 9.0}]
    """

    def __init__(
        self,
        query: Query | Board,
        on_bad: OnBad = "raise",
        idle: Duration | float | None = None,
        threads: int | None = None,
        late: Late = "count",
    ) -> None:
        self.board = new_board(query, on_bad, idle, threads, positions=True)
        _treat_late(self.board, late)

    @property
    def session(self) -> Session:
        """The session of the only query."""
        (session,) = self.board.sessions
        return session

    @property
    def query(self) -> Any:
        """The query, or the board as a dict of queries."""
        return self.board.queries[None] if self.board.alone else self.board.queries

    def __dir__(self) -> list[str]:
        """List what is of use to people; sessions are for tests and jobs."""
        hidden = ("board", "session")
        return [n for n in dir(type(self)) if not n.startswith("_") and n not in hidden]

    def __repr__(self) -> str:
        kinds = {name: query.kind for name, query in self.board.queries.items()}
        named = [kind if name is None else f"{name} ({kind})" for name, kind in kinds.items()]
        stats = self.stats()
        counts = f"{stats['rows_in']:,} rows in, {stats['windows_out']:,} windows out"
        missing = left_out(self.board, reasons=False)
        return f"<Monitor of {', '.join(named)}: {counts}{missing and '; '}{missing}>"

    def push(self, batch: Any) -> list[Answer]:
        """Add a batch of rows and return the answers of all windows that have ended.

        A batch is a table of any kind or a list of dicts. For several streams, pass a mapping from
        source to batch.
        """
        if isinstance(batch, Mapping):
            batch = {source: self._table(source, rows) for source, rows in batch.items()}
        elif isinstance(batch, list) and not batch:
            return []
        else:
            batch = self._table(ONLY, batch)
        return _views(self.board.push(batch))

    def _table(self, source: str, batch: Any) -> Any:
        """Rows as dicts in the types of earlier rows; any other batch as it is."""
        if not is_rows(batch):
            return batch
        bound = (each.intake.bound.get(source, ()) for each in self.board.sessions)
        return table_of_rows(batch, {field.name: field.type for fs in bound for field in fs})

    def flush(self) -> list[Answer]:
        """End the stream: answer all windows up to the first that ends after the last row."""
        return _views(self.board.flush())

    def peek(self, name: str | Duration | None = None, last: Duration | None = None) -> Answer:
        """Return the answer as of now, over sealed panes, or over the ``last`` part of the window.

        On a board, ``name`` is the query to read; without a board, the first argument is ``last``.

        The answer covers ``[start, end)``: ``end`` is the end of the last sealed pane, and
        ``start`` the first edge between panes at or after ``end - size``, or ``end - last``. Over a
        count window, each group has a window of its own, shown in the columns ``window_start`` and
        ``window_end``; the answer's ``start`` is then the least start, its ``end`` the greatest
        end, and its ``total`` the sum over all groups.
        """
        if self.board.alone:
            if name is not None and last is not None:
                raise QueryError("this monitor has one query, which has no name; give only last=")
            known: str | None = None
            last = name if last is None else last
        else:
            known = self._known(name)
        window = self.board.queries[known].window
        size = None if last is None else window.ticks(last, "last")
        if size is not None and window.panes.sized and not 0 < size <= window.panes.size:
            raise QueryError(f"last must be positive and at most the window's size, not {last!r}")
        return Answer(self.board.peek(known, size), 0)

    def position(self, id: Any, group: Any = (), name: str | None = None) -> Position | None:
        """Return where an id or item stands now: its rank, its score or count, and out of how many.

        All ids are ranked, not only the best k, over the window that ``peek`` reads. If the query
        has ``by``, pass the value of the group, or a tuple of values; for an item of several
        columns, pass a tuple. On a board, ``name`` is the query to read. Return None for an id that
        is not live. Works for ``HeavyHitters(algorithm="exact")`` and ``TopK(distinct=...)``.

        >>> import pyarrow as pa, skyband as sb
        >>> query = sb.TopK(k=1, score="x", id="who", distinct="best", window=sb.CountWindow(3))
        >>> monitor = sb.Monitor(query)
        >>> _ = monitor.push(pa.table({"who": ["ann", "bob", "ann"], "x": [3, 4, 5]}))
        >>> monitor.position("bob")
        Position(rank=2, value=4, of=2)
        """
        return self.board.position(None if self.board.alone else self._known(name), id, group)

    def _known(self, name: object) -> str:
        if not isinstance(name, str) or name not in self.board.queries:
            known = ", ".join(repr(each) for each in self.board.queries)
            meant = did_you_mean(name, self.board.queries)
            raise QueryError(f"the board has no query {name!r}; name one of {known}{meant}")
        return name

    def stats(self) -> dict[str, Any]:
        """Return counts: rows read and left out, windows answered, size of the state, operations.

        On a board, the counts of each query stand under its name. Beside them, ``rows_in`` counts
        each row of the sources once, and ``windows_out``, ``retained`` and ``state_bytes`` are
        sums over all queries.
        """
        return self.board.stats()

    def snapshot(self) -> bytes:
        """Return all that is needed to continue in another process, as bytes, without pickle."""
        return snapshot_of(self.board)

    @classmethod
    def restore(
        cls, blob: bytes, threads: int | None = None, late: Late | None = None, **given: Any
    ) -> Monitor:
        """Rebuild a monitor from a snapshot.

        A snapshot cannot hold functions. If ``late`` was a function, pass it again; otherwise
        ``late`` stays as it was unless you pass another. If the query's ``combine`` was a function,
        pass the same one as ``combine=``; for a board, pass a mapping from the names of such
        queries to their functions.
        """
        monitor = cls.__new__(cls)
        monitor.board = restored(blob, _session_maker(threads, positions=True), given)
        if late is not None:
            _treat_late(monitor.board, late)
        return monitor

    @classmethod
    def resume(
        cls, blob: bytes, query: Query | Board, on_bad: OnBad = "raise"
    ) -> tuple[Monitor, BoardDiff]:
        """Continue from a snapshot with a board of other queries; also return what has changed.

        Queries in the snapshot continue. A new query begins with the first window that starts at or
        after the greatest time seen. Queries that are not on the board are dropped.
        """
        monitor = cls.__new__(cls)
        make = _session_maker(None, positions=True)
        monitor.board, diff = resumed(blob, query, make, on_bad)
        return monitor, diff

    def _check(self) -> None:
        """Assert every invariant; only tests call it."""
        self.board.check()


def _treat_late(board: BoardSession, late: Late) -> None:
    """Say what becomes of late rows, after checking the user's argument."""
    if not callable(late):
        one_of("late", late, ("count", "raise"))
    for session in board.sessions:
        session.late_is_an_error = late == "raise"
    board.tell_late(partial(_give_late, late) if callable(late) else None)


def _give_late(
    function: Callable[[pa.Table], object], table: pa.Table, late: Sequence[LateRows]
) -> None:
    rows = np.unique(np.concatenate([each.numbers for each in late]))
    function(table.take(to_arrow(rows)))


def _views(answers_of_queries: list[Answers]) -> list[Answer]:
    return [answer for answers in answers_of_queries for answer in answers.views()]


def _seconds(idle: Duration | float | None) -> float | None:
    if idle is None:
        return None
    text = isinstance(idle, (str, timedelta, np.timedelta64))
    seconds = parse_duration(idle, "idle") / 1e6 if text else float(idle)  # type: ignore[arg-type]
    if not np.isfinite(seconds) or seconds <= 0:
        raise QueryError(f"idle must be a positive duration, not {idle!r}")
    return seconds
