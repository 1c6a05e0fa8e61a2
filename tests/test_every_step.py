"""Every algorithm of every query against the definition, at every answer.

Algorithms are found in the registry: a new one is tested by being registered.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conformance
import oracle
import streams
from skyband import registry

CASES = [
    pytest.param(kind, algorithm, number, id=f"{kind}-{algorithm}-{number}")
    for kind in registry.kinds()
    for algorithm in registry.algorithms(kind)
    for number in range(len(conformance.SETTINGS.get(kind, ())))
    if registry.load(kind, algorithm).exact
]
COUNTED = [case for case in CASES if case.values[0] not in conformance.SEVERAL]


def settings_of(kind: str, algorithm: str, number: int) -> dict[str, Any]:
    return conformance.SETTINGS[kind][number] | {"algorithm": algorithm}


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), CASES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_time_windows(kind: str, algorithm: str, number: int, data: st.DataObject) -> None:
    window = data.draw(streams.time_windows())
    # Twice the window's lateness now and then, so that some rows are late.
    lateness = window.lateness * data.draw(st.integers(1, 2))
    made: Any = streams.sides if kind in conformance.SEVERAL else streams.streams
    stream = data.draw(made(max_rows=14, lateness=lateness))
    restarts = data.draw(st.booleans())
    conformance.compare(kind, window, settings_of(kind, algorithm, number), stream, restarts)


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), COUNTED)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_count_windows(kind: str, algorithm: str, number: int, data: st.DataObject) -> None:
    window = data.draw(streams.count_windows())
    stream = data.draw(streams.streams(max_rows=14))
    restarts = data.draw(st.booleans())
    conformance.compare(kind, window, settings_of(kind, algorithm, number), stream, restarts)


@pytest.mark.parametrize("pattern", streams.PATTERNS)
@pytest.mark.parametrize(("kind", "algorithm", "number"), CASES)
def test_longer_streams(kind: str, algorithm: str, number: int, pattern: str) -> None:
    chosen = settings_of(kind, algorithm, number)
    if kind in conformance.SEVERAL:
        both = streams.two_sides(streams.PATTERNS.index(pattern), 90, lateness=5, batches=9)
        conformance.compare(kind, oracle.TimeWindow(30, 7, lateness=5), chosen, both)
        return
    stream = streams.stream(7, 250, pattern=pattern, lateness=5, step=2, gap=40, batches=9)
    conformance.compare(kind, oracle.TimeWindow(30, 7, lateness=5), chosen, stream)
    conformance.compare(kind, oracle.CountWindow(40, 9), chosen, stream)
