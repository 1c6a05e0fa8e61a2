"""``TimeWindow(revise=)`` on Spark: late rows correct answers as they do embedded."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb

pytest.importorskip("pyspark")

from skyband.jobs import parse_job, run_job
from skyband.spark.bucket import Bucket
from skyband.spark.summarise import Summariser
from support import spark_session, spark_simulator
from support.board_simulator import BoardJob
from support.local_jobs import last_revisions
from support.streams import MICROSECONDS


def rows(seed: int, count: int = 120, most: int = 60, unit: int = 1) -> pa.Table:
    """Rows that come up to ``most`` late."""
    made = np.random.default_rng(seed)
    time = 1_000 + np.cumsum(made.choice([0, 1, 3, 9], count))
    time = time[np.argsort(time + made.integers(0, most, count), kind="stable")]
    kind = pa.int64() if unit == 1 else MICROSECONDS
    return pa.table(
        {
            "t": pa.array(time * unit).cast(kind),
            "id": [f"id{n}" for n in made.integers(0, 7, count)],
            "g": [f"g{n}" for n in made.integers(0, 9, count)],
            "x": made.integers(0, 40, count) / 40,
        }
    )


def window(size: int, slide: int, lateness: int, revise: int | None = 100) -> sb.TimeWindow:
    return sb.TimeWindow(size, slide=slide, lateness=lateness, revise=revise)


BOARD: dict[str, sb.Query] = {
    "best": sb.TopK(k=2, score="x", id="id", time="t", by=("g",), window=window(30, 7, 5)),
    "often": sb.HeavyHitters(k=2, item="id", time="t", window=window(40, 20, 30)),
    "short": sb.HeavyHitters(k=3, item="id", time="t", window=window(20, 20, 30)),
    "front": sb.Skyline(
        prefer={"x": "max", "t": "min"}, time="t", by=("g",), window=window(9, 9, 0)
    ),
    "plain": sb.TopK(k=1, score="x", time="t", window=window(30, 7, 5, None)),
}


def embedded(monitor: sb.Monitor, push: pa.Table) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in monitor.query}
    for answer in monitor.push(push):
        found[str(answer.name)] += answer.table.to_pylist()
    return found


def counted(found: list[dict[str, Any]]) -> Counter[str]:
    return Counter(map(repr, found))


@pytest.mark.parametrize("forgetful", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_board_is_corrected_query_by_query(seed: int, forgetful: bool) -> None:
    table = rows(seed)
    job, monitor = BoardJob(BOARD, {"": table}, forgetful), sb.Monitor(BOARD)
    revised: Counter[str] = Counter()
    for at in range(0, 120, 15):
        found = job.push({"": table.slice(at, 15)})
        for name, want in embedded(monitor, table.slice(at, 15)).items():
            assert counted(found[name]) == counted(want), name
            revised[name] += sum(row.get("revision", 0) > 0 for row in want)
    assert min(revised[name] for name in BOARD if name != "plain") > 1
    assert revised["plain"] == 0


@pytest.mark.parametrize("by", [(), ("g",)])
def test_a_query_that_joins_is_corrected_from_its_first_window_on(by: tuple[str, ...]) -> None:
    table = rows(7, 180)
    joined = sb.TopK(k=1, score="x", id="id", time="t", by=by, window=window(25, 10, 4))
    first = {"often": BOARD["often"]}
    job, alone = BoardJob(first, {"": table}, forgetful=True), sb.Monitor({"joined": joined})
    found: list[dict[str, Any]] = []
    wanted: list[dict[str, Any]] = []
    for at in range(0, 180, 15):
        if at == 60:
            job.restart(first | {"joined": joined})
            seen = job.watermark
        found += job.push({"": table.slice(at, 15)}).get("joined", [])
        own = embedded(alone, table.slice(at, 15))["joined"]
        wanted += own if at >= 60 else []
    begun = [row for row in found if row["window_start"] > seen]
    assert counted(begun) == counted([row for row in wanted if row["window_start"] > seen])
    assert max(row["revision"] for row in begun) > 0
    assert min(row["window_start"] for row in found) >= seen


def test_what_no_row_may_correct_is_dropped() -> None:
    query = sb.TopK(k=1, score="x", time="t", window=window(10, 5, 0, 50))
    plan = spark_simulator.plan_of(query, {"": rows(0)})
    job = spark_simulator.Job(plan, forgetful=True)
    for second in range(1_000, 1_400, 4):
        at = [second, second - 30] if second % 16 == 0 else [second]
        same = {"id": ["a"] * len(at), "g": ["g"] * len(at), "x": [0.5] * len(at)}
        job.push({"": pa.table({"t": at} | same)})
        (store,) = job.stores.values()
        (stored,) = Bucket(job.plan, job.label, store).folds
        assert len(stored.panes) < 16
        assert len(store.kept) < 16
        assert all(len(blob) < 2_000 for blob in stored.histories.values())


def test_whole_panes_are_too_late() -> None:
    query = sb.TopK(k=1, score="x", time="t", window=window(10, 10, 0, 25))
    one = {"id": ["a"], "g": ["g"]}
    job = spark_simulator.Job(spark_simulator.plan_of(query, {"": rows(0)}))
    job.push({"": pa.table({"t": [1_048], "x": [0.25]} | one)})  # 1048 - 25 = 1023
    late = job.push({"": pa.table({"t": [1_019], "x": [0.5]} | one)})
    assert (late.num_rows, job.stats["rows_late"]) == (0, 1)
    (row,) = job.push({"": pa.table({"t": [1_021], "x": [0.5]} | one)}).to_pylist()
    assert (row["window_end"], row["revision"], job.stats["rows_late"]) == (1_030, 0, 1)
    (row,) = job.push({"": pa.table({"t": [1_025], "x": [0.75]} | one)}).to_pylist()
    assert (row["window_end"], row["revision"], row["x"]) == (1_030, 1, 0.75)


def test_rows_that_correct_answers_are_no_letters() -> None:
    query = sb.TopK(k=1, score="x", time="t", window=window(10, 10, 0, 25))
    plan = spark_simulator.plan_of(query, {"": rows(0)})
    (label,) = plan.labels
    worker = Summariser(plan, label, "")
    worker.summarise(pa.table({"t": [1_019, 1_021, 1_030, 1_050], "x": [0.5] * 4}))
    assert list(worker.late(1_048)) == [(0, {"": "late by 29"})]


@pytest.mark.spark
def test_streams_and_batches(spark: Any, tmp_path: Path) -> None:
    from skyband.spark import rank

    table = rows(5, 90, unit=1_000)
    size = sb.TimeWindow("30 ms", slide="10 ms", lateness="5 ms", revise="200 ms")
    query = sb.TopK(k=2, score="x", id="id", time="t", by=("g",), window=size)
    pushes = [table.slice(at, 30) for at in range(0, 90, 30)]
    frame = spark_session.stream_of(spark, tmp_path / "in", pushes, parts=2)
    with pytest.raises(sb.EngineError, match="in one shard only"):
        rank(frame, query, shards=3)
    found, _ = spark_session.collect_all(
        [rank(frame, query), rank(frame, query, changes=True)], tmp_path
    )
    for got, changes in zip(found, (False, True), strict=True):
        want, stats = spark_session.embedded(query, pushes, changes=changes)
        assert stats["rows_late"] == 0
        assert max(want["revision"].to_pylist()) > 0
        assert got.column_names == want.column_names
        assert spark_session.rows(got) == spark_session.rows(want)
    whole = rank(spark.createDataFrame(table), query, shards=2).toArrow()
    assert set(whole["revision"].to_pylist()) == {0}
    assert spark_session.rows(whole) == spark_session.rows(sb.rank(table, query))


@pytest.mark.spark
def test_a_job_on_spark_and_its_table(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    table = rows(6, 120)
    sized = {"size": 30, "slide": 10, "revise": 500}
    asked = {"kind": "TopK", "k": 2, "score": "x", "id": "id", "time": "t"}
    told: dict[str, Any] = {
        "name": "revised", "engine": "spark", "checkpoint": str(tmp_path / "state"),
        "source": {"kind": "files", "path": str(tmp_path / "in"), "files_per_batch": 1},
        "queries": {
            "kept": asked | {"window": sized, "by": ["g"]}
            | {"sink": {"kind": "files", "path": str(tmp_path / "kept")}},
            "shown": asked | {"window": sized}
            | {"sink": {"kind": "table", "table": "revised", "path": str(tmp_path / "shown")}},
        },
        "trigger": {"once": True},
    }  # fmt: skip
    for i, at in enumerate(range(0, 120, 30)):
        pq.write_table(table.slice(at, 30), tmp_path / "in" / f"{i}.parquet")
        os.utime(tmp_path / "in" / f"{i}.parquet", (1_000 + i,) * 2)
        if i % 2:  # the second run goes on from the checkpoint, and closes the last windows
            told["trigger"] |= {"close": i == 3}
            run_job(parse_job(told), spark)
    for name, found in (
        ("kept", pq.read_table(tmp_path / "kept")),
        ("shown", spark.table("revised").toArrow()),
    ):
        query = told["queries"][name]
        by = tuple(query.get("by", ()))
        size = sb.TimeWindow(size=30, slide=10)
        wanted = sb.rank(table, sb.TopK(k=2, score="x", id="id", time="t", by=by, window=size))
        assert max(found["revision"].to_pylist()) > 0
        columns = [*wanted.column_names[:2], "revision", *wanted.column_names[2:]]
        assert counted(last_revisions(found.select(columns))) == counted(wanted.to_pylist())
    ends = (
        spark.table("revised").toArrow().group_by("window_end").aggregate([("revision", "count")])
    )
    assert max(ends["revision_count"].to_pylist()) == 2  # of each window, its last revision only
