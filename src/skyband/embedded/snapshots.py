"""Snapshots of a monitor: bytes from which another process continues.

header   version, rows read; of each fold the queries that read it, columns, row counts, clock
arrays   of each fold, under its number: open panes, the state of the synopsis, last answers
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.data.flat_state import require, whole
from skyband.data.packing import pack, prefixed, schema_from_array, schema_to_array, under, unpack
from skyband.data.time_axis import window_value
from skyband.engine.board import BoardSession
from skyband.engine.session import Session
from skyband.errors import EngineError, SkybandError
from skyband.query import Query, from_spec
from skyband.query.board import Board, board_of

VERSION = 3
_ALONE = ""
"""Stands for the name of a query that has none."""
MakeSession = Callable[..., Session]
"""From queries by name, and the keywords on_bad, idle and served, to a session without rows."""


def snapshot_of(board: BoardSession) -> bytes:
    """Everything that a board needs to continue."""
    folds: list[dict[str, Any]] = []
    arrays: dict[str, Any] = {}
    for i, session in enumerate(board.sessions):
        header, own = _saved(session)
        folds.append(header)
        arrays |= prefixed(f"{i}/", own)
    names = [name or _ALONE for name in board.queries]
    return pack(
        {"snapshot": VERSION, "rows_in": board.rows_in, "names": names, "folds": folds}, arrays
    )


def _saved(session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
    state, arrays = session.snapshot()
    queries = {name or _ALONE: query for name, query in session.queries.items()}
    one = session.query in queries.values()
    header: dict[str, Any] = {
        "queries": {name: query.spec() for name, query in queries.items()},
        "fingerprints": {name: query.fingerprint for name, query in queries.items()},
        "served": None if one and len(queries) == 1 else session.query.spec(),
        "on_bad": session.on_bad,
        "idle": session.idle,
        "sources": list(session.bound),
        **state,
    }
    bound = enumerate(session.bound.values())
    schemas = {f"schema{i}": schema_to_array(schema) for i, schema in bound}
    return header, schemas | {f"fold/{name}": value for name, value in arrays.items()}


@contextmanager
def _refusing() -> Iterator[None]:
    """Say of what cannot be restored that the snapshot is wrong, whatever it led to."""
    try:
        yield
    except SkybandError:
        raise
    except (
        ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError,
        TypeError, ValueError, pa.ArrowException,
    ) as error:  # fmt: skip
        raise EngineError(
            f"the snapshot cannot be restored ({type(error).__name__}: {error}); use another copy"
        ) from error


def _opened(blob: bytes) -> tuple[Any, Mapping[str, Any]]:
    header: Any
    header, arrays = unpack(blob)
    if header.get("snapshot") != VERSION:
        raise EngineError(
            f"the snapshot has version {header.get('snapshot')}, but this Skyband reads version "
            f"{VERSION}; restore it with the Skyband version that wrote it"
        )
    return header, arrays


def _session(
    fold: Mapping[str, Any],
    arrays: Mapping[str, Any],
    queries: Mapping[str, Query],
    make: MakeSession,
    **settings: Any,
) -> Session:
    """The session of a saved fold."""
    named = {name or None: queries[name] for name in fold["queries"]}
    require(fold["idle"] is None or 0 < fold["idle"] < math.inf, "a silence that never ends")
    served = None if fold["served"] is None else from_spec(fold["served"])
    given = {"on_bad": fold["on_bad"], "idle": fold["idle"], "served": served} | settings
    session = make(named, **given)
    found = {name: query.fingerprint for name, query in queries.items()}
    require(fold["fingerprints"] == found, "it is of another query")
    for count in fold["rows"].values():
        whole(count)
    require(fold["sources"] or fold["fold"] is None, "rows of no source")
    for i, source in enumerate(fold["sources"]):
        session.bind(source, schema_from_array(arrays[f"schema{i}"]))
    session.restore(fold, under(arrays, "fold/"))
    return session


@_refusing()
def restored(blob: bytes, make: MakeSession, given: Mapping[str, Any]) -> BoardSession:
    """The board of a snapshot; ``given`` holds the user's functions."""
    header, arrays = _opened(blob)
    names = header["names"]
    saved = [name for fold in header["folds"] for name in fold["queries"]]
    require(names and sorted(names) == sorted(saved), "a query that no fold answers, or two do")
    functions = {_ALONE: given} if names == [_ALONE] else _given_to(names, given)
    sessions = []
    for i, fold in enumerate(header["folds"]):
        queries = {n: from_spec(spec, **functions[n]) for n, spec in fold["queries"].items()}
        sessions.append(_session(fold, under(arrays, f"{i}/"), queries, make))
    board = BoardSession(sessions, [name or None for name in names])
    board.rows_in = whole(header["rows_in"])
    return board


class BoardDiff(NamedTuple):
    """How a board differs from its snapshot."""

    added: dict[str, Any]
    """For each query that is new, the start of its first window; None if it is not known yet."""
    removed: list[str]


@_refusing()
def resumed(
    blob: bytes, query: Query | Board, make: MakeSession, on_bad: str
) -> tuple[BoardSession, BoardDiff]:
    """The board of a snapshot with other queries: some may be new, and some gone."""
    header, arrays = _opened(blob)
    alone = header["names"] == [_ALONE]
    if isinstance(query, Mapping) == alone:
        raise EngineError(
            "the state belongs to a single [query] and the job has [queries.NAME], or the "
            "other way round; give the job a new checkpoint"
        )
    wanted = {name or _ALONE: each for name, each in board_of(query, on_bad).items()}
    sessions = []
    for i, fold in enumerate(header["folds"]):
        queries = {n: wanted.get(n) or from_spec(spec) for n, spec in fold["queries"].items()}
        for name in fold["queries"].keys() & wanted.keys():
            if fold["fingerprints"][name] != wanted[name].fingerprint:
                raise EngineError(
                    f"{f'query {name!r}' if name else 'the query'} has changed since the state "
                    "was written; give the changed query a new name, or the job a new checkpoint"
                )
        gone = [name or None for name in queries if name not in wanted]
        if len(gone) < len(queries):
            own = under(arrays, f"{i}/")
            sessions.append(_session(fold, own, queries, make, on_bad=on_bad))
            sessions[-1].remove(gone)
    known = [name for fold in header["folds"] for name in fold["queries"]]
    idle = header["folds"][0]["idle"]
    running, first_starts = BoardSession(sessions), {}
    for name in [name for name in wanted if name not in known]:
        added = make({name: wanted[name]}, on_bad=on_bad, idle=idle)
        first_starts[name] = _edge(added, running.join(added))
        sessions.append(added)
    board = BoardSession(sessions, [name or None for name in wanted])
    board.rows_in = whole(header["rows_in"])
    return board, BoardDiff(first_starts, [name for name in known if name not in wanted])


def _edge(session: Session, tick: int | None) -> Any:
    """The start of a window as people write it: a number, or a moment in UTC."""
    if tick is None or session.query.window.integer:
        return tick
    return window_value(tick, pa.timestamp("us", "UTC"))


def _given_to(names: list[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What was given to each query of a board: every argument maps names to values."""
    by_query: dict[str, dict[str, Any]] = {name: {} for name in names}
    for argument, values in given.items():
        wrong = set(values) - set(names) if isinstance(values, Mapping) else {None}
        if wrong:
            raise EngineError(
                f"{argument}= must map names of the board's queries to their values, for example "
                f"{argument}={{{names[0]!r}: ...}}; the queries are {', '.join(names)}"
            )
        for name, value in values.items():
            by_query[name][argument] = value
    return by_query
