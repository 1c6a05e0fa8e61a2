"""A job on Spark that sends its answers to a topic of a real broker, without connectors."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import parse_job
from support.kafka_topics import read, rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800), pytest.mark.xdist_group("kafka")]
pytest.importorskip("confluent_kafka", reason="the kafka extra")

SETTINGS: dict[str, Any] = {"k": 2, "score": "bytes", "id": "flow", "time": "ts"}
WINDOW: dict[str, Any] = {"size": 300, "slide": 60}


def test_a_batch_that_is_repeated_is_not_sent_again(
    servers: str, spark: Any, tmp_path: Path
) -> None:
    from skyband.jobs import run_job

    table = pa.Table.from_pylist(rows(900))
    (tmp_path / "in").mkdir()
    for number in range(3):
        path = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(table.slice(300 * number, 300), path)
        os.utime(path, (1_000_000_000 + number,) * 2)  # files are read in this order
    sink = {"kind": "kafka", "servers": servers, "topic": "repeated-out", "key": "flow"}
    job = parse_job({
        "name": "repeated",
        "engine": "spark",
        "checkpoint": str(tmp_path / "state"),
        "source": {"kind": "files", "path": str(tmp_path / "in"), "files_per_batch": 1},
        "query": {"kind": "TopK", "window": WINDOW, **SETTINGS},
        "sink": sink,
        "trigger": {"once": True},
    })  # fmt: skip
    run_job(job, spark)
    monitor = sb.Monitor(sb.TopK(**SETTINGS, window=sb.TimeWindow(**WINDOW)))
    want = [row for answer in monitor.push(table) for row in answer.table.to_pylist()]
    assert read(servers, "repeated-out") == want
    _forget_last_commit(tmp_path / "state")
    run_job(job, spark)
    assert read(servers, "repeated-out") == want


def _forget_last_commit(checkpoint: Path) -> None:
    """Let the last batch look as if the job had been killed before Spark noted it."""
    commits = [path for path in checkpoint.rglob("commits/*") if path.name.isdigit()]
    last = max(commits, key=lambda path: int(path.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)
