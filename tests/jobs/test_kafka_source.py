"""The Kafka source of local jobs, with a client of our own in place of a broker."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from skyband.errors import EngineError
from skyband.jobs.local import messages

SECTION: Any = {
    "servers": "nowhere",
    "topic": "rows",
    "schema": "t bigint, id string",
    "rows_per_batch": 2,
    "columns": None,
    "format": None,
    "starting": None,
    "options": None,
}
END = -191


class Message:
    def __init__(self, offset: int, value: bytes | None, code: int | None = None) -> None:
        self._offset, self._value, self._code = offset, value, code

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes | None:
        return self._value

    def error(self) -> Any:
        if self._code is None:
            return None
        return SimpleNamespace(code=lambda: self._code, fatal=lambda: False)


class Client:
    """Sends nothing every other time. The last offset belongs to no record, as after a commit."""

    def __init__(self, records: int) -> None:
        self.records, self.at, self.calls = records, 0, 0
        self.assigned: list[int] = []

    def assign(self, parts: list[Any]) -> None:
        self.at = parts[0]
        self.assigned.append(self.at)

    def consume(self, most: int, wait: float) -> list[Message]:
        self.calls += 1
        if self.calls % 2:
            return []
        if self.at >= self.records:
            return [Message(self.records + 1, None, END)]
        upto = min(self.at + most, self.records)
        found = [
            Message(i, json.dumps({"t": i, "id": f"é{i}"}).encode()) for i in range(self.at, upto)
        ]
        self.at = upto
        return found

    def get_watermark_offsets(self, part: int, timeout: float) -> tuple[int, int]:
        return 0, self.records + 1

    def close(self) -> None:
        pass


def source(monkeypatch: pytest.MonkeyPatch, client: Any) -> messages.Kafka:
    fake = SimpleNamespace(
        Consumer=lambda settings: client,
        KafkaException=ValueError,
        KafkaError=SimpleNamespace(_PARTITION_EOF=END),
        TopicPartition=lambda topic, part, at=0: at,
    )
    monkeypatch.setattr(messages, "require_kafka", lambda: fake)
    return messages.Kafka("[source]", SECTION, "")


def test_a_job_that_runs_once_waits_for_records_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(5)
    reader = source(monkeypatch, client)
    place, times = {"0": 0}, []
    while (found := reader.take(place, last=True)) is not None:
        table, place = found
        times += table["t"].to_pylist()
    reader.close()
    assert times == [0, 1, 2, 3, 4]
    assert place == {"0": 5}  # the end of a transaction has an offset, but is no record
    assert client.assigned == [0]


def test_records_that_were_read_ahead_are_not_used_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(9)
    reader = source(monkeypatch, client)
    first, place = reader.take({"0": 0}, last=True) or (None, None)
    assert first is not None
    assert place == {"0": 2}
    table = reader.again({"0": 1}, {"0": 4})
    assert table["t"].to_pylist() == [1, 2, 3]
    found = reader.take({"0": 4}, last=True)
    assert found is not None
    assert found[0]["t"].to_pylist() == [4, 5]
    reader.close()


def test_brokers_that_send_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(5)
    monkeypatch.setattr(client, "consume", lambda most, wait: [])
    monkeypatch.setattr(messages, "_SECONDS", 0.05)
    reader = source(monkeypatch, client)
    with pytest.raises(EngineError, match="sent nothing of 'rows'"):
        reader.take({"0": 0}, last=True)
    assert reader.take({"0": 0}, last=False) is None
    reader.close()


@pytest.mark.parametrize(
    "values", [[], [b""], [b"{}", b"", "é".encode()], [b"a", None], [None]], ids=str
)
def test_values_become_one_array(values: list[bytes | None]) -> None:
    made = messages._binary(values)
    made.validate(full=True)
    assert made.equals(pa.array(values, pa.binary()))
