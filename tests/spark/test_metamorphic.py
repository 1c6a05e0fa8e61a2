"""Random jobs on simulated Spark: what may not change an answer does not change it.

Any cut into batches, any partitions, any number of shards, a restart after any batch; the top 5 are
the first of the top 10, groups are what filters give, and queries come and go beside others.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import Job, run_job
from skyband.jobs.job import JobSection
from support import spark_simulator
from support.board_simulator import BoardJob

LATENESS = 10
Cut = list[pa.Table]


def drawn_query(chance: random.Random) -> sb.Query:
    """Kind, window and groups, each drawn by itself."""
    windows: tuple[Callable[[], Any], ...] = (
        lambda: sb.TimeWindow(40, slide=10, lateness=LATENESS),
        lambda: sb.TimeWindow(30, lateness=LATENESS),
        lambda: sb.LandmarkWindow(slide=30, since=0, lateness=LATENESS),
        lambda: sb.DecayWindow(20, slide=20, lateness=LATENESS),
    )
    by = chance.choice(((), ("g",)))
    kind = chance.choice(("TopK", "TopK", "HeavyHitters", "HeavyHitters", "Skyline"))
    if kind == "Skyline":
        window = chance.choice(windows[:3])()
        return sb.Skyline(prefer={"x": "max", "y": "min"}, time="ts", by=by, window=window)
    k, window = chance.choice((1, 3, 10)), chance.choice(windows)()
    if kind == "TopK":
        return sb.TopK(k=k, score="x", id="id", time="ts", by=by, window=window)
    weight = chance.choice((None, "y"))
    return sb.HeavyHitters(k=k, item="item", weight=weight, time="ts", by=by, window=window)


def drawn_rows(chance: random.Random) -> pa.Table:
    """Rows that come out of order, but not late: times spread less than the lateness."""
    rows, now = [], 20
    for i in range(chance.randint(20, 60)):
        now += chance.randint(0, 6)
        early = now - chance.randint(0, LATENESS // 2)
        row = {"ts": early, "id": i, "item": chance.randrange(6), "g": chance.choice("abc")}
        rows.append(row | {"x": chance.randrange(50), "y": chance.randrange(1, 9)})
    return pa.Table.from_pylist(rows)


def drawn_cut(chance: random.Random, table: pa.Table) -> Cut:
    """The rows in batches of any size."""
    cuts = chance.sample(range(1, table.num_rows), chance.randint(0, 6))
    edges = [0, *sorted(cuts), table.num_rows]
    return [table.slice(a, b - a) for a, b in pairwise(edges)]


def given(query: sb.Query, cut: Cut, parts: int = 1, shards: int = 1, restarts: Any = ()) -> Any:
    """What a job gives; before each of the batches ``restarts`` it is started again."""
    plan = spark_simulator.plan_of(query, {"": cut[0]}, shards=shards)
    job = spark_simulator.Job(plan, parts)
    rows = []
    for number, batch in enumerate(cut):
        job.forgetful = number in restarts
        rows += job.push({"": batch}).to_pylist()
    assert job.stats["rows_late"] == 0
    return plain(rows)


def plain(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(
        json.dumps({n: round(v, 6) if isinstance(v, float) else v for n, v in sorted(row.items())})
        for row in rows
    )


def compared(seed: int) -> None:
    """One random job, changed in all the ways that may not matter."""
    chance = random.Random(seed)
    query, table = drawn_query(chance), drawn_rows(chance)
    cut = drawn_cut(chance, table)
    base = given(query, cut)
    monitor = sb.Monitor(query)
    alone = [
        row for batch in cut for answer in monitor.push(batch) for row in answer.table.to_pylist()
    ]
    assert base == plain(alone), "the embedded engine"
    assert base == given(query, drawn_cut(chance, table)), "another cut"
    assert base == given(query, cut, parts=chance.randint(2, 4)), "partitions"
    assert base == given(query, cut, shards=chance.randint(2, 4)), "shards"
    some = chance.sample(range(len(cut)), chance.randint(1, len(cut)))
    assert base == given(query, cut, chance.randint(1, 3), chance.randint(1, 3), some), "restarts"
    if hasattr(query, "k"):
        ten, five = (given(_changed(query, k=k), cut) for k in (10, 5))
        assert [row for row in ten if json.loads(row)["rank"] <= 5] == five, "the first five of ten"
    if query.groups:
        filtered = plain(_by_filters(query, cut))
        if isinstance(query.window, sb.DecayWindow):  # answers an end only if rows count before it
            assert set(filtered) <= set(base), "groups and filters"
        else:
            assert base == filtered, "groups and filters"
    _joined(chance, query, table, cut)


def _changed(query: sb.Query, **settings: Any) -> sb.Query:
    return dataclasses.replace(query, **settings)


def _by_filters(query: sb.Query, cut: Cut) -> list[dict[str, Any]]:
    """The same with a filter for each group."""
    rows = []
    for group in "abc":
        one = _changed(query, by=(), where={"g": group})
        rows += [json.loads(row) | {"g": group} for row in given(one, cut)]
    return rows


def _joined(chance: random.Random, query: sb.Query, table: pa.Table, cut: Cut) -> None:
    """A query stays, one goes, and one comes after some batch."""
    other = sb.HeavyHitters(
        k=2, item="item", time="ts", window=sb.TimeWindow(40, slide=20, lateness=LATENESS)
    )
    at = chance.randint(1, len(cut))
    job = BoardJob({"stays": query, "goes": other}, {"": table}, chance.random() < 0.5)
    found: dict[str, list[Any]] = {"stays": [], "goes": [], "comes": []}
    for number, batch in enumerate(cut):
        if number == at:
            job.restart({"stays": query, "comes": other})
        for name, rows in job.push({"": batch}).items():
            found[name] += rows
    assert plain(found["stays"]) == given(query, cut), "beside others"
    assert plain(found["goes"]) == given(other, cut[:at]), "until it goes"
    if at < len(cut):
        seen = max(pa.concat_tables(cut[:at])["ts"].to_pylist())
        wanted = [row for row in given(other, cut) if json.loads(row)["window_start"] > seen]
        whole = [row for row in plain(found["comes"]) if json.loads(row)["window_start"] > seen]
        assert whole == wanted, "since it came"


@pytest.mark.parametrize("seed", range(30))
def test_what_may_not_matter_does_not(seed: int) -> None:
    compared(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1_000, 3_000, 100))
def test_what_may_not_matter_does_not_in_many_jobs(first: int) -> None:
    for seed in range(first, first + 100):
        try:
            compared(seed)
        except Exception as problem:
            raise AssertionError(f"seed {seed}") from problem


# On Spark itself ----------------------------------------------------------------------------------


def on_spark(spark: Any, folder: Path, query: sb.Query, cut: Cut, at: int, shards: int) -> Any:
    """What a job gives that reads a file in each batch, and is started again before file ``at``."""
    sink = JobSection("files", {"path": str(folder / "out")})
    for runs in (cut[:at], cut[at:]):
        for batch in runs:
            number = len(list(folder.glob("in/*")))
            path = folder / "in" / f"{number:03}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(batch, path)
            os.utime(path, (1_700_000_000 + number,) * 2)  # Spark reads files in this order
        source = JobSection("files", {"path": str(folder / "in"), "files_per_batch": 1})
        settings: dict[str, Any] = {"engine": "spark", "shards": shards, "trigger": {"once": True}}
        job = Job("job", str(folder / "state"), {"q": query}, {"": source}, {"q": sink}, **settings)
        run_job(job, session=spark)
    return plain(pq.read_table(folder / "out").to_pylist())


@pytest.mark.spark
@pytest.mark.parametrize(
    "seed", [3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(100, 110))]
)
def test_what_may_not_matter_does_not_on_spark(spark: Any, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    query, table = drawn_query(chance), drawn_rows(chance)
    cut = drawn_cut(chance, table)
    cut = cut if len(cut) > 1 else [table.slice(0, 9), table.slice(9)]
    at, shards = chance.randint(1, len(cut) - 1), chance.randint(1, 3)
    assert on_spark(spark, tmp_path, query, cut, at, shards) == given(query, cut)
