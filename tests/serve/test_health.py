"""What /healthz, /metrics and the log say: how it goes, and what went wrong."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.jobs.ddl import arrow_schema
from skyband.serve.bodies import read_body
from support import served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[served.Client]:
    with served.serving(served.new_service(tmp_path)) as client:
        yield client


def test_metrics_and_health(client: served.Client) -> None:
    from skyband.serve.page import METRICS

    client.post(served.rows(0, 9))
    text = client.get("/metrics").body.decode()
    assert [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")] == list(
        METRICS
    )
    assert 'skyband_source_rows_total{source="rows"} 9\n' in text
    assert "skyband_answers_total 8\n" in text
    health = client.get("/healthz")
    assert health.status == 200
    assert health.json["status"] == "ok"
    assert health.json["behind"] > 0


def test_a_failed_disk_stops_the_service_and_says_so(tmp_path: Path) -> None:
    service = served.new_service(tmp_path)
    with served.serving(service) as client:

        def full() -> None:
            raise OSError(28, "No space left on device")

        service.job.checkpoint._journal.sync = full  # type: ignore[union-attr, method-assign]
        assert client.post(served.rows(0, 9)).status == 503
        assert client.post(served.rows(9, 1)).status == 503
        assert client.get("/healthz").status == 503
        assert client.answers("busiest") == []  # what is not safe is not shown


@pytest.mark.parametrize("problem", [OSError(5, "Input/output error"), ValueError("odd")])
def test_a_source_that_stopped_for_good_is_a_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, problem: Exception
) -> None:
    begin = threading.Event()

    def batches() -> Iterator[pa.Table]:
        schema = arrow_schema("", served.SCHEMA)
        assert begin.wait(20)
        yield read_body("json", served.ndjson(served.rows(0, 9)), schema)
        raise problem

    service = served.new_service(tmp_path, batches=batches())
    with served.serving(service, token="correct horse battery staple") as client:
        own = {"authorization": "Bearer correct horse battery staple"}
        begin.set()
        until = time.monotonic() + 20
        while service.status.failure is None and time.monotonic() < until:
            time.sleep(0.01)
        said = f"source rows stopped: {problem}"
        health = client.get("/healthz", **own)
        assert health.status == 503
        assert (health.json["status"], health.json["reason"]) == ("failed", said)
        assert "reason" not in client.get("/healthz").json  # it may name files or hosts
        assert [(each.levelname, each.message) for each in caplog.records] == [("ERROR", said)]
        with client.events(**own) as events:
            status = next(data for kind, _, data in events if kind == "status")
        assert status["trouble"] == [said]
        assert client.post(served.rows(9, 1), **own).status == 200  # the engine goes on
