"""Who may come in: Host, Origin, token, limits, and what replies give away."""

from __future__ import annotations

import asyncio
import hmac
import random
import re
import time
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from skyband.errors import QueryError
from skyband.serve.access import AccessGuard, check_host
from support import command_line, served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

TOKEN = "correct horse battery staple"
STATIC = resources.files("skyband.serve") / "static"


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[served.Client]:
    with served.serving(served.new_service(tmp_path_factory.mktemp("open"))) as client:
        yield client


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[served.Client]:
    service = served.new_service(tmp_path_factory.mktemp("guarded"))
    with served.serving(service, token=TOKEN) as client:
        yield client


PATHS = ["/", "/api/board", "/api/answers/busiest", "/api/events", "/metrics", "/healthz"]


@pytest.mark.parametrize("path", PATHS)
def test_a_rebound_name_is_refused(client: served.Client, path: str) -> None:
    for host in ("evil.example", "evil.example:8470", "127.0.0.1.evil.example", "10.0.0.7", "a@b"):
        assert client.get(path, host=host).status == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8470", "[::1]:9"])
def test_loopback_names_are_ours(client: served.Client, host: str) -> None:
    assert client.get("/api/board", host=host).status == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost:3000", "http://127.0.0.1", "x"]
)
def test_pages_of_others_can_neither_post_nor_read(client: served.Client, origin: str) -> None:
    own = f"127.0.0.1:{client.port}"
    for path in PATHS:
        assert client.get(path, host=own, origin=origin).status == 403
    assert client.post(served.rows(0, 1), host=own, origin=origin).status == 403
    reply = client.ask("OPTIONS", "/api/rows/rows", host=own, origin=origin)
    assert "access-control-allow-origin" not in reply.headers


def test_our_own_page_may(client: served.Client) -> None:
    own = f"127.0.0.1:{client.port}"
    assert client.get("/api/board", host=own, origin=f"http://{own}").status == 200
    assert client.post(served.rows(0, 1), host=own, origin=f"http://{own}").status == 200
    assert client.get("/api/board", sec_fetch_site="cross-site").status == 403
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert client.get("/", **link).status == 200  # a link from another page
    assert client.get("/api/board", **link).status == 403


