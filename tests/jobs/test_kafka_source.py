"""A topic of a real broker as the source of a local job."""

from __future__ import annotations

import time
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.jobs.local import messages
from support import kafka_broker
from support.kafka_topics import create, remove, rows, send, source

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(1800), pytest.mark.xdist_group("kafka")]
pytest.importorskip("confluent_kafka", reason="the kafka extra")


def test_a_job_that_runs_once_waits_for_records_that_are_there(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client returns nothing while it connects. The last offset belongs to no record."""
    topic = "once"
    send(servers, topic, rows(5), **{"transactional.id": topic})
    monkeypatch.setattr(messages, "_PATIENCE", 0.001)
    reader = source(servers, topic)
    place, times = {"0": 0}, []
    while (found := reader.take(place, last=True)) is not None:
        table, place = found
        times += table["ts"].to_pylist()
    assert reader.ends(place) == {"0": 6}  # the end of a transaction has an offset
    reader.close()
    assert times == [0, 3, 6, 9, 12]
    assert place == {"0": 5}


def test_records_that_were_read_ahead_are_not_used_elsewhere(servers: str) -> None:
    send(servers, "ahead", rows(9))
    reader = source(servers, "ahead")
    found = reader.take({"0": 0}, last=True)
    assert found is not None
    assert found[1] == {"0": 2}
    table = reader.again({"0": 1}, {"0": 4})
    assert table["ts"].to_pylist() == [3, 6, 9]
    found = reader.take({"0": 4}, last=True)
    assert found is not None
    assert found[0]["ts"].to_pylist() == [12, 15]
    reader.close()


def test_where_to_start(servers: str) -> None:
    send(servers, "late", rows(4))
    reader = source(servers, "late", starting="latest")
    assert reader.take(None, last=True) is None
    reader.close()
    with pytest.raises(sb.QueryError, match="starting must be earliest or latest, not 'middle'"):
        source(servers, "late", starting="middle")


def test_several_partitions(servers: str) -> None:
    topic = "wide"
    create(servers, topic, partitions=3)
    send(servers, topic, rows(50))
    reader = source(servers, topic, rows_per_batch=20)
    place: Any = None
    times: list[int] = []
    batches: list[Any] = []
    while (found := reader.take(place, last=True)) is not None:
        begin, (table, place) = place, found
        times += table["ts"].to_pylist()
        origin = reader.origin()
        assert set(origin["partition"].to_pylist()) <= {0, 1, 2}
        batches.append((begin, place, table))
    assert sorted(times) == [3 * i for i in range(50)]
    assert sum(place.values()) == 50
    for begin, end, table in batches:
        assert reader.again(begin, end).sort_by("ts").equals(table.sort_by("ts"))
    reader.close()


def test_brokers_that_send_nothing(
    broker: kafka_broker.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(broker.address, "silent", rows(5))
    reader = source(broker.address, "silent")
    ends = reader.ends({"0": 0})
    monkeypatch.setattr(messages, "_SECONDS", 0.3)
    with broker.frozen():
        with pytest.raises(sb.EngineError, match=r"\[source\] Kafka cannot be reached"):
            reader.take({"0": 0}, last=True)
        monkeypatch.setattr(reader, "ends", lambda begin: ends)
        with pytest.raises(sb.EngineError, match="sent nothing from 'silent'"):
            reader.take({"0": 0}, last=True)
        assert reader.take({"0": 0}, last=False) is None
    reader.close()


def test_records_that_are_gone(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = "gone"
    send(servers, topic, rows(5))
    reader = source(servers, topic)
    monkeypatch.setattr(messages, "_SECONDS", 2.0)
    with pytest.raises(sb.EngineError, match=r"records of 'gone.*' up to .* are no longer there"):
        reader.again({"0": 3}, {"0": 9})
    reader.close()
    # Instead of the last record there is the end of a transaction, as if it had been removed.
    monkeypatch.setattr(messages, "_SECONDS", 60.0)
    send(servers, f"{topic}-2", rows(5), **{"transactional.id": topic})
    send(servers, f"{topic}-2", rows(5), **{"transactional.id": topic})
    reader = source(servers, f"{topic}-2")
    began = time.monotonic()
    for end in (6, 12):  # records follow, or nothing does
        with pytest.raises(sb.EngineError, match=r"records of 'gone.*' up to .* are no longer"):
            reader.again({"0": 3}, {"0": end})
    assert time.monotonic() - began < 30
    reader.close()


def test_a_job_stops_if_its_next_records_were_removed(servers: str) -> None:
    """By default the client would go on with what comes next, and leave out all the rest."""
    topic = "removed"
    send(servers, topic, rows(9))
    remove(servers, topic, before=5)
    reader = source(servers, topic)
    found = reader.take({"0": 5}, last=True)
    assert found is not None
    assert found[0]["ts"].to_pylist() == [15, 18]
    with pytest.raises(sb.EngineError, match="records at the next offset are no longer there"):
        reader.take({"0": 3}, last=True)
    reader.close()
    reader = source(servers, topic, options={"kafka.auto.offset.reset": "earliest"})
    found = reader.take({"0": 3}, last=True)
    assert found is not None
    assert found[0]["ts"].to_pylist() == [15, 18]
    reader.close()


def test_a_job_that_runs_once_leaves_out_what_comes_later(servers: str) -> None:
    topic = "later"
    send(servers, topic, rows(4))
    reader = source(servers, topic)
    found = reader.take(None, last=True)
    assert found is not None
    send(servers, topic, rows(9))
    found = reader.take(found[1], last=True)
    assert found is not None
    assert found[1] == {"0": 4}
    assert reader.take(found[1], last=True) is None
    reader.close()


def test_a_topic_that_is_not_there(servers: str) -> None:
    reader = source(servers, "no such topic")
    with pytest.raises(sb.EngineError, match="'no such topic' cannot be read"):
        reader.take(None, last=True)
    reader.close()
    reader.close()  # which does nothing


def everything(reader: messages.KafkaSource) -> list[dict[str, Any]]:
    """All batches of a topic: rows, places, origins, and letters."""
    place, found = None, []
    while (taken := reader.take(place, last=True)) is not None:
        table, place = taken
        origin = {name: column.to_pylist() for name, column in reader.origin().items()}
        letters = reader.unread().to_pylist()
        found.append({"rows": table.to_pylist(), "place": place, "letters": letters} | origin)
    reader.close()
    return found


def test_what_a_topic_may_hold(servers: str) -> None:
    """Without a value, with an empty one, not JSON, long, in a transaction that was given up."""
    long = {"ts": 1, "flow": "x" * 100_000, "bytes": 2}
    sent = [*rows(7), None, b"", b"{oops", long, b' {"ts": 5}\n', *rows(3)]
    send(servers, "mixed", sent)
    ident = {"transactional.id": "mixed"}
    send(servers, "mixed", rows(4, seed=1), commit=False, **ident)
    send(servers, "mixed", rows(2, seed=2), **ident)
    got = everything(source(servers, "mixed", rows_per_batch=5))
    read = [row for batch in got for row in batch["rows"]]
    assert len(read) == 7 + 2 + 3 + 2
    assert {"ts": 1, "flow": "x" * 100_000, "bytes": 2} in read
    letters = [(row["offset"], row["record"]) for batch in got for row in batch["letters"]]
    assert letters == [(7, None), (8, ""), (9, "{oops")]
    assert got[-1]["place"] == {"0": 15 + 4 + 1 + 2}  # the end of a transaction has an offset


def test_many_records_forwards_and_backwards(servers: str) -> None:
    """Nothing that was fetched before a jump is read after it."""
    create(servers, "many", partitions=2)
    records = rows(40_000)
    send(servers, "many", records, partitions=2, **{"linger.ms": 20})
    reader = source(servers, "many", rows_per_batch=15_000)

    def check(table: pa.Table, begin: dict[str, int], end: dict[str, int]) -> None:
        wanted = [
            record
            for part in ("0", "1")
            for record in records[2 * begin[part] + int(part) : 2 * end[part] : 2]
        ]
        assert table.sort_by("ts").to_pylist() == sorted(wanted, key=lambda row: row["ts"])

    first: dict[str, int] = {"0": 0, "1": 0}
    for place in (first, {"0": 100, "1": 15_000}, first, {"0": 19_000, "1": 0}):
        begin = place
        for _ in range(2):
            found = reader.take(begin, last=True)
            assert found is not None
            table, end = found
            check(table, begin, end)
            begin = end
    part = {"0": 30, "1": 9_000}
    check(reader.again(first, part), first, part)
    check(reader.again(part, {"0": 20_000, "1": 9_001}), part, {"0": 20_000, "1": 9_001})
    reader.close()


def test_a_batch_of_long_records_is_cut(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_TEXT", 2_000)
    monkeypatch.setattr(messages, "_STEP", 4)
    sent = [{"ts": i, "flow": "y" * 1_000, "bytes": i} for i in range(10)]
    send(servers, "long", sent)
    reader = source(servers, "long", rows_per_batch=100)
    assert reader.take(None, last=True) is not None
    assert reader._ahead is not None, "the next batch is read ahead as after any other"
    batches = everything(reader)
    assert [row["ts"] for batch in batches for row in batch["rows"]] == list(range(10))
    assert max(len(batch["rows"]) for batch in batches) <= 5  # one that was waited for, and a step


def test_a_job_that_runs_once_does_not_wait_at_the_end(
    servers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks where the topic ends at the beginning, and notices when it has got there."""
    create(servers, "brief", partitions=2)
    send(servers, "brief", rows(50), partitions=2)
    monkeypatch.setattr(messages, "_PATIENCE", 60.0)
    reader = source(servers, "brief", rows_per_batch=20)
    asked: list[str] = []
    edges = reader._edges

    def noted(parts: list[str]) -> tuple[dict[str, int], dict[str, int]]:
        asked.extend(parts)
        return edges(parts)

    monkeypatch.setattr(reader, "_edges", noted)
    began = time.monotonic()
    batches = everything(reader)
    assert time.monotonic() - began < 30
    assert sum(len(batch["rows"]) for batch in batches) == 50
    assert asked == ["0", "1"]  # a broker answers late while a request for more records waits there


def test_options_that_the_client_refuses() -> None:
    refused: list[dict[str, Any]] = [{"no.such": "x"}, {"fetch.max.bytes": -5}, {"error_cb": "x"}]
    refused.append({"group.id": ""})  # at which the client itself would end the process
    for options in refused:
        with pytest.raises(sb.EngineError, match=r"\[source\] Kafka's client rejects its options"):
            source("127.0.0.1:1", "any", options=options)


def test_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "_SECONDS", 0.3)
    reader = source("127.0.0.1:1", "any")
    with pytest.raises(sb.EngineError, match=r"\[source\] Kafka cannot be reached: "):
        reader.take(None, last=True)
    reader.close()
