"""``skyband serve`` as a process: job files, refusals, and kills at any moment."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from skyband.errors import QueryError
from skyband.jobs import load_job
from skyband.jobs.ddl import arrow_schema
from skyband.jobs.local.posts import Request
from skyband.serve.bodies import read_body
from skyband.serve.service import Service
from support import command_line, served

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def written(folder: Path, text: str) -> Path:
    (folder / "job.toml").write_text(text)
    return folder / "job.toml"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("k = 3\nscore", "score"), "busiest"),
        (('kind = "http"', 'kind = "carrier pigeon"'), "kind"),
        (("ts timestamp", "ts strange"), "strange"),
        (('engine = "local"', 'engine = "abacus"'), "engine"),
        (('engine = "local"', "colour = 3"), "colour"),
        (('size = "4 seconds"', "length = 3"), "window"),
        (("on_bad", "history = 0\non_bad"), "history"),
        (("[queries.talkers]", "[query]"), "not both"),
        (('id = "flow"', 'id = "flow"\nsize = 3'), "no key 'size'"),
    ],
)
def test_what_a_job_may_not_say(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    assert change[0] in served.JOB
    job = written(tmp_path, served.JOB.replace(*change, 1))
    with pytest.raises(QueryError, match=message):
        load_job(job, default="local")


def test_a_job_of_one_query_and_its_settings(tmp_path: Path) -> None:
    text = served.JOB.replace("[queries.busiest]", "[query]").split("[queries.talkers]")[0]
    job = load_job(
        written(tmp_path, "history = 7\n" + text.replace('engine = "local"', "")), default="local"
    )
    assert list(job.queries) == ["network"]
    assert (job.history, job.on_bad, job.engine) == (7, "raise", "local")
    assert job.checkpoint == str(tmp_path / "state")


def test_a_port_in_use_and_a_job_that_is_not_there(tmp_path: Path) -> None:
    assert "none.toml cannot be read" in command_line.bad("serve", tmp_path / "none.toml")
    assert "give a job file, or --demo" in command_line.bad("serve")
    job = written(tmp_path, served.JOB)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}" in command_line.bad("serve", job, "--port", port)
    assert "local" in command_line.bad("serve", job, "--engine", "spark")


def test_files_are_read_and_new_ones_too(tmp_path: Path) -> None:
    schema = arrow_schema("", served.SCHEMA)
    (tmp_path / "in").mkdir()

    def write(name: str, first: int, count: int) -> None:
        body = served.ndjson(served.rows(first, count))
        pq.write_table(read_body("json", body, schema), tmp_path / "in" / name)

    def seen(service: Service, rows: int) -> None:
        until = time.monotonic() + 20
        while service.status.rows[""] < rows and time.monotonic() < until:
            time.sleep(0.02)
        assert service.status.rows[""] == rows

    write("a.parquet", 0, 10)
    text = served.JOB.replace('kind = "http"', 'kind = "files"\npath = "in/*.parquet"')
    job = load_job(written(tmp_path, re.sub("schema = .*\n", "", text)), default="local")
    for more in (10, 15):  # the second time the first file is not read again
        service = Service(job)
        seen(service, more)
        write(f"b{more}.parquet", more, 5)
        seen(service, more + 5)
        service.close()


def test_sinks_are_written_once(tmp_path: Path) -> None:
    job = load_job(written(tmp_path, served.JOB), default="local")

    def apply(service: Service, first: int) -> None:
        table = read_body("json", served.ndjson(served.rows(first, 5)), service.schemas[""])
        service.inbox.submit(Request("", table, 1)).result(20)

    def ends() -> list[Any]:
        found = [pq.read_table(path) for path in (tmp_path / "talkers").glob("*.parquet")]
        return sorted(end for each in found for end in set(each["window_end"].to_pylist()))

    service = Service(job)
    for i in range(4):
        apply(service, 5 * i)
    before = ends()
    assert len(before) == 9
    served.abandon(service)  # as if it had been killed: the journal is replayed
    again = Service(job)
    assert ends() == before
    apply(again, 20)
    again.close()
    assert len(ends()) == len(set(ends())) == 12


def test_a_verb_can_serve_its_answers(tmp_path: Path) -> None:
    path = tmp_path / "flows.parquet"
    body = served.ndjson(served.rows(0, 20))
    pq.write_table(read_body("json", body, arrow_schema("", served.SCHEMA)), path)
    words = ["topk", str(path), "-k", "3", "--score", "bytes", "--id", "flow", "--time", "ts"]
    words += ["--window", "4 s", "--slide", "2 s", "--serve", "--serve-port", "0", "--pace", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "skyband", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None
        client = served.Client(int(found[1]))
        until = time.monotonic() + 20
        while len(client.answers("topk")) < 10 and time.monotonic() < until:
            time.sleep(0.05)
        service = served.new_service(tmp_path / "state")
        with served.serving(service) as other:
            other.post(body)
            answers = client.answers("topk")
            assert answers[:9] == other.answers("busiest")
            assert len(answers) == 10  # the end of a file closes the last window
        assert client.post(body).status == 404
        assert 'rows_in_total{query="topk"} 20' in client.get("/metrics").body.decode()
    finally:
        process.kill()
        process.communicate()