def test_a_token_is_asked_for(guarded: served.Client) -> None:
    for path in ("/api/board", "/api/answers/busiest", "/api/events", "/metrics"):
        assert guarded.get(path).status == 401
        assert guarded.get(f"{path}?token={TOKEN.replace(' ', '+')}").status == 401
        assert guarded.get(path, authorization="Bearer wrong").status == 401
        assert guarded.get(path, authorization=TOKEN).status == 401
    assert guarded.get("/api/board", authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.post(served.rows(0, 1)).status == 401
    assert guarded.post(served.rows(0, 1), authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.get("/").status == guarded.get("/healthz").status == 200


def test_tokens_are_compared_in_constant_time(
    guarded: served.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, compare = [], hmac.compare_digest

    def watched(left: bytes, right: bytes) -> bool:
        seen.append((len(left), len(right)))
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", watched)
    assert guarded.get("/api/board", authorization="Bearer short").status == 401
    assert guarded.get("/api/board", authorization=f"Bearer {TOKEN}").status == 200
    assert seen == [(32, 32)] * 2  # digests, so that not even the length is told


def test_wrong_tokens_are_slowed_down_by_header_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        assert message.get("status", 401) == 401

    monkeypatch.setattr(asyncio, "sleep", pause)
    for given, wanted in ((b"Bearer guess", [0.3]), (None, [])):
        headers = [(b"host", b"localhost"), *([(b"authorization", given)] if given else [])]
        scope = {"type": "http", "path": "/api/board", "headers": headers}
        asyncio.run(AccessGuard(None, token=TOKEN)(scope, receive, send))
        assert pauses == wanted
        pauses.clear()


def test_a_token_has_at_least_16_characters() -> None:
    check_host("127.0.0.1", "x" * 16)
    for host in ("127.0.0.1", "0.0.0.0"):
        with pytest.raises(QueryError, match="at least 16"):
            check_host(host, "x" * 15)


@pytest.mark.parametrize("by", ["origin", "x-forwarded-proto", ""])
def test_a_cookie_that_came_by_https_is_secure(guarded: served.Client, by: str) -> None:
    own = f"127.0.0.1:{guarded.port}"
    headers = {"origin": {"origin": f"https://{own}"}, "": {}}.get(by, {by: "https"})
    body = f'{{"token": "{TOKEN}"}}'.encode()
    reply = guarded.ask("POST", "/api/session", body, content_type="application/json", **headers)
    assert ("secure" in reply.headers["set-cookie"].lower().split("; ")) == bool(by)


def test_a_session_is_a_cookie_that_scripts_cannot_read(guarded: served.Client) -> None:
    def open_session(body: bytes, kind: str = "application/json") -> served.Reply:
        return guarded.ask("POST", "/api/session", body, content_type=kind)

    reply = open_session(f'{{"token": "{TOKEN}"}}'.encode())
    assert reply.status == 200
    cookie = reply.headers["set-cookie"]
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    assert TOKEN not in cookie
    value = cookie.partition(";")[0]
    assert guarded.get("/api/board", cookie=value).status == 200
    with guarded.events(cookie=value) as events:
        assert next(events)[0] in ("answer", "status")
    other = value[:-1] + ("1" if value.endswith("0") else "0")
    assert guarded.get("/api/board", cookie=other).status == 401
    until, rest = value.split("=", 1)[1].split(".", 1)
    forged = f"skyband_session={int(until) + 1}.{rest}"
    assert guarded.get("/api/board", cookie=forged).status == 401
    assert open_session(b'{"token": "guess"}').status == 401
    assert open_session(b"[]").status == open_session(b"{").status == 400
    assert open_session(f"token={TOKEN}".encode(), "text/plain").status == 415


def test_an_expired_session_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    doors = AccessGuard(None, token=TOKEN)
    session = f"skyband_session={doors.session()}"
    assert doors.is_session(session)
    later = time.time() + 8 * 24 * 3600
    monkeypatch.setattr("skyband.serve.access.time.time", lambda: later)
    assert not doors.is_session(session)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "board.example", "::"])
def test_other_hosts_need_a_token(host: str) -> None:
    with pytest.raises(QueryError, match="SKYBAND_TOKEN"):
        check_host(host, None)
    with pytest.raises(QueryError, match="SKYBAND_TOKEN"):
        check_host(host, "")
    check_host(host, TOKEN)
    for own in ("127.0.0.1", "localhost", "::1"):
        check_host(own, None)


def test_the_command_refuses_other_hosts_with_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKYBAND_TOKEN", raising=False)
    (tmp_path / "job.toml").write_text(served.JOB)
    assert "SKYBAND_TOKEN" in command_line.bad("serve", tmp_path / "job.toml", "--host", "0.0.0.0")


def test_replies_carry_a_policy_and_no_versions(client: served.Client) -> None:
    for path in [*PATHS[:3], "/nothing", "/static/board.js"]:
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "server" not in headers
        assert not re.search(r"uvicorn|starlette|python", str(headers), re.IGNORECASE)


def test_failures_tell_no_traces(tmp_path: Path) -> None:
    service = served.new_service(tmp_path)
    with served.serving(service) as client:
        service.history.newest = None  # type: ignore[assignment, method-assign]
        reply = client.get("/api/answers/busiest")
        assert reply.status == 500
        assert reply.json == {"error": "something went wrong in the service; its log says more"}


def test_the_page_has_no_inline_code_and_names_nobody() -> None:
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon[a-z]+=", page)
    for name in ("index.html", "board.js", "board.css"):
        text = (STATIC / name).read_text(encoding="utf-8")
        assert not re.search(r"https?:|[\"'(]//", text), name
    assert (STATIC / "board.js").stat().st_size < 60_000  # type: ignore[attr-defined]
    assert "innerHTML" not in (STATIC / "board.js").read_text(encoding="utf-8")


def test_only_listed_files_are_served(client: served.Client) -> None:
    assert client.get("/static/board.js").status == 200
    for path in ("/static/app.py", "/static/../app.py", "/static/%2e%2e/app.py", "/static/"):
        assert client.get(path).status in (400, 404)


def test_random_requests_never_break_it(client: served.Client) -> None:
    rng = random.Random(3)
    alphabet = [
        b"{",
        b"}",
        b'"ts"',
        b":",
        b",",
        b"\n",
        b"1e999",
        b"null",
        b"\xff",
        b"[",
        b"-",
        b"\\u",
    ]
    kinds = [served.NDJSON, "text/csv", "application/vnd.apache.arrow.stream", "text/html"]
    paths = [
        "/api/rows/rows",
        "/api/answers/",
        "/api/answers/busiest?last=",
        "/api/session",
        "/%00",
    ]
    for _ in range(150):
        body = b"".join(rng.choice(alphabet) for _ in range(rng.randrange(12)))
        method, path = rng.choice(["GET", "POST", "PUT"]), rng.choice(paths)
        path += rng.choice(["", "9" * 30, "%F0%9F", "?end=%20", "/../.."])
        reply = client.ask(method, path, body, content_type=rng.choice(kinds))
        assert reply.status in (200, 400, 403, 404, 405, 413, 415), (method, path, body)
        if reply.status >= 400:
            assert set(reply.json) <= {"error", "row", "line", "column", "reason"}
    assert client.get("/healthz").json["status"] == "ok"
