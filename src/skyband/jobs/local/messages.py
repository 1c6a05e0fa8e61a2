"""Records from Kafka or a socket as sources of a local job."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
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
from skyband.jobs.places import client_options
from skyband.jobs.world import MACHINE, World

_UNREACHABLE = "Kafka cannot be reached"
_UNREADABLE = "Kafka cannot be read"
_REMOVED = (
    "the records at the next offset are no longer there: they were removed, or the topic was "
    "recreated; give the job a new checkpoint, or set auto.offset.reset in its options to continue"
)
_REFUSED = "Kafka's client rejects its options"
_STEP = 1 << 9
"""Records that are taken at a time. Their objects are gone before Python looks for garbage, and
their memory is used again at once: a whole batch at a time takes three times as long."""
_TEXT = 1 << 28
"""Bytes after which a batch has enough, whatever the number of its records."""


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

    def ends(self) -> dict[str, int]:
        """The offset after the last record, for each partition that has some."""
        if not len(self):
            return {}
        last = np.full(int(self.partition.max()) + 1, -1, np.int64)
        last[self.partition] = self.offset  # of several rows, the last one stays
        return {str(part): int(last[part]) + 1 for part in np.flatnonzero(last >= 0)}

    def before(self, ends: Mapping[str, int]) -> Records:
        """The records of these partitions before these offsets."""
        kept = np.zeros(len(self), np.bool_)
        for part, end in ends.items():
            kept |= (self.partition == int(part)) & (self.offset < end)
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

    def __init__(self, where: str, section: JobSection, name: str, world: World = MACHINE) -> None:
        self.where, self.name, self._world = where, name, world
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
        carried = CarriedColumns("not JSON that fits the schema", {name: name for name in beside})
        self._unread = unread(self.name, carried, pa.table({RAW: raw.take(wrong), **beside}))
        return self.chosen.of(pa.Table.from_batches([read]).filter(good))


class KafkaSource(_Messages):
    """A topic. A place is the next offset of each partition; offsets are kept in the checkpoint."""

    first = None

    def __init__(self, where: str, section: JobSection, name: str, world: World = MACHINE) -> None:
        super().__init__(where, section, name, world)
        self.topic = section["topic"]
        self.starting = section["starting"] or "earliest"
        self._kafka = world.kafka()
        self._consumer = self._connected(
            {
                "bootstrap.servers": section["servers"],
                "group.id": "skyband",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "error",  # and not on with what comes next, without a word
                **_AHEAD,
                **client_options(section),
            }
        )
        self._next: dict[str, int] = {}
        """The offset from which the client reads on, by partition."""
        self._ended: dict[str, int] = {}
        """Offsets at which there was nothing more to read, by partition."""
        self._at: dict[str, int] | None = None
        self._known: dict[str, int] = {}
        """The offsets after the last records when the job began. One that runs once stops there."""
        self._pool = world.worker("skyband-kafka")
        self._ahead: Future[Records] | None = None
        """The next records, which are fetched while the last ones are worked on."""

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The records that are there, at most ``rows_per_batch``."""
        begin = self._begin() if place is None else dict(place)
        ends: Mapping[str, int] | None = None
        if last:  # what came after the job began is left to the next run
            ends = self._known = self._known or self.ends(begin)
            if all(begin[part] >= ends[part] for part in begin):
                return None
        if self._at != begin:
            self._assign(begin)
        until = self._world.monotonic() + _SECONDS
        records = self._records(ends)
        # The last offsets may belong to no record.
        while ends is not None and not len(records) and not self._is_at(ends):
            if self._world.monotonic() > until:
                raise EngineError(
                    f"{self.where} Kafka sent nothing from {self.topic!r} for {_SECONDS:.0f} s, "
                    f"but has records up to {ends}; check that its brokers are alive"
                )
            records = self._records(ends)
        if not len(records):
            return None
        if records.full:
            self._ahead = self._pool.submit(self._fetch, ends)
        self._at = begin | records.ends()
        return self._read(records), self._at

    def again(self, begin: Place, end: Place) -> pa.Table:
        """The records between two places."""
        first = self._begin() if begin is None else dict(begin)
        wanted = {part: upto for part, upto in end.items() if first[part] < upto}
        self._assign({part: first[part] for part in wanted})
        parts = []
        until = self._world.monotonic() + _SECONDS
        while wanted:
            records = self._records(end)
            parts.append(records.before(wanted))
            for part, upto in parts[-1].ends().items():
                if upto == wanted[part]:
                    del wanted[part]
            ends = records.ends()
            # What comes after a record was read, or there is nothing after it: it is gone.
            gone = any(max(ends.get(part, -1), self._ended.get(part, -1) + 1) > upto
                       for part, upto in wanted.items())  # fmt: skip
            if gone or self._world.monotonic() > until:
                raise EngineError(
                    f"{self.where} the records of {self.topic!r} up to {end} are no longer there; "
                    "the topic was deleted or its retention is too short"
                )
        self._at = None
        return self._read(Records.concat(parts))

    def close(self) -> None:
        """Leave the brokers."""
        self._pool.shutdown()
        self._consumer.close()

    def _read(self, records: Records) -> pa.Table:
        def origin() -> dict[str, pa.Array]:
            return {
                "topic": pa.repeat(self.topic, len(records)),
                "partition": pa.array(records.partition),
                "offset": pa.array(records.offset),
            }

        return self._table(records.values, origin)

    # Places ------------------------------------------------------------------------------------

    def _assign(self, places: dict[str, int]) -> None:
        """Read these partitions from these offsets on."""
        if self._ahead is not None:
            wait([self._ahead])
            self._ahead = None
        self._ended.clear()
        self._next = dict(places)
        self._consumer.assign([self._partition(part, row) for part, row in places.items()])

    def _partition(self, part: str, offset: int = -1) -> Any:
        return self._kafka.TopicPartition(self.topic, int(part), offset)

    def _begin(self) -> dict[str, int]:
        """The first offset of each partition that the job reads."""
        with self._named(_UNREACHABLE):
            topics = self._consumer.list_topics(self.topic, timeout=_SECONDS).topics
        topic = topics[self.topic]
        if topic.error is not None:
            reason = f"the topic {self.topic!r} cannot be read: {topic.error.str()}"
            raise EngineError(f"{self.where} {reason}")
        low, self._known = self._edges(list(map(str, topic.partitions)))
        return self._known if self.starting == "latest" else low

    def ends(self, begin: Mapping[str, int]) -> dict[str, int]:
        """The offset after the last one of each partition, now."""
        return self._edges(list(begin))[1]

    def _edges(self, parts: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
        """The first offset of each partition, and the one after its last."""
        with self._named(_UNREACHABLE):
            edges = {
                part: self._consumer.get_watermark_offsets(self._partition(part), timeout=_SECONDS)
                for part in parts
            }
        return {part: low for part, (low, _) in edges.items()}, {
            part: high for part, (_, high) in edges.items()
        }

    def _is_at(self, ends: Mapping[str, int]) -> bool:
        """Whether everything before these offsets was read."""
        return all(
            max(self._next.get(part, end), self._ended.get(part, -1)) >= end
            for part, end in ends.items()
        )

    # Records -----------------------------------------------------------------------------------

    def _records(self, ends: Mapping[str, int] | None) -> Records:
        """The next records, at most ``rows_per_batch``."""
        ahead, self._ahead = self._ahead, None
        return self._fetch(ends) if ahead is None else ahead.result()

    def _fetch(self, ends: Mapping[str, int] | None) -> Records:
        """The next records; fewer if no more come in time, or if there are no more up to ``ends``.

        Without ``ends`` it waits for more in any case.
        """
        parts: list[Records] = []
        rows = size = 0
        latest = self._world.monotonic() + _PATIENCE
        while rows < self.rows_per_batch and size < _TEXT:
            step = min(_STEP, self.rows_per_batch - rows)
            messages = self._consume(step, 0.0)
            if not messages:
                if ends is not None and self._is_at(ends):
                    break
                # If there is an end to notice, any message wakes it up; otherwise many at a time.
                left = max(0.0, latest - self._world.monotonic())
                messages = self._consume(step if ends is None else 1, left)
            if not messages:
                break
            parts.append(self._good(messages))
            rows += len(parts[-1])
            size += parts[-1].values.nbytes
            self._next |= parts[-1].ends()
        return Records.concat(parts, full=rows == self.rows_per_batch or size >= _TEXT)

    def _consume(self, most: int, seconds: float) -> list[Any]:
        """Messages that are there, or that come in time."""
        with self._named(_UNREADABLE):
            return list(self._consumer.consume(most, seconds))

    def _good(self, messages: list[Any]) -> Records:
        """The records among messages; notes where a partition ends."""
        good = [message for message in messages if message.error() is None]
        for message in messages if len(good) < len(messages) else ():
            if message.error() is not None:
                self._note(message, message.error())
        return Records(
            pa.array([message.value() for message in good], pa.binary()),
            np.array([message.partition() for message in good], np.int32),
            np.array([message.offset() for message in good], np.int64),
        )

    def _note(self, message: Any, fault: Any) -> None:
        codes = self._kafka.KafkaError
        if fault.code() == codes._PARTITION_EOF:  # noqa: SLF001  its name
            self._ended[str(message.partition())] = message.offset()
        elif fault.code() == codes._AUTO_OFFSET_RESET:  # noqa: SLF001
            raise EngineError(f"{self.where} {_REMOVED}")
        elif fault.fatal():
            raise EngineError(f"{self.where} {_UNREADABLE}: {fault.str()}")

    # Problems ----------------------------------------------------------------------------------

    def _connected(self, options: dict[str, Any]) -> Any:
        if not options["group.id"]:  # at which the client would end the process
            raise EngineError(f"{self.where} {_REFUSED}: group.id must not be empty")
        with self._named(_REFUSED):
            try:
                return self._kafka.Consumer(options)
            except (TypeError, ValueError) as problem:
                raise EngineError(f"{self.where} {_REFUSED}: {problem}") from problem

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Problems of the client, with the name of the source and what could not be done."""
        try:
            yield
        except self._kafka.KafkaException as problem:
            raise EngineError(f"{self.where} {what}: {problem.args[0].str()}") from problem


class SocketSource(_Messages):
    """Lines from a socket. They cannot be read again, so they stand in the checkpoint."""

    first = 0
    journalled = True

    def __init__(self, where: str, section: JobSection, name: str, world: World = MACHINE) -> None:
        super().__init__(where, section, name, world)
        self.address = (section["host"], section["port"])
        self._left = b""
        self._open: socket.socket | None = None
        self._ended = False

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The lines that have come since."""
        lines = self._lines()
        if not lines:
            return None
        return self._table(pa.array(lines, pa.binary()), dict), place + len(lines)

    def close(self) -> None:
        """Close the connection."""
        if self._open is not None:
            self._open.close()

    def _lines(self) -> list[bytes | None]:
        if self._ended:
            return []
        if self._open is None:
            try:
                self._open = self._world.connect(self.address, _SECONDS)
            except OSError as problem:
                host, port = self.address
                raise EngineError(f"{self.where} {host}:{port} cannot be read: {problem}") from None
            self._open.settimeout(_PATIENCE)
        pieces = [self._left]
        until = self._world.monotonic() + _PATIENCE
        while self._world.monotonic() < until:
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
