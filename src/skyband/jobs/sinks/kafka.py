"""A sink for Kafka that holds each window once; the same on both engines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from skyband.data.json_text import json_text
from skyband.errors import EngineError
from skyband.jobs.places import client_options
from skyband.jobs.sinks.base import YEARS, SinkRows, SinkTarget, messages_of

_SECONDS = 30.0
"""How long the brokers may take to answer."""


class KafkaSink:
    """A topic with one JSON object per row, each window once for readers of committed messages.

    A batch is one transaction. It also writes the run and the batch to a topic of marks, so that a
    batch which is retried finds that it has been sent.

    A window that may be corrected is one message, with its rows, under a key of its own: a
    compacted topic holds its last revision.
    """

    refuses = (YEARS,)

    def __init__(self, target: SinkTarget) -> None:
        self.target, self.where, self.query = target, target.where, target.query
        self.section = target.section
        self.run = ""
        self.sent = -1
        """The last batch of this run that was sent."""
        self._kafka = target.world.kafka()
        self._producer: Any = None

    @property
    def marks(self) -> str:
        """The topic that holds the last batch sent, beside the answers."""
        return f"{self.section['topic']}-skyband-batches"

    def open(self, run: str) -> None:
        """Fence off an older process of this job, and read which batch was sent last."""
        self.run = run
        name = f"skyband-{self.query}-{run}"
        servers = {"bootstrap.servers": self.section["servers"]}
        settings = servers | client_options(self.section)
        try:
            self._producer = self._kafka.Producer({**settings, "transactional.id": name})
            self._producer.init_transactions(_SECONDS)
            self.sent = self._last_sent(settings)
        except self._kafka.KafkaException as problem:
            raise EngineError(
                f"{self.where} Kafka cannot be used: {problem}. Options are those of librdkafka; "
                "on Spark, writer = 'spark' sends with Spark's own client, at least once"
            ) from problem

    def write(self, batch: int, rows: SinkRows) -> None:
        """Send the rows of a batch in one transaction."""
        if not rows or batch <= self.sent:
            return
        producer, topic = self._producer, self.section["topic"]
        producer.begin_transaction()
        try:
            for named, value in self._messages(rows):
                while True:
                    try:
                        producer.produce(topic, json_text(value).encode(), named)
                        break
                    except BufferError:
                        producer.poll(0.1)
            mark = json.dumps({"run": self.run, "batch": batch})
            producer.produce(self.marks, mark.encode(), self.query)
            producer.commit_transaction(_SECONDS)
        except self._kafka.KafkaException:
            producer.abort_transaction(_SECONDS)
            raise
        self.sent = batch

    def _messages(self, rows: SinkRows) -> Iterator[tuple[str | None, Any]]:
        """A message for each row or, if windows may be corrected, for each window."""
        if self.target.revises:
            for message in messages_of(rows, self.target):
                yield message["key"], message
            return
        key = self.section["key"]
        for table in rows.tables():
            for row in table.to_pylist():
                yield None if key is None else str(row[key]), row

    def _last_sent(self, settings: dict[str, Any]) -> int:
        consumer = self._kafka.Consumer(
            {
                **settings,
                "group.id": f"skyband-{self.query}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        try:
            return self._read_marks(consumer)
        finally:
            consumer.close()

    def _read_marks(self, consumer: Any) -> int:
        known = consumer.list_topics(timeout=_SECONDS).topics
        if self.marks not in known or known[self.marks].error is not None:
            return -1
        last = -1
        for number in known[self.marks].partitions:
            place = self._kafka.TopicPartition(self.marks, number)
            low, high = consumer.get_watermark_offsets(place, timeout=_SECONDS)
            consumer.assign([self._kafka.TopicPartition(self.marks, number, low)])
            while low < high:
                (at,) = consumer.position([place])
                if at.offset >= high:
                    break
                message = consumer.poll(1.0)
                if message is None or message.error() is not None:
                    continue
                mark = json.loads(message.value())
                if mark["run"] == self.run:
                    last = max(last, int(mark["batch"]))
        return last
