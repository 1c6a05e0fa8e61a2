"""The newest records of a Kafka topic, looked at before a job on Spark starts."""

from __future__ import annotations

import socket
import time
from typing import Any

import pyarrow as pa

from skyband.data.json_records import read_records
from skyband.errors import EngineError
from skyband.jobs.checks import read_by_workers
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Section
from skyband.jobs.places import client_options, require_kafka
from skyband.spark.sharding import FirstRows

__all__ = ["newest_records"]

_SECONDS = 5.0
"""How long brokers may take to answer, and records to come."""


def newest_records(source: Section, enough: int, seconds: float) -> FirstRows | str:
    """Some of the newest records, and how many the first batch has; or why that is not known.

    A job that begins with what comes next has as many as come in ``seconds``.
    """
    if not read_by_workers(source):
        return "only Spark can read the records of the topic"
    try:
        kafka = require_kafka()
    except EngineError:
        return "a topic can be looked at only with confluent-kafka: pip install 'skyband[kafka]'"
    if not any(_answers(server) for server in str(source["servers"]).split(",")):
        return "no broker answers, so the topic cannot be looked at"
    options = client_options(source)
    known = {k: v for k, v in options.items() if k.startswith(("security.", "sasl.", "ssl."))}
    consumer = kafka.Consumer(
        {
            "bootstrap.servers": source["servers"],
            "group.id": "skyband-look",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **known,
        }
    )
    try:
        values, times, there = _newest(kafka, consumer, source["topic"], enough)
    except kafka.KafkaException as problem:
        return f"the topic could not be looked at: {problem}"
    finally:
        consumer.close()
    if not values:
        return "the topic has no records yet"
    table, bad = read_records(pa.array(values, pa.binary()), arrow_schema("", source["schema"]))
    some = pa.Table.from_batches([table]).filter(pa.array(~bad))
    span = (max(times) - min(times)) / 1000
    coming = round(len(values) / span * seconds) if span > 0 else len(values)
    rows = coming if source["starting"] == "latest" else there
    return FirstRows(some, min(rows, source["rows_per_batch"] or rows))


def _answers(server: str) -> bool:
    host, _, port = server.strip().rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=1):
            return True
    except (OSError, ValueError):
        return False


def _newest(
    kafka: Any, consumer: Any, topic: str, enough: int
) -> tuple[list[bytes | None], list[int], int]:
    """Values and times of the newest records, evenly by partition, and how many there are."""
    partitions = consumer.list_topics(topic, timeout=_SECONDS).topics[topic].partitions
    starts, left, there = [], {}, 0
    for number in partitions:
        part = kafka.TopicPartition(topic, number)
        low, high = consumer.get_watermark_offsets(part, timeout=_SECONDS)
        there += high - low
        first = max(low, high - max(1, enough // len(partitions)))
        if first < high:
            starts.append(kafka.TopicPartition(topic, number, first))
            left[number] = high
    values: list[bytes | None] = []
    times: list[int] = []
    if starts:
        consumer.assign(starts)
    until = time.monotonic() + _SECONDS
    while left and time.monotonic() < until:
        for message in consumer.consume(10_000, timeout=0.2):
            if message.error() is None:
                values.append(message.value())
                times.append(message.timestamp()[1])
            # The end of a partition: a transaction leaves a mark there, which is no record.
            if message.error() or message.offset() + 1 >= left.get(message.partition(), 0):
                left.pop(message.partition(), None)
    return values, times, there
