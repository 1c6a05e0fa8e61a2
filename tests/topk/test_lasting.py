"""A batch leaves out only rows that no window shows."""

import itertools
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

import skyband as sb
from skyband.contract.synopsis import Synopsis
from skyband.engine.per_group import make_synopsis
from skyband.topk import pruner as lasting

ROWS = 6_000

SCORES = {
    "uniform": lambda rng: rng.random(ROWS),
    "crowded": lambda rng: rng.integers(0, 4, ROWS).astype(float),
    "rising": lambda rng: np.arange(ROWS) + rng.random(ROWS),
    "falling": lambda rng: -np.arange(ROWS) + rng.random(ROWS),
    "sine": lambda rng: np.sin(np.arange(ROWS) / 300) + rng.random(ROWS) / 10,
    "bursts": lambda rng: rng.random(ROWS) * (rng.random(ROWS) < 0.01),
}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try every batch, even after one that left out little, and use small blocks."""
    monkeypatch.setattr(lasting, "_PATIENCE", 0)
    monkeypatch.setattr(lasting, "_ROWS_PER_RESULT", 2)


def tables(answers: list[sb.Answer]) -> list[pa.Table]:
    return [answer.table for answer in answers]


@pytest.mark.parametrize("shape", SCORES)
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(("size", "slide"), [(800, 10), (700, 7), (90, 8), (650, 100), (64, 1)])
def test_answers_are_those_of_an_algorithm_that_sees_every_pane(
    shape: str, largest: bool, size: int, slide: int
) -> None:
    rng = np.random.default_rng(size)
    table = pa.table({"x": SCORES[shape](rng), "id": np.arange(ROWS)})
    window = sb.CountWindow(size, slide)
    for k in (1, 3, 20):
        ours = sb.TopK(k=k, score="x", id="id", window=window, largest=largest)
        other = sb.TopK(
            k=k, score="x", id="id", window=window, largest=largest, algorithm="mintopk"
        )
        assert sb.rank(table, ours).equals(sb.rank(table, other))


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    shape=st.sampled_from(sorted(SCORES)),
    k=st.integers(1, 6),
    lateness=st.sampled_from([0, 3, 40, 500]),
    gap=st.booleans(),
)
def test_disorder_gaps_and_shorter_windows(
    seed: int, shape: str, k: int, lateness: int, gap: bool
) -> None:
    rng = np.random.default_rng(seed)
    time = np.arange(ROWS) + rng.integers(-lateness // 2, lateness // 2 + 1, ROWS)
    if gap:
        time[ROWS // 3 :] += 1_500
    table = pa.table({"t": time - time.min(), "x": SCORES[shape](rng), "id": np.arange(ROWS)})
    window = sb.TimeWindow(600, slide=20, lateness=lateness)
    query = sb.TopK(k=k, score="x", id="id", time="t", window=window)
    ours = sb.Monitor(query)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lasting, "_ROWS_PER_RESULT", ROWS)  # no batch is large enough
        plain = sb.Monitor(query)
        batches = np.sort(rng.integers(1, ROWS, 3))  # nothing can be seen before the first row
        pieces = list(zip([0, *batches], [*batches, ROWS], strict=True))
        expected = []
        for first, last in pieces:
            answers = tables(plain.push(table.slice(first, last - first)))
            shorter = [plain.peek(last=n).table for n in (20, 160, 600)]
            expected.append((answers, shorter))
        end = tables(plain.flush())
    for (first, last), (answers, shorter) in zip(pieces, expected, strict=True):
        assert tables(ours.push(table.slice(first, last - first))) == answers
        assert [ours.peek(last=n).table for n in (20, 160, 600)] == shorter
    assert tables(ours.flush()) == end


def test_most_rows_are_left_out_of_a_batch_of_many_windows() -> None:
    score = np.random.default_rng(1).random(ROWS)
    panes = np.arange(ROWS // 10)
    query = sb.TopK(k=5, score="x", window=sb.CountWindow(800, slide=10))
    chooser = lasting.BatchPruner(query)
    found = chooser.select(score, np.zeros(0, np.int64), np.arange(0, ROWS + 1, 10), panes, 599)
    assert found is not None
    positions, offsets = found
    assert len(positions) == offsets[-1] < 400  # of 3,000 rows among the best five of their panes


@pytest.mark.parametrize("kind", ["int", "text"])
@pytest.mark.parametrize(("size", "slide"), [(50, 50), (30, 50), (100, 50)])
def test_windows_of_one_pane_for_many_groups(kind: str, size: int, slide: int) -> None:
    rng = np.random.default_rng(size)
    time = np.sort(rng.integers(0, 2_000, ROWS))
    groups = rng.integers(0, 40, ROWS)
    table = pa.table({
        "t": time,
        "x": rng.integers(0, 9, ROWS),
        "g": groups if kind == "int" else [f"group {g}" for g in groups.tolist()],
        "id": np.arange(ROWS) if kind == "int" else [f"row {i}" for i in range(ROWS)],
    })  # fmt: skip
    window = sb.TimeWindow(size, slide=slide)
    for k in (1, 4, 70):
        ours, other = (
            sb.TopK(
                k=k, score="x", id="id", time="t", by=("g",), window=window, algorithm=algorithm
            )
            for algorithm in ("skyband", "mintopk")
        )
        assert sb.rank(table, ours).equals(sb.rank(table, other))
        monitor = sb.Monitor(ours)
        monitor.push(table)
        if size >= slide:
            answers = sb.rank(table, ours)
            sealed = time[-1] // slide * slide
            last = answers.filter(pa.array(answers["window_end"].to_numpy() == sealed))
            assert monitor.peek().table == last
        monitor.session.synopsis._check()


def test_windows_of_one_pane_find_panes_that_several_batches_share() -> None:
    rng = np.random.default_rng(3)
    time = np.sort(rng.integers(0, 300, ROWS))
    table = pa.table({"t": time, "x": rng.random(ROWS), "g": rng.integers(0, 5, ROWS)})
    query = sb.TopK(k=2, score="x", time="t", by=("g",), window=sb.TimeWindow(10))
    cuts = [0, 90, 1_000, 1_030, 3_700, ROWS]
    monitor = sb.Monitor(query)
    found = [
        answer.table
        for first, last in itertools.pairwise(cuts)
        for answer in monitor.push(table.slice(first, last - first))
    ]
    found += tables(list(monitor.flush()))
    assert pa.concat_tables(found) == sb.rank(table, query)
    assert len(found) == 30


@pytest.mark.parametrize("kind", ["int", "text"])
def test_a_window_of_one_pane_is_there_for_peeks_snapshots_and_stats(kind: str) -> None:
    rng = np.random.default_rng(4)
    ids = np.arange(ROWS) if kind == "int" else [f"row {i}" for i in range(ROWS)]
    time = np.sort(rng.integers(0, 600, ROWS))
    table = pa.table({"t": time, "x": rng.random(ROWS), "g": rng.integers(0, 30, ROWS), "id": ids})
    query = sb.TopK(k=2, score="x", id="id", time="t", by=("g",), window=sb.TimeWindow(10))
    expected = sb.rank(table, query)
    monitor, found = sb.Monitor(query), []
    for step, first in enumerate(range(0, ROWS, 137)):
        found += tables(list(monitor.push(table.slice(first, 137))))
        if step % 3 == 1:
            monitor = sb.Monitor.restore(monitor.snapshot())
        if step % 4 == 2 and found:
            assert 0 < monitor.stats()["retained"] <= 60
            assert monitor.peek().table == found[-1]
            monitor.session.synopsis._check()
    found += tables(list(monitor.flush()))
    assert pa.concat_tables(found) == expected


@pytest.mark.parametrize("algorithm", ["skyband", "mintopk", "sma", "pabf"])
def test_what_an_algorithm_declares_is_not_hidden_by_its_own_attributes(algorithm: str) -> None:
    """An engine reads these flags; an attribute of the same name would be taken for a yes."""
    more: Any = {"epsilon": 0.5, "options": {"preselect": True}} if algorithm == "pabf" else {}
    query = sb.TopK(k=1, score="x", time="t", window=sb.TimeWindow(9), algorithm=algorithm, **more)
    synopsis = make_synopsis(query)
    flags = [name for name, kind in Synopsis.__annotations__.items() if kind == "bool"]
    assert {"many_groups", "long_chunks"} <= set(flags)
    assert {type(getattr(synopsis, flag)) for flag in flags} == {bool}
