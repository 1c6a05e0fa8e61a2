"""The table of an answer is built when it is read: later pushes must not change what it shows."""

from __future__ import annotations

from typing import Any

import pytest
from test_conformance import pushes, query_of

import skyband as sb
from skyband import registry
from support.suites import settings_of

CASES = [(kind, name) for kind in registry.kinds() for name in registry.algorithms(kind)]


@pytest.mark.parametrize(("kind", "algorithm"), CASES)
def test_an_answer_that_is_read_later_is_the_same(kind: str, algorithm: str) -> None:
    settings = settings_of(kind, algorithm, 0)
    at_once, later = (sb.Monitor(query_of(kind, settings), on_bad="skip") for _ in range(2))
    read: list[Any] = []
    kept: list[sb.Answer] = []
    for batch in pushes(kind, settings):
        read += [(answer.table, answer.changes) for answer in at_once.push(batch)]
        kept += later.push(batch)
    read += [(answer.table, answer.changes) for answer in at_once.flush()]
    kept += later.flush()
    assert len(kept) == len(read) > 0
    for answer, (table, changes) in zip(kept, read, strict=True):
        assert answer.table.equals(table)
        assert answer.changes.equals(changes)
