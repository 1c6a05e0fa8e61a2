"""A day of rows through ``skyband serve`` in some minutes: its memory must stay flat.

Every request brings one minute of the day: new flows, hosts that come and go, groups that appear
once. Windows, groups, kept answers and remembered keys are all bounded, so from the time when the
kept answers are complete, memory must not grow any more. The journal grows until a snapshot
replaces it, at 256 MB. Subscribers come and go meanwhile.
"""

from __future__ import annotations

import tempfile
import time
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lab.bench import Progress
from lab.bench.server import flows, served, stream

MINUTES = 1_440
POINTS = 10
SETTLED = 3  # of the points: windows, groups and kept answers have long been complete
BOARD = """
[queries.largest]
kind = "TopK"
k = 20
score = "bytes"
id = "flow"
time = "ts"
window = { size = "10 minutes", slide = "1 minute" }

[queries.hosts]
kind = "HeavyHitters"
k = 20
item = "flow"
weight = "bytes"
time = "ts"
window = { size = "30 minutes", slide = "1 minute" }

[queries.groups]
kind = "TopK"
k = 2
score = "bytes"
id = "flow"
by = ["host"]
time = "ts"
window = { size = "5 minutes", slide = "1 minute" }
"""


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(200, int(5_000 * scale))
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="skyband-") as name,
        served(Path(name), BOARD, history=60) as server,
    ):
        connection, began = server.connection(), time.perf_counter()
        for minute in range(MINUTES):
            _post(connection, minute, stream(_minute(minute, rows)))
            if minute % 10 == 0:  # a page is opened and closed again
                page = server.connection()
                page.request("GET", "/api/events")
                page.getresponse().read(100)
                page.close()
            if minute == 0 or (minute + 1) % (MINUTES // POINTS) == 0:
                hour = (minute + 1) / 60 if minute else 0
                progress(f"hour {hour:g}: {server.memory / 1e6:.0f} MB")
                found.append(
                    {
                        "case": f"hour {hour:g}" if minute else "start",
                        "rows": rows * (minute + 1),
                        "memory MB": server.memory / 1e6,
                        "disk MB": _size(Path(name), "*"),
                        "journal MB": _size(Path(name), "journal-*"),
                        "snapshot MB": _size(Path(name), "snapshot-*"),
                        "open files": len(list(Path(f"/proc/{server.pid}/fd").iterdir())),
                        "processor s": server.cpu,
                        "seconds": time.perf_counter() - began,
                    }
                )
    settled = found[SETTLED]["memory MB"]
    for each in found:
        each["times hour 7.2"] = each["memory MB"] / settled
    return found


def _post(connection: HTTPConnection, minute: int, body: bytes) -> None:
    headers = {
        "Content-Type": "application/vnd.apache.arrow.stream",
        "Idempotency-Key": f"minute-{minute}",
    }
    connection.request("POST", "/api/rows/rows", body, headers)
    reply = connection.getresponse()
    said = reply.read()
    if reply.status != 200:
        raise AssertionError(f"minute {minute}: {reply.status} {said!r}")


def _size(folder: Path, names: str) -> float:
    """Megabytes of these files; one may be replaced while they are counted."""
    total = 0
    for each in folder.rglob(names):
        with suppress(FileNotFoundError):
            total += each.stat().st_size
    return total / 1e6


def _minute(minute: int, rows: int) -> pa.Table:
    """The rows of a minute: no flow comes again after it, and hosts come and go over the day."""
    table = flows(60.0 * minute, 60.0, rows, seed=9)
    rng = np.random.default_rng((5, minute))
    names = pa.array([f"flow-{minute}-{i}" for i in rng.integers(0, rows, rows)])
    hosts = pa.array([f"host-{minute // 20}-{i}" for i in rng.integers(0, 300, rows)])
    table = table.set_column(1, "flow", names)
    return table.set_column(2, "host", hosts)
