"""Records from Kafka or a socket as sources of a local job."""

from __future__ import annotations

import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from skyband.arrays import Codes, Ints
from skyband.data.json_records import read_records
from skyband.data.letters import LETTERS, RAW, CarriedColumns, unread
from skyband.errors import EngineError, QueryError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import JobSection
from skyband.jobs.local.source import ColumnChoice, LocalSource, Place
from skyband.jobs.places import client_options, require_kafka

__all__ = [
    "KafkaSource",
    "ReaderError",
    "Records",
    "Socket",
    "TopicReader",
    "binary",
    "check_messages",
]

# Reads a Kafka topic for a local job, with the client confluent-kafka ----------------------------


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


Origin: TypeAlias = Callable[[], dict[str, pa.Array]]
_ROWS = 1 << 18
"""Records per batch, unless the job says otherwise."""
_SECONDS = 30.0
"""How long the brokers may take to answer."""
_AHEAD = {
    "queued.min.messages": 1 << 17,
    "queued.max.messages.kbytes": 1 << 17,
    "fetch.message.max.bytes": 1 << 21,
    "fetch.max.bytes": 1 << 26,
    "fetch.queue.backoff.ms": 10,
    "fetch.wait.max.ms": 100,
}
"""What the client fetches beyond the next batch. More would not be in the processor's cache any
longer when it is taken."""
_PATIENCE = 0.25
"""Seconds to wait for more records before a batch is closed."""


def check_messages(where: str, section: JobSection) -> None:
    """Raise QueryError for records that a local job cannot read."""
    if section["format"] not in (None, "json", "text"):
        raise QueryError(
            f"{where} format {section['format']!r} cannot be read by a local job; use engine = "
            "'spark'"
        )
    if section["format"] != "text":
        arrow_schema(where, section["schema"])
    starting = section["starting"]
    if starting not in (None, "earliest", "latest"):
        raise QueryError(f"{where} starting must be earliest or latest, not {starting!r}")


class _Messages(LocalSource):
    """Records that are JSON of a schema, or lines of text."""

    def __init__(self, where: str, section: JobSection, name: str) -> None:
        self.where = where
        self.name = name
        self.chosen = ColumnChoice(where, section["columns"])
        self.text = section["format"] == "text"
        check_messages(where, section)
        self.schema = None if self.text else arrow_schema(where, section["schema"])
        self.rows_per_batch = section["rows_per_batch"] or _ROWS
        self._unread = LETTERS.empty_table()
        self._origin: Origin = dict

    def origin(self) -> dict[str, pa.Array]:
        """Where each row of the last batch came from."""
        return self._origin()

    def unread(self) -> pa.Table:
        """Letters for the records of the last batch that are not JSON of the schema."""
        return self._unread

    def _table(self, raw: pa.Array, origin: Origin) -> pa.Table:
        """The columns of the records that can be read.

        ``origin`` tells where the records came from; it is asked only if someone wants to know.
        """
        self._unread, self._origin = LETTERS.empty_table(), origin
        if self.schema is None:
            return self.chosen.of(pa.table({"value": raw.cast(pa.string())}))
        read, bad = read_records(raw, self.schema, threads=True)
        if not bad.any():
            return self.chosen.of(pa.Table.from_batches([read]))
        good, wrong = pa.array(~bad), pa.array(np.flatnonzero(bad))
        whole = origin()
        self._origin = lambda: {name: column.filter(good) for name, column in whole.items()}
        beside = {name: column.take(wrong) for name, column in whole.items()}
        carried = CarriedColumns("not JSON of the schema", {name: name for name in beside})
        self._unread = unread(self.name, carried, pa.table({RAW: raw.take(wrong), **beside}))
        return self.chosen.of(pa.Table.from_batches([read]).filter(good))

    @abstractmethod
    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None: ...


