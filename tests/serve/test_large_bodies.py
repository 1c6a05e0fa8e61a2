"""Large bodies come in many pieces, and are taken as a whole or not at all."""

from __future__ import annotations

import http.client
import io
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.jobs.ddl import arrow_schema
from skyband.serve.bodies import read_body
from skyband.serve.limits import ServiceLimits
from skyband.serve.service import Service
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

ARROW = "application/vnd.apache.arrow.stream"
LARGE = 128 << 10
"""Bodies of several times as many bytes come in many pieces."""


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return served.new_service(tmp_path, on_bad="raise", limits=ServiceLimits(body_seconds=1.0))


@pytest.fixture
def client(service: Service) -> Iterator[served.Client]:
    with served.serving(service) as client:
        yield client


def large(first: int, count: int, kind: str = served.NDJSON) -> bytes:
    """Rows of which one has a long name."""
    rows = served.rows(first, count)
    rows[0]["flow"] = "x" * 8 * LARGE
    if kind == served.NDJSON:
        return served.ndjson(rows)
    table = read_body("json", served.ndjson(rows), arrow_schema("", served.SCHEMA))
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def head(size: int, *more: str, path: str = "/api/rows/rows") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {served.NDJSON}"]
    return "\r\n".join([*lines, f"Content-Length: {size}", *more, "", ""]).encode()


def reply(line: socket.socket) -> tuple[int, bytes]:
    """The next reply and not a byte more."""
    found = b""
    while not found.endswith(b"\r\n\r\n"):
        piece = line.recv(1)
        assert piece, found
        found += piece
    size = int(found.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(found.split()[1]), line.recv(size, socket.MSG_WAITALL)


@pytest.mark.parametrize("kind", [served.NDJSON, ARROW])
def test_one_connection_takes_large_and_small_bodies(client: served.Client, kind: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
    for body in (large(0, 3, kind), large(3, 3, kind), large(6, 3, kind)):
        connection.request("POST", "/api/rows/rows", body, {"Content-Type": kind})
        assert connection.getresponse().read() == b'{"rows":3}'
        connection.request("GET", "/healthz")
        assert connection.getresponse().read().startswith(b'{"status":"ok"')
    assert len(client.answers("talkers")) == 4
    connection.close()


def test_a_key_is_of_the_whole_body(client: served.Client) -> None:
    body = large(0, 3)
    for _ in range(2):
        assert client.post(body, idempotency_key="a").json == {"rows": 3}
    assert client.post(body.replace(b"host-2", b"host-9"), idempotency_key="a").status == 422
    assert 'rows_in_total{query="busiest"} 3\n' in client.get("/metrics").body.decode()


def test_what_cannot_be_read_leaves_the_connection_usable(client: served.Client) -> None:
    body = large(0, 3) + b"nonsense\n"
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as line:
        line.sendall(head(len(body)) + body)
        status, said = reply(line)
        assert status == 400
        assert b'"line":4' in said
        good = large(0, 3)
        line.sendall(head(len(good)) + good)
        assert reply(line) == (200, b'{"rows":3}')


def test_requests_one_after_the_other_without_waiting(client: served.Client) -> None:
    """A second request may stand right behind the first body; it is read after the reply."""
    first, second = large(0, 3), large(3, 4)
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as line:
        line.sendall(head(len(first)))
        time.sleep(0.05)
        line.sendall(first + head(len(second)) + second + b"GET /healthz HTTP/1.1\r\n")
        line.sendall(b"Host: localhost\r\n\r\n")
        assert reply(line) == (200, b'{"rows":3}')
        assert reply(line) == (200, b'{"rows":4}')
        assert reply(line)[0] == 200


def test_a_sender_that_asks_first(client: served.Client) -> None:
    body = large(0, 3)
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as line:
        line.sendall(head(len(body), "Expect: 100-continue", "Connection: close"))
        assert line.recv(100).startswith(b"HTTP/1.1 100 ")
        for at in range(0, len(body), 50_000):
            line.sendall(body[at : at + 50_000])
            time.sleep(0.005)
        assert reply(line) == (200, b'{"rows":3}')
        assert line.recv(1) == b""  # closed, as it was asked for


def test_a_body_that_is_not_complete_is_not_applied(
    service: Service, client: served.Client
) -> None:
    body = large(0, 3)
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as line:
        line.sendall(head(len(body)) + body[:-1])
        time.sleep(0.1)
    with socket.create_connection(("127.0.0.1", client.port), timeout=20) as line:
        line.sendall(head(len(body)) + body[: 2 * LARGE])
        assert reply(line)[0] == 408  # it takes too long
        assert line.recv(1) == b""
    assert service.status.rows[""] == 0
    assert service.waiting == (0, 0)
    assert client.post(body).json == {"rows": 3}


def test_too_large_a_body_is_refused_before_it_comes(tmp_path: Path) -> None:
    limits = ServiceLimits(body_bytes=4 * LARGE, waiting_bytes=LARGE)
    with served.serving(served.new_service(tmp_path, limits=limits)) as client:
        for size, wanted in ((4 * LARGE + 1, 413), (3 * LARGE, 429)):
            with socket.create_connection(("127.0.0.1", client.port), timeout=20) as line:
                line.sendall(head(size))
                assert reply(line)[0] == wanted
        assert client.post(b"", source="nobody").status == 404


def test_a_sender_of_too_much_gets_the_reply(tmp_path: Path) -> None:
    """Most clients read a reply only when they have sent everything, so the rest is read too."""
    limits = ServiceLimits(body_bytes=LARGE)
    body = b" " * (24 << 20)  # more than the buffers of a connection hold
    service = served.new_service(tmp_path, limits=limits)
    with served.serving(service, token="sesame") as client:
        own = {"authorization": "Bearer sesame"}
        assert client.post(body, **own).status == 413
        assert client.post(body).status == 401
        assert client.post(body, **own, origin="http://evil.example").status == 403
        assert service.status.rows[""] == 0


def test_a_sender_that_asks_first_is_refused_at_once(tmp_path: Path) -> None:
    service = served.new_service(tmp_path, limits=ServiceLimits(body_bytes=LARGE))
    with (
        served.serving(service) as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=20) as line,
    ):
        line.sendall(head(2 * LARGE, "Expect: 100-continue"))
        assert reply(line)[0] == 413
