"""Answers and snapshots depend on the rows alone, not on memory that nobody has written to."""

from __future__ import annotations

from typing import Any

import pytest
from test_conformance import WINDOW, pushes

import skyband as sb
from skyband import registry
from support import conformance, streams, unwritten
from support.suites import settings_of

ALGORITHMS = [(kind, name) for kind in registry.kinds() for name in registry.algorithms(kind)]


@pytest.mark.nojit
@pytest.mark.skipif(not unwritten.VISIBLE, reason="compiled kernels do not call numpy's empty")
@pytest.mark.parametrize(("kind", "algorithm"), ALGORITHMS)
def test_same_rows_same_answers_and_same_bytes(kind: str, algorithm: str) -> None:
    settings = settings_of(kind, algorithm, 0)
    given = pushes(kind, settings)[:4]
    table = next(iter(given[0].values())) if isinstance(given[0], dict) else given[0]
    query = conformance.query_of(kind, WINDOW, settings, table)
    runs: list[list[Any]] = []
    for byte in (0x11, 0xFF):
        with unwritten.filled(byte):
            monitor = sb.Monitor(query)
            seen: list[Any] = []
            for batch in given:
                answers = monitor.push(batch)
                seen += [streams.rows_of(answer.table) for answer in answers]
                blob = monitor.snapshot()
                seen.append(blob)
                assert sb.Monitor.restore(blob).snapshot() == blob
            runs.append(seen)
    assert runs[0] == runs[1]
