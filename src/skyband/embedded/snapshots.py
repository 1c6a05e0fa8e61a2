"""Snapshots of a monitor: bytes from which another process continues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from skyband.data.packing import pack, prefixed, schema_from_array, schema_to_array, under, unpack
from skyband.engine.board import BoardSession
from skyband.engine.session import Session
from skyband.errors import EngineError
from skyband.query import from_spec

__all__ = ["restored", "snapshot_of"]

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
    return pack(header, arrays)


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
        board.rows_in = header["rows"]["rows_in"]
        return board
    own = _given_to(list(header["board"]), given)
    queries = {
        name: from_spec(each["query"], **own[name]) for name, each in header["board"].items()
    }
    first = next(iter(header["board"].values()))
    board = make(queries, first["on_bad"], first["idle"])
    for i, (name, each) in enumerate(header["board"].items()):
        _restore(board.sessions[name], each, under(arrays, f"{i}/"))
    board.rows_in = header["rows_in"]
    return board


def _restore(session: Session, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    for i, source in enumerate(header["sources"]):
        session.bind(source, schema_from_array(arrays[f"schema{i}"]))
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