class KafkaSource(_Messages):
    """A topic. A place is the next offset of each partition; offsets are kept in the checkpoint."""

    first = None

    def __init__(self, where: str, section: JobSection, name: str) -> None:
        super().__init__(where, section, name)
        self.topic = section["topic"]
        self.starting = section["starting"] or "earliest"
        options = {
            "bootstrap.servers": section["servers"],
            "group.id": "skyband",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",  # and not on with what comes next, without a word
            **_AHEAD,
            **client_options(section),
        }
        with self._named():
            self.reader = TopicReader(self.topic, options)
        self._at: dict[str, int] | None = None
        self._known: dict[str, int] = {}
        """The offsets after the last records when the job began. One that runs once stops there."""
        self._pool = ThreadPoolExecutor(1, "skyband-kafka")
        self._ahead: Future[Records] | None = None
        """The next records, which are fetched while the last ones are worked on."""

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The records that are there, at most ``rows_per_batch``."""
        begin = self._begin() if place is None else dict(place)
        ends = self._ends(begin) if last else None
        if ends is not None and all(begin[part] >= ends[part] for part in begin):
            return None
        self._seek(begin)
        until = time.monotonic() + _SECONDS
        records = self._records(ends)
        while ends is not None and not len(records) and not self._read_up_to(begin, ends):
            if time.monotonic() > until:
                raise EngineError(
                    f"{self.where} Kafka sent nothing of {self.topic!r} for {_SECONDS:.0f} s, but "
                    f"has records up to {ends}; see whether its brokers are alive"
                )
            records = self._records(ends)
        if not len(records):
            return None
        if records.full:
            self._ahead = self._pool.submit(self._fetch, ends)
        end = begin | {str(part): row for part, row in records.ends().items()}
        self._at = end
        return self._read(records), end

    def again(self, begin: Place, end: Place) -> pa.Table:
        """The records between two places."""
        first = self._begin() if begin is None else dict(begin)
        wanted = {int(part): upto for part, upto in end.items() if first[part] < upto}
        self._seek({str(part): first[str(part)] for part in wanted}, whole=False)
        found = []
        until = time.monotonic() + _SECONDS
        while wanted:
            read = self._records(end)
            found.append(read.before(wanted))
            for part, upto in found[-1].ends().items():
                if upto == wanted[part]:
                    del wanted[part]
            if time.monotonic() > until or self._passed(wanted, read):
                raise EngineError(
                    f"{self.where} the records of {self.topic!r} up to {end} are no longer there; "
                    "the topic was deleted or its retention is too short"
                )
        self._at = None
        return self._read(Records.concat(found))

    def close(self) -> None:
        """Leave the brokers."""
        self._pool.shutdown()
        self.reader.close()

    def _read(self, records: Records) -> pa.Table:
        def origin() -> dict[str, pa.Array]:
            return {
                "topic": pa.repeat(self.topic, len(records)),
                "partition": pa.array(records.partition),
                "offset": pa.array(records.offset),
            }

        return self._table(records.values, origin)

    def _records(self, ends: Mapping[str, int] | None) -> Records:
        """The next records, at most ``rows_per_batch``."""
        ahead, self._ahead = self._ahead, None
        return self._fetch(ends) if ahead is None else ahead.result()

    def _fetch(self, ends: Mapping[str, int] | None) -> Records:
        until = None if ends is None else {int(part): end for part, end in ends.items()}
        with self._named():
            return self.reader.fetch(self.rows_per_batch, _PATIENCE, until)

    def _read_up_to(self, begin: Mapping[str, int], ends: Mapping[str, int]) -> bool:
        """Whether there is nothing more to read; the last offsets may belong to no record."""
        ended = self.reader.ended
        return all(max(begin[part], ended.get(int(part), -1)) >= end for part, end in ends.items())

    def _passed(self, wanted: Mapping[int, int], read: Records) -> bool:
        """Whether a record is gone: what comes after it was read, or there is nothing after it."""
        ends, ended = read.ends(), self.reader.ended
        return any(
            ends.get(part, -1) > upto or ended.get(part, -1) >= upto
            for part, upto in wanted.items()
        )

    def _seek(self, at: dict[str, int], whole: bool = True) -> None:
        if whole and self._at == at:
            return
        if self._ahead is not None:
            wait([self._ahead])
            self._ahead = None
        with self._named():
            self.reader.assign({int(part): row for part, row in at.items()})

    def _begin(self) -> dict[str, int]:
        """The first offset of each partition that the job reads."""
        with self._named():
            parts = self.reader.partitions(_SECONDS)
        low, high = self._edges(list(map(str, parts)))
        self._known = high
        return high if self.starting == "latest" else low

    def ends(self, begin: Mapping[str, int]) -> dict[str, int]:
        """The offset after the last one of each partition, now."""
        return self._edges(list(begin))[1]

    def _ends(self, begin: Mapping[str, int]) -> dict[str, int]:
        """The same when the job began: what comes later is left to the next run."""
        if not self._known:
            self._known = self.ends(begin)
        return self._known

    def _edges(self, parts: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
        with self._named():
            edges = {part: self.reader.edges(int(part), _SECONDS) for part in parts}
        low = {part: edge[0] for part, edge in edges.items()}
        return low, {part: edge[1] for part, edge in edges.items()}

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Problems of the client, with the name of the source."""
        try:
            yield
        except ReaderError as problem:
            raise EngineError(f"{self.where} {problem}") from problem


class Socket(_Messages):
    """Lines from a socket. They cannot be read again, so they stand in the checkpoint."""

    first = 0
    journalled = True

    def __init__(self, where: str, section: JobSection, name: str) -> None:
        super().__init__(where, section, name)
        self.address = (section["host"], section["port"])
        self._left = b""
        self._open: socket.socket | None = None
        self._ended = False

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The lines that have come since."""
        lines = self._lines()
        if not lines:
            return None
        return self._table(binary(lines), dict), place + len(lines)

    def again(self, begin: Place, end: Place) -> pa.Table:
        """Never called: what a socket sent stands in the checkpoint."""
        raise EngineError(f"{self.where} a socket cannot be read again")

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()

    def _lines(self) -> list[bytes | None]:
        if self._ended:
            return []
        if self._open is None:
            try:
                self._open = socket.create_connection(self.address, _SECONDS)
            except OSError as problem:
                host, port = self.address
                raise EngineError(f"{self.where} {host}:{port} cannot be read: {problem}") from None
            self._open.settimeout(_PATIENCE)
        pieces = [self._left]
        until = time.monotonic() + _PATIENCE
        while time.monotonic() < until:
            try:
                got = self._open.recv(1 << 20)
            except TimeoutError:
                break
            pieces.append(got)
            if not got:
                self._ended = True
                break
        *lines, self._left = b"".join(pieces).split(b"\n")
        if self._ended and self._left:
            lines, self._left = [*lines, self._left], b""
        return [line for line in lines if line.strip()]
