"""Local jobs between topics of a real broker; skipped, with the reason, if there is none."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs import parse_job, run_job
from support.kafka_topics import SCHEMA, create, read, rows, send
from support.local_kills import until_killed

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.xdist_group("kafka")]
kafka = pytest.importorskip("confluent_kafka", reason="the kafka extra")

QUERY: dict[str, Any] = {"kind": "TopK", "k": 2, "score": "bytes", "id": "flow", "time": "ts"}
WINDOW: dict[str, Any] = {"size": 300, "slide": 60}


def job(servers: str, folder: Path, name: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "engine": "local",
        "checkpoint": str(folder / "state"),
        "source": {
            "kind": "kafka",
            "servers": servers,
            "topic": f"{name}-in",
            "schema": SCHEMA,
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
    send(servers, "plain-in", [*records[1200:], b"{oops"])
    letters = {"kind": "kafka", "servers": servers, "topic": "plain-bad"}
    run_job(parse_job(job(servers, tmp_path, "plain", dead_letters=letters)))
    run_job(parse_job(job(servers, tmp_path, "plain")))  # there is nothing new
    assert read(servers, "plain-out") == wanted(records)
    (letter,) = read(servers, "plain-bad")
    where = {name: letter[name] for name in ("topic", "partition", "offset", "record")}
    assert where == {"topic": "plain-in", "partition": 0, "offset": 2000, "record": "{oops"}


@pytest.mark.parametrize(
    "times", [3, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]
)
def test_a_killed_job_sends_each_window_once(servers: str, tmp_path: Path, times: int) -> None:
    sent: list[list[dict[str, Any]]] = []

    def part(number: int) -> dict[str, Any]:
        sent.append(rows(6_000, number))
        name = f"killed-{times}-{number}"
        send(servers, f"{name}-in", sent[-1])
        told = job(servers, tmp_path / str(number), name)
        told["source"]["rows_per_batch"] = 200
        return told

    until_killed(times, times, part)
    for number, records in enumerate(sent):
        assert read(servers, f"killed-{times}-{number}-out") == wanted(records)


def test_a_topic_has_each_revision_once_and_the_last_is_right(servers: str, tmp_path: Path) -> None:
    sent: list[list[dict[str, Any]]] = []

    def part(number: int) -> dict[str, Any]:
        records = rows(3_000, number)
        for at in range(40, len(records), 50):  # every 50th row comes 600 rows later than it should
            records.insert(min(at + 600, len(records) - 1), records.pop(at))
        sent.append(records)
        name = f"revised-{number}"
        send(servers, f"{name}-in", records)
        told = job(servers, tmp_path / str(number), name)
        told["source"]["rows_per_batch"] = 100
        told["query"] = QUERY | {"window": WINDOW | {"revise": 100_000}}
        del told["sink"]["key"]  # each window has a key of its own
        return told

    until_killed(3, 3, part)
    for number, records in enumerate(sent):
        messages = read(servers, f"revised-{number}-out")
        assert len({(each["key"], each["revision"]) for each in messages}) == len(messages)
        assert max(each["revision"] for each in messages) > 0
        last = {each["key"]: each["rows"] for each in messages}  # what a compacted topic keeps
        found = [row for kept in last.values() for row in kept]
        found = [{n: v for n, v in row.items() if n != "revision"} for row in found]
        found.sort(key=lambda row: (row["window_end"], row["rank"]))
        assert found == wanted(sorted(records, key=lambda record: int(record["ts"])))


@pytest.mark.timeout(180)
def test_a_job_on_spark_looks_at_its_topic(
    servers: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three partitions one is empty; one ends with the mark of a transaction."""
    pytest.importorskip("pyspark")
    from skyband.jobs.spark import first_batch
    from skyband.spark import sharding

    create(servers, "looked-in", partitions=3)
    producer = kafka.Producer({"bootstrap.servers": servers, "transactional.id": "look"})
    producer.init_transactions(60)
    producer.begin_transaction()
    for number, record in enumerate(rows(2_000)):  # one per millisecond
        value = json.dumps(record).encode()
        producer.produce("looked-in", value, partition=number % 2, timestamp=10**12 + number)
    producer.produce("looked-in", b"{oops", partition=0, timestamp=10**12)
    producer.commit_transaction(60)

    def look(enough: int = 1 << 17, topic: str = "looked-in", **source: Any) -> Any:
        told = job(servers, tmp_path, "looked", engine="spark", trigger={}, master="local[4]")
        told["source"] |= {"topic": topic, "rows_per_batch": None, **source}
        told["source"] = {k: v for k, v in told["source"].items() if v is not None}
        told["sink"] = {"kind": "files", "path": "out"}
        parsed = parse_job(told)
        return parsed, first_batch.newest_records(parsed.sources[""], enough, 10.0)

    # Long enough for a busy broker; whoever waited for more records would meet the test's limit.
    monkeypatch.setattr(first_batch, "_LOOK_SECONDS", 60.0)
    deadline = time.monotonic() + 120
    while getattr(seen := look()[1], "rows", 0) < 2_001:  # a transaction ends bit by bit
        assert time.monotonic() < deadline, seen
    parsed, first = look()
    assert first.some.num_rows == 2_000
    assert 2_001 <= first.rows <= 2_003  # with the bad one and the marks of the transaction
    assert first.some.schema.names == ["ts", "flow", "bytes"]
    _, some = look(enough=300)
    assert some.some.num_rows < 300
    assert some.rows == first.rows
    assert look(rows_per_batch=700)[1].rows == 700
    assert look(starting="latest")[1].rows == pytest.approx(10_000, rel=0.01)
    assert "no records" in look(topic="missing")[1]
    # What was seen decides about the number of shards.
    bytes_ = sharding.summary_bytes(parsed.queries["looked"], {"": first})
    monkeypatch.setattr(sharding, "KEY_BYTES", round(bytes_ / 2.5))
    assert first_batch.job_split(parsed).shards == 3
