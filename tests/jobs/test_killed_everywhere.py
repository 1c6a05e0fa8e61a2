"""Killed jobs over all sinks, with groups and every kind of window: each window once, and right.

The answers are compared with those of ``sb.rank`` over the same files.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import parse_job
from support.kafka_topics import read
from support.local_jobs import job, rows, written
from support.local_kills import until_killed

WINDOWS: dict[str, Any] = {
    "sliding": {"size": 300, "slide": 60},
    "tumbling": {"size": 600},
    "counted": {"count": 40, "slide": 10},
    "decayed": {"half_life": 600, "slide": 300},
    "landmark": {"slide": 600, "since": 0},
}
BY: tuple[tuple[str, ...], ...] = ((), ("team",))
KINDS: dict[str, dict[str, Any]] = {
    "best": {"kind": "TopK", "k": 2, "score": "bytes", "id": "flow"},
    "often": {"kind": "HeavyHitters", "k": 3, "item": "flow"},
}
TIMES = [3, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]


class Receiver(BaseHTTPRequestHandler):
    """Keeps the last message of each key."""

    messages: dict[str, dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.messages[self.headers["Idempotency-Key"]] = json.loads(body)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *words: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    messages: dict[str, dict[str, Any]] = {}
    kind = type("Own", (Receiver,), {"messages": messages})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", messages
    server.shutdown()
    thread.join()
    server.server_close()


def queries(number: int) -> dict[str, dict[str, Any]]:
    """Every kind of window with and without groups; kinds of query change from part to part."""
    board: dict[str, dict[str, Any]] = {}
    for at, (name, window) in enumerate(WINDOWS.items()):
        for by in BY:
            query = dict(list(KINDS.values())[(at + number) % 2])
            timed = {} if "count" in window else {"time": "ts"}
            grouped = {"by": list(by)} if by else {}
            board[name + "_by" * bool(by)] = query | timed | grouped | {"window": window}
    return board


def answer_of(folder: Path, told: dict[str, Any]) -> list[str]:
    """What a query gives over all files, as lines that no order of groups changes."""
    (query,) = parse_job(
        job(folder, queries={"q": told | {"sink": {"kind": "console"}}})
    ).queries.values()
    return lines(sb.rank(sorted((folder / "in").iterdir()), query).to_pylist())


def lines(answers: list[dict[str, Any]]) -> list[str]:
    return sorted(
        json.dumps({n: round(v, 6) if isinstance(v, float) else v for n, v in sorted(row.items())})
        for row in answers
    )


Settings = Callable[[Path, int, str], dict[str, Any]]
"""A sink in the folder of a job of this number, for a query."""
Held = Callable[[Path, int, str], list[dict[str, Any]]]
"""What the sink holds in the end."""


def kill_and_compare(
    folder: Path, times: int, sinks: Sequence[tuple[Settings, Held]], hours: int = 4
) -> None:
    """Kill jobs over the sinks, each query with another one; compare what these hold in the end."""
    parts: list[dict[str, dict[str, Any]]] = []

    def sink(number: int, at: int) -> tuple[Settings, Held]:
        return sinks[(at + number) % len(sinks)]

    def part(number: int) -> dict[str, Any]:
        own = folder / str(number)
        own.mkdir()
        tables = [
            table.append_column("team", pa.array([f"t{n % 3}" for n in table["flow"].to_pylist()]))
            for table in rows(hours, seed=number)
        ]
        written(own, tables)
        parts.append(queries(number))
        board = {
            name: query | {"sink": sink(number, at)[0](own, number, name)}
            for at, (name, query) in enumerate(parts[-1].items())
        }
        return job(own, name=f"job{number}", queries=board)

    until_killed(times, times, part)
    for number, board in enumerate(parts):
        for at, (name, query) in enumerate(board.items()):
            held = sink(number, at)[1](folder / str(number), number, name)
            assert held, (number, name)
            wanted = answer_of(folder / str(number), query)
            assert lines(held) == wanted, (number, name, query)


@pytest.mark.parametrize("times", TIMES)
def test_every_sink_holds_each_window_once(
    tmp_path: Path, dsn: str, receiver: tuple[str, dict[str, dict[str, Any]]], times: int
) -> None:
    import psycopg

    url, messages = receiver

    def stored(folder: Path, number: int, name: str) -> list[dict[str, Any]]:
        with psycopg.connect(dsn) as connection:
            cursor = connection.execute(f"SELECT * FROM p{times}_{number}_{name}")
            columns = [column.name for column in cursor.description or ()]
            return [dict(zip(columns, row, strict=True)) for row in cursor]

    def received(folder: Path, number: int, name: str) -> list[dict[str, Any]]:
        own = [m for key, m in messages.items() if key.startswith(f"job{number}/{name}/")]
        return [m.get("group", {}) | row for m in own for row in m["rows"]]

    kill_and_compare(
        tmp_path,
        times,
        [
            (
                lambda folder, number, name: {"kind": "files", "path": str(folder / "out" / name)},
                lambda folder, number, name: pq.read_table(folder / "out" / name).to_pylist(),
            ),
            (
                lambda folder, number, name: {
                    "kind": "postgres",
                    "table": f"p{times}_{number}_{name}",
                    "dsn": dsn,
                },
                stored,
            ),
            (lambda folder, number, name: {"kind": "http", "url": url}, received),
        ],
    )


@pytest.mark.kafka
@pytest.mark.xdist_group("kafka")
@pytest.mark.parametrize("times", TIMES)
def test_every_topic_holds_each_window_once(tmp_path: Path, servers: str, times: int) -> None:
    """With the broker's topics as the only sink: ten producers, each with its own transactions."""
    pytest.importorskip("confluent_kafka", reason="the kafka extra")

    def topic(folder: Path, number: int, name: str) -> dict[str, Any]:
        return {"kind": "kafka", "servers": servers, "topic": f"every-{times}-{number}-{name}"}

    def sent(folder: Path, number: int, name: str) -> list[dict[str, Any]]:
        return read(servers, f"every-{times}-{number}-{name}")

    kill_and_compare(tmp_path, times, [(topic, sent)], hours=2)
