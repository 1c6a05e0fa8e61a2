"""A ``skyband serve`` process of its own for benchmarks, its memory and processor time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["BOARD", "Served", "flows", "ndjson", "served", "stream"]

SCHEMA = "ts timestamp, flow string, host string, bytes bigint"
SOURCE = f"""
name = "network"
engine = "local"
checkpoint = "state"
history = {{history}}

[source]
kind = "http"
schema = "{SCHEMA}"
"""
BOARD = """
[queries.largest]
kind = "TopK"
k = 10
score = "bytes"
id = "flow"
time = "ts"
window = { size = "10 s", slide = "1 s", lateness = "1 s" }

[queries.heaviest]
kind = "HeavyHitters"
k = 10
item = "host"
weight = "bytes"
time = "ts"
window = { size = "10 s", slide = "1 s", lateness = "1 s" }

[queries.busiest]
kind = "HeavyHitters"
k = 10
item = "host"
time = "ts"
window = { size = "10 s", slide = "1 s", lateness = "1 s" }
"""
"""Three queries: a ranking by score, weights by item, counts by item."""
START = 1_767_600_000_000_000
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Served:
    """A running server."""

    port: int
    pid: int

    def connection(self) -> HTTPConnection:
        """A new connection to it."""
        return HTTPConnection("127.0.0.1", self.port, timeout=60)

    def post(self, connection: HTTPConnection, body: bytes, kind: str) -> None:
        """Post rows and wait until they are safe."""
        connection.request("POST", "/api/rows/rows", body, {"Content-Type": kind})
        reply = connection.getresponse()
        said = reply.read()
        if reply.status != 200:
            raise AssertionError(f"rows were refused: {reply.status} {said!r}")

    @property
    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def memory(self) -> int:
        """Bytes of memory that it holds."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert found is not None
        return int(found[1]) * 1024


@contextmanager
def served(folder: Path, queries: str = BOARD, history: int = 1_000) -> Iterator[Served]:
    """Serve a job until the end of the block."""
    job = folder / "job.toml"
    job.write_text(SOURCE.format(history=history) + queries)
    command = [sys.executable, "-m", "skyband", "serve", str(job), "--port", "0"]
    env = {name: value for name, value in os.environ.items() if name != "SKYBAND_TOKEN"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)  # noqa: S603
    try:
        assert process.stdout is not None
        found = re.search(r":(\d+)/", process.stdout.readline())
        assert found is not None, "the server did not start"
        yield Served(int(found[1]), process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def flows(second: float, seconds: float, rows: int, seed: int = 0) -> pa.Table:
    """Rows of some seconds of a network's traffic, in order of time."""
    rng = np.random.default_rng((seed, int(second * 10) + 100_000))
    first, length = START + int(second * 1e6), int(seconds * 1e6)
    times = np.sort(rng.integers(first, first + length, rows))
    hosts = pa.array([f"host-{i}" for i in range(5_000)])
    names = pa.array([f"flow-{i}" for i in range(50_000)])
    return pa.table(
        {
            "ts": pa.array(times).view(pa.timestamp("us", tz="UTC")),
            "flow": names.take(pa.array(rng.integers(0, len(names), rows))),
            "host": hosts.take(pa.array(rng.zipf(1.2, rows) % len(hosts))),
            "bytes": pa.array(rng.integers(40, 1_500, rows)),
        }
    )


def ndjson(table: pa.Table) -> bytes:
    """A table as JSON lines."""
    times = np.datetime_as_string(table["ts"].to_numpy(), unit="us")
    columns: list[Any] = [times, *(table[name].to_pylist() for name in ("flow", "host", "bytes"))]
    return "".join(
        f'{{"ts":"{ts}Z","flow":"{flow}","host":"{host}","bytes":{size}}}\n'
        for ts, flow, host, size in zip(*columns, strict=True)
    ).encode()


def stream(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())
