"""``peek`` answers for just the range it states; ``test_every_step`` peeks into all algorithms."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
import skyband as sb
from skyband import registry
from support import conformance, streams
from support.suites import settings_of

ROWS = {"t": [2, 3, 4, 9, 10], "x": [100.0, 50.0, 40.0, 9.0, 8.0]}
#   cuts   1  3  4  6  7  9  10       size 8, slide 3
#   rows    2 34         9 |10        the watermark is 10: the row at 10 is in an open pane


def watching(window: Any, **more: Any) -> sb.Monitor:
    monitor = sb.Monitor(sb.TopK(**{"k": 1, "score": "x", "time": "t", "window": window} | more))
    monitor.push(pa.table(ROWS))
    return monitor


def test_it_starts_at_a_cut() -> None:
    answer = watching(sb.TimeWindow(8, slide=3)).peek()
    assert (answer.start, answer.end, answer.total, answer.exact) == (3, 10, 3, True)
    row = {"window_start": 3, "window_end": 10, "rank": 1, "x": 50.0, "t": 3}
    assert answer.table.to_pylist() == [row]


@pytest.mark.parametrize(
    ("last", "start", "total", "best"),
    [(8, 3, 3, [50.0]), (7, 3, 3, [50.0]), (6, 4, 2, [40.0]), (1, 9, 1, [9.0])],
)
def test_shorter_windows_start_at_cuts_too(
    last: int, start: int, total: int, best: list[float]
) -> None:
    answer = watching(sb.TimeWindow(8, slide=3)).peek(last=last)
    assert (answer.start, answer.end, answer.total) == (start, 10, total)
    assert answer.table["x"].to_pylist() == best


def test_shorter_than_a_pane_is_empty() -> None:
    answer = watching(sb.TimeWindow(20, slide=5)).peek(last=4)
    assert (answer.start, answer.end, answer.total, answer.table.num_rows) == (10, 10, 0, 0)


def test_the_open_pane_is_not_seen() -> None:
    answer = watching(sb.TimeWindow(20)).peek()
    assert (answer.start, answer.end, answer.total, answer.table.num_rows) == (-20, 0, 0, 0)


def test_in_a_gap_there_are_no_rows() -> None:
    """With slide > size, rows that no window covers are in no answer."""
    monitor = sb.Monitor(sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(7, slide=10)))
    monitor.push(pa.table({"t": [5, 11, 14], "x": [1.0, 9.0, 2.0]}))
    answer = monitor.peek()  # [10, 13) is a gap
    assert (answer.start, answer.end, answer.total, answer.table.num_rows) == (10, 13, 0, 0)
    monitor.push(pa.table({"t": [20], "x": [0.0]}))
    answer = monitor.peek()
    assert (answer.start, answer.end, answer.table["x"].to_pylist()) == (13, 20, [2.0])


def test_before_any_pane_is_sealed() -> None:
    query = sb.FusedTopK(
        k=1, id="id", value="x", streams=("n", "s"), time="t", window=sb.TimeWindow(10)
    )
    monitor = sb.Monitor(query)
    with pytest.raises(sb.EngineError, match="no batch has been pushed"):
        monitor.peek()
    monitor.push({"n": pa.table({"t": [25], "id": ["a"], "x": [0.5]})})
    with pytest.raises(sb.EngineError, match="no pane has been sealed; there are no rows from 's'"):
        monitor.peek()
    counted = sb.Monitor(sb.TopK(k=1, score="x", window=sb.CountWindow(3)))
    counted.push(pa.table({"x": [1.0, 2.0]}))
    answer = counted.peek()
    assert (answer.start, answer.end, answer.total, answer.table.num_rows) == (0, 0, 0, 0)


def test_mintopk_keeps_too_little() -> None:
    monitor = watching(sb.TimeWindow(2, slide=1), algorithm="mintopk")
    with pytest.raises(sb.EngineError, match=r"mintopk keeps too little for peek.*'skyband'"):
        monitor.peek()
    grouped = sb.Monitor(
        sb.TopK(k=1, score="x", by=("g",), window=sb.CountWindow(2), algorithm="mintopk")
    )
    grouped.push(pa.table({"g": ["a", "a"], "x": [1.0, 2.0]}))
    with pytest.raises(sb.EngineError, match="'skyband'"):
        grouped.peek()


@pytest.mark.parametrize("algorithm", ["ss", "fss", "fsw", "fsw-r"])
def test_sketches_that_cannot_be_asked_for_less(algorithm: str) -> None:
    query = sb.HeavyHitters(k=1, item="x", window=sb.CountWindow(2), algorithm=algorithm)
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"x": [1, 2]}))
    with pytest.raises(sb.EngineError, match="shorter than the query's; use algorithm='exact'"):
        monitor.peek(last=1)


@pytest.mark.parametrize("algorithm", ["skyband", "sma"])
def test_groups_of_a_count_window_have_edges_of_their_own(algorithm: str) -> None:
    query = sb.TopK(
        k=1, score="x", by=("g",), window=sb.CountWindow(4, slide=2), algorithm=algorithm
    )
    monitor = sb.Monitor(query)
    monitor.push(pa.table({"g": list("aabaacbaab"), "x": [9, 1, 3, 2, 4, 7, 0, 5, 6, 8]}))
    answer = monitor.peek()  # arrivals: 6 of a, 3 of b, 1 of c, which has no full pane
    assert answer.table.to_pylist() == [
        {"window_start": 2, "window_end": 6, "g": "a", "rank": 1, "x": 6},
        {"window_start": 0, "window_end": 2, "g": "b", "rank": 1, "x": 3},
    ]
    assert (answer.start, answer.end, answer.total, answer.exact) == (0, 6, 6, True)
    assert answer.changes.num_rows == 0  # both equal their last answers


@pytest.mark.parametrize("algorithm", ["exact", "fsp"])
def test_what_a_group_was_answered_last_can_be_read_again(algorithm: str) -> None:
    """Panes that only the last window of a group covers are kept until its next window."""
    query = sb.HeavyHitters(
        k=2, item="i", by=("g",), weight="w", window=sb.CountWindow(4, slide=2), algorithm=algorithm
    )
    monitor = sb.Monitor(query)
    rows = {"g": ["a"] * 6, "i": list("xxyyzz"), "w": [5, 5, 1, 1, 2, 2]}
    answers = monitor.push(pa.table(rows))
    monitor = sb.Monitor.restore(monitor.snapshot())
    assert monitor.peek().table == answers[-1].table
    assert monitor.peek().total == answers[-1].total == 6


SLIDING = [
    ("HeavyHitters", name) for name in registry.algorithms("HeavyHitters") if name != "exact"
]


@pytest.mark.nojit
@pytest.mark.parametrize(("kind", "algorithm"), SLIDING)
@pytest.mark.parametrize("window", [(8, 3), (7, 3), (5, 7)], ids=str)
def test_sketches_between_windows(kind: str, algorithm: str, window: tuple[int, int]) -> None:
    """Peek after every row, so that most peeks begin or end between two windows."""
    stream = streams.stream(3, 40, pattern="crowded", step=2, gap=10)
    stream = streams.Stream(stream.table, stream.rows, tuple(range(1, 40)))
    shapes = oracle.TimeWindow(*window, offset=1), oracle.CountWindow(*window)
    for number, shape in enumerate(shapes):
        settings = settings_of(kind, algorithm, number)
        conformance.compare(kind, shape, settings, stream, peeks=True)


@given(size=st.integers(1, 12), slide=st.integers(1, 12), at=st.integers(-40, 40))
def test_cuts_of_the_oracle(size: int, slide: int, at: int) -> None:
    """Cuts are the window ends, and the window starts modulo the slide; nothing else."""
    cuts = [c for c in range(-80, 81) if c % slide in (0, -size % slide)]
    assert oracle.cut_up_to(at, size, slide) == max(c for c in cuts if c <= at)
    assert oracle.cut_from(at, size, slide) == min(c for c in cuts if c >= at)
