"""Windows without a size against the definition: decay and landmark, at every answer and peek."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import oracle
from support import conformance
from support.unsized_cases import cases, positive, settings_of


@st.composite
def decay_windows(draw: st.DrawFn) -> oracle.DecayWindow:
    return oracle.DecayWindow(
        half_life=draw(st.sampled_from((1, 2, 3, 16, 200))),
        slide=draw(st.integers(1, 12)),
        lateness=draw(st.integers(0, 6)),
        offset=draw(st.integers(-3, 3)),
    )


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), cases("decay"))
@given(data=st.data())
@settings(max_examples=10)
def test_decay(kind: str, algorithm: str, number: int, data: st.DataObject) -> None:
    window = data.draw(decay_windows())
    lateness = window.lateness * data.draw(st.integers(1, 2))
    chosen = settings_of(kind, algorithm)[number] | {"algorithm": algorithm}
    stream = positive(data.draw(conformance.small_streams(kind, chosen, window, lateness)))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare(kind, window, chosen, stream, restarts, peeks)


@pytest.mark.parametrize("pattern", ["uniform", "crowded"])
@pytest.mark.parametrize(("kind", "algorithm", "number"), cases("decay"))
def test_longer_streams_decay(kind: str, algorithm: str, number: int, pattern: str) -> None:
    chosen = settings_of(kind, algorithm)[number] | {"algorithm": algorithm}
    for half_life in (1, 10):
        window = oracle.DecayWindow(half_life, 7, lateness=5)
        stream = positive(conformance.long_stream(kind, chosen, window, pattern))  # type: ignore[arg-type]
        conformance.compare(kind, window, chosen, stream, peeks=pattern == "crowded")


@st.composite
def landmark_windows(draw: st.DrawFn) -> oracle.LandmarkWindow:
    return oracle.LandmarkWindow(
        slide=draw(st.integers(2, 12)),
        since=draw(st.none() | st.integers(-10, 30)),
        lateness=draw(st.integers(0, 6)),
        offset=draw(st.integers(-3, 3)),
    )


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm", "number"), cases("landmark"))
@given(data=st.data())
@settings(max_examples=8, phases=(Phase.generate,))
def test_landmark(kind: str, algorithm: str, number: int, data: st.DataObject) -> None:
    window = data.draw(landmark_windows())
    lateness = window.lateness * data.draw(st.integers(1, 2))
    chosen = settings_of(kind, algorithm)[number] | {"algorithm": algorithm}
    stream = data.draw(conformance.small_streams(kind, chosen, window, lateness))
    restarts, peeks = data.draw(st.booleans()), data.draw(st.booleans())
    conformance.compare(kind, window, chosen, stream, restarts, peeks)


@pytest.mark.parametrize(("kind", "algorithm", "number"), cases("landmark"))
def test_longer_streams_since_a_landmark(kind: str, algorithm: str, number: int) -> None:
    chosen = settings_of(kind, algorithm)[number] | {"algorithm": algorithm}
    for since in (None, 100):
        window = oracle.LandmarkWindow(7, since, lateness=5)
        stream = conformance.long_stream(kind, chosen, window, "crowded")
        conformance.compare(kind, window, chosen, stream, peeks=since is None)
