"""Servers that other machines run: what they were sent stays, whatever becomes of the job.

A transaction counts as a whole once it is committed. Each call of a client is a step of the job's.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

Step = Callable[..., None]
Row = dict[str, Any]


class Record(NamedTuple):
    """A record of a topic with one partition."""

    key: str | None
    content: bytes


@dataclass
class Servers:
    """What Kafka, PostgreSQL and a receiver of posts hold."""

    topics: dict[str, list[Record]] = field(default_factory=dict)
    tables: dict[str, list[Row]] = field(default_factory=dict)
    posts: list[tuple[str, Any]] = field(default_factory=list)
    """The key and the body of each post that was accepted."""

    def copy(self) -> Servers:
        tables = {name: list(rows) for name, rows in self.tables.items()}
        topics = {name: list(records) for name, records in self.topics.items()}
        return Servers(topics, tables, list(self.posts))


# Kafka --------------------------------------------------------------------------------------------


class KafkaException(Exception):  # noqa: N818  (its name)
    """What the client raises."""


def kafka_client(servers: Servers, step: Step) -> Any:
    """What a job uses of the package confluent_kafka."""
    return SimpleNamespace(
        KafkaException=KafkaException,
        KafkaError=SimpleNamespace(_PARTITION_EOF=-191, _AUTO_OFFSET_RESET=-140),
        TopicPartition=lambda topic, partition, offset=-1: SimpleNamespace(
            topic=topic, partition=partition, offset=offset
        ),
        Producer=lambda settings: Producer(servers, step),
        Consumer=lambda settings: Consumer(servers, step),
    )


class Fault:
    """An error as the client tells it."""

    def __init__(self, code: int = 0) -> None:
        self._code = code

    def code(self) -> int:
        return self._code

    def __str__(self) -> str:
        return "the broker is away"

    str = __str__

    def fatal(self) -> bool:
        return False


@contextmanager
def _as_kafka_says() -> Iterator[None]:
    try:
        yield
    except OSError:
        raise KafkaException(Fault()) from None


class Producer:
    """Sends what belongs together, or nothing of it."""

    def __init__(self, servers: Servers, step: Step) -> None:
        self.servers, self.step = servers, step
        self.pending: list[tuple[str, Record]] = []

    def init_transactions(self, seconds: float) -> None:
        with _as_kafka_says():
            self.step("connect")

    def begin_transaction(self) -> None:
        self.pending = []

    def produce(self, topic: str, value: bytes, key: str | None = None) -> None:
        self.pending.append((topic, Record(key, value)))

    def commit_transaction(self, seconds: float) -> None:
        def commit() -> None:
            for topic, record in self.pending:
                self.servers.topics.setdefault(topic, []).append(record)

        with _as_kafka_says():
            self.step("commit", commit)

    def abort_transaction(self, seconds: float) -> None:
        self.pending = []


class Message:
    """A record, or the end of a partition."""

    def __init__(self, topic: str, offset: int, record: Record | None) -> None:
        self._topic, self._offset, self._record = topic, offset, record

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def error(self) -> Fault | None:
        return Fault(-191) if self._record is None else None

    def value(self) -> bytes | None:
        return None if self._record is None else self._record.content


class Consumer:
    """Reads from an offset on."""

    def __init__(self, servers: Servers, step: Step) -> None:
        self.servers, self.step = servers, step
        self.topic, self.at, self.told = "", 0, False

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        with _as_kafka_says():
            self.step("ask")
        topics = {
            name: SimpleNamespace(partitions={0: None}, error=None) for name in self.servers.topics
        }
        return SimpleNamespace(topics=topics)

    def get_watermark_offsets(self, place: Any, timeout: float) -> tuple[int, int]:
        return 0, len(self.servers.topics[place.topic])

    def assign(self, places: Sequence[Any]) -> None:
        for place in places:
            self.topic, self.at, self.told = place.topic, place.offset, False

    def position(self, places: Sequence[Any]) -> list[Any]:
        return [SimpleNamespace(offset=self.at)]

    def consume(self, most: int, seconds: float) -> list[Message]:
        with _as_kafka_says():
            self.step("ask")
        records = self.servers.topics[self.topic][self.at : self.at + most]
        found = [Message(self.topic, self.at + i, each) for i, each in enumerate(records)]
        self.at += len(found)
        if not found and not self.told:
            self.told = True
            return [Message(self.topic, self.at, None)]
        return found

    def poll(self, seconds: float) -> Message | None:
        found = self.consume(1, seconds)
        return found[0] if found else None

    def close(self) -> None:
        pass


# PostgreSQL ---------------------------------------------------------------------------------------

RUNS = "skyband_runs"
RUN = ("query", "target", "run")
FRESH = "skyband_fresh"


class PostgresError(Exception):
    """What the client raises."""


def postgres_client(servers: Servers, step: Step) -> Any:
    """What a job uses of the package psycopg."""

    @contextmanager
    def connect(dsn: str) -> Iterator[Connection]:
        try:
            step("connect")
            connection = Connection(copy.copy(servers.copy().tables))
            yield connection

            def commit() -> None:
                connection.tables.pop(FRESH, None)
                servers.tables = connection.tables

            step("commit", commit)
        except OSError as problem:
            raise PostgresError(f"the server is away: {problem}") from None

    return SimpleNamespace(connect=connect, Error=PostgresError)


class Connection:
    """A transaction; it is also its cursor, and understands what a job's sink says."""

    def __init__(self, tables: dict[str, list[Row]]) -> None:
        self.tables = tables
        self.found: list[tuple[Any, ...]] = []

    @contextmanager
    def cursor(self) -> Iterator[Connection]:
        yield self

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self.found

    def execute(self, query: Any, values: Sequence[Any] = ()) -> None:
        text = query if isinstance(query, str) else query.as_string(None)
        if re.match("SET LOCAL|SELECT pg_advisory", text):
            return
        if made := re.match(r'CREATE (TEMP )?TABLE (?:IF NOT EXISTS )?"?(\w+)"?', text):
            self.tables.setdefault(made[2], [])
        elif text.startswith(f"SELECT query, run, number, upto FROM {RUNS}"):
            names = ("query", "run", "number", "upto")
            rows = [row for row in self.tables[RUNS] if row["target"] == values[0]]
            self.found = [tuple(row[name] for name in names) for row in rows]
        elif text.startswith(f"INSERT INTO {RUNS}"):
            row = dict(zip(("query", "target", "run", "number"), values, strict=True)) | {
                "batch": None,
                "upto": None,
            }
            self.tables[RUNS].append(row)
        elif text.startswith(f"UPDATE {RUNS}"):
            batch, upto, *key = values
            self.tables[RUNS] = [
                row | {"batch": batch, "upto": upto}
                if [row[n] for n in ("query", "target", "run")] == key
                else row
                for row in self.tables[RUNS]
            ]
        elif gone := re.match(r'DELETE FROM "(\w+)" WHERE window_end <= %s', text):
            after = values[1] if "window_end > %s" in text else None
            self.tables[gone[1]] = [
                row
                for row in self.tables[gone[1]]
                if row["window_end"] > values[0]
                or (after is not None and row["window_end"] <= after)
            ]
        elif gone := re.match(r'DELETE FROM "(\w+)" there USING', text):
            self.tables[gone[1]] = [
                row for row in self.tables[gone[1]] if not self._there(text, row, FRESH)
            ]
        elif added := re.match(rf'INSERT INTO "(\w+)" \(.*\) SELECT .* FROM "{FRESH}"', text):
            old = list(self.tables[added[1]])
            self.tables["skyband_old"] = old
            new = [r for r in self.tables[FRESH] if not self._there(text, r, "skyband_old")]
            del self.tables["skyband_old"]
            self.tables[added[1]] = old + new
        else:
            raise AssertionError(f"the simulated server does not understand {text}")

    def _there(self, text: str, row: Row, other: str) -> bool:
        """Whether a table has the window of a row, for the groups that the text compares."""
        names = [*re.findall(r'"there"\."(\w+)"', text), "window_end"]
        key = [row[name] for name in names]
        same = (each for each in self.tables[other] if [each[name] for name in names] == key)
        if "revision" in text and "DELETE" in text:
            return any(row["revision"] <= each["revision"] for each in same)
        return any(True for _ in same)

    @contextmanager
    def copy(self, query: Any) -> Iterator[Any]:
        found = re.match(r'COPY "(\w+)" \((.*)\) FROM STDIN', query.as_string(None))
        assert found is not None
        names = [name.strip('" ') for name in found[2].split(",")]
        rows = list(self.tables[found[1]])
        yield SimpleNamespace(write_row=lambda row: rows.append(dict(zip(names, row, strict=True))))
        self.tables[found[1]] = rows


# A receiver of posts ------------------------------------------------------------------------------


def received(servers: Servers) -> Mapping[str, Any]:
    """The last message of each key, as a receiver that knows keys keeps them."""
    return {key: json.loads(body) for key, body in servers.posts}
