"""Killed jobs over all sinks, with groups and every kind of window: each window once, and right.

The answers are compared with those of ``sb.rank`` over the same files.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import parse_job
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
SINKS = ("files", "postgres", "http")
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
    """Every kind of window with and without groups; sinks change from part to part."""
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


@pytest.mark.parametrize("times", TIMES)
def test_every_sink_holds_each_window_once(
    tmp_path: Path, dsn: str, receiver: tuple[str, dict[str, dict[str, Any]]], times: int
) -> None:
    import psycopg

    url, messages = receiver
    parts: list[tuple[Path, dict[str, Any]]] = []

    def part(number: int) -> dict[str, Any]:
        folder = tmp_path / str(number)
        folder.mkdir()
        tables = [
            table.append_column("team", pa.array([f"t{n % 3}" for n in table["flow"].to_pylist()]))
            for table in rows(4, seed=number)
        ]
        written(folder, tables)
        board = queries(number)
        for at, (name, query) in enumerate(board.items()):
            kind = SINKS[(at + number) % 3]
            query["sink"] = {
                "files": {"kind": "files", "path": str(folder / "out" / name)},
                "postgres": {"kind": "postgres", "table": f"p{times}_{number}_{name}", "dsn": dsn},
                "http": {"kind": "http", "url": url},
            }[kind]
        parts.append((folder, board))
        return job(folder, name=f"job{number}", queries=board)

    until_killed(times, times, part)
    for number, (folder, board) in enumerate(parts):
        for name, told in board.items():
            query = {key: value for key, value in told.items() if key != "sink"}
            match told["sink"]["kind"]:
                case "files":
                    held = pq.read_table(folder / "out" / name).to_pylist()
                case "postgres":
                    with psycopg.connect(dsn) as connection:
                        cursor = connection.execute(f"SELECT * FROM p{times}_{number}_{name}")
                        columns = [column.name for column in cursor.description or ()]
                        held = [dict(zip(columns, row, strict=True)) for row in cursor]
                case _:
                    prefix = f"job{number}/{name}/"
                    own = [m for key, m in messages.items() if key.startswith(prefix)]
                    held = [m.get("group", {}) | row for m in own for row in m["rows"]]
            assert held, (number, name)
            assert lines(held) == answer_of(folder, query), (number, name, told)
