"""UncertainTopK: equal answers of all synopses, bounded state, bad rows and bad queries."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband import registry
from skyband.uncertain.kernels import queue
from skyband.uncertain.queue import CompactSets, SegmentalQueue
from support.uncertain_cases import ALGORITHMS, KINDS, RADAR, query

# Synopses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("size", "slide"), [(60, 1), (200, 7), (300, 300), (50, 80)])
def test_all_synopses_give_the_same_digits(kind: str, size: int, slide: int) -> None:
    rng = np.random.default_rng(size)
    n = 1500
    table = pa.table(
        {
            "speed": rng.integers(0, 400, n),
            "p": rng.choice([0.05, 0.3, 0.8, 0.99, 1.0], n),
            "car": rng.integers(0, 90, n),
        }
    )
    answers = [
        sb.rank(table, query(kind, sb.CountWindow(size, slide=slide), k=4, algorithm=name))
        for name in ALGORITHMS
    ]
    assert answers[0].num_rows
    for other in answers[1:]:
        assert other.equals(answers[0])


@pytest.mark.parametrize("pattern", ["random", "falling", "rising", "unlikely", "in turns"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_state_stays_bounded_and_checks(algorithm: str, pattern: str) -> None:
    rng = np.random.default_rng(1)
    n, size = 6000, 1000
    speed = {"falling": -np.arange(n), "rising": np.arange(n)}.get(pattern, rng.permutation(n))
    p = rng.random(n) * 1e-4 + 1e-9 if pattern == "unlikely" else 1.0 - rng.random(n)
    if pattern == "in turns":  # compact sets, and H with them, grow and shrink by a large factor
        p = np.where(np.arange(n) // 700 % 2, p / 20, 0.5 + p / 2)
    table = pa.table({"speed": speed, "p": p, "car": np.arange(n)})
    monitor = sb.Monitor(query("pk-topk", sb.CountWindow(size, slide=20), k=5, algorithm=algorithm))
    for start in range(0, n, 750):
        monitor.push(table.slice(start, 750))
        monitor._check()
        retained = monitor.stats()["retained"]
        if algorithm == "bs":
            assert retained == min(start + 750, size) // 20 * 20
        elif pattern == "random":
            assert retained < size
        elif algorithm != "csq":
            assert retained <= 8 * size  # everything may be needed, as the paper says
    if pattern == "random" and algorithm != "bs":
        stats = monitor.stats()
        assert stats["compact_sets"] <= 60
        assert stats["largest_compact_set"] <= 40


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_rows_are_cleaned_up_when_the_store_has_doubled_not_at_each_push(algorithm: str) -> None:
    """Scanning all live rows at each push would make bs 60 times slower."""
    rng = np.random.default_rng(3)
    size, n, batch = 8_000, 60_000, 200
    table = pa.table({"speed": rng.random(n), "p": 1.0 - rng.random(n), "car": np.arange(n)})
    window = sb.CountWindow(size, slide=10)
    monitor = sb.Monitor(query("pk-topk", window, k=3, algorithm=algorithm))
    synopsis: Any = monitor.session.synopsis
    longest = 0
    for start in range(0, n, batch):
        monitor.push(table.slice(start, batch))
        longest = max(longest, len(synopsis.store))
    cleanings = monitor.stats()["cleanings"]
    assert longest <= 2 * size + 4096 + batch
    # At least 4,096 rows come between two cleanings; once the window is full, as many as it holds.
    assert cleanings <= (2 + n // size if algorithm == "bs" else n // 4096)
    assert cleanings >= (3 if algorithm == "bs" else 1)


@pytest.mark.parametrize("damage", ["H", "segments", "newest rows", "order of entries", "a set"])
def test_a_damaged_queue_is_noticed(damage: str) -> None:
    rng = np.random.default_rng(4)
    table = pa.table({"speed": rng.permutation(900), "p": 1 - rng.random(900), "car": range(900)})
    monitor = sb.Monitor(query("pk-topk", sb.CountWindow(700, slide=1), k=3, algorithm="scsq"))
    monitor.push(table)
    monitor._check()
    synopsis = monitor.session.synopsis
    assert isinstance(synopsis, SegmentalQueue)
    assert isinstance(synopsis.reserve, CompactSets)
    arena, entry, num = synopsis.reserve.queue
    live = entry[num[queue.FIRST] : num[queue.LAST]]
    if damage == "H":
        num[queue.LARGEST] = 900
    elif damage == "segments":
        num[queue.BOUND] = 0
    elif damage == "newest rows":
        num[queue.TAIL] = 0
    elif damage == "order of entries":
        live[:] = live[::-1].copy()
    else:
        arena[live[0, queue.BEGIN]] = num[queue.HIGH] - 1
    with pytest.raises(AssertionError):
        monitor._check()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_shorter_window_can_be_read(algorithm: str) -> None:
    rng = random.Random(2)
    rows = [
        {"speed": rng.randrange(50), "p": rng.choice((0.25, 0.5, 1.0)), "car": i} for i in range(90)
    ]
    table = pa.Table.from_pylist(rows)
    monitor = sb.Monitor(query("pk-topk", sb.CountWindow(60, slide=10), algorithm=algorithm))
    monitor.push(table)
    for last in (60, 30, 10):
        want = sb.rank(table.slice(90 - last), query("pk-topk", sb.CountWindow(last)))
        assert monitor.peek(last=last).table["car"].to_pylist() == want["car"].to_pylist()


def test_shards_merge() -> None:
    # Compact sets of shards are partial answers: merged, they give the answer over all rows.
    rng = np.random.default_rng(8)
    n = 400
    table = pa.table(
        {"speed": rng.integers(0, 99, n), "p": rng.choice([0.3, 0.9], n), "car": np.arange(n)}
    ).append_column("ts", pa.array(np.arange(n) // 10))
    for kind in KINDS:
        chosen = query(kind, sb.TimeWindow(20), time="ts")
        want = sb.rank(table, chosen)
        partials = []
        for shard in range(3):
            synopsis = registry.load("UncertainTopK", "scsq-buffer")(chosen)
            synopsis.bind("", table.schema)
            rows = table.filter(pa.array(np.arange(n) % 3 == shard)).combine_chunks()
            monitor = sb.Monitor(chosen)
            monitor.push(rows.filter(pa.compute.less(rows["ts"], 20)))
            fold = monitor.session.fold
            assert fold is not None
            found = fold.open.whole()
            assert found is not None
            synopsis.fold(found, fold.windows(np.zeros(0, np.int64)))
            partials.append(synopsis.partial(0, 1))
        finished = synopsis.finish(partials).parts["rows"]
        first = want.filter(pa.compute.equal(want["window_end"], 20))
        assert finished["car"].to_pylist() == first["car"].to_pylist()
        assert finished["topk_probability"].to_pylist() == first["topk_probability"].to_pylist()


# Bad rows and queries ----------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -0.1, 1.5, float("nan"), None])
def test_probabilities_outside_are_bad_rows(bad: float | None) -> None:
    table = pa.table({"speed": [1, 2], "p": pa.array([0.5, bad], pa.float64()), "car": ["a", "b"]})
    with pytest.raises(sb.DataError, match="'p', row 1"):
        sb.rank(table, query("pk-topk", sb.CountWindow(1)))
    with pytest.warns(sb.SkybandWarning):
        kept = sb.rank(table, query("pk-topk", sb.CountWindow(1)), on_bad="skip")
    assert kept["car"].to_pylist() == ["a"]


def test_threshold_belongs_to_pt_k() -> None:
    with pytest.raises(sb.QueryError, match="threshold"):
        sb.UncertainTopK(
            k=1, score="s", probability="p", window=sb.CountWindow(1), semantics="pt-k"
        )
    with pytest.raises(sb.QueryError, match="threshold"):
        sb.UncertainTopK(k=1, score="s", probability="p", window=sb.CountWindow(1), threshold=0.5)


def test_fewer_rows_than_k() -> None:
    table = RADAR.slice(0, 2)
    assert sb.rank(table, query("u-topk", sb.CountWindow(2), k=3)).num_rows == 0
    assert sb.rank(table, query("u-kranks", sb.CountWindow(2), k=3))["speed"].to_pylist() == [6, 5]
    assert sb.rank(table, query("pk-topk", sb.CountWindow(2), k=3))["speed"].to_pylist() == [5, 6]
