"""Records in topics of a broker, for tests."""

from __future__ import annotations

import importlib
import json
import random
import time
from typing import Any

from skyband.jobs.job import JobSection
from skyband.jobs.local import messages

SCHEMA = "ts bigint, flow string, bytes bigint"


def _kafka() -> Any:
    return importlib.import_module("confluent_kafka")  # absent without the kafka extra


def create(servers: str, topic: str, partitions: int) -> None:
    """Make a topic."""
    admin: Any = importlib.import_module("confluent_kafka.admin")
    client = admin.AdminClient({"bootstrap.servers": servers})
    client.create_topics([admin.NewTopic(topic, num_partitions=partitions)])[topic].result(60)


def remove(servers: str, topic: str, before: int) -> None:
    """Remove the records of a topic's only partition before an offset."""
    kafka, admin = _kafka(), importlib.import_module("confluent_kafka.admin")
    client: Any = admin.AdminClient({"bootstrap.servers": servers})
    place = kafka.TopicPartition(topic, 0, before)
    client.delete_records([place])[place].result(60)


def send(servers: str, topic: str, records: list[Any], **settings: Any) -> None:
    """Send records, as JSON unless they are bytes or None; in a transaction if it has an id.

    The transaction is given up with ``commit=False``. Some partitions take the records in turn if
    ``partitions`` says how many.
    """
    partitions, commit = settings.pop("partitions", None), settings.pop("commit", True)
    producer = _kafka().Producer({"bootstrap.servers": servers, **settings})
    if "transactional.id" in settings:
        producer.init_transactions(60)
        producer.begin_transaction()
    for number, record in enumerate(records):
        value = record if isinstance(record, bytes | None) else json.dumps(record).encode()
        where = {} if partitions is None else {"partition": number % partitions}
        producer.produce(topic, value, **where)
        producer.poll(0)
    if "transactional.id" in settings and commit:
        producer.commit_transaction(60)
    elif "transactional.id" in settings:
        producer.flush(60)  # so that its records are in the topic
        producer.abort_transaction(60)
    assert producer.flush(60) == 0
    if "transactional.id" in settings:
        _wait_for_marks(servers, topic)


def _wait_for_marks(servers: str, topic: str) -> None:
    """Wait until readers see the end of a transaction, which brokers write a little later."""
    kafka = _kafka()
    settings = {"bootstrap.servers": servers, "group.id": "test"}
    readers = [
        kafka.Consumer(settings | {"isolation.level": level})
        for level in ("read_committed", "read_uncommitted")
    ]
    parts = readers[0].list_topics(topic, timeout=60).topics[topic].partitions
    until = time.monotonic() + 60
    for place in [kafka.TopicPartition(topic, part) for part in parts]:
        while len({each.get_watermark_offsets(place, timeout=60) for each in readers}) > 1:
            assert time.monotonic() < until, "the transaction does not end"
            time.sleep(0.05)
    for each in readers:
        each.close()


def read(servers: str, topic: str) -> list[dict[str, Any]]:
    """All committed messages of a topic."""
    _wait_for_marks(servers, topic)
    kafka = _kafka()
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


def rows(count: int, seed: int = 7) -> list[dict[str, Any]]:
    """Records of flows, three units of time apart."""
    chance = random.Random(seed)
    return [
        {"ts": 3 * i, "flow": f"é{chance.randrange(20)}", "bytes": chance.randrange(10**6)}
        for i in range(count)
    ]


def source(servers: str, topic: str, **more: Any) -> messages.KafkaSource:
    """A source that reads a topic, two records per batch unless told otherwise."""
    told = {"servers": servers, "topic": topic, "schema": SCHEMA, "rows_per_batch": 2, **more}
    return messages.KafkaSource("[source]", JobSection("kafka", told), "")
