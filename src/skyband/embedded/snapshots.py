"""Snapshots of a monitor: bytes from which another process continues."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.contract.runs import Runs
from skyband.data.flat_state import require, whole
from skyband.data.packing import pack, prefixed, schema_from_array, schema_to_array, under, unpack
from skyband.data.time_axis import window_value
from skyband.engine.board import BoardSession
from skyband.engine.session import Session
from skyband.errors import EngineError, SkybandError
from skyband.query import Query, from_spec
from skyband.query.board import Board
from skyband.window import CountWindow

__all__ = ["Changed", "restored", "resumed", "snapshot_of"]

SNAPSHOT_VERSION = 1
BOARD_VERSION = 2
"""The snapshot of a board: those of its queries, one after the other."""


def snapshot_of(board: BoardSession) -> bytes:
    """Everything that a board needs to continue."""
    if board.alone:
        return pack(*_parts(board.sessions[None]))
    headers: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for i, (name, session) in enumerate(board.sessions.items()):
        headers[str(name)], own = _parts(session)
        arrays |= prefixed(f"{i}/", own)
    header: dict[str, Any] = {"snapshot": BOARD_VERSION, "rows_in": board.rows_in, "board": headers}
    for i, (names, runs) in enumerate(board.kept_together()):
        told, own = runs.flat()
        header.setdefault("together", []).append({"queries": names, "panes": told})
        arrays |= prefixed(f"together{i}/", own)
    return pack(header, arrays)


def _restore_together(
    board: BoardSession, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """What queries keep together is saved beside the state of each, which is complete, too."""
    for i, each in enumerate(header.get("together", ())):
        runs = Runs.from_flat(each["panes"], under(arrays, f"together{i}/"))
        board.keep_together(each["queries"], runs)


def _parts(session: Session) -> tuple[dict[str, Any], dict[str, Any]]:
    state, arrays = session.snapshot()
    bound = session.bound
    header: dict[str, Any] = {
        "snapshot": SNAPSHOT_VERSION,
        "query": session.query.spec(),
        "fingerprint": session.query.fingerprint,
        "on_bad": session.on_bad,
        "idle": session.idle,
        "sources": list(bound),
        **state,
    }
    schemas = {f"schema{i}": schema_to_array(schema) for i, schema in enumerate(bound.values())}
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


@_refusing()
def restored(
    blob: bytes, make: Callable[..., BoardSession], given: Mapping[str, Any]
) -> BoardSession:
    """The board of a snapshot. ``make`` is ``new_board``; ``given`` holds the user's functions."""
    header: Any
    header, arrays = unpack(blob)
    if header.get("snapshot") not in (SNAPSHOT_VERSION, BOARD_VERSION):
        raise EngineError(
            f"the snapshot has version {header.get('snapshot')}, but this Skyband reads versions "
            f"{SNAPSHOT_VERSION} and {BOARD_VERSION}; restore it with the Skyband version that "
            "wrote it"
        )
    if header["snapshot"] == SNAPSHOT_VERSION:
        board = make(from_spec(header["query"], **given), header["on_bad"], header["idle"])
        _restore(board.sessions[None], header, arrays)
        board.rows_in = whole(header["rows"]["rows_in"])
        return board
    require(header["board"], "a board without queries")
    own = _given_to(list(header["board"]), given)
    queries = {
        name: from_spec(each["query"], **own[name]) for name, each in header["board"].items()
    }
    first = next(iter(header["board"].values()))
    apart = [name for name, each in header["board"].items() if "joins" in each]
    board = make(queries, first["on_bad"], first["idle"], apart=apart)
    for i, (name, each) in enumerate(header["board"].items()):
        _restore(board.sessions[name], each, under(arrays, f"{i}/"))
    _restore_together(board, header, arrays)
    board.rows_in = whole(header["rows_in"])
    return board


class Changed(NamedTuple):
    """How a board differs from its snapshot."""

    added: dict[str, Any]
    """For each query that is new, the start of its first window; None if it is not known yet."""
    removed: list[str]


@_refusing()
def resumed(
    blob: bytes, query: Query | Board, make: Callable[..., BoardSession]
) -> tuple[BoardSession, Changed]:
    """The board of a snapshot with other queries: some may be new, and some gone."""
    header: Any
    header, arrays = unpack(blob)
    if not isinstance(query, Mapping) or header.get("snapshot") != BOARD_VERSION:
        if isinstance(query, Mapping) != (header.get("snapshot") == BOARD_VERSION):
            raise EngineError(
                "the state belongs to a single [query] and the job has [queries.NAME], or the "
                "other way round; give the job a new checkpoint"
            )
        return restored(blob, lambda each, _, idle: make(each, idle=idle), {}), Changed({}, [])
    told = header["board"]
    kept = {name for name in query if name in told}
    for name in kept:
        if told[name]["fingerprint"] != query[name].fingerprint:
            raise EngineError(
                f"query {name!r} changed since the state was written; give the changed query "
                "another name, or the job a new checkpoint"
            )
    added = [name for name in query if name not in kept]
    apart = [*added, *(name for name in kept if "joins" in told[name])]
    board = make(query, idle=next(iter(told.values()))["idle"], apart=apart)
    for i, (name, each) in enumerate(told.items()):
        if name in kept:
            _restore(board.sessions[name], each, under(arrays, f"{i}/"))
    _restore_together(board, header, arrays)
    board.rows_in = whole(header["rows_in"])
    firsts = {name: _edge(board.sessions[name], board.join(name)) for name in added}
    return board, Changed(firsts, [name for name in told if name not in kept])


def _edge(session: Session, tick: int | None) -> Any:
    """The start of a window as people write it: a number, or a moment in UTC."""
    window = session.query.window
    if tick is None or isinstance(window, CountWindow) or window.integer:
        return tick
    return window_value(tick, pa.timestamp("us", "UTC"))


def _restore(session: Session, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    for i, source in enumerate(header["sources"]):
        session.bind(source, schema_from_array(arrays[f"schema{i}"]))
    require(header["fingerprint"] == session.query.fingerprint, "it is of another query")
    for count in header["rows"].values():
        whole(count)
    require(header["sources"] or header["fold"] is None, "rows of no source")
    session.restore(header, under(arrays, "fold/"))


def _given_to(names: list[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """What was given to each query of a board: every argument maps names to values."""
    found: dict[str, dict[str, Any]] = {name: {} for name in names}
    for argument, values in given.items():
        wrong = set(values) - set(names) if isinstance(values, Mapping) else {None}
        if wrong:
            raise EngineError(
                f"{argument}= must map names of the board's queries to their values, for example "
                f"{argument}={{{names[0]!r}: ...}}; the queries are {', '.join(names)}"
            )
        for name, value in values.items():
            found[name][argument] = value
    return found
