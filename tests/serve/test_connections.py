"""Connections: how long they may keep us waiting, how many there may be, how long headers are."""

from __future__ import annotations

import http.client
import socket
import time
from pathlib import Path

import pytest

from skyband.serve.limits import ServiceLimits
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

TOKEN = "correct horse battery staple"


def test_slow_headers_and_bodies_are_cut_off(tmp_path: Path) -> None:
    limits = ServiceLimits(header_seconds=0.3, body_seconds=0.3, subscribers=1)
    with served.serving(served.new_service(tmp_path, limits=limits)) as client:
        address = ("127.0.0.1", client.port)
        with socket.create_connection(address, timeout=10) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: local")
            assert line.recv(100) == b""  # closed without a word
        with socket.create_connection(address, timeout=10) as line:
            assert line.recv(100) == b""
        with socket.create_connection(address, timeout=10) as line:
            head = "POST /api/rows/rows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n"
            line.sendall(f"{head}Content-Type: {served.NDJSON}\r\n\r\n{{".encode())
            assert line.recv(4000).startswith(b"HTTP/1.1 408")
        with client.events() as events:
            next(events)
            reply = client.get("/api/events")
            assert reply.status == 503
            assert "retry-after" in reply.headers


def test_more_connections_than_allowed_are_sent_away(tmp_path: Path) -> None:
    limits = ServiceLimits(connections=3)
    with served.serving(served.new_service(tmp_path, limits=limits)) as client:
        assert client.get("/healthz").status == 200
        lines = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(4)]
        for path in ("/healthz", "/api/board", "/api/events"):
            assert client.get(path).status == 503
        for line in lines:
            line.close()
        until = time.monotonic() + 20
        while client.get("/healthz").status == 503 and time.monotonic() < until:
            time.sleep(0.05)
        assert client.get("/healthz").status == 200


def test_a_session_without_its_body_is_cut_off(tmp_path: Path) -> None:
    limits = ServiceLimits(header_seconds=0.3, body_seconds=0.3)
    service = served.new_service(tmp_path, limits=limits)
    with served.serving(service, token=TOKEN) as client:
        address = ("127.0.0.1", client.port)
        head = "POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n"
        with socket.create_connection(address, timeout=10) as line:
            line.sendall(f"{head}Content-Type: application/json\r\n\r\n{{".encode())
            assert line.recv(4000).startswith(b"HTTP/1.1 408")
            while line.recv(4000):
                pass  # and then it is closed


def test_a_body_that_nobody_reads_is_cut_off_too(tmp_path: Path) -> None:
    """Each piece of it keeps the connection open, but not for ever."""
    limits = ServiceLimits(header_seconds=0.3, body_seconds=0.3)
    with (
        served.serving(served.new_service(tmp_path, limits=limits)) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=10) as line,
    ):
        line.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n")
        assert line.recv(4000).startswith(b"HTTP/1.1 200")
        closed = False
        for _ in range(200):
            try:
                line.sendall(b"x")
            except ConnectionError:
                closed = True
                break
            time.sleep(0.05)
        assert closed


def test_strangers_cannot_take_all_connections(tmp_path: Path) -> None:
    """A connection is a stranger's until a request on it was admitted. The oldest one gives way."""
    limits = ServiceLimits(strangers=3)
    service = served.new_service(tmp_path, limits=limits)
    with served.serving(service, token=TOKEN) as client:
        lines = [http.client.HTTPConnection("127.0.0.1", client.port, timeout=10) for _ in "123456"]
        known, *strangers = lines

        def status(line: http.client.HTTPConnection, path: str, token: str = "") -> int:
            line.request("GET", path, headers={"Authorization": f"Bearer {token}"})
            reply = line.getresponse()
            reply.read()
            return reply.status

        assert status(known, "/api/board", TOKEN) == 200
        first = known.sock
        assert [status(line, "/healthz") for line in strangers] == [200] * 5
        assert [line.sock.recv(1) for line in strangers[:2]] == [b""] * 2
        assert [status(line, "/healthz") for line in strangers[2:]] == [200] * 3
        assert status(known, "/api/board", TOKEN) == 200
        assert known.sock is first
        for line in lines:
            line.close()


def test_the_limit_on_headers_holds_when_they_come_at_once(tmp_path: Path) -> None:
    wide = {f"x_{i}": "a" * 1_000 for i in range(17)}
    with served.serving(served.new_service(tmp_path)) as client:
        for path, headers in (("/healthz", wide), ("/healthz?" + "a" * 17_000, {})):
            reply = client.get(path, **headers)
            assert reply.status == 431
            assert "16,384 bytes" in reply.json["error"]
        assert client.get("/healthz", x_long="a" * 15_000).status == 200
