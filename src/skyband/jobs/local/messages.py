"""Records from Kafka or a socket as sources of a local job."""

from __future__ import annotations

import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from skyband.errors import EngineError, QueryError
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import Section
from skyband.jobs.local.chosen import Chosen
from skyband.jobs.local.source import LocalSource, Place
from skyband.jobs.places import require_kafka
from skyband.spark.json_records import read_records
from skyband.spark.letters import LETTERS, RAW, Carried, unread

__all__ = ["Kafka", "Socket"]

Origin: TypeAlias = Callable[[], dict[str, pa.Array]]
_ROWS = 1 << 18
"""Records per batch, unless the job says otherwise."""
_SECONDS = 30.0
"""How long the brokers may take to answer."""
_AHEAD = {
    "queued.min.messages": 2 * _ROWS,
    "queued.max.messages.kbytes": 1 << 17,
    "fetch.message.max.bytes": 1 << 23,
    "fetch.max.bytes": 1 << 26,
}
"""What the client fetches while the last batch is read: as much as the next one needs."""
_PATIENCE = 0.25
"""Seconds to wait for more records before a batch is closed."""


class _Messages(LocalSource):
    """Records that are JSON of a schema, or lines of text."""

    def __init__(self, where: str, section: Section, name: str) -> None:
        self.where = where
        self.name = name
        self.chosen = Chosen(where, section["columns"])
        self.text = section["format"] == "text"
        if section["format"] not in (None, "json", "text"):
            raise QueryError(
                f"{where} format {section['format']!r} cannot be read by a local job; use engine = "
                "'spark'"
            )
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

    def _table(self, values: Sequence[bytes | None], origin: Origin) -> pa.Table:
        """The columns of the records that can be read.

        ``origin`` tells where the records came from; it is asked only if someone wants to know.
        """
        raw = _binary(values)
        self._unread, self._origin = LETTERS.empty_table(), origin
        if self.schema is None:
            return self.chosen.of(pa.table({"value": raw.cast(pa.string())}))
        read, bad = read_records(raw, self.schema)
        if not bad.any():
            return self.chosen.of(pa.Table.from_batches([read]))
        good, wrong = pa.array(~bad), pa.array(np.flatnonzero(bad))
        whole = origin()
        self._origin = lambda: {name: column.filter(good) for name, column in whole.items()}
        beside = {name: column.take(wrong) for name, column in whole.items()}
        carried = Carried("not JSON of the schema", {name: name for name in beside})
        self._unread = unread(self.name, carried, pa.table({RAW: raw.take(wrong), **beside}))
        return self.chosen.of(pa.Table.from_batches([read]).filter(good))

    @abstractmethod
    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None: ...


def _binary(values: Sequence[bytes | None]) -> pa.Array:
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


