"""Random requests against the published OpenAPI page, and random bytes against the port.

Whatever comes, a reply has a status that the page lists and a body of the form that it describes.
It is never a 500, says nothing about traces or versions, and what was not acknowledged was not
applied.

The requests are drawn by hypothesis alone. schemathesis would do the same for the listed paths, but
brings a dozen packages (GraphQL among them), does not speak Arrow streams, and cannot see what was
applied.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from skyband.jobs.ddl import arrow_schema
from skyband.serve.bodies import read_body
from skyband.serve.limits import ServiceLimits
from skyband.serve.service import Service
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

LIMITS = ServiceLimits(body_bytes=4_000, waiting_requests=8, waiting_bytes=20_000, body_seconds=2.0)
EVERYWHERE = {"403", "404", "405"}
"""What any request may get: another Host, a path or a method that is not there."""
SECRETS = (b"Traceback", b'File "', b"uvicorn", b"starlette", b"h11", b"Python/", b"site-packages")
TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "boolean": bool,
}
TYPES |= {"number": (int, float), "null": type(None)}
QUICK = settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
LONG = settings(QUICK, max_examples=5_000)


class Fuzzed:
    """A service with small limits, its published page, and what it has acknowledged."""

    def __init__(self, client: served.Client, service: Service) -> None:
        self.client, self.service = client, service
        self.page = client.get("/api/openapi.json").json
        self.rows = 0
        self.keys: set[str] = set()

    def ask(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> None:
        template = next((t for t in self.page["paths"] if _fits(t, path.partition("?")[0])), None)
        connection = http.client.HTTPConnection("127.0.0.1", self.client.port, timeout=20)
        try:
            connection.request(method, path, body, dict(headers))
            reply = connection.getresponse()
            kind = reply.headers.get_content_type()
            if kind == "text/event-stream":
                return  # it never ends
            found = self._judge(template, method, reply, reply.read())
            key = headers.get("Idempotency-Key")
            if template == "/api/rows/{source}" and reply.status == 200 and key not in self.keys:
                self.rows += found["rows"]
                self.keys |= {key} if key is not None else set()
        finally:
            connection.close()

    def _judge(
        self, template: str | None, method: str, reply: http.client.HTTPResponse, body: bytes
    ) -> Any:
        asked = "get" if method == "HEAD" else method.lower()
        told = self.page["paths"].get(template, {}).get(asked, {}).get("responses", {})
        status = str(reply.status)
        assert status in {*told, *EVERYWHERE}, (template, method, status, body)
        assert reply.status < 500
        assert reply.getheader("server") is None
        assert "default-src 'none'" in (reply.getheader("content-security-policy") or "")
        assert not any(secret in body for secret in SECRETS), body
        if method == "HEAD":
            return None
        known = told.get(status, {}).get("content", {})
        kind = reply.headers.get_content_type()
        assert kind in (known or {"application/json": {}}), (template, kind)
        schema = known.get(kind, {}).get("schema", {})
        if reply.status >= 400:
            schema = {"$ref": "#/components/schemas/Error"}
        if kind != "application/json":
            return None
        found = json.loads(body)
        _check(found, schema, self.page)
        return found

    def settle(self) -> None:
        """Nothing was applied that was not acknowledged, and nothing is stuck."""
        assert self.client.get("/healthz").json["status"] == "ok"
        assert self.service.status.rows[""] == self.rows
        assert self.service.waiting == (0, 0)


def _fits(template: str, path: str) -> bool:
    head, brace, _ = template.partition("{")
    return path.startswith(head) if brace else path == template


def _check(value: Any, schema: Mapping[str, Any], page: Mapping[str, Any]) -> None:
    """Assert that a value has the form of a schema, as far as our page uses schemas."""
    if "$ref" in schema:
        schema = page["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    kinds = schema.get("type", list(TYPES))
    for_python = tuple(TYPES[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    flat = tuple(k for each in for_python for k in (each if isinstance(each, tuple) else (each,)))
    assert isinstance(value, flat), (value, schema)
    assert value in schema.get("enum", [value])
    for name in schema.get("required", ()):
        assert name in value, (name, value)
    for name, inner in schema.get("properties", {}).items():
        if name in value:
            _check(value[name], inner, page)
    for each in value if "items" in schema else ():
        _check(each, schema["items"], page)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    service = served.new_service(tmp_path_factory.mktemp("fuzzed"), on_bad="raise", limits=LIMITS)
    with served.serving(service, limits=LIMITS) as client:
        yield Fuzzed(client, service)


# Requests -----------------------------------------------------------------------------------------

ROWS = served.ndjson(served.rows(0, 3))
SCHEMA = arrow_schema("", served.SCHEMA)


def _stream() -> bytes:
    table = read_body("json", ROWS, SCHEMA)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


CSV = b"ts,flow,host,bytes\n2026-01-05T08:00:00Z,a,b,1\n"
WHOLE = [ROWS, CSV, _stream(), b"", b"null", b"{}\n" * 50, b'{"token": "x"}', b"x" * 5_000]


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """A good body, one with a few bytes changed, or anything."""
    body = bytearray(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(0, 3))):
        if body:
            body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    cut = draw(st.integers(0, len(body)) | st.none())
    return bytes(body[:cut])


words = st.text(st.characters(codec="utf-8"), max_size=12)
plain = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
TEMPLATES = ["/", "/api/board", "/api/events", "/api/openapi.json", "/metrics", "/healthz"]
TEMPLATES += ["/api/session", "/static/board.js", *["/api/rows/rows"] * 3]
TEMPLATES += [f"/api/answers/{name}" for name in ("busiest", "talkers") for _ in range(3)]
TEMPLATES += ["/api/peek/busiest", "/api/peek/talkers", *["/api/position/talkers"] * 2]
PLACES = ["/api/answers/", "/api/rows/", "/static/", "/api", "//", "/../", "/api/answers/busiest/"]
NAMES = ["busiest", "rows", "..%2f..%2fetc%2fpasswd", ""]
KINDS = [served.NDJSON, "text/csv", "application/vnd.apache.arrow.stream", "application/json"]
FIELDS = ["Idempotency-Key", "Last-Event-ID", "Authorization", "Cookie", "Origin", "Accept"]
FIELDS += ["Content-Encoding", "Range", "X-Forwarded-Host", "Sec-Fetch-Site", "If-None-Match"]
VALUES = [
    "5",
    "0",
    "-1",
    "\u00b2",
    "\u0663",
    "1e3",
    "9" * 400,
    "9" * 5_000,
    "0001-01-01T00:00:00+01:00",
    "2026-01-05T08:00:04Z",
    "nan",
    "%00",
]
"""Values of parameters: numbers, what some take for numbers, times."""


@st.composite
def paths(draw: st.DrawFn) -> str:
    """A path of the page, or one next to it, with parameters."""
    other = words.map(lambda text: quote(text, safe="/"))
    if draw(st.integers(0, 3)):
        path = draw(st.sampled_from(TEMPLATES))
    else:
        path = draw(st.sampled_from(PLACES)) + draw(st.sampled_from(NAMES) | other)
    for name in draw(st.lists(st.sampled_from(["last", "end", "x"]), max_size=2)):
        value = draw(st.sampled_from(VALUES) | words)
        path += f"{'&' if '?' in path else '?'}{name}={quote(value)}"
    return path


headers = st.dictionaries(st.sampled_from(FIELDS), plain, max_size=3)
kinds = st.sampled_from(KINDS) | plain
methods = st.sampled_from(["GET", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"])


def _request(fuzzed: Fuzzed, method: str, path: str, body: bytes, kind: str, more: Any) -> None:
    fuzzed.ask(method, path, body, {"Content-Type": kind, **more})


@QUICK
@given(methods, paths(), bodies(), kinds, headers)
@example("POST", "/api/rows/rows", ROWS, served.NDJSON, {"Idempotency-Key": "a"})
@example("POST", "/api/rows/rows", CSV, "text/csv", {})
@example("POST", "/api/rows/rows", b"x" * 5_000, "text/csv", {})
@example("GET", "/api/answers/busiest?last=5", b"", "", {})
def test_requests(
    fuzzed: Fuzzed, method: str, path: str, body: bytes, kind: str, more: dict[str, str]
) -> None:
    _request(fuzzed, method, path, body, kind, more)


@pytest.mark.slow
@LONG
@given(methods, paths(), bodies(), kinds, headers)
def test_many_requests(
    fuzzed: Fuzzed, method: str, path: str, body: bytes, kind: str, more: dict[str, str]
) -> None:
    _request(fuzzed, method, path, body, kind, more)


@QUICK
@given(bodies(), st.sampled_from(KINDS[:3]))
def test_bodies(fuzzed: Fuzzed, body: bytes, kind: str) -> None:
    _request(fuzzed, "POST", "/api/rows/rows", body, kind, {})


@pytest.mark.slow
@LONG
@given(bodies(), st.sampled_from(KINDS[:3]))
def test_many_bodies(fuzzed: Fuzzed, body: bytes, kind: str) -> None:
    _request(fuzzed, "POST", "/api/rows/rows", body, kind, {})


HEAD = b"POST /api/rows/rows HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/csv\r\n"
WIRE = [
    HEAD + b"Content-Length: 99999999999\r\n\r\n",
    HEAD + b"Content-Length: -1\r\n\r\nx",
    HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\nx",
    HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    HEAD + b"Expect: 100-continue\r\nContent-Length: 5000\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


@settings(QUICK, max_examples=60)
@given(st.sampled_from(WIRE), st.binary(max_size=8), st.integers(0, 200))
def test_bytes_on_the_wire(fuzzed: Fuzzed, raw: bytes, more: bytes, at: int) -> None:
    sent = raw[:at] + more + raw[at:] if more else raw
    with socket.create_connection(("127.0.0.1", fuzzed.client.port), timeout=5) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        found = b""
        while b"\r\n\r\n" not in found:
            try:
                part = connection.recv(65_536)
            except ConnectionResetError:
                break
            if not part:
                break
            found += part
    head = found.split(b"\r\n", 1)[0]
    assert not found or head.split(b" ")[1:2] != [b"500"], found
    assert not any(secret in found for secret in SECRETS), found


def test_nothing_was_applied_that_was_not_acknowledged(fuzzed: Fuzzed, tmp_path: Path) -> None:
    """Runs last in this file; by itself it posts a few rows first."""
    _request(fuzzed, "POST", "/api/rows/rows", ROWS, served.NDJSON, {})
    fuzzed.settle()
