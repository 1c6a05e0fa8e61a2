"""``skyband serve`` is killed under load: no acknowledged row is lost, and none counts twice.

Four senders post rows as JSON lines, CSV and Arrow streams, each batch with its key until it is
acknowledged; a reader follows the events. Kills come between any two requests, while a snapshot
replaces the journal, and while the server starts and reads its journal again.
"""

from __future__ import annotations

import http.client
import io
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from skyband.jobs import load_job
from skyband.jobs.ddl import arrow_schema
from skyband.serve.bodies import read_body
from support import served
from support.served_process import Process, started

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

JOB = served.JOB.replace(
    'slide = "2 seconds"', 'slide = "2 seconds", lateness = "1 minute"'
).replace("checkpoint", "history = 5000\ncheckpoint")
AHEAD = 6
"""How many batches a sender may be ahead of the last one that is not acknowledged."""
SECONDS = 600.0
"""How long the whole may hang on one thing."""


def bodies_of(batches: int, size: int) -> list[tuple[bytes, str]]:
    """Batches with their content types; one of ten is large."""
    found = []
    for i in range(batches):
        rows = served.rows(i * size, size)
        table = read_body("json", served.ndjson(rows), arrow_schema("", served.SCHEMA))
        sink = io.BytesIO()
        if i % 3 == 0:
            if i % 10 == 0:
                rows[0]["note"] = "x" * (256 << 10)  # no column of the source, so it is ignored
            found.append((served.ndjson(rows), served.NDJSON))
        elif i % 3 == 1:
            pa.csv.write_csv(table, sink)
            found.append((sink.getvalue(), "text/csv"))
        else:
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            found.append((sink.getvalue(), "application/vnd.apache.arrow.stream"))
    return found


class Load:
    """Senders, a reader, and the server that runs just now."""

    def __init__(self, bodies: list[tuple[bytes, str]]) -> None:
        self.bodies = bodies
        self.client: served.Client | None = None
        self.left = list(range(len(bodies)))
        self.going: set[int] = set()
        self.replies: dict[int, Any] = {}
        self.events: dict[int, tuple[str, Any]] = {}
        self.stopped = threading.Event()
        self.change = threading.Condition()
        self.senders = [threading.Thread(target=self._send, daemon=True) for _ in range(4)]
        self.reader = threading.Thread(target=self._read, daemon=True)

    @property
    def done(self) -> int:
        return len(self.replies)

    def _take(self) -> int | None:
        with self.change:
            while self.left:
                if self.left[0] - min(self.going, default=self.left[0]) < AHEAD:
                    self.going.add(self.left[0])
                    return self.left.pop(0)
                self.change.wait()
        return None

    def _send(self) -> None:
        while (at := self._take()) is not None:
            body, kind = self.bodies[at]
            while True:
                try:
                    assert self.client is not None
                    key = f"batch-{at}"
                    reply = self.client.post(body, content_type=kind, idempotency_key=key)
                    assert reply.status == 200, reply
                    break
                except (OSError, http.client.HTTPException):
                    time.sleep(0.01)
            with self.change:
                self.replies[at] = reply.json
                self.going.remove(at)
                self.change.notify_all()

    def _read(self) -> None:
        """Follow the events; a break is made up for with the number of the last one."""
        while not self.stopped.is_set():
            last = {"last_event_id": str(max(self.events))} if self.events else {}
            try:
                assert self.client is not None
                with self.client.events(**last) as events:
                    for kind, number, data in events:
                        assert kind != "reset"
                        if kind == "answer":
                            assert int(number) not in self.events
                            self.events[int(number)] = (data.pop("name"), data)
                        if self.stopped.is_set():
                            return
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.01)


def wait_for(load: Load, wanted: int) -> None:
    until = time.monotonic() + SECONDS
    while load.done < wanted:
        assert any(each.is_alive() for each in load.senders)
        assert time.monotonic() < until
        time.sleep(0.002)


def killed(folder: Path, kills: int, batches: int, size: int, seed: int) -> None:
    """Post rows while the server is killed again and again, then compare with one quiet run."""
    job = folder / "job.toml"
    job.write_text(JOB)
    load, rng, took = Load(bodies_of(batches, size)), random.Random(seed), 1.0
    for kill in range(kills):
        began, server = time.monotonic(), Process(job, journal_bytes=20_000)
        if kill and rng.random() < 0.3:
            time.sleep(rng.random() * took)
        else:
            load.client = served.Client(server.port())
            took = time.monotonic() - began
            if not kill:
                for each in (*load.senders, load.reader):
                    each.start()
            wait_for(load, (kill + 1) * batches // (kills + 1))
            time.sleep(rng.random() * 0.05)
        server.kill()
    with started(job) as (process, load.client):
        wait_for(load, batches)
        metrics = load.client.get("/metrics").body.decode()
        found = {name: load.client.answers(name, "last=5000") for name in ("busiest", "talkers")}
        wanted, until = sum(map(len, found.values())), time.monotonic() + SECONDS
        while len(load.events) < wanted and time.monotonic() < until:
            time.sleep(0.01)
        load.stopped.set()
        process.send_signal(signal.SIGTERM)
        process.wait(SECONDS)
    assert load.replies == {i: {"rows": size} for i in range(batches)}  # none late, none bad
    assert f'skyband_rows_in_total{{query="busiest"}} {batches * size}\n' in metrics
    compare(folder, load, found)


def compare(folder: Path, load: Load, found: dict[str, Any]) -> None:
    """Answers are those of all rows; events and files have each of them once."""
    whole = served.new_service(
        folder / "whole", load_job(folder / "job.toml", default="local").queries, history=5_000
    )
    with served.serving(whole) as client:
        for body, kind in load.bodies:
            assert client.post(body, content_type=kind).status == 200
        for name, answers in found.items():
            assert answers == client.answers(name, "last=5000")
    assert sorted(load.events) == list(range(1, len(load.events) + 1))
    for name, answers in found.items():
        assert [data for _, (of, data) in sorted(load.events.items()) if of == name] == answers
    files = [pq.read_table(path) for path in (folder / "talkers").glob("*.parquet")]
    ends = [end for each in files for end in sorted(set(each["window_end"].to_pylist()))]
    assert sorted(end.isoformat() for end in ends) == [each["end"] for each in found["talkers"]]
    (journal,) = (folder / "state").glob("journal-*")
    assert int(journal.name.rsplit("-", 1)[1]) == len(load.bodies)  # which begins after all


def test_kills_lose_no_row_and_count_none_twice(tmp_path: Path) -> None:
    killed(tmp_path, kills=3, batches=60, size=5, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_hundred_kills(tmp_path: Path) -> None:
    killed(tmp_path, kills=100, batches=1_000, size=3, seed=2)
