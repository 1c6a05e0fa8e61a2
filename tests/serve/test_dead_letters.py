"""Bad records of a served job: counted, told, and written as dead letters."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from skyband.jobs import Job, load_job
from skyband.jobs.local.posts import Request
from skyband.serve.bodies import read_body
from skyband.serve.service import Service
from support.served import abandon

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

JOB = """
name = "net"
engine = "local"
checkpoint = "state"
on_bad = "{on_bad}"

[source]
{source}
schema = "ts bigint, host string, bytes bigint"

[queries.best]
kind = "TopK"
k = 2
score = "bytes"
id = "host"
time = "ts"
window = {{ size = 4 }}

[queries.often]
kind = "HeavyHitters"
k = 2
item = "host"
time = "ts"
window = {{ size = 4 }}

[dead_letters]
kind = "files"
path = "bad"
"""
LINES = b"""\
{"ts": 1, "host": "a", "bytes": 5}
nonsense
{"ts": 2, "host": "b", "bytes": null}
\xff\xfe
{"ts": 9, "host": "a", "bytes": 2}
"""


def loaded(folder: Path, source: str, on_bad: str = "skip") -> Job:
    path = folder / "job.toml"
    path.write_text(JOB.format(source=source, on_bad=on_bad))
    return load_job(path, default="local")


def bad(folder: Path) -> list[Path]:
    return sorted((folder / "bad").glob("*.json"))


def letters(folder: Path) -> list[tuple[str, str]]:
    found = [path.read_text().splitlines() for path in bad(folder)]
    told = [json.loads(line) for lines in found for line in lines]
    return [(letter["reason"], letter["record"]) for letter in told]


def test_bad_rows_become_letters_once(tmp_path: Path) -> None:
    """Also if the journal is replayed, with the letters that were not written before."""
    job = loaded(tmp_path, 'kind = "http"')
    service = Service(job)
    body = b'{"ts": 1, "host": "a", "bytes": null}\n{"ts": 2, "host": null, "bytes": 3}\n'
    for _ in range(2):
        table = read_body("json", body, service.schemas[""])
        assert service.inbox.submit(Request("", table, 1)).result(20)["bad"] == 2
    before = letters(tmp_path)
    score = "best: column 'bytes': the score is null (None)"
    both = "best: column 'host': the id is null (None); often: column 'host': the item is null"
    assert [reason for reason, _ in before] == [score, f"{both} (None)"] * 2
    assert json.loads(before[0][1]) == {"ts": 1, "host": "a", "bytes": None}
    abandon(service)  # as if it had been killed before the last letters were written
    max((tmp_path / "bad").glob("*.json")).unlink()
    again = Service(job)
    assert letters(tmp_path) == before
    again.close()


def test_what_a_service_keeps_is_for_its_user_only(tmp_path: Path) -> None:
    job, folder = loaded(tmp_path, 'kind = "http"'), tmp_path / "state"
    service = Service(job)
    body = b'{"ts": 1, "host": "a", "bytes": null}\n{"ts": 9, "host": "b", "bytes": 3}\n'
    service.inbox.submit(Request("", read_body("json", body, service.schemas[""]), 1)).result(20)
    service.close()
    kept = {path: path.stat().st_mode & 0o777 for path in [*folder.iterdir(), *bad(tmp_path)]}
    names = {path.name.split("-")[0] for path in kept}
    assert names == {"answers", "journal", "lock", "net", "skyband.json", "snapshot"}
    assert {path for path, mode in kept.items() if mode != 0o600} == set()


@pytest.fixture
def port() -> Iterator[int]:
    """A port that sends the lines, and keeps the connection open."""
    with socket.create_server(("127.0.0.1", 0)) as server, ExitStack() as taken:

        def send() -> None:
            line, _ = server.accept()
            taken.enter_context(line)
            line.sendall(LINES)

        sending = threading.Thread(target=send, daemon=True)
        sending.start()
        yield server.getsockname()[1]
        sending.join(20)


def fed(job: Job, until: Callable[[Service], Any]) -> Service:
    """A service that reads the job's source until something holds."""
    service = Service(job)
    end = time.monotonic() + 20
    while not until(service) and time.monotonic() < end:
        time.sleep(0.02)
    return service


def test_records_that_cannot_be_read(tmp_path: Path, port: int) -> None:
    """They are bad rows of every query, and the lines before and after them count."""
    job = loaded(tmp_path, f'kind = "socket"\nhost = "127.0.0.1"\nport = {port}')
    service = fed(job, lambda each: each.stats["best"]["rows_in"] == 5)
    counts = {name: (each["rows_in"], each["rows_bad"]) for name, each in service.stats.items()}
    assert counts == {"best": (5, 3), "often": (5, 2)}
    assert [event.end for event in service.history.newest("often", 9)] == ["4", "8"]
    assert [record for _, record in letters(tmp_path)][:2] == ["nonsense", "//4="]
    assert len(letters(tmp_path)) == 3
    service.close()
    again = Service(job)
    assert again.stats["best"]["rows_bad"] == 3
    again.close()


def test_records_that_cannot_be_read_stop_a_source(tmp_path: Path, port: int) -> None:
    job = loaded(tmp_path, f'kind = "socket"\nhost = "127.0.0.1"\nport = {port}', "raise")
    service = fed(job, lambda each: each.status.troubles)
    (told,) = service.status.troubles
    assert "source rows stopped: 2 bad rows: not JSON that fits the schema: nonsense" in told
    assert service.stats["best"]["rows_in"] == 0
    service.close()


HELD = """
name = "held"
engine = "local"
checkpoint = "state"

[source]
kind = "http"
schema = "ts timestamp, host string, bytes bigint"

[query]
kind = "TopK"
k = 2
score = "bytes"
id = "host"
time = "ts"
window = {{ size = "10 seconds" }}

[sink]
kind = "postgres"
table = "served_held"
dsn = "{dsn}"

[dead_letters]
kind = "files"
path = "bad"
"""


def test_no_row_stops_a_service_for_good(tmp_path: Path, dsn: str) -> None:
    """Neither one that its sink cannot hold, nor one from far ahead, also after a restart."""
    import psycopg

    (tmp_path / "job.toml").write_text(HELD.format(dsn=dsn))
    job = load_job(tmp_path / "job.toml", default="local")

    def post(service: Service, *found: tuple[str, str]) -> dict[str, Any]:
        lines = [json.dumps({"ts": ts, "host": host, "bytes": 1}) for ts, host in found]
        table = read_body("json", "\n".join(lines).encode(), service.schemas[""])
        request = Request("", table, table.nbytes)
        return service.inbox.submit(request).result(20)

    service = Service(job)
    reply = post(service, ("2026-01-05T10:00:00Z", "a"), ("2026-01-05T10:00:01Z", "b\0"))
    assert (reply["rows"], reply["bad"]) == (2, 1)
    assert "row 1, column 'host': the text contains a NUL character" in reply["reason"]
    reply = post(service, ("9000-01-01T00:00:00Z", "c"))
    assert "the time is more than 1 day ahead of this machine's clock" in reply["reason"]
    assert service.status.moment(service.status.watermark()) == "2026-01-05T10:00:01+00:00"
    abandon(service)  # as if it had been killed
    service = Service(job)
    assert "late" not in post(service, ("2026-01-05T10:00:30Z", "d"))
    assert service.stats["held"]["rows_bad"] == 2
    service.close()
    assert len(letters(tmp_path)) == 2
    with psycopg.connect(dsn) as connection:
        assert connection.execute("SELECT host FROM served_held").fetchall() == [("a",)]
