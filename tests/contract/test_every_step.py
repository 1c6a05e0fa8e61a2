"""Every algorithm of every query against the definition, at every answer and every peek.

Algorithms come from the registry, so a new one is tested as soon as it is registered. Approximate
ones must keep their guarantees.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from support import conformance, streams
from support.suites import cases, examples, in_turn, registered, settings_of


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
def test_time_windows(kind: str, algorithm: str, number: int) -> None:
    chosen = settings_of(kind, algorithm, number)

    @given(data=st.data())
    @settings(max_examples=examples(kind, total=24, most=10))
    def holds(data: st.DataObject) -> None:
        window = data.draw(streams.time_windows())
        # Sometimes twice the window's lateness, so that some rows are late.
        lateness = window.lateness * data.draw(st.integers(1, 2))
        stream = data.draw(conformance.small_streams(kind, chosen, window, lateness))
        restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
        conformance.compare(kind, window, chosen, stream, restarts, peeks)

    holds()


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), cases())
def test_count_windows(kind: str, algorithm: str, number: int) -> None:
    chosen = settings_of(kind, algorithm, number)
    if not conformance.fits(chosen, oracle.CountWindow(1)):
        pytest.skip("several sources, so no count windows")

    @given(data=st.data())
    @settings(max_examples=examples(kind, total=16, most=6))
    def holds(data: st.DataObject) -> None:
        window = data.draw(streams.count_windows())
        stream = data.draw(conformance.small_streams(kind, chosen, window))
        restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
        conformance.compare(kind, window, chosen, stream, restarts, peeks)

    holds()


# Each pair has both kinds of windows, and peeks in one of them; its half (by turns) has it all.
PAIRS = [(0, 3), (1, 2), (5, 6), (3, 4)]
HALVES = [(0, 3, 5, 6), (1, 2, 3, 4)]


def longer() -> list[Any]:
    """All patterns for the first settings of an algorithm, some of them for the others.

    These are two patterns each, and two more in ``make slow``.
    """
    found = []
    for case in cases():
        kind, algorithm, number = case.values
        pairs = in_turn(kind, algorithm, number, PAIRS)
        halves = in_turn(kind, algorithm, number, HALVES)
        for turn, pattern in enumerate(streams.PATTERNS):
            if any(turn in half for half in halves):
                name = f"{kind}-{algorithm}-{number}-{pattern}"
                marks = [] if any(turn in pair for pair in pairs) else [pytest.mark.slow]
                found.append(pytest.param(kind, algorithm, number, pattern, id=name, marks=marks))
    return found


@pytest.mark.parametrize(("kind", "algorithm", "number", "pattern"), longer())
def test_longer_streams(kind: str, algorithm: str, number: int, pattern: str) -> None:
    """Windows of time or of rows: one kind of window per pattern."""
    compare_longer(kind, algorithm, number, pattern, number)


@pytest.mark.slow
@pytest.mark.parametrize("pattern", streams.PATTERNS)
@pytest.mark.parametrize(("kind", "algorithm"), sorted(registered()))
def test_longer_streams_in_the_other_windows(kind: str, algorithm: str, pattern: str) -> None:
    compare_longer(kind, algorithm, 0, pattern, 1)


def compare_longer(kind: str, algorithm: str, number: int, pattern: str, shift: int) -> None:
    chosen = settings_of(kind, algorithm, number)
    windows = [oracle.TimeWindow(30, 7, lateness=5), oracle.CountWindow(40, 9)]
    fitting = [window for window in windows if conformance.fits(chosen, window)]
    turn = streams.PATTERNS.index(pattern)
    window = fitting[(turn // 2 + shift) % len(fitting)]
    stream = conformance.long_stream(kind, chosen, window, pattern)
    conformance.compare(kind, window, chosen, stream, peeks=turn % 2 == 1)


def test_longer_streams_have_every_pattern_and_both_windows() -> None:
    for pair in PAIRS:
        assert {turn % 2 for turn in pair} == {turn // 2 % 2 for turn in pair} == {0, 1}
    for half in HALVES:
        assert {(turn % 2, turn // 2 % 2) for turn in half} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert {turn for half in HALVES for turn in half} == set(range(len(streams.PATTERNS)))
    for number, pair in enumerate(PAIRS):
        assert set(pair) <= set(HALVES[number % 2])
