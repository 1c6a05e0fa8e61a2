"""A broker that is restarted while a job on Spark reads from it: each window once in its files."""

from __future__ import annotations

import importlib.metadata
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from support import kafka_broker, kills, spark_session

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]
TIMES = 20
JOB = """
name = "best"
checkpoint = "state"
engine = "spark"
master = "local[2]"
source = {{ kind = "kafka", servers = "{servers}", topic = "flows", schema = "{schema}" }}
[query]
kind = "TopK"
k = 2
score = "score"
id = "id"
time = "ts"
window = {{ size = 20, slide = 10 }}
[sink]
kind = "files"
path = "out"
format = "json"
[spark]
"spark.jars" = "{jars}"
"spark.ui.enabled" = false
"spark.python.daemon.module" = "skyband.spark.daemon"
"""
QUERY = sb.TopK(k=2, score="score", id="id", time="ts", window=sb.TimeWindow(20, slide=10))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[kafka_broker.Broker]:
    try:
        found = kafka_broker.Broker(tmp_path / "broker")
    except kafka_broker.MissingError as problem:
        pytest.skip(str(problem))
    try:
        found.start()
        yield found
    finally:
        found.stop()


def send(kafka: Any, servers: str, rows: list[dict[str, Any]]) -> None:
    """Send records, each of them once, however often the broker goes away."""
    producer = kafka.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for row in rows:
        producer.produce("flows", json.dumps(row).encode())
    assert producer.flush(120) == 0


def answers(folder: Path) -> list[dict[str, Any]]:
    paths = sorted(folder.glob("*.json"))
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def test_the_broker_is_restarted(tmp_path: Path, broker: kafka_broker.Broker) -> None:
    kafka = pytest.importorskip("confluent_kafka", reason="the kafka extra")
    reason = spark_session.missing()
    if reason:
        pytest.skip(reason)
    artifacts = kafka_broker.connectors(importlib.metadata.version("pyspark"))
    try:
        jars = kafka_broker.jars_of(tmp_path / "spark", *artifacts, alone=True)
    except kafka_broker.MissingError as problem:
        pytest.skip(str(problem))
    told = {
        "servers": broker.address,
        "jars": ",".join(map(str, jars)),
        "schema": "ts bigint, id string, score double",
    }
    (tmp_path / "job.toml").write_text(JOB.format(**told))
    rng = random.Random(TIMES)
    sent: list[dict[str, Any]] = []

    def more() -> None:
        at = 1_000 + len(sent)
        rows = [{"ts": t, "id": f"i{t % 9}", "score": rng.random()} for t in range(at, at + 30)]
        send(kafka, broker.address, rows)
        sent.extend(rows)

    def start() -> subprocess.Popen[bytes]:
        command = ("-m", "skyband", "pipeline", str(tmp_path / "job.toml"))
        return kills.launch(tmp_path / "log", *command)

    def reached() -> int:
        return max((row["window_end"] for row in answers(tmp_path / "out")), default=0)

    more()
    process = start()
    restarts = 0
    try:
        for _ in range(TIMES):
            more()
            goal = 1_000 + len(sent) - 30
            deadline = time.monotonic() + 300
            while reached() < goal:
                assert time.monotonic() < deadline, (tmp_path / "log").read_text()[-3000:]
                if process.poll() is not None:  # it gave up, and goes on with the next start
                    process, restarts = start(), restarts + 1
                time.sleep(0.2)
            more()
            time.sleep(rng.uniform(0, 1))
            broker.stop()
            broker.resume()
        goal = 1_000 + len(sent) - 20
        while reached() < goal:
            if process.poll() is not None:
                process = start()
            time.sleep(0.2)
    finally:
        kills.kill(process)
    want, _ = spark_session.embedded(QUERY, [pa.Table.from_pylist(sent)])
    key = lambda row: (row["window_end"], row["rank"])  # noqa: E731
    ends = {row["window_end"] for row in answers(tmp_path / "out")}
    wanted = [row for row in want.to_pylist() if row["window_end"] in ends]
    assert sorted(answers(tmp_path / "out"), key=key) == sorted(wanted, key=key)
    assert min(ends) == min(row["window_end"] for row in want.to_pylist())
    print(f"{TIMES} restarts of the broker, {restarts} of the job", file=sys.stderr)
