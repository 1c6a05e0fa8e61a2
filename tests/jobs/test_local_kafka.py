"""Local jobs between topics of a real broker; skipped, with the reason, if there is none."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs import parse_job, run_job
from support import kafka_broker

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
kafka = pytest.importorskip("confluent_kafka", reason="the kafka extra")

QUERY: dict[str, Any] = {"kind": "TopK", "k": 2, "score": "bytes", "id": "flow", "time": "ts"}
WINDOW = {"size": 300, "slide": 60}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        broker = kafka_broker.Broker(tmp_path_factory.mktemp("kafka"))
    except kafka_broker.MissingError as problem:
        pytest.skip(str(problem))
    try:
        yield broker.start()
    finally:
        broker.stop()


def send(servers: str, topic: str, records: list[dict[str, Any]]) -> None:
    producer = kafka.Producer({"bootstrap.servers": servers})
    for record in records:
        producer.produce(topic, json.dumps(record).encode())
    assert producer.flush(60) == 0


def read(servers: str, topic: str) -> list[dict[str, Any]]:
    """All committed messages of a topic."""
    settings = {"bootstrap.servers": servers, "group.id": "test", "enable.partition.eof": True}
    consumer = kafka.Consumer(
        settings | {"isolation.level": "read_committed", "enable.auto.commit": False}
    )
    parts = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    consumer.assign([kafka.TopicPartition(topic, part, 0) for part in parts])
    found, ended = [], 0
    while ended < len(parts):
        message = consumer.poll(30)
        assert message is not None
        if message.error() is None:
            found.append(json.loads(message.value()))
        else:
            ended += 1
    consumer.close()
    return found


def rows(count: int) -> list[dict[str, Any]]:
    chance = random.Random(7)
    return [
        {"ts": 3 * i, "flow": f"f{chance.randrange(20)}", "bytes": chance.randrange(10**6)}
        for i in range(count)
    ]


def job(servers: str, folder: Path, name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "engine": "local",
        "checkpoint": str(folder / "state"),
        "source": {
            "kind": "kafka",
            "servers": servers,
            "topic": f"{name}-in",
            "schema": "ts bigint, flow string, bytes bigint",
            "rows_per_batch": 500,
        },
        "query": QUERY | {"window": WINDOW},
        "sink": {"kind": "kafka", "servers": servers, "topic": f"{name}-out", "key": "flow"},
        "trigger": {"once": True},
        **more,
    }


def wanted(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What a job answers that does not close the last windows."""
    settings = {name: value for name, value in QUERY.items() if name != "kind"}
    monitor = sb.Monitor(sb.TopK(**settings, window=sb.TimeWindow(**WINDOW)))
    answers = monitor.push(pa.Table.from_pylist(records))
    return [row for answer in answers for row in answer.table.to_pylist()]


def test_from_topic_to_topic(servers: str, tmp_path: Path) -> None:
    records = rows(2000)
    send(servers, "plain-in", records[:1200])
    run_job(parse_job(job(servers, tmp_path, "plain")))
    send(servers, "plain-in", records[1200:])
    run_job(parse_job(job(servers, tmp_path, "plain")))
    run_job(parse_job(job(servers, tmp_path, "plain")))  # there is nothing new
    assert read(servers, "plain-out") == wanted(records)


def test_kills(servers: str, tmp_path: Path) -> None:
    records = rows(20_000)
    send(servers, "killed-in", records)
    file = tmp_path / "job.json"
    told = job(servers, tmp_path, "killed")
    code = "import sys, json; from skyband.jobs import *; " + (
        "run_job(parse_job(json.load(open(sys.argv[1]))))"
    )
    file.write_text(json.dumps(told))
    command = [sys.executable, "-c", code, str(file)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    chance = random.Random(3)
    for _ in range(20):
        process = subprocess.Popen(command, env=environment)
        time.sleep(1.0 + 2 * chance.random())
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait(60)
    assert subprocess.run(command, env=environment, check=False).returncode == 0
    assert read(servers, "killed-out") == wanted(records)
