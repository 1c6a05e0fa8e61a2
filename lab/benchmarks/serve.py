"""``skyband serve`` under load: rows taken durably, and answers sent to many subscribers.

The server is a process of its own with a board of three queries; this process posts the bodies,
which it made before, over four connections. A row counts once it was acknowledged, so that it is
safe on disk. For the fan-out, a thousand connections read the answers of one query, ten a second;
a delay runs from the moment a body is posted to the moment a subscriber has read the answer.
"""

from __future__ import annotations

import selectors
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lab.bench import Progress
from lab.bench.server import Served, flows, ndjson, served, stream

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
FAST = """
[queries.newest]
kind = "TopK"
k = 10
score = "bytes"
id = "flow"
time = "ts"
window = { size = "1 s", slide = "100 ms" }
"""
CONNECTIONS = 4


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    found = []
    for case, make, kind, rows, count, target in (
        ("JSON lines", ndjson, NDJSON, 50_000, 60, 0.4),
        ("Arrow stream", stream, ARROW, 400_000, 60, 5.0),
    ):
        progress(f"{case}: {rows * count:,} rows")
        found.append(_ingested(case, make, kind, rows, max(8, int(count * scale)), target))
    subscribers = max(20, int(1_000 * min(1.0, scale)))
    progress(f"{subscribers:,} subscribers")
    found.append(_fanned_out(subscribers, seconds=max(2.0, 15.0 * min(1.0, scale))))
    return found


def _ingested(
    case: str, make: Callable[[pa.Table], bytes], kind: str, rows: int, count: int, target: float
) -> dict[str, Any]:
    """Post bodies, each a tenth of a second later than the one before, over some connections."""
    bodies = [make(flows(i / 10, 0.1, rows)) for i in range(count)]
    with tempfile.TemporaryDirectory(prefix="skyband-") as folder, served(Path(folder)) as server:
        connection = server.connection()
        for i in range(40):  # so that everything is compiled
            server.post(connection, make(flows(-400 + i * 10, 10, 5_000)), kind)
        server.post(connection, make(flows(-1, 1, rows)), kind)
        began, cpu = time.perf_counter(), server.cpu
        _posted(server, bodies, kind)
        took, used = time.perf_counter() - began, server.cpu - cpu
    return {
        "group": "rows taken",
        "case": case,
        "rows": rows * count,
        "rows per body": rows,
        "M rows/s": rows * count / took / 1e6,
        "M rows per s of processor": rows * count / max(used, 1e-9) / 1e6,
        "MB/s": sum(map(len, bodies)) / took / 1e6,
        "target": target,
    }


def _posted(server: Served, bodies: list[bytes], kind: str) -> None:
    """Post bodies over several connections. They may overtake each other by some bodies."""
    left, lock, failed = iter(bodies), threading.Lock(), list[BaseException]()

    def work() -> None:
        connection = server.connection()
        try:
            while True:
                with lock:
                    body = next(left, None)
                if body is None:
                    return
                server.post(connection, body, kind)
        except BaseException as problem:  # noqa: BLE001  (raised in the main thread)
            failed.append(problem)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def _fanned_out(subscribers: int, seconds: float) -> dict[str, Any]:
    """Ten answers a second to many subscribers."""
    count = int(seconds * 10)
    with (
        tempfile.TemporaryDirectory(prefix="skyband-") as folder,
        served(Path(folder), FAST) as server,
    ):
        connection = server.connection()
        server.post(connection, ndjson(flows(0, 0.05, 20)), NDJSON)  # no window has ended yet
        reader = Subscribers(server.port, subscribers, count)
        posted = []
        reader.start()
        cpu, began = server.cpu, time.perf_counter()
        for i in range(count):
            body = ndjson(flows(0.1 * (i + 1), 0.05, 20))  # ends the window before
            time.sleep(max(0.0, began + i / 10 - time.perf_counter()))
            posted.append(time.perf_counter())
            server.post(connection, body, NDJSON)
        reader.join(60)
        used = server.cpu - cpu
    delays = np.array(reader.delays(posted)) * 1_000
    return {
        "group": "answers sent",
        "case": f"{subscribers:,} subscribers",
        "answers": count,
        "lost": subscribers * count - len(delays),
        "p50 ms": float(np.median(delays)),
        "p99 ms": float(np.quantile(delays, 0.99)),
        "worst ms": float(delays.max()),
        "share of a core": used / seconds,
        "target ms": 250,
    }


class Subscribers(threading.Thread):
    """Many event streams, and when each answer came."""

    def __init__(self, port: int, count: int, answers: int) -> None:
        super().__init__(daemon=True)
        self.answers = answers
        self.sockets: list[socket.socket] = []
        self.came: list[list[float]] = [[] for _ in range(count)]
        self.left = [b""] * count
        self.chosen = selectors.DefaultSelector()
        for i in range(count):  # in turn: a server closes connections that wait before they ask
            each = socket.create_connection(("127.0.0.1", port))
            each.sendall(b"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            self.sockets.append(each)
            self.chosen.register(each, selectors.EVENT_READ, i)
            self._read(i)

    def _read(self, i: int) -> None:
        data = self.left[i] + self.sockets[i].recv(1 << 16)
        now = time.perf_counter()
        mark = b"event: answer\n"
        self.came[i] += [now] * data.count(mark)
        self.left[i] = data[data.rfind(mark) + len(mark) :][-len(mark) + 1 :] if data else b""

    def run(self) -> None:
        """Read until all answers are there, or nothing comes for ten seconds."""
        while any(len(each) < self.answers for each in self.came):
            ready = self.chosen.select(10)
            if not ready:
                break
            for key, _ in ready:
                self._read(key.data)
        for each in self.sockets:
            each.close()

    def delays(self, posted: list[float]) -> list[float]:
        """How long after its post each subscriber had each answer."""
        return [came - sent for each in self.came for came, sent in zip(each, posted, strict=False)]
