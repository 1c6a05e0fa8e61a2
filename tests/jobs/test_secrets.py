"""Secrets of a job: never shown, and taken from the environment where a job says so."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import skyband as sb
from skyband.jobs import check_ready, explain, parse_job, problems_of, run_job
from skyband.jobs.job import JobSection
from skyband.jobs.places import client_options
from support.local_jobs import job, rows, written

HOOK = {"kind": "http", "url": "http://me:hunter2@127.0.0.1:1/hook?token=hunter2&room=7"}
KAFKA = {"kind": "kafka", "servers": "broker:9092", "topic": "flows"}
SHOWN = [
    ({**HOOK, "headers": {"Authorization": "Bearer hunter2", "X-Custom": "hunter2"}}, ("room=7",)),
    (
        {
            **KAFKA,
            "key": "flow",
            "options": {
                "security.protocol": "SASL_SSL",
                "sasl.username": "me",
                "sasl.password": "hunter2",
                "kafka.sasl.jaas.config": "LoginModule password=hunter2",
                "ssl.key.password": "hunter2",
                "ssl.key.pem": "hunter2",
                "sasl.oauthbearer.client.secret": "hunter2",
            },
        },
        ("key=flow", "'security.protocol': 'SASL_SSL'", "'sasl.username': 'me'"),
    ),
    ({"kind": "postgres", "table": "t", "dsn": "postgresql://me:hunter2@host/db"}, ("table=t",)),
]
STORAGE = {"access_key": "hunter2", "secret_key": "hunter2", "session_token": "hunter2"}


def with_sink(folder: Path, sink: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    told = job(folder, **changes)
    for query in told["queries"].values():
        query["sink"] = dict(sink)
    del told["queries"]["talkers"]
    return told


@pytest.mark.parametrize(("sink", "parts"), SHOWN)
def test_a_plan_shows_no_secret(
    tmp_path: Path, sink: dict[str, Any], parts: tuple[str, ...]
) -> None:
    told = parse_job(with_sink(tmp_path, sink))
    text = explain(told)
    assert "hunter2" not in text
    assert all(part in text for part in parts), text


def test_a_plan_shows_no_secret_of_a_source(tmp_path: Path) -> None:
    source = {"kind": "files", "path": "s3://bucket/in", "storage": {**STORAGE, "region": "here"}}
    letters = {**KAFKA, "options": {"sasl.password": "hunter2"}}
    told = job(tmp_path, source=source, engine="spark", dead_letters=letters, shards=1)
    text = explain(parse_job(told | {"checkpoint": "s3://me:hunter2@bucket/state"}))
    assert "hunter2" not in text
    assert "'region': 'here'" in text


def test_messages_show_no_secret(tmp_path: Path) -> None:
    for sink in (
        {**HOOK, "headers": "Bearer hunter2"},
        {**HOOK, "url": "ftp://me:hunter2@host"},
        {**KAFKA, "options": "sasl.password=hunter2"},
        {"kind": "postgres", "table": "t", "dsn": ["hunter2"]},
        {**HOOK, "headers_env": {"Authorization": ["hunter2"]}},
    ):
        with pytest.raises(sb.QueryError) as raised:
            parse_job(with_sink(tmp_path, sink))
        assert "hunter2" not in str(raised.value)


@pytest.fixture
def hook() -> Iterator[tuple[str, list[Any]]]:
    """An address that takes messages, and the headers that came."""
    came: list[Any] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            came.append(dict(self.headers))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/", came
        server.shutdown()
        thread.join(10)


def test_headers_and_addresses_come_from_the_environment(
    tmp_path: Path, hook: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, came = hook
    sink = {
        "kind": "http",
        "url_env": "HOOK_URL",
        "headers": {"X-Room": "7"},
        "headers_env": {"Authorization": "HOOK_AUTH"},
    }
    written(tmp_path, rows(1, each=20))
    told = parse_job(with_sink(tmp_path, sink))  # a job can be read without them
    assert "headers_env={'Authorization': 'HOOK_AUTH'}" in explain(told)
    monkeypatch.setenv("HOOK_URL", address)
    with pytest.raises(sb.QueryError, match="no variable 'HOOK_AUTH'; set it to the value of"):
        check_ready(told)
    monkeypatch.setenv("HOOK_AUTH", "Bearer hunter2")
    check_ready(told)
    assert "hunter2" not in explain(told)
    run_job(told)
    assert came
    assert all(each["Authorization"] == "Bearer hunter2" for each in came)
    assert all(each["X-Room"] == "7" for each in came)
    monkeypatch.setenv("HOOK_URL", "ftp://me:hunter2@host")
    with pytest.raises(sb.QueryError, match="url must be an http") as raised:
        check_ready(told)
    assert "hunter2" not in str(raised.value)


def test_options_and_storage_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    section = JobSection(
        "kafka",
        {
            "options": {"sasl.username": "me"},
            "options_env": {"kafka.sasl.password": "KAFKA_PASSWORD"},
        },
    )
    assert client_options(section) == {"sasl.username": "me", "sasl.password": "hunter2"}
    assert JobSection("files", {"storage_env": {"secret_key": "KAFKA_PASSWORD"}})["storage"] == {
        "secret_key": "hunter2"
    }


def test_what_is_wrong_with_an_environment(tmp_path: Path) -> None:
    def problems(sink: str) -> list[str]:
        (tmp_path / "job.toml").write_text(
            f"""name = "x"
checkpoint = "state"
engine = "local"
[source]
kind = "socket"
host = "x"
port = 1
schema = "ts timestamp, n int"
[queries.best]
kind = "TopK"
k = 1
score = "n"
time = "ts"
window = {{ size = "1 minute" }}
sink = {{ {sink} }}
"""
        )
        return [each.text for each in problems_of(tmp_path / "job.toml")]

    (said,) = problems('kind = "http", url = "http://x/", url_env = "X"')
    assert said == "[queries.best.sink] has both url and url_env; give one of them"
    (said,) = problems('kind = "http"')
    assert said.startswith("[queries.best.sink] needs 'url', or url_env; its keys are url,")
    (said,) = problems('kind = "http", url = "http://x/", headers_env = { A = 3 }')
    assert said.startswith("[queries.best.sink] headers_env A must be the name of a variable")
    (said,) = problems('kind = "http", url_env = "NO_SUCH_VARIABLE"')
    assert "the environment has no variable 'NO_SUCH_VARIABLE'; set it to the value of url" in said