class Kafka(_Messages):
    """A topic. A place is the next offset of each partition; offsets are kept in the checkpoint."""

    first = None

    def __init__(self, where: str, section: Section, name: str) -> None:
        super().__init__(where, section, name)
        self._kafka = require_kafka()
        self.topic = section["topic"]
        self.starting = section["starting"] or "earliest"
        if self.starting not in ("earliest", "latest"):
            raise QueryError(f"{where} starting must be earliest or latest, not {self.starting!r}")
        options = {k.removeprefix("kafka."): v for k, v in (section["options"] or {}).items()}
        self._consumer = self._kafka.Consumer(
            {
                "bootstrap.servers": section["servers"],
                "group.id": "skyband",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                **_AHEAD,
                **options,
            }
        )
        self._at: dict[str, int] | None = None
        self._ended: dict[str, int] = {}
        """Offsets at which there was nothing more to read, by partition, as the client said."""
        self._reader = ThreadPoolExecutor(1, "skyband-kafka")
        self._ahead: Future[list[Any]] | None = None
        """The next records, which are fetched while the last ones are worked on."""

    def take(self, place: Place, last: bool) -> tuple[pa.Table, Place] | None:
        """The records that are there, at most ``rows_per_batch``."""
        begin = self._begin() if place is None else dict(place)
        ends = self._ends(begin) if last else None
        if ends is not None and all(begin[part] >= ends[part] for part in begin):
            return None
        self._seek(begin)
        until = time.monotonic() + _SECONDS
        messages = self._messages()
        while ends is not None and not messages and not self._read_up_to(ends):
            if time.monotonic() > until:
                raise EngineError(
                    f"{self.where} Kafka sent nothing of {self.topic!r} for {_SECONDS:.0f} s, but "
                    f"has records up to {ends}; see whether its brokers are alive"
                )
            messages = self._messages()
        if not messages:
            return None
        if len(messages) == self.rows_per_batch:
            self._ahead = self._reader.submit(self._fetch)
        end, left = dict(begin), set(begin)
        for message in reversed(messages):  # offsets of a partition ascend
            part = str(message.partition())
            if part in left:
                end[part] = message.offset() + 1
                left.discard(part)
                if not left:
                    break
        self._at = end
        return self._read(messages), end

    def again(self, begin: Place, end: Place) -> pa.Table:
        """The records between two places."""
        first = self._begin() if begin is None else dict(begin)
        wanted = {part: upto for part, upto in end.items() if first[part] < upto}
        self._seek({part: first[part] for part in wanted}, whole=False)
        found = []
        until = time.monotonic() + _SECONDS
        while wanted:
            for message in self._messages():
                part = str(message.partition())
                if part in wanted and message.offset() < wanted[part]:
                    found.append(message)
                    if message.offset() + 1 == wanted[part]:
                        del wanted[part]
            if time.monotonic() > until:
                raise EngineError(
                    f"{self.where} the records of {self.topic!r} up to {end} are no longer there; "
                    "the topic was deleted or its retention is too short"
                )
        self._at = None
        return self._read(found)

    def close(self) -> None:
        """Leave the brokers."""
        self._reader.shutdown()
        self._consumer.close()

    def _read(self, messages: Sequence[Any]) -> pa.Table:
        def origin() -> dict[str, pa.Array]:
            return {
                "topic": pa.repeat(self.topic, len(messages)),
                "partition": pa.array([each.partition() for each in messages], pa.int32()),
                "offset": pa.array([each.offset() for each in messages], pa.int64()),
            }

        return self._table([each.value() for each in messages], origin)

    def _messages(self) -> list[Any]:
        """The next records, at most ``rows_per_batch``."""
        ahead, self._ahead = self._ahead, None
        return self._fetch() if ahead is None else ahead.result()

    def _fetch(self) -> list[Any]:
        try:
            found = self._consumer.consume(self.rows_per_batch, _PATIENCE)
        except self._kafka.KafkaException as problem:
            raise EngineError(f"{self.where} Kafka cannot be read: {problem}") from problem
        good = [message for message in found if message.error() is None]
        for message in found if len(good) < len(found) else ():
            fault = message.error()
            if fault is None:
                continue
            if fault.code() == self._kafka.KafkaError._PARTITION_EOF:  # noqa: SLF001  its name
                self._ended[str(message.partition())] = message.offset()
            elif fault.fatal():
                raise EngineError(f"{self.where} Kafka cannot be read: {fault}")
        return good

    def _read_up_to(self, ends: Mapping[str, int]) -> bool:
        """Whether there is nothing more to read; the last offsets may belong to no record."""
        return all(self._ended.get(part, -1) >= end for part, end in ends.items())

    def _seek(self, at: dict[str, int], whole: bool = True) -> None:
        if whole and self._at == at:
            return
        if self._ahead is not None:
            wait([self._ahead])
            self._ahead = None
        self._ended.clear()
        self._consumer.assign(
            [self._kafka.TopicPartition(self.topic, int(part), row) for part, row in at.items()]
        )

    def _begin(self) -> dict[str, int]:
        """The first offset of each partition that the job reads."""
        try:
            told = self._consumer.list_topics(self.topic, timeout=_SECONDS).topics[self.topic]
        except self._kafka.KafkaException as problem:
            raise EngineError(f"{self.where} Kafka cannot be reached: {problem}") from problem
        if told.error is not None:
            raise EngineError(f"{self.where} the topic {self.topic!r} cannot be read: {told.error}")
        low, high = self._edges(list(map(str, told.partitions)))
        return high if self.starting == "latest" else low

    def _ends(self, begin: Mapping[str, int]) -> dict[str, int]:
        return self._edges(list(begin))[1]

    def _edges(self, parts: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
        edges = {
            part: self._consumer.get_watermark_offsets(
                self._kafka.TopicPartition(self.topic, int(part)), timeout=_SECONDS
            )
            for part in parts
        }
        low = {part: edge[0] for part, edge in edges.items()}
        return low, {part: edge[1] for part, edge in edges.items()}


class Socket(_Messages):
    """Lines from a socket. They cannot be read again: a crash loses what was not answered yet."""

    first = 0

    def __init__(self, where: str, section: Section, name: str) -> None:
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
        return self._table(lines, dict), place + len(lines)

    def again(self, begin: Place, end: Place) -> pa.Table:
        """Nothing: what a socket sent is gone."""
        return self._table([], dict)

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
