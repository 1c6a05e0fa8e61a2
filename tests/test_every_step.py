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


def settings_of(kind: str, algorithm: str, number: int) -> dict[str, Any]:
    chosen = {"algorithm": algorithm, "options": conformance.OPTIONS.get(algorithm, {})}
    return conformance.SETTINGS[kind][number] | chosen


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), CASES)
@given(data=st.data())
@settings(max_examples=30)
def test_time_windows(kind: str, algorithm: str, number: int, data: st.DataObject) -> None:
    window = data.draw(streams.time_windows())
    # Twice the window's lateness now and then, so that some rows are late.
    lateness = window.lateness * data.draw(st.integers(1, 2))
    chosen = settings_of(kind, algorithm, number)
    stream = data.draw(conformance.small_streams(kind, chosen, window, lateness))
    restarts = data.draw(st.booleans())
    conformance.compare(kind, window, chosen, stream, restarts)


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), CASES)
@given(data=st.data())
@settings(max_examples=20)
def test_count_windows(kind: str, algorithm: str, number: int, data: st.DataObject) -> None:
    window = data.draw(streams.count_windows())
    chosen = settings_of(kind, algorithm, number)
    if not conformance.fits(chosen, window):
        pytest.skip("several sources, so no count windows")
    stream = data.draw(conformance.small_streams(kind, chosen, window))
    restarts = data.draw(st.booleans())
    conformance.compare(kind, window, chosen, stream, restarts)


@pytest.mark.parametrize("pattern", streams.PATTERNS)
@pytest.mark.parametrize(("kind", "algorithm", "number"), CASES)
def test_longer_streams(kind: str, algorithm: str, number: int, pattern: str) -> None:
    chosen = settings_of(kind, algorithm, number)
    for window in (oracle.TimeWindow(30, 7, lateness=5), oracle.CountWindow(40, 9)):
        if conformance.fits(chosen, window):
            stream = conformance.long_stream(kind, chosen, window, pattern)
            conformance.compare(kind, window, chosen, stream)
