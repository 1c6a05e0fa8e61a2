"""A job that runs as ``pipeline`` goes on as ``serve``, and back: it is one job all the time."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.errors import EngineError
from skyband.jobs import parse_job
from skyband.jobs.local.local_job import LocalJob, run_local
from skyband.jobs.local.posts import Request
from skyband.serve.bodies import read_body
from skyband.serve.history import Event, History
from skyband.serve.service import Service
from support import served
from support.local_jobs import QUERIES, job, out, rows, wanted, written

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def served_until(told: Any, read: int) -> Service:
    service = Service(told)
    until(lambda: service.status.rows[""] >= read)
    return service


@pytest.mark.parametrize("killed", [False, True])
def test_a_job_goes_on_as_a_service_and_back(tmp_path: Path, killed: bool) -> None:
    """Each window once, and each row read once; events of a page have no number twice."""
    tables = rows(5)
    told = job(tmp_path, trigger={"once": True})
    written(tmp_path, tables[:1])
    running = LocalJob(parse_job(told))
    for number, _ in enumerate(running.steps(lambda: False)):
        if killed and number == 1:
            break
    running.close()  # if it was killed, the state was not saved
    written(tmp_path, tables[1:2], 1)
    service = served_until(parse_job(told), 800)
    first = service.number
    assert first > 20
    until(lambda: bool(service.history.since(first - 9)))
    run = service.job.checkpoint.run
    served.abandon(service) if killed else service.close()
    written(tmp_path, tables[2:3], 2)
    progress = run_local(parse_job(told))
    assert progress.rows - 150 * progress.replayed <= 400
    written(tmp_path, tables[3:4], 3)
    again = served_until(parse_job(told), 1600)
    assert again.job.checkpoint.run == run
    assert again.history.since(first) is None  # the answers of the pipeline were never kept
    served.abandon(again) if killed else again.close()
    written(tmp_path, tables[4:], 4)
    run_local(parse_job(told | {"trigger": {"once": True, "close": True}}))
    for name in QUERIES:
        assert out(tmp_path, name) == wanted(tmp_path, name)


def test_pipeline_and_serve_cannot_run_at_once(tmp_path: Path) -> None:
    written(tmp_path, rows(1))
    service = Service(parse_job(job(tmp_path, trigger={})))
    with pytest.raises(EngineError, match="another process uses"):
        run_local(parse_job(job(tmp_path)))
    service.close()


def post(service: Service, first: int, count: int) -> Any:
    table = read_body("json", served.ndjson(served.rows(first, count)), service.schemas[""])
    return service.inbox.submit(Request("", table, table.nbytes, f"k{first}", "d")).result(20)


def test_a_flipped_bit_among_acknowledged_posts_stops_the_start(tmp_path: Path) -> None:
    service = served.new_service(tmp_path)
    for i in range(20):
        assert post(service, i, 1) == {"rows": 1}
    served.abandon(service)
    (path,) = tmp_path.glob("journal-*")
    content = bytearray(path.read_bytes())
    content[4 * 4096 + 200] ^= 4
    path.write_bytes(content)
    with pytest.raises(EngineError, match=r"journal-0 is damaged: batch 3, at byte \d.*copy"):
        served.new_service(tmp_path)
    path.unlink()
    with pytest.raises(EngineError, match="journal-0 is missing"):
        served.new_service(tmp_path)


@pytest.mark.parametrize("lost", [1, 30, 200])
def test_a_cut_off_line_of_the_answers_loses_no_later_ones(tmp_path: Path, lost: int) -> None:
    """What is missing is told by a reset, and what comes later is kept on lines of its own."""
    service = served.new_service(tmp_path)
    post(service, 0, 20)
    service.close()
    last = service.history.last
    kept = tmp_path / "answers"
    kept.write_bytes(kept.read_bytes()[:-lost])
    again = served.new_service(tmp_path)
    assert again.history.last == last
    assert again.history.since(last - 1) is None  # a reset
    assert again.history.since(last) == []
    post(again, 20, 20)
    again.close()
    third = served.new_service(tmp_path)
    numbers = [event.number for event in third.history.since(last) or []]
    assert numbers == list(range(last + 1, again.history.last + 1))
    assert len(numbers) > 10
    third.close()


def test_a_hole_in_the_answers_is_told(tmp_path: Path) -> None:
    history = History(["a"], 99, tmp_path / "answers")
    history.add([Event(number, "a", str(number), "{}") for number in range(1, 10)], 9)
    history.write()
    lines = (tmp_path / "answers").read_bytes().splitlines(keepends=True)
    (tmp_path / "answers").write_bytes(b"".join(lines[:4] + lines[5:]))
    found = History(["a"], 99, tmp_path / "answers")
    assert found.since(3) is None
    assert [event.number for event in found.since(4) or []] == [5, 6, 7, 8, 9]


def test_a_service_reads_a_socket_once_also_after_a_kill(tmp_path: Path) -> None:
    """What was read stands in the checkpoint: it cannot be asked for again."""
    import json
    import socket
    import threading

    made = [{"ts": i, "flow": i % 3, "bytes": (7 * i) % 11} for i in range(400)]
    server = socket.create_server(("127.0.0.1", 0))

    def send() -> None:
        with server, server.accept()[0] as connection:
            connection.sendall("".join(json.dumps(row) + "\n" for row in made).encode())

    threading.Thread(target=send, daemon=True).start()
    source = {
        "kind": "socket", "host": "127.0.0.1", "port": server.getsockname()[1],
        "schema": "ts bigint, flow bigint, bytes bigint",
    }  # fmt: skip
    service = served_until(parse_job(job(tmp_path, source=source, trigger={})), 400)
    served.abandon(service)
    again = Service(parse_job(job(tmp_path, source=source, trigger={})))
    assert again.status.rows[""] == 400
    assert again.job.progress.replayed >= 1
    again.close()


def test_a_finished_job_stays_on_the_page(tmp_path: Path) -> None:
    written(tmp_path, rows(1))
    service = Service(parse_job(job(tmp_path)))
    until(lambda: service.status.finished)
    ends = [row["window_end"] for row in sb.rank(tmp_path / "in", _busiest()).to_pylist()]
    assert int(service.history.newest("busiest", 1)[0].end) >= max(ends)
    assert service.failure is None
    assert service.state == "finished"
    service.close()
    assert pq.read_table(tmp_path / "out" / "busiest").num_rows == len(ends)


@pytest.mark.parametrize(("path", "state"), [("in", "all read"), ("in/0.parquet", "finished")])
def test_files_that_are_read_are_no_trouble(tmp_path: Path, path: str, state: str) -> None:
    """More files may come into a folder; a file is read once."""
    written(tmp_path, rows(1))
    (name,) = (each.name for each in (tmp_path / "in").iterdir())
    source = {"kind": "files", "path": path.replace("0.parquet", name)}
    service = Service(parse_job(job(tmp_path, source=source, trigger={}), tmp_path))
    until(lambda: service.state == state)
    for name in service.status.heard:
        service.status.heard[name] -= 60
    assert service.status.trouble() == []
    service.close()


def _busiest() -> Any:
    from support.local_jobs import query_of

    return query_of("busiest")
