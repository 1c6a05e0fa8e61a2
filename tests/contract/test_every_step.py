"""Every algorithm of every query against the definition, at every answer and every peek.

Algorithms come from the registry, so a new one is tested as soon as it is registered. Approximate
ones must keep their guarantees.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from support import conformance, streams
from support.suites import cases, settings_of


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
@given(data=st.data())
@settings(max_examples=15)
def test_time_windows(kind: str, algorithm: str, number: int, data: st.DataObject) -> None:
    window = data.draw(streams.time_windows())
    # Sometimes twice the window's lateness, so that some rows are late.
    lateness = window.lateness * data.draw(st.integers(1, 2))
    chosen = settings_of(kind, algorithm, number)
    stream = data.draw(conformance.small_streams(kind, chosen, window, lateness))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare(kind, window, chosen, stream, restarts, peeks)


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
@given(data=st.data())
@settings(max_examples=10)
def test_count_windows(kind: str, algorithm: str, number: int, data: st.DataObject) -> None:
    window = data.draw(streams.count_windows())
    chosen = settings_of(kind, algorithm, number)
    if not conformance.fits(chosen, window):
        pytest.skip("several sources, so no count windows")
    stream = data.draw(conformance.small_streams(kind, chosen, window))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare(kind, window, chosen, stream, restarts, peeks)


@pytest.mark.parametrize("pattern", streams.PATTERNS)
@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
def test_longer_streams(kind: str, algorithm: str, number: int, pattern: str) -> None:
    """All patterns in windows of time and of rows; further settings in one kind per pattern."""
    chosen = settings_of(kind, algorithm, number)
    windows = [oracle.TimeWindow(30, 7, lateness=5), oracle.CountWindow(40, 9)]
    fitting = [window for window in windows if conformance.fits(chosen, window)]
    turn = streams.PATTERNS.index(pattern)
    for window in fitting if number == 0 else [fitting[(turn // 2 + number) % len(fitting)]]:
        stream = conformance.long_stream(kind, chosen, window, pattern)
        conformance.compare(kind, window, chosen, stream, peeks=turn % 2 == 1)
