"""The embedded engine: push rows, get answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np

from skyband.answers.answer import Answer, Answers
from skyband.answers.position import Position
from skyband.data.packing import pack, schema_from_array, schema_to_array, under, unpack
from skyband.engine.session import Session
from skyband.errors import EngineError, QueryError
from skyband.query import Query, from_spec
from skyband.query.base import check_query
from skyband.window import Duration, parse_duration

__all__ = ["Monitor", "new_session"]

SNAPSHOT_VERSION = 1


def new_session(
    query: Query,
    on_bad: str = "raise",
    idle: Duration | float | None = None,
    positions: bool = False,
) -> Session:
    """A session of a query, after checking the user's arguments.

    ``positions`` says that the position of any id may be asked for, which can take more memory.
    """
    check_query(query, on_bad)
    return Session(query, on_bad, _seconds(idle), positions=positions)


class Monitor:
    """Answers one query over rows that are pushed to it.

    An error leaves it as it was before the push. A snapshot can be taken at any time and restored
    in another process, which continues as if nothing had happened.

    >>> import pyarrow as pa, skyband as sb
    >>> query = sb.TopK(k=1, score="score", id="id", window=sb.CountWindow(3, slide=2))
    >>> monitor = sb.Monitor(query)
    >>> batch = pa.table({"id": ["a", "b", "c", "d"], "score": [3.0, 9.0, 5.0, 7.0]})
    >>> [answer.table["id"].to_pylist() for answer in monitor.push(batch)]
    [['b'], ['b']]
    """

    def __init__(
        self, query: Query, on_bad: str = "raise", idle: Duration | float | None = None
    ) -> None:
        self.session = new_session(query, on_bad, idle, positions=True)

    @property
    def query(self) -> Query:
        return self.session.query

    def push(self, batch: Any) -> list[Answer]:
        """Take a batch and return the answers that are due.

        For several streams, pass a mapping from source to batch.
        """
        return _views(self.session.push(batch))

    def flush(self) -> list[Answer]:
        """End the stream: answer all windows up to the first window end after the last row."""
        return _views(self.session.flush())

    def peek(self, last: Duration | None = None) -> Answer:
        """The answer as of now, over sealed panes; ``last`` asks for a shorter window.

        It covers ``[start, end)``: ``end`` is the end of the last sealed pane, ``start`` the first
        cut between panes at or after ``end - size``, or ``end - last``. Each group of a count
        window has its own window, shown in the columns ``window_start`` and ``window_end``. The
        answer's ``start`` is then the least start, its ``end`` the greatest end, and its ``total``
        the sum over all groups.
        """
        window = self.query.window
        size = None if last is None else window.ticks(last, "last")
        if size is not None and not 0 < size <= window.panes.size:
            raise QueryError(f"last must be positive and at most the window's size, not {last!r}")
        return Answer(self.session.peek(size), 0)

    def position(self, id: Any, group: Any = ()) -> Position | None:
        """Where an id or item stands now: its rank, its score or count, and how many there are.

        It is ranked over the window that ``peek`` reads, also beyond the best k. If the query has
        ``by``, pass the value of the group, or a tuple of values; for an item of several columns,
        pass a tuple. Returns None for an id that is not live. Works for
        ``HeavyHitters(algorithm="exact")`` and ``TopK(distinct=...)``.

        >>> import pyarrow as pa, skyband as sb
        >>> query = sb.TopK(k=1, score="x", id="who", distinct="best", window=sb.CountWindow(3))
        >>> monitor = sb.Monitor(query)
        >>> _ = monitor.push(pa.table({"who": ["ann", "bob", "ann"], "x": [3, 4, 5]}))
        >>> monitor.position("bob")
        Position(rank=2, value=4, of=2)
        """
        return self.session.position(id, group)

    def stats(self) -> dict[str, int | float]:
        """Rows read and left out, windows answered, state size and operation counts."""
        return self.session.stats()

    def snapshot(self) -> bytes:
        """Everything needed to continue in another process, as bytes; does not use pickle."""
        session = self.session
        state, arrays = session.snapshot()
        bound = session.bound
        header: dict[str, Any] = {
            "snapshot": SNAPSHOT_VERSION,
            "query": self.query.spec(),
            "fingerprint": self.query.fingerprint,
            "on_bad": session.on_bad,
            "idle": session.idle,
            "sources": list(bound),
            **state,
        }
        schemas = {f"schema{i}": schema_to_array(schema) for i, schema in enumerate(bound.values())}
        return pack(header, schemas | {f"fold/{name}": value for name, value in arrays.items()})

    @classmethod
    def restore(cls, blob: bytes, **given: Any) -> Monitor:
        """Rebuild a monitor from a snapshot.

        A snapshot cannot hold functions. If the query's ``combine`` is a function, pass the same
        one as ``combine=``. Snapshots of version 0.1 do not identify the function, so any is
        accepted for them.
        """
        header: Any
        header, arrays = unpack(blob)
        if header.get("snapshot") != SNAPSHOT_VERSION:
            raise EngineError(
                f"the snapshot has version {header.get('snapshot')}, but this Skyband reads "
                f"version {SNAPSHOT_VERSION}; restore it with the Skyband version that wrote it"
            )
        monitor = cls(from_spec(header["query"], **given), header["on_bad"], header["idle"])
        for i, source in enumerate(header["sources"]):
            monitor.session.bind(source, schema_from_array(arrays[f"schema{i}"]))
        monitor.session.restore(header, under(arrays, "fold/"))
        return monitor

    def _check(self) -> None:
        """Assert every invariant; only tests call it."""
        self.session.check()


def _views(answers: Answers | None) -> list[Answer]:
    return [] if answers is None else answers.views()


def _seconds(idle: Duration | float | None) -> float | None:
    if idle is None:
        return None
    seconds = (
        parse_duration(idle, "idle") / 1e6 if isinstance(idle, (str, timedelta)) else float(idle)
    )
    if not np.isfinite(seconds) or seconds <= 0:
        raise QueryError(f"idle must be a positive duration, not {idle!r}")
    return seconds
