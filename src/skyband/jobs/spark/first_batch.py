"""A look at a job's first batch before it starts, to choose the number of shards.

Of files, some rows of the newest one and the bytes of all are looked at; of a topic, the newest
records and how many there are.
"""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from skyband.data.json_records import read_records
from skyband.errors import EngineError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Job, JobSection
from skyband.jobs.places import client_options, require_kafka
from skyband.jobs.spark.checkpoint import recorded_shards
from skyband.jobs.spark.reading import worker_files
from skyband.spark.file_options import FORMATS, read_options
from skyband.spark.locations import newest_here
from skyband.spark.sessions import local_cores
from skyband.spark.sharding import (
    ENOUGH,
    FirstRows,
    ShardChoice,
    looked_split,
    rows_of_files,
)
from skyband.window import parse_duration

# The newest records of a Kafka topic, looked at before a job on Spark starts ---------------------


_LOOK_SECONDS = 5.0
"""How long brokers may take to answer, and records to come."""


def newest_records(source: JobSection, enough: int, seconds: float) -> FirstRows | str:
    """Some of the newest records, and how many the first batch has; or why that is not known.

    A job that begins with what comes next has as many as come in ``seconds``.
    """
    if not source.by_workers:
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
    partitions = consumer.list_topics(topic, timeout=_LOOK_SECONDS).topics[topic].partitions
    starts, left, there = [], {}, 0
    for number in partitions:
        part = kafka.TopicPartition(topic, number)
        low, high = consumer.get_watermark_offsets(part, timeout=_LOOK_SECONDS)
        there += high - low
        first = max(low, high - max(1, enough // len(partitions)))
        if first < high:
            starts.append(kafka.TopicPartition(topic, number, first))
            left[number] = high
    values: list[bytes | None] = []
    times: list[int] = []
    if starts:
        consumer.assign(starts)
    until = time.monotonic() + _LOOK_SECONDS
    while left and time.monotonic() < until:
        for message in consumer.consume(10_000, timeout=0.2):
            if message.error() is None:
                values.append(message.value())
                times.append(message.timestamp()[1])
            # The end of a partition: a transaction leaves a mark there, which is no record.
            if message.error() or message.offset() + 1 >= left.get(message.partition(), 0):
                left.pop(message.partition(), None)
    return values, times, there


_ALL = 1 << 30
_SECONDS = 10.0
"""Seconds of a stream that a batch holds if the job does not say it: it may fall behind a bit."""


def sharded(job: Job, session: Any = None) -> Job:
    """The job with its number of shards; a remote checkpoint needs a ``session``."""
    return job if job.shards is not None else replace(job, shards=job_split(job, session).shards)


def job_split(job: Job, session: Any = None) -> ShardChoice:
    """How the state of a job is split, and why: as it says, as it was started, or as it needs."""
    if job.shards is not None:
        return ShardChoice(job.shards, "as the job says")
    if any(query.window.revise_ticks is not None for query in job.queries.values()):
        return ShardChoice(1, "because late rows correct answers (revise)")
    recorded = recorded_shards(job.checkpoint, session)
    if recorded is not None:
        return ShardChoice(recorded, "as when its checkpoint was started")
    looks = {name: partial(_first, job, source) for name, source in job.sources.items()}
    return looked_split(list(job.queries.values()), looks, partial(local_cores, job.master))


def seconds_per_batch(job: Job) -> float:
    """The seconds of a stream that come in one batch."""
    every = job.trigger.get("every")
    return _SECONDS if every is None else max(1.0, parse_duration(every, "every") / 1e6)


def _first(job: Job, source: JobSection) -> FirstRows | str:
    if source.kind == "files":
        return _of_files(source)
    if source.kind == "kafka":
        return newest_records(source, ENOUGH, seconds_per_batch(job))
    name = "generated stream" if source.kind == "rate" else source.kind
    return f"a {name} cannot be looked at before the job starts"


def _of_files(source: JobSection) -> FirstRows | str:
    if source["columns"] or source["format"] not in (None, "arrow", *FORMATS):
        return "only Spark can read the files"
    listing, _ = read_options(source["options"] or {}, given=source["schema"] is not None)
    uris = None if listing else newest_here(source["path"], _ALL)
    if uris is None:
        return "only Spark can list the files"
    if not uris:
        return "there are no files yet"
    files = worker_files(None, source)
    return rows_of_files(files.form, files.types, uris[: files.files_per_batch])
