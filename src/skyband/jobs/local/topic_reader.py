"""What a local job needs of a Kafka client, and the records that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from skyband.arrays import Codes, Ints, Mask

__all__ = [
    "REFUSED",
    "REMOVED",
    "UNREACHABLE",
    "UNREADABLE",
    "ReaderError",
    "Records",
    "TopicReader",
    "binary",
    "ends_of",
]

UNREACHABLE = "Kafka cannot be reached"
UNREADABLE = "Kafka cannot be read"
REMOVED = (
    "the records at the next offset are no longer there: they were removed, or the topic was made "
    "anew; give the job a new checkpoint, or set auto.offset.reset in its options to go on"
)
REFUSED = "Kafka's client refuses its options"


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
        return ends_of(self.partition, self.offset)

    def before(self, ends: Mapping[int, int]) -> Records:
        """The records of these partitions before these offsets."""
        kept = np.zeros(len(self), np.bool_)
        for part, end in ends.items():
            kept |= (self.partition == part) & (self.offset < end)
        return self if kept.all() else self._of(kept)

    def _of(self, kept: Mask) -> Records:
        return Records(self.values.filter(pa.array(kept)), self.partition[kept], self.offset[kept])

    @staticmethod
    def concat(parts: Sequence[Records]) -> Records:
        """All records, one part after another."""
        if len(parts) == 1:
            return parts[0]
        return Records(
            pa.concat_arrays([pa.array([], pa.binary()), *(part.values for part in parts)]),
            np.concatenate([np.zeros(0, np.int32), *(part.partition for part in parts)]),
            np.concatenate([np.zeros(0, np.int64), *(part.offset for part in parts)]),
        )


def ends_of(partition: Codes, offset: Ints) -> dict[int, int]:
    """The offset after the last record, for each partition that has some."""
    if not len(offset):
        return {}
    last = np.full(int(partition.max()) + 1, -1, np.int64)
    last[partition] = offset  # of several rows, the last one stays
    return {int(part): int(last[part]) + 1 for part in np.flatnonzero(last >= 0)}


class TopicReader(Protocol):
    """Reads one topic. Waiting times are in seconds; what fails raises ``ReaderError``."""

    client: str
    """What it reads with."""
    ended: dict[int, int]
    """Offsets at which there was nothing more to read, by partition."""

    def partitions(self, seconds: float) -> list[int]:
        """The partitions of the topic."""

    def edges(self, partition: int, seconds: float) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""

    def assign(self, places: Mapping[int, int]) -> None:
        """Read these partitions from these offsets on."""

    def fetch(self, most: int, seconds: float, until: Mapping[int, int] | None) -> Records:
        """The next records, at most so many; fewer if no more come in time.

        It need not wait for more once the partitions are read up to the offsets of ``until``.
        """

    def close(self) -> None:
        """Leave the brokers."""


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
