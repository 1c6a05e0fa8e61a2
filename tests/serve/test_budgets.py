"""What is kept and what waits to be sent has budgets in bytes, however large an answer is."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from skyband.serve.history import Event, History
from skyband.serve.hub import Hub, Subscriber
from skyband.serve.limits import ServiceLimits
from skyband.serve.payload import answer_text
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

LARGE = 100_000


def event(number: int, name: str = "a", size: int = LARGE) -> Event:
    return Event(number, name, str(number), json.dumps({"rows": "x" * size}))


def numbers(events: list[Event] | None) -> list[int] | None:
    return None if events is None else [each.number for each in events]


def test_the_oldest_answers_give_way(tmp_path: Path) -> None:
    history = History(["a", "b"], 1_000, tmp_path / "answers", 10 * LARGE)
    history.add([event(1, "b")], 1)
    history.add([event(number) for number in range(2, 40)], 39)
    assert numbers(history.newest("b", 99)) == [1]  # the newest of a query always stays
    kept = numbers(history.newest("a", 99))
    assert kept == list(range(32, 40))
    assert history.since(30) is None
    assert numbers(history.since(31)) == kept
    history.add([event(40, "a", 20 * LARGE)], 40)
    assert [numbers(history.newest(name, 9)) for name in "ab"] == [[40], [1]]
    history.write()
    again = History(["a", "b"], 1_000, tmp_path / "answers", 10 * LARGE)
    assert [numbers(again.newest(name, 9)) for name in "ab"] == [[40], [1]]


def test_a_burst_of_answers_beyond_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that would be dropped at once are not even made into text."""
    made: list[str] = []

    def watched(answer: Any) -> str:
        made.append(answer_text(answer))
        return made[-1]

    monkeypatch.setattr("skyband.serve.page.answer_text", watched)
    limits = ServiceLimits(history_bytes=4_000)
    service = served.new_service(tmp_path, limits=limits)
    with served.serving(service) as client:
        client.post(served.rows(0, 60))
        kept = [service.history.newest(name, 99) for name in service.queries]
    # Windows end at 2, 4, ... 58 s: each query has 29, and the last one of both is kept.
    assert {each[-1].end for each in kept} == {'"2026-01-05T08:00:58+00:00"'}
    assert all(len(each) < 10 for each in kept)
    assert sum(each.size for events in kept for each in events) <= 4_000
    assert len(made) < 20
    again = served.new_service(tmp_path, limits=limits)
    assert [again.history.newest(name, 99) for name in again.queries] == kept
    again.close()


class Reader:
    """A connection that takes nothing until it is told to."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.numbers: list[int] = []
        """The answers that it has taken."""
        self.subscriber = Subscriber(self.pieces.append, self.unsent, chunked=False)

    def unsent(self) -> int:
        return sum(map(len, self.pieces))

    def read(self) -> None:
        lines = b"".join(self.pieces).splitlines()
        self.numbers += [int(line[4:]) for line in lines if line.startswith(b"id: ")]
        self.pieces.clear()


def test_readers_that_take_nothing_share_a_budget(tmp_path: Path) -> None:
    history = History(["a"], 1_000, tmp_path / "answers")
    hub = Hub(history, dict, 20 * LARGE)
    readers = [Reader() for _ in range(20)]
    for reader in readers:
        hub.join(reader.subscriber, None)
    for number in range(1, 40):
        history.add([event(number)], number)
        hub.wake()
        assert sum(reader.unsent() for reader in readers) < 22 * LARGE
    full = hub.full
    for _ in range(99):  # once they read, each gets all of it, in order
        for reader in readers:
            reader.read()
        hub.wake()
    assert (full, hub.full) == (True, False)
    assert [reader.numbers for reader in readers] == [list(range(1, 40))] * len(readers)


def test_one_answer_beyond_the_budget_is_sent_all_the_same(tmp_path: Path) -> None:
    history = History(["a"], 1_000, tmp_path / "answers")
    hub = Hub(history, dict, LARGE)
    reader = Reader()
    hub.join(reader.subscriber, None)
    reader.read()
    history.add([event(1, "a", 9 * LARGE)], 1)
    hub.wake()
    reader.read()
    assert reader.numbers == [1]


def test_what_is_shared_has_a_budget_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.serve.hub._SHARED_BYTES", 3 * LARGE)
    history = History(["a"], 1_000, tmp_path / "answers")
    hub = Hub(history, dict, 1 << 30)
    history.add([event(number) for number in range(1, 100)], 99)
    for last in range(90):
        hub.join(Reader().subscriber, str(last))
    assert sum(len(piece) for piece, _ in hub._shared.values()) <= 3 * LARGE


def test_a_connection_that_takes_nothing_is_closed(tmp_path: Path) -> None:
    limits = ServiceLimits(silent_seconds=0.3)
    service = served.new_service(tmp_path, limits=limits)
    with served.serving(service) as client:
        texts = [event(number, "busiest", 1 << 20) for number in range(1, 20)]
        service.history.add(texts, 19)
        for path in ("/api/events", "/api/answers/busiest?last=19"):
            with socket.create_connection(("127.0.0.1", client.port), timeout=20) as line:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                more = "Last-Event-ID: 0\r\n"
                line.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{more}\r\n".encode())
                until = time.monotonic() + 20
                while time.monotonic() < until and not closed(line):
                    time.sleep(0.05)
                assert closed(line), path
        assert client.answers("busiest", "last=1") == [{"rows": "x" * (1 << 20)}]


def closed(line: socket.socket) -> bool:
    """Whether the other side has reset the connection; reads nothing."""
    return line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != 1  # 1: established


def test_no_more_pages_while_others_take_nothing(tmp_path: Path) -> None:
    service = served.new_service(tmp_path, limits=ServiceLimits(unsent_bytes=LARGE))
    with served.serving(service) as client:
        service.history.add([event(1, "busiest", 200 * LARGE)], 1)
        with socket.create_connection(("127.0.0.1", client.port), timeout=20) as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            line.sendall(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert line.recv(20)
            reply = client.get("/api/events")
            assert reply.status == 503
            assert reply.headers["retry-after"]
