"""Rows that were left out, bad, late or in no window: how they are said."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.engine.board import BoardSession
from skyband.engine.session import Session
from skyband.errors import SkybandWarning

_WORDS = {
    "rows_late": "{} late row{} left out",
    "rows_bad": "{} bad row{} left out",
    "rows_unused": "{} row{} in no window left out",
}
"""Rows in no window come before a landmark, or between windows if ``slide`` exceeds ``size``."""


def left_out(board: BoardSession, reasons: bool = True) -> str:
    """How many rows each query left out, and why the first of them; empty if there are none."""
    said = []
    for name in board.queries:
        session = board.session_of(name)
        counts = {count: session.rows[count] for count in _WORDS if session.rows[count]}
        parts = [_WORDS[c].format(f"{n:,}", "s" if n != 1 else "") for c, n in counts.items()]
        if parts and reasons and session.reason is not None:
            parts.append(f"the first: {session.reason}")
        said += [f"{name}: {'; '.join(parts)}" if name else "; ".join(parts)] if parts else []
    return "; ".join(said)


def warn_of_left_out(board: BoardSession) -> None:
    """Warn once, on behalf of the caller of ``rank``, if bad or late rows were left out."""
    rows = [session.rows for session in board.sessions]
    if any(each["rows_bad"] or each["rows_late"] for each in rows):
        warnings.warn(left_out(board), SkybandWarning, stacklevel=3)


def with_left_out(table: pa.Table, session: Session) -> pa.Table:
    """A table of answers whose schema metadata says which rows were left out, if any were."""
    counts: dict[str, Any] = {name: session.rows[name] for name in _WORDS}
    if not any(counts.values()):
        return table
    counts_text = json.dumps(
        {"rows_in": session.rows["rows_in"], **counts, "reason": session.reason}
    )
    return table.replace_schema_metadata({**(table.schema.metadata or {}), "skyband": counts_text})


class Watch(Iterator[Answer]):
    """Answers of ``watch`` as they become due; ``stats`` says what has been read so far."""

    def __init__(self, board: BoardSession, answers: Iterator[Answer]) -> None:
        self._board = board
        self._answers = answers

    def __next__(self) -> Answer:
        return next(self._answers)

    def stats(self) -> dict[str, Any]:
        """Rows read and left out, and more, as ``Monitor.stats`` counts them."""
        return self._board.stats()
