"""Requests that try to get past the doors: without the token nobody reads a row, or adds one.

Each request is a good one of somebody who knows the token, with the proof taken away and then some
of its parts changed: the path is written in another way, headers are doubled, folded, or forged.
"""

from __future__ import annotations

import http.client
import random
import socket
from pathlib import Path

import pytest

from skyband.serve.limits import ServiceLimits
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

TOKEN = "correct horse battery staple"
SECRET = b"flow-"
"""In each answer of the board."""
LIMITS = ServiceLimits(header_seconds=1.0, body_seconds=1.0, strangers=50)
PATHS = [
    "/api/board",
    "/api/answers/busiest",
    "/api/answers/busiest?last=9",
    "/api/events",
    "/metrics",
    "/api/rows/rows",
    "/api/openapi.json",
]
WAYS = [
    "//{}",
    "/./{}",
    "/static/../{}",
    "/static/..%2f{}",
    "/%2e/{}",
    "/healthz/../{}",
    "/{}/",
    "/{}#",
    "/{}?token=" + TOKEN.replace(" ", "+"),
    "http://localhost/{}",
    "/{};/healthz",
    "/\\{}",
    "/{}%00",
    "/api/session/../../{}",
    "/%2f{}",
]
PROOFS = [
    "Authorization: Bearer",
    "Authorization: Bearer ",
    f"Authorization: Basic {TOKEN}",
    f"Authorization: {TOKEN}",
    f"Authorization: Bearer {TOKEN[:-1]}",
    f"X-Authorization: Bearer {TOKEN}",
    f"Authorization: Bearer x{TOKEN}",
    "Cookie: skyband_session=",
    "Cookie: skyband_session=9999999999.a.b",
    "Cookie: skyband_session=99999999999999999999.aa." + "0" * 64,
    "Cookie: skyband_session=..",
    f"Cookie: token={TOKEN}",
    "Cookie: skyband_session=" + "9" * 5_000 + ".a." + "0" * 64,
    "Cookie: skyband_session=\xe9.a.b",
]
MORE = [
    "Host: evil.example",
    "Host: localhost",
    "Origin: http://evil.example",
    "Origin: null",
    "X-Forwarded-Host: localhost",
    "X-Forwarded-For: 127.0.0.1",
    "X-HTTP-Method-Override: POST",
    "Content-Length: 5",
    "Content-Length: 0",
    "Transfer-Encoding: chunked",
    "Connection: close",
    "Connection: upgrade\r\nUpgrade: websocket",
    "Expect: 100-continue",
    f"Content-Type: {served.NDJSON}",
    "Sec-Fetch-Site: cross-site",
    " folded",
    "X: " + "a" * 9_000,
    "X-Original-URL: /healthz",
]
METHODS = ["GET", "GET", "POST", "HEAD", "PUT", "OPTIONS", "get", "TRACE"]
ROW = served.ndjson(served.rows(99, 1))


def request(rng: random.Random) -> bytes:
    """A request without a proof, some of its parts changed."""
    path = rng.choice(PATHS)
    if rng.random() < 0.5:
        path = rng.choice(WAYS).format(path[1:])
    if rng.random() < 0.2:
        path = "".join(f"%{ord(c):02x}" if rng.random() < 0.3 and c.isalpha() else c for c in path)
    lines = [
        f"{rng.choice(METHODS)} {path} HTTP/{rng.choice(['1.1', '1.1', '1.0'])}",
        "Host: localhost",
    ]
    lines += rng.sample(PROOFS, rng.choice([0, 1, 1, 2])) + rng.sample(
        MORE, rng.choice([0, 1, 2, 3])
    )
    body = rng.choice([b"", b"", ROW, b"5\r\nhello\r\n0\r\n\r\n", b'{"token": "guess"}'])
    if body == ROW:
        lines += [f"Content-Type: {served.NDJSON}", f"Content-Length: {len(ROW)}"]
    found = bytearray("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
    for _ in range(rng.choice([0, 0, 1, 3])):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def reply_to(port: int, sent: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        found = b""
        try:
            line.sendall(sent)
            line.shutdown(socket.SHUT_WR)
            while part := line.recv(65_536):
                found += part
        except ConnectionError:
            pass
        return found


def attack(folder: Path, count: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def at_once() -> None:
        """A wrong token is answered without a pause."""

    monkeypatch.setattr("skyband.serve.access.slow_down", at_once)
    monkeypatch.setattr("skyband.serve.app.slow_down", at_once)
    rng = random.Random(seed)
    service = served.new_service(folder, limits=LIMITS)
    with served.serving(service, token=TOKEN) as client:
        own = {"authorization": f"Bearer {TOKEN}"}
        assert client.post(served.rows(0, 9), **own).status == 200
        assert SECRET in client.get(PATHS[1], **own).body
        known = http.client.HTTPConnection("127.0.0.1", client.port, timeout=20)
        for i in range(count):
            sent = request(rng)
            found = reply_to(client.port, sent)
            head = found.partition(b"\r\n")[0]
            assert SECRET not in found, sent
            assert b"skyband_session" not in found, sent
            assert not head or int(head.split()[1]) < 500, (sent, found)
            assert b"Traceback" not in found, sent
            if not i % 50:  # somebody who knows the token is not kept out
                known.request("GET", PATHS[1], headers={"Authorization": f"Bearer {TOKEN}"})
                assert SECRET in known.getresponse().read()
        known.close()
        assert service.status.rows[""] == 9
        assert client.get("/healthz").json["status"] == "ok"
        assert service.waiting == (0, 0)


def test_nobody_gets_past_the_doors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attack(tmp_path, 400, 1, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 8))
def test_nobody_gets_past_the_doors_by_trying_often(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    attack(tmp_path, 4_000, seed, monkeypatch)
