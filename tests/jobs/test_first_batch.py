"""Automatic shards: what a job's first batch needs, as explained, and fixed by its checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import explain, parse_job
from skyband.jobs.first_batch import job_split, sharded
from skyband.spark import sharding
from skyband.spark.checkpoint import Claim, recorded_shards
from skyband.spark.sharding import FirstRows, choose_shards, split_of, summary_bytes
from support import spark_simulator

WINDOW = sb.TimeWindow(600, slide=60)
COUNTS = sb.HeavyHitters(k=10, item="flow", time="ts", window=WINDOW)
SCORES = sb.TopK(k=10, score="load", id="flow", time="ts", window=WINDOW)
ROWS = 40_000


def flows() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "ts": np.arange(ROWS) // 100 + 1_000,
            "flow": rng.integers(0, 30_000, ROWS),
            "load": rng.random(ROWS),
        }
    )


def job(folder: Path, **changes: Any) -> Any:
    told: dict[str, Any] = {
        "name": "flows",
        "engine": "spark",
        "checkpoint": str(folder / "state"),
        "master": "local[4]",
        "source": {"kind": "files", "path": str(folder / "in")},
        "query": {"kind": "HeavyHitters", "k": 10, "item": "flow", "time": "ts"},
        "sink": {"kind": "console"},
    }
    told["query"]["window"] = {"size": 600, "slide": 60}
    return parse_job(told | changes)


@pytest.mark.parametrize(
    ("summaries", "buckets", "cores", "shards"),
    [
        (0, 1, None, 1),
        (50_000_000, 1, None, 1),
        (50_000_001, 1, None, 2),
        (500_000_000, 1, None, 10),
        (500_000_000, 1, 4, 4),
        (500_000_000, 16, 4, 1),
        (1e12, 1, None, 64),
    ],
)
def test_one_shard_per_fifty_megabytes(
    summaries: float, buckets: int, cores: int | None, shards: int
) -> None:
    assert choose_shards(summaries, buckets, cores).shards == shards


def test_summaries_are_measured_on_some_rows() -> None:
    few, many = ({"": FirstRows(flows(), rows)} for rows in (ROWS, 3_000 * ROWS))
    # Seven panes of ten rows are small; counts are sent of nearly every flow of a pane.
    assert summary_bytes(SCORES, few) < 10_000
    assert ROWS < summary_bytes(COUNTS, few) < 10 * ROWS
    assert summary_bytes(COUNTS, many) == pytest.approx(3_000 * summary_bytes(COUNTS, few))
    assert split_of([SCORES], many).shards == 1
    alone = split_of([COUNTS], many, cores=8)
    assert 4 <= alone.shards <= 8
    assert split_of([SCORES, COUNTS], many, cores=8) == alone
    assert split_of([SCORES], None).why == "the source cannot be looked at before the job starts"


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_job_looks_at_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(3):
        path = tmp_path / "in" / f"{number}.{form}"
        if form == "csv":
            pa.csv.write_csv(flows(), path)
        else:
            pq.write_table(flows(), path, row_group_size=10_000)
    assert job_split(job(tmp_path)).shards == 1
    per_file = summary_bytes(COUNTS, {"": FirstRows(flows(), ROWS)})
    monkeypatch.setattr(sharding, "KEY_BYTES", round(per_file))
    assert job_split(job(tmp_path)).shards in (3, 4)
    source = {"kind": "files", "path": str(tmp_path / "in"), "files_per_batch": 1}
    assert job_split(job(tmp_path, source=source)).shards in (1, 2)
    assert job_split(job(tmp_path, shards=5)).why == "as the job says"
    assert "of summaries in the first batch" in explain(job(tmp_path))


@pytest.mark.parametrize("several", [False, True])
def test_a_checkpoint_keeps_its_shards(tmp_path: Path, several: bool) -> None:
    """Chosen once, then read from the checkpoint, whatever the first batch would be now."""
    state = str(tmp_path / "state")
    assert recorded_shards(state) is None
    plan: Any = spark_simulator.plan_of(COUNTS, {"": flows()}, shards=3)
    if several:
        from skyband.spark.board_plan import BoardPlan

        plan = BoardPlan({"one": plan, "other": plan})
    claim = Claim(state, plan, None)
    claim.prepare()
    claim.confirm()
    told = job(tmp_path)
    assert sharded(told).shards == 3
    assert job_split(told).why == "as its checkpoint was started"
    assert "1 bucket(s) x 3 shard(s), as its checkpoint was started" in explain(told)


def test_sources_that_cannot_be_looked_at(tmp_path: Path) -> None:
    source = {"kind": "rate", "rows_per_second": 10, "columns": {"ts": "timestamp", "flow": "1"}}
    assert job_split(job(tmp_path, source=source)).shards == 1
    # No file yet: the job itself says what is wrong, or waits.
    assert job_split(job(tmp_path)).shards == 1
