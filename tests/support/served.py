"""A service with its HTTP interface on a free port of loopback, in a thread of this process."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

import skyband as sb
from skyband.jobs import Job
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.job import JobSection
from skyband.query import Query
from skyband.serve.limits import DEFAULT, ServiceLimits
from skyband.serve.page import Page
from skyband.serve.service import Service, StreamSource

SCHEMA = "ts timestamp, flow string, host string, bytes bigint"
WINDOW = sb.TimeWindow("4 s", slide="2 s")
NDJSON = "application/x-ndjson"
JOB = f"""
name = "network"
engine = "local"
checkpoint = "state"
on_bad = "raise"

[source]
kind = "http"
schema = "{SCHEMA}"

[queries.busiest]
kind = "TopK"
k = 3
score = "bytes"
id = "flow"
time = "ts"
window = {{ size = "4 seconds", slide = "2 seconds" }}

[queries.talkers]
kind = "HeavyHitters"
k = 3
item = "host"
weight = "bytes"
time = "ts"
window = {{ size = "4 seconds", slide = "2 seconds" }}
sink = {{ kind = "files", path = "talkers" }}
"""


def board() -> dict[str, Query]:
    return {
        "busiest": sb.TopK(k=3, score="bytes", id="flow", time="ts", window=WINDOW),
        "talkers": sb.HeavyHitters(k=3, item="host", weight="bytes", time="ts", window=WINDOW),
    }


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """One row per second; flows are all different, hosts come again."""
    return [
        {
            "ts": f"2026-01-05T08:{i // 60:02}:{i % 60:02}Z",
            "flow": f"flow-{i}",
            "host": f"host-{i * 7 % 5}",
            "bytes": i * 37 % 101,
        }
        for i in range(first, first + count)
    ]


def ndjson(found: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in found).encode()


def new_service(
    folder: Path,
    queries: Mapping[str, Query] | None = None,
    limits: ServiceLimits = DEFAULT,
    schema: str | pa.Schema | Mapping[str, pa.Schema] = SCHEMA,
    batches: Iterator[pa.Table] | None = None,
    **given: Any,
) -> Service:
    """A service of rows that are posted, and of batches; ``given`` are settings of its job."""
    if isinstance(schema, str):
        schema = arrow_schema("[source]", schema)
    schemas = {"": schema} if isinstance(schema, pa.Schema) else schema
    streams = {name: StreamSource(batches or iter(()), each) for name, each in schemas.items()}
    sections = {name: JobSection("http", {"schema": ""}) for name in schemas}
    settings: dict[str, Any] = {"alone": False, "engine": "local", "ahead": "none"} | given
    job = Job("test", str(folder), queries or board(), sections, {}, **settings)
    return Service(job, limits, streams)


def abandon(service: Service) -> None:
    """Leave a service as a kill would: nothing is written any more."""
    service.job._save = lambda: None  # type: ignore[method-assign]
    service.close()


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Client:
    """Sends requests to a port."""

    port: int

    def ask(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, named)
            found = connection.getresponse()
            return Reply(found.status, {k.lower(): v for k, v in found.getheaders()}, found.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Reply:
        return self.ask("GET", path, None, **headers)

    def post(
        self, found: list[dict[str, Any]] | bytes, source: str = "rows", **headers: str
    ) -> Reply:
        body = found if isinstance(found, bytes) else ndjson(found)
        given: dict[str, Any] = {"content_type": NDJSON} | headers
        return self.ask("POST", f"/api/rows/{source}", body, **given)

    def answers(self, name: str, asked: str = "last=1000") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get(f"/api/answers/{name}?{asked}").json["answers"]
        return found

    @contextmanager
    def events(self, **headers: str) -> Iterator[Iterator[tuple[str, str, Any]]]:
        """The events of a stream: kind, id and data."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("GET", "/api/events", headers=named)
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        try:
            yield _events(reply)
        finally:
            connection.close()
            reply.close()


def _events(reply: http.client.HTTPResponse) -> Iterator[tuple[str, str, Any]]:
    found: dict[str, str] = {}
    for line in reply:
        text = line.decode().rstrip("\n")
        if text:
            name, _, value = text.partition(": ")
            found[name] = value
        elif "event" in found:
            yield found["event"], found.get("id", ""), json.loads(found["data"])
            found = {}


@contextmanager
def serving(
    service: Page,
    token: str | None = None,
    limits: ServiceLimits | None = None,
    port: int = 0,
    host: str = "127.0.0.1",
    title: str = "test",
    engine: str = "local",
) -> Iterator[Client]:
    """Serve until the end of the block; the service is closed then."""
    from skyband.serve.app import make_app
    from skyband.serve.server import listen, make_server

    kinds = dict.fromkeys(service.schemas, "http")
    app = make_app(service, kinds, title, engine, host=host, token=token)
    with listen("127.0.0.1", port) as taken:
        started = threading.Event()
        server = make_server(app, taken, limits or service.limits, lambda _: started.set())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        assert started.wait(30)
        try:
            yield Client(taken.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join(30)
