"""Answers are the same, bit for bit, whatever the number of threads."""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import skyband as sb
from skyband.contract.rows import Rows
from skyband.engine.session import Workers, cores, thread_count
from skyband.frequency.exact import Exact
from skyband.topk.skyband import SkybandTopK
from support import streams

TABLE = streams.stream(11, 600, step=2).table
GROUPS = tuple(sorted(set(TABLE["g"].to_pylist())))
WINDOW = sb.TimeWindow(60, slide=20)
QUERIES: dict[str, sb.Query] = {
    "topk": sb.TopK(k=3, score="score", id="id", time="ts", window=WINDOW, by=("g",)),
    "pabf": sb.TopK(k=3, score="score", time="ts", window=WINDOW, epsilon=5.0, algorithm="pabf"),
    "exact": sb.HeavyHitters(k=3, item="item", weight="score", time="ts", window=WINDOW),
    "fsw": sb.HeavyHitters(k=3, item="item", time="ts", window=WINDOW, capacity=8, algorithm="fsw"),
    "uncertain": sb.UncertainTopK(
        k=2, score="score", probability="p", id="id", time="ts", window=WINDOW
    ),
    "skyline": sb.Skyline(prefer={"price": "min", "volume": "max"}, time="ts", window=WINDOW),
    "best of each id": sb.TopK(
        k=3, score="score", id="id", time="ts", window=WINDOW, distinct="best"
    ),
    "decayed": sb.HeavyHitters(
        k=3, item="item", weight="score", time="ts", window=sb.DecayWindow(30, slide=20)
    ),
    "sketches of groups": sb.HeavyHitters(
        k=2, item="item", time="ts", window=WINDOW, by=("g",), algorithm="fsw-f"
    ),
    "fused": sb.FusedTopK(
        k=2, id="id", stream="g", value="score", streams=GROUPS, bounds=(0.0, 100.0),
        repeats="max", time="ts", window=WINDOW,
    ),
}  # fmt: skip
JOIN = sb.SkylineJoin(
    left="here", right="there", on="item", time="ts", window=WINDOW,
    prefer={"price": "min", "volume": "max"},
)  # fmt: skip


def stripped(stats: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in stats.items() if name != "state_bytes"}


@pytest.mark.parametrize("name", QUERIES)
def test_threads_change_no_bit_of_an_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.data.columns.CHUNK_ROWS", 47)
    monkeypatch.setattr("skyband.data.columns._SMALL_CHUNK", 1)
    query = QUERIES[name]
    one = sb.rank(TABLE, query, threads=1)
    assert one.num_rows
    for threads in (2, 5):
        assert sb.rank(TABLE, query, threads=threads).equals(one)
    monitors = [sb.Monitor(query, threads=threads) for threads in (1, 3)]
    answers = [m.push(TABLE) + m.flush() for m in monitors]
    for mine, theirs in zip(*answers, strict=True):
        assert mine.table.equals(theirs.table)
    assert monitors[0].snapshot() == monitors[1].snapshot()
    assert stripped(monitors[0].stats()) == stripped(monitors[1].stats())


def test_threads_change_no_bit_of_a_join(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.data.columns.CHUNK_ROWS", 47)
    monkeypatch.setattr("skyband.data.columns._SMALL_CHUNK", 1)
    sides = {
        "here": TABLE.select(["ts", "item", "price"]).slice(0, 400),
        "there": TABLE.select(["ts", "item", "volume"]).slice(100),
    }
    one = sb.rank(sides, JOIN, threads=1)
    assert one.num_rows
    for threads in (2, 5):
        assert sb.rank(sides, JOIN, threads=threads).equals(one)


def test_chunks_are_summarised_in_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.data.columns.CHUNK_ROWS", 100)
    monkeypatch.setattr("skyband.data.columns._SMALL_CHUNK", 1)
    seen: list[int] = []
    summarise = Exact.summarise

    def spy(self: Exact, rows: Rows) -> Any:
        seen.append(threading.get_ident())
        return summarise(self, rows)

    monkeypatch.setattr(Exact, "summarise", spy)
    sb.rank(TABLE, QUERIES["exact"], threads=2)
    assert threading.get_ident() not in seen
    assert len(seen) == 6
    seen.clear()
    sb.rank(TABLE, QUERIES["exact"], threads=1)
    assert set(seen) == {threading.get_ident()}


def test_a_filter_that_learns_runs_in_one_thread() -> None:
    from skyband import registry

    assert not registry.load("TopK", "pabf").parallel
    assert registry.load("HeavyHitters", "exact").parallel


def test_none_means_the_cores_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert cores() == 3
    assert thread_count(None) == 3
    assert thread_count(2) == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert cores() == os.cpu_count()


def test_workers_keep_the_order_and_pass_errors_on() -> None:
    workers = Workers(3)
    assert workers.map(lambda x: x * x, range(20)) == [x * x for x in range(20)]
    with pytest.raises(ZeroDivisionError):
        workers.map(lambda x: 1 // x, [1, 0, 2])
    assert Workers(1).map(lambda _: threading.get_ident(), [1, 2]) == [threading.get_ident()] * 2


def test_restore_takes_threads() -> None:
    monitor = sb.Monitor(QUERIES["topk"])
    monitor.push(TABLE.slice(0, 300))
    again = sb.Monitor.restore(monitor.snapshot(), threads=1)
    assert again.session.workers.threads == 1
    got, want = again.push(TABLE.slice(300)), monitor.push(TABLE.slice(300))
    assert pa.concat_tables([a.table for a in got]).equals(
        pa.concat_tables([a.table for a in want])
    )


@pytest.mark.parametrize(
    ("slide", "by", "longest"), [(20, (), 4_000), (400, (), 4_000), (20, ("g",), 1_000)]
)
def test_top_k_without_groups_gets_longer_chunks(
    slide: int, by: tuple[str, ...], longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows near an edge of a chunk cannot be left out early, so a chunk holds several windows."""
    monkeypatch.setattr("skyband.data.columns.CHUNK_ROWS", 1_000)
    monkeypatch.setattr("skyband.data.columns._SMALL_CHUNK", 1)
    sizes: list[int] = []
    kept: list[int] = []
    summarise = SkybandTopK.summarise

    def spy(self: SkybandTopK, rows: Rows) -> Any:
        runs = summarise(self, rows)
        sizes.append(len(rows))
        kept.append(len(runs.parts["rows"]))
        return runs

    monkeypatch.setattr(SkybandTopK, "summarise", spy)
    score = np.random.default_rng(4).random(8_000)
    query = sb.TopK(k=2, score="x", window=sb.CountWindow(800, slide=slide), by=by)
    answers = sb.rank(pa.table({"x": score, "g": np.zeros(8_000, np.int64)}), query)
    assert max(sizes) == longest
    if slide == 20 and not by:
        assert sum(kept) < 8_000 // slide  # below k per pane: half of it, at least, was left out
    for end in range(800, 8_001, 800):
        rows = answers.filter(pc.equal(answers["window_end"], end))
        assert rows["x"].to_pylist() == sorted(score[end - 800 : end].tolist())[:-3:-1]
