"""Automatic shards: what a job's first batch needs, as explained, and fixed by its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import explain, parse_job
from skyband.jobs.spark import first_batch as first_records
from skyband.jobs.spark.checkpoint import Claim, recorded_shards
from skyband.jobs.spark.first_batch import job_split, seconds_per_batch, sharded
from skyband.spark import sharding
from skyband.spark.plan import BoardPlan
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
        (20_000_000, 1, None, 1),
        (20_000_001, 1, None, 2),
        (200_000_000, 1, None, 10),
        (200_000_000, 1, 4, 4),
        (200_000_000, 16, 4, 1),
        (1e12, 1, None, 64),
    ],
)
def test_one_shard_per_twenty_megabytes(
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
    nothing = {"": FirstRows(flows().slice(0, 0), 0)}
    assert split_of([SCORES], nothing).why == "there are no rows to look at yet"


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
    plan = spark_simulator.plan_of(COUNTS, {"": flows()}, shards=3)
    if several:
        plan = BoardPlan({"one": plan.first, "other": plan.first})
    claim = Claim(state, plan, None)
    claim.prepare()
    claim.confirm()
    told = job(tmp_path)
    assert sharded(told).shards == 3
    assert job_split(told).why == "as when its checkpoint was started"
    assert "1 bucket(s) x 3 shard(s), as when its checkpoint was started" in explain(told)


def test_what_is_small_is_not_read(tmp_path: Path) -> None:
    """One shard, whatever the rows are like: reading and summarising them would delay the start."""
    (tmp_path / "in").mkdir()
    pq.write_table(flows(), tmp_path / "in" / "0.parquet")
    assert job_split(job(tmp_path)).why == "the first batch has only 1 MB or less"


RATE = {"kind": "rate", "columns": {"ts": "timestamp", "flow": "value"}}


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (RATE | {"rows_per_second": 5_000}, "a generated stream"),
        ({"kind": "socket", "host": "127.0.0.1", "port": 1, "schema": "ts int"}, "a socket"),
        ({"kind": "files", "path": "nowhere"}, "there are no files yet"),
    ],
)
def test_what_is_known_before_spark_starts(
    tmp_path: Path, source: dict[str, Any], why: str
) -> None:
    told = job(tmp_path, source=source)
    found = job_split(told)
    assert (found.shards, found.why.startswith(why)) == (1, True), found
    assert why in explain(told)


def test_a_trigger_says_how_much_comes_at_once(tmp_path: Path) -> None:
    assert seconds_per_batch(job(tmp_path, source=RATE)) == 10
    assert seconds_per_batch(job(tmp_path, source=RATE, trigger={"every": "2 minutes"})) == 120


class Topic:
    """Stands for the package confluent_kafka: a topic with two partitions."""

    class KafkaException(Exception):  # noqa: N818 - its name there
        pass

    class TopicPartition:
        def __init__(self, topic: str, partition: int, offset: int = -1) -> None:
            self.topic, self.partition, self.offset = topic, partition, offset

    def __init__(self, values: list[bytes]) -> None:
        self.values = values

    def Consumer(self, settings: dict[str, Any]) -> Any:  # noqa: N802
        assert not settings["enable.auto.commit"]
        return self

    def list_topics(self, topic: str, timeout: float) -> Any:
        parts = SimpleNamespace(partitions={0: None, 1: None})
        return SimpleNamespace(topics={topic: parts})

    def get_watermark_offsets(self, part: Any, timeout: float) -> tuple[int, int]:
        return 100, 100 + len(self.values) // 2

    def assign(self, starts: list[Any]) -> None:
        half = len(self.values) // 2
        self.left = [
            (part.partition, offset, self.values[part.partition * half + offset - 100])
            for part in starts
            for offset in range(part.offset, 100 + half)
        ]

    def consume(self, most: int, timeout: float) -> list[Any]:
        some, self.left = self.left[:most], self.left[most:]
        return [
            SimpleNamespace(
                error=lambda: None,
                value=lambda value=value: value,
                timestamp=lambda offset=offset: (1, offset),
                partition=lambda number=number: number,
                offset=lambda offset=offset: offset,
            )
            for number, offset, value in some
        ]

    def close(self) -> None:
        pass


KAFKA = {"kind": "kafka", "topic": "flows", "schema": "ts bigint, flow bigint"}


@pytest.mark.parametrize(
    ("more", "rows"),
    [({}, ROWS), ({"rows_per_batch": 10_000}, 10_000), ({"starting": "latest"}, 20_000)],
)
def test_the_newest_records_of_a_topic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, Any], rows: int
) -> None:
    """Records of the first batch: all, at most so many, or as many as come until it."""
    told = flows().select(["ts", "flow"]).to_pylist()
    topic = Topic([json.dumps(row).encode() for row in told])  # each partition one a millisecond
    monkeypatch.setattr(first_records, "require_kafka", lambda: topic)
    monkeypatch.setattr(first_records, "_answers", lambda server: True)
    monkeypatch.setattr(first_records, "_LOOK_SECONDS", 600.0)  # also where the machine is busy
    source = KAFKA | {"servers": "localhost:9092", **more}
    asked = job(tmp_path, source=source, trigger={"every": "10 seconds"})
    first = first_records.newest_records(asked.sources[""], 1 << 17, seconds_per_batch(asked))
    assert isinstance(first, FirstRows)
    assert first.some.num_rows == ROWS
    assert first.rows == pytest.approx(rows, rel=0.001)
    monkeypatch.setattr(sharding, "KEY_BYTES", round(summary_bytes(COUNTS, {"": first}) / 2.5))
    assert job_split(asked).shards == 3


def test_a_topic_without_a_broker_says_so(tmp_path: Path) -> None:
    source = KAFKA | {"servers": "127.0.0.1:1"}
    found = job_split(job(tmp_path, source=source))
    assert found.shards == 1
    assert "broker" in found.why or "confluent-kafka" in found.why
