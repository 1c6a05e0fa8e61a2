"""SMA as in its paper: a threshold, a band above it, rescans of the grid when the band runs dry."""

from __future__ import annotations

import math
import random
from typing import Any

import pyarrow as pa
import pytest

import oracle
import skyband as sb
from support import conformance, streams

SETTINGS = {"k": 4, "score": "score", "id": "id", "time": "ts", "algorithm": "sma"}


def query(k: int, size: int, slide: int = 1) -> sb.TopK:
    window = sb.CountWindow(size, slide=slide)
    return sb.TopK(k=k, score="x", window=window, algorithm="sma")


def stats_after(asked: sb.TopK, values: list[Any]) -> dict[str, int | float]:
    monitor = sb.Monitor(asked)
    monitor.push(pa.table({"x": values}))
    monitor._check()
    return monitor.stats()


def computed_while_filling(reads: list[int]) -> int:
    """How often a window is recomputed only because its number of live rows has grown like this."""
    count, last = 0, 0
    for live in reads:
        if 4 * live > 5 * last:
            count, last = count + 1, live
    return count


@pytest.mark.nojit
def test_rows_below_the_threshold_stay_out_of_the_band() -> None:
    """A full skyband would hold every row of a falling stream."""
    falling = [float(40 - i) for i in range(40)]
    stats = stats_after(query(4, size=40), falling)
    assert stats["rescans"] == computed_while_filling(list(range(1, 41)))
    assert stats["skyband"] == 4
    assert stats["retained"] == 40  # the grid holds every live row, as in the paper


@pytest.mark.nojit
def test_a_row_that_reaches_the_threshold_enters_the_band() -> None:
    first, more = [9.0, 8.0, *[1.0] * 34], [8.5, 8.0, 7.9, 1.0]
    asked = query(2, size=40, slide=4)
    assert stats_after(asked, first)["skyband"] == 2
    stats = stats_after(asked, [*first, *more])
    # 8.5 and the newer 8 enter. The older 8 leaves: 9, 8.5 and the newer 8 dominate it.
    assert stats["skyband"] == 3
    assert stats["rescans"] == computed_while_filling(list(range(4, 41, 4)))


@pytest.mark.nojit
def test_the_threshold_is_set_as_soon_as_k_rows_are_live() -> None:
    """A window with fewer than k rows has no k-th best row."""
    for k in range(2, 12):
        stats = stats_after(query(k, size=50), [float(-i) for i in range(k + 1)])
        assert stats["skyband"] == k, "the last row is below the k-th"


@pytest.mark.nojit
def test_a_falling_stream_rescans_each_time_the_band_runs_dry() -> None:
    k, size, n = 4, 20, 200
    stats = stats_after(query(k, size), [float(-i) for i in range(n)])
    # The band holds the k best rows, which are the oldest. When the first of them leaves, the band
    # runs dry, and nothing that arrives is good enough to fill it.
    filling = computed_while_filling(list(range(1, size + 1)))
    assert stats["rescans"] == filling + n - size
    assert stats["skyband"] == k


@pytest.mark.nojit
def test_a_rising_stream_needs_no_rescan_once_the_window_is_full() -> None:
    stats = stats_after(query(4, size=20), [float(i) for i in range(200)])
    assert stats["rescans"] == computed_while_filling(list(range(1, 21)))
    assert stats["skyband"] == 4


@pytest.mark.nojit
def test_a_window_that_grows_gets_a_higher_threshold() -> None:
    """After a quiet time, the k-th best of few rows would admit nearly all of many new rows."""
    rng = random.Random(2)
    times = [*range(0, 100, 10), *(100 + i // 8 for i in range(800))]
    rows = {"t": times, "x": [rng.random() for _ in times]}
    asked = sb.TopK(k=5, score="x", time="t", window=sb.TimeWindow(50, slide=1), algorithm="sma")
    monitor = sb.Monitor(asked)
    monitor.push(pa.table(rows))
    stats = monitor.stats()
    assert stats["retained"] >= 400
    assert stats["skyband"] <= 15  # a full skyband has some 5 (1 + log(400 / 5)) = 27 rows
    assert stats["rescans"] <= 40


@pytest.mark.nojit
def test_a_rescan_that_finds_exactly_k_rows_sets_the_threshold_too() -> None:
    """If the best cells hold exactly k rows, rows in the other cells are still live."""
    values = [100.0, 99.0, 50.0, 49.0, 48.0, 1.0, 2.0, 3.0]
    table = pa.table({"x": [*values, 0.5, 0.6, 0.7, 0.8]})
    got = sb.rank(table, query(2, size=5))
    best = [
        value
        for end in range(1, table.num_rows + 1)
        for value in sorted(table["x"].to_pylist()[max(0, end - 5) : end], reverse=True)[:2]
    ]
    assert got["x"].to_pylist() == best


@pytest.mark.nojit
def test_a_band_of_many_rows() -> None:
    """Falling scores above the threshold of a quiet time all stay in the band."""
    falling = [float(150 - i) for i in range(100)]
    asked = query(1, size=200)
    monitor = sb.Monitor(asked)
    monitor.push(pa.table({"x": [0.0] * 200}))
    answers = monitor.push(pa.table({"x": falling}))
    assert monitor.stats()["skyband"] == 100
    answers = [*answers, *monitor.push(pa.table({"x": [0.0] * 150}))]
    monitor._check()
    best = [answer.table["x"].to_pylist()[0] for answer in answers]
    assert best == [150.0] * 200 + [149.0 - i for i in range(50)]


@pytest.mark.parametrize("pattern", streams.PATTERNS)
@pytest.mark.parametrize("score_type", ["int", "float", "infinite"])
@pytest.mark.parametrize("restarts", [False, True])
def test_rescans_answer_as_the_definition(pattern: str, score_type: str, restarts: bool) -> None:
    stream = streams.stream(
        3, 400, pattern=pattern, score_type=score_type, lateness=3, step=2, batches=7
    )
    for window in (oracle.TimeWindow(40, 3, lateness=3), oracle.CountWindow(60, 4)):
        conformance.compare("TopK", window, SETTINGS, stream, restarts)
        if pattern == "falling" and score_type != "infinite":
            asked = conformance.query_of("TopK", window, SETTINGS, stream.table)
            stats = conformance.run(asked, stream.batches, restarts).stats
            assert stats["rescans"] > 20, stats


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.random(),
        lambda rng: rng.gauss(0, 1),
        lambda rng: rng.gauss(0, 1) * 1e-300,
        lambda rng: rng.randrange(10**9),
        lambda rng: 2**62 + rng.randrange(10**6),
        lambda rng: rng.choice((rng.gauss(0, 1), math.inf, -math.inf)) if rng.random() < 0.01
        else rng.gauss(0, 1),
    ],
    ids=["uniform", "normal", "tiny", "integers", "far integers", "with infinities"],
)  # fmt: skip
def test_a_rescan_reads_the_best_cells_alone(draw: Any) -> None:
    """All cells cover equal ranges of the score, whatever its sign and type."""
    rng = random.Random(5)
    size = 4_000
    stats = stats_after(query(10, size, slide=20), [draw(rng) for _ in range(6 * size)])
    assert stats["rescans"] >= 5
    assert stats["rows_rescanned"] / stats["rescans"] < size / 20
