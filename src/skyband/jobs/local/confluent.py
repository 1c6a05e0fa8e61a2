"""Reads a topic with the Python interface of confluent-kafka: an object per record.

It serves wherever ``librdkafka`` cannot be called directly, and for options that need Python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.jobs.local.topic_reader import (
    REFUSED,
    REMOVED,
    UNREACHABLE,
    UNREADABLE,
    ReaderError,
    Records,
    binary,
)
from skyband.jobs.places import require_kafka

__all__ = ["ClientReader"]


class ClientReader:
    """A consumer of confluent-kafka."""

    client = "confluent-kafka"

    def __init__(self, topic: str, options: Mapping[str, Any]) -> None:
        self.topic = topic
        self.ended: dict[int, int] = {}
        self._kafka = require_kafka()
        try:
            self._consumer = self._kafka.Consumer(dict(options))
        except self._kafka.KafkaException as problem:
            raise ReaderError(f"{REFUSED}: {_told(problem)}") from problem

    def partitions(self, seconds: float) -> list[int]:
        """The partitions of the topic."""
        try:
            told = self._consumer.list_topics(self.topic, timeout=seconds).topics[self.topic]
        except self._kafka.KafkaException as problem:
            raise ReaderError(f"{UNREACHABLE}: {_told(problem)}") from problem
        if told.error is not None:
            raise ReaderError(f"the topic {self.topic!r} cannot be read: {told.error.str()}")
        return list(told.partitions)

    def edges(self, partition: int, seconds: float) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        place = self._kafka.TopicPartition(self.topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(place, timeout=seconds)
        except self._kafka.KafkaException as problem:
            raise ReaderError(f"{UNREACHABLE}: {_told(problem)}") from problem
        return low, high

    def assign(self, places: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""
        self.ended.clear()
        self._consumer.assign(
            [self._kafka.TopicPartition(self.topic, part, row) for part, row in places.items()]
        )

    def fetch(self, most: int, seconds: float, until: Mapping[int, int] | None) -> Records:
        """The next records, at most so many; it always waits for more."""
        try:
            found = self._consumer.consume(most, seconds)
        except self._kafka.KafkaException as problem:
            raise ReaderError(f"{UNREADABLE}: {_told(problem)}") from problem
        good = [message for message in found if message.error() is None]
        for message in found if len(good) < len(found) else ():
            fault = message.error()
            if fault is None:
                continue
            if fault.code() == self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001  its name
                self.ended[message.partition()] = message.offset()
            elif fault.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001
                raise ReaderError(REMOVED)
            elif fault.fatal():
                raise ReaderError(f"{UNREADABLE}: {fault.str()}")
        return Records(
            binary([message.value() for message in good]),
            np.array([message.partition() for message in good], np.int32),
            np.array([message.offset() for message in good], np.int64),
            full=len(good) == most,
        )

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def _told(problem: Any) -> str:
    """What the client says about a problem."""
    return str(problem.args[0].str())
