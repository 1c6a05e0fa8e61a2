"""What the compact set queues find for a window."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import streams

pytestmark = pytest.mark.nojit

QUEUES = ["csq", "ccsq", "scsq"]


def synopsis(algorithm: str, scores: list[int], chance: float, size: int = 20) -> Any:
    window = sb.CountWindow(size, slide=1)
    query = sb.UncertainTopK(k=1, score="x", probability="p", window=window, algorithm=algorithm)
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"x": scores, "p": [chance] * len(scores)}))
    monitor._check()
    return monitor.session.synopsis


@pytest.mark.parametrize("algorithm", QUEUES)
def test_an_entry_covers_windows_up_to_its_oldest_pane(algorithm: str) -> None:
    """A falling stream of certain rows: the compact set of any window is its first row."""
    falling = synopsis(algorithm, [9, 8, 7, 6], 1.0)
    for first in range(4):
        slots, closed = falling.reserve.find(first)
        assert closed
        assert falling.store.rows.pane[slots].min() >= first
        assert falling.store.rows.key[slots].max() == falling.store.rows.key[-4:][first]
    slots, closed = falling.reserve.find(4)
    assert (len(slots), closed) == (0, False)


@pytest.mark.parametrize("algorithm", QUEUES)
def test_the_newest_rows_alone_may_admit_no_compact_set(algorithm: str) -> None:
    unlikely = synopsis(algorithm, [9, 8, 7, 6], 0.125)
    slots, closed = unlikely.reserve.find(1)
    assert not closed
    assert unlikely.store.rows.pane[slots].tolist() == [1, 2, 3]


@pytest.mark.parametrize("semantics", ["pk-topk", "pt-k", "u-kranks", "u-topk"])
@pytest.mark.parametrize("algorithm", ["bs", *QUEUES])
def test_answers_in_one_step_are_those_in_two(
    algorithm: str, semantics: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``answers`` computes each answer once; without it, ``finish`` does so for every window."""
    rows = streams.stream(7, 120, pattern="crowded").table
    query = sb.UncertainTopK(
        k=2, score="score", probability="p", id="id", semantics=semantics, algorithm=algorithm,
        threshold=0.3 if semantics == "pt-k" else None, window=sb.CountWindow(20, slide=1),
    )  # fmt: skip
    found = sb.rank(rows, query)
    assert found.num_rows > 20
    monkeypatch.setattr("skyband.engine.fold.AnswerFold", ())  # nothing is an instance of it
    assert sb.rank(rows, query).equals(found)
