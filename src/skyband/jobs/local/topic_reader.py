"""Reads a Kafka topic for a local job, with the client confluent-kafka."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.arrays import Codes, Ints
from skyband.jobs.places import require_kafka

__all__ = ["ReaderError", "Records", "TopicReader", "binary"]

_UNREACHABLE = "Kafka cannot be reached"
_UNREADABLE = "Kafka cannot be read"
_REMOVED = (
    "the records at the next offset are no longer there: they were removed, or the topic was made "
    "anew; give the job a new checkpoint, or set auto.offset.reset in its options to go on"
)
_REFUSED = "Kafka's client refuses its options"
_STEP = 1 << 9
"""Records that are taken at a time. Their objects are gone before Python looks for garbage, and
their memory is used again at once: a whole batch at a time takes three times as long."""
_TEXT = 1 << 28
"""Bytes after which a batch has enough, whatever the number of its records."""


class ReaderError(Exception):
    """A client cannot do what it was asked for."""


@dataclass(frozen=True)
class Records:
    """Records of a topic; those of a partition in the order of their offsets."""

    values: pa.Array
    """Bytes; null if a record has no value."""
    partition: Codes
    offset: Ints
    full: bool = False
    """Whether the client stopped because these are enough, so that there may be more."""

    def __len__(self) -> int:
        return len(self.offset)

    def ends(self) -> dict[int, int]:
        """The offset after the last record, for each partition that has some."""
        if not len(self):
            return {}
        last = np.full(int(self.partition.max()) + 1, -1, np.int64)
        last[self.partition] = self.offset  # of several rows, the last one stays
        return {int(part): int(last[part]) + 1 for part in np.flatnonzero(last >= 0)}

    def before(self, ends: Mapping[int, int]) -> Records:
        """The records of these partitions before these offsets."""
        kept = np.zeros(len(self), np.bool_)
        for part, end in ends.items():
            kept |= (self.partition == part) & (self.offset < end)
        if kept.all():
            return self
        return Records(self.values.filter(pa.array(kept)), self.partition[kept], self.offset[kept])

    @staticmethod
    def concat(parts: Sequence[Records], full: bool = False) -> Records:
        """All records, one part after another."""
        return Records(
            pa.concat_arrays([pa.array([], pa.binary()), *(part.values for part in parts)]),
            np.concatenate([np.zeros(0, np.int32), *(part.partition for part in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(part.offset for part in parts)]),
            full,
        )


class TopicReader:
    """A consumer of one topic. Waiting times are in seconds; what fails raises ``ReaderError``."""

    def __init__(self, topic: str, options: Mapping[str, Any]) -> None:
        self.topic = topic
        self.ended: dict[int, int] = {}
        """Offsets at which there was nothing more to read, by partition."""
        self._next: dict[int, int] = {}
        """The next offset of each partition."""
        self._kafka = require_kafka()
        if not options["group.id"]:  # at which the client would end the process
            raise ReaderError(f"{_REFUSED}: group.id must not be empty")
        try:
            self._consumer = self._kafka.Consumer(dict(options))
        except self._kafka.KafkaException as problem:
            raise ReaderError(f"{_REFUSED}: {_reason(problem)}") from problem
        except (TypeError, ValueError) as problem:
            raise ReaderError(f"{_REFUSED}: {problem}") from problem

    def partitions(self, seconds: float) -> list[int]:
        """The partitions of the topic."""
        try:
            topic = self._consumer.list_topics(self.topic, timeout=seconds).topics[self.topic]
        except self._kafka.KafkaException as problem:
            raise ReaderError(f"{_UNREACHABLE}: {_reason(problem)}") from problem
        if topic.error is not None:
            raise ReaderError(f"the topic {self.topic!r} cannot be read: {topic.error.str()}")
        return list(topic.partitions)

    def edges(self, partition: int, seconds: float) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        place = self._kafka.TopicPartition(self.topic, partition)
        try:
            low, high = self._consumer.get_watermark_offsets(place, timeout=seconds)
        except self._kafka.KafkaException as problem:
            raise ReaderError(f"{_UNREACHABLE}: {_reason(problem)}") from problem
        return low, high

    def assign(self, places: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""
        self.ended.clear()
        self._next = dict(places)
        self._consumer.assign(
            [self._kafka.TopicPartition(self.topic, part, row) for part, row in places.items()]
        )

    def fetch(self, most: int, seconds: float, until: Mapping[int, int] | None) -> Records:
        """The next records, at most so many; fewer if no more come in time.

        It does not wait for more once the partitions are read up to the offsets of ``until``.
        """
        parts: list[Records] = []
        rows = size = 0
        latest = time.monotonic() + seconds
        while rows < most and size < _TEXT:
            step = min(_STEP, most - rows)
            messages = self._consume(step, 0.0)
            if not messages:
                if until is not None and self._is_at(until):
                    break
                # If there is an end to notice, any message wakes it up; otherwise many at a time.
                left = max(0.0, latest - time.monotonic())
                messages = self._consume(step if until is None else 1, left)
            if not messages:
                break
            parts.append(self._records(messages))
            rows += len(parts[-1])
            size += parts[-1].values.nbytes
            self._next |= parts[-1].ends()
        return Records.concat(parts, full=rows == most or size >= _TEXT)

    def _is_at(self, ends: Mapping[int, int]) -> bool:
        """Whether everything before these offsets was read."""
        return all(
            self._next.get(part, end) >= end or self.ended.get(part, -1) >= end
            for part, end in ends.items()
        )

    def _consume(self, most: int, seconds: float) -> list[Any]:
        """Messages that are there, or that come in time."""
        try:
            return list(self._consumer.consume(most, seconds))
        except self._kafka.KafkaException as problem:
            raise ReaderError(f"{_UNREADABLE}: {_reason(problem)}") from problem

    def _records(self, messages: list[Any]) -> Records:
        """The records among messages; notes where a partition ends."""
        good = [message for message in messages if message.error() is None]
        if len(good) < len(messages):
            for message in messages:
                self._note(message)
        return Records(
            binary([message.value() for message in good]),
            np.array([message.partition() for message in good], np.int32),
            np.array([message.offset() for message in good], np.int64),
        )

    def _note(self, message: Any) -> None:
        fault, codes = message.error(), self._kafka.KafkaError
        if fault is None:
            return
        if fault.code() == codes._PARTITION_EOF:  # noqa: SLF001  its name
            self.ended[message.partition()] = message.offset()
        elif fault.code() == codes._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise ReaderError(_REMOVED)
        elif fault.fatal():
            raise ReaderError(f"{_UNREADABLE}: {fault.str()}")

    def close(self) -> None:
        """Leave the brokers."""
        self._consumer.close()


def _reason(problem: Any) -> str:
    """What the client says about a problem."""
    return str(problem.args[0].str())


def binary(values: Sequence[bytes | None]) -> pa.Array:
    """Values as an array; several times as fast as ``pa.array`` unless there are nulls."""
    try:
        lengths = np.fromiter(map(len, values), np.int64, len(values))  # type: ignore[arg-type]
    except TypeError:
        return pa.array(values, pa.binary())
    ends = np.cumsum(lengths)
    if len(values) == 0 or ends[-1] > np.iinfo(np.int32).max:
        return pa.array(values, pa.binary())
    offsets = np.zeros(len(values) + 1, np.int32)
    offsets[1:] = ends
    text = pa.py_buffer(b"".join(values))  # type: ignore[arg-type]
    return pa.Array.from_buffers(pa.binary(), len(values), [None, pa.py_buffer(offsets), text])
