"""Rows as they come: small pushes to a Monitor, and JSON lines on standard input."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import skyband as sb
from lab.bench import Progress

START = 1_700_000_040_000_000 + 3_600_000_000  # the hour after that of the benchmark's rows
WINDOW = sb.TimeWindow("10 minutes", slide="1 minute")
COMMON: dict[str, Any] = {"k": 10, "time": "ts", "window": WINDOW}
QUERIES: dict[str, sb.Query] = {
    "score top-k": sb.TopK(score="bytes", id="flow", **COMMON),
    "score top-k, count window": sb.TopK(
        k=10, score="bytes", id="flow", window=sb.CountWindow(100_000, slide=1_000)
    ),
    "count top-k": sb.HeavyHitters(item="item", **COMMON),
    "uncertain top-k": sb.UncertainTopK(score="bytes", probability="p", id="flow", **COMMON),
    "skyline": sb.Skyline(
        prefer={"bytes": "max", "item": "min"}, id="flow", time="ts", window=WINDOW
    ),
}  # fmt: skip


# Pushes -------------------------------------------------------------------------------------------


def pushes(hour: Callable[[int], pa.Table], progress: Progress) -> list[dict[str, Any]]:
    """The times of small pushes, from a table of so many rows that comes before them."""
    table = hour(200_000)
    odds = np.random.default_rng(5).uniform(0.05, 0.95, table.num_rows)
    table = table.append_column("p", pa.array(odds))
    found = []
    for name, query in QUERIES.items():
        for rows in (1, 100):
            progress(f"pushes of {rows}, {name}")
            inside, ending, read = push_times(query, table, rows)
            found.append(
                {"group": "Pushes to a Monitor", "case": f"{name}, {rows} row{'s' * (rows > 1)}"}
                | {"µs": inside * 1e6, "target": 80}
                | {"µs where a window ends": ending * 1e6, "target at an end": 150}
                | {"with its table read": read * 1e6}
            )
    return found


def push_times(query: sb.Query, table: pa.Table, rows: int) -> tuple[float, float, float]:
    """The median processor time of a push that ends no window, and of one that does.

    The third is that of the latter together with reading the table of its answer.
    """
    monitor = sb.Monitor(query)
    monitor.push(table)
    times: dict[bool, list[float]] = {True: [], False: []}
    read: list[float] = []
    counting = isinstance(query.window, sb.CountWindow)
    # So that some pushes end a window: every 30th, or every tenth of a count window.
    count = 400 if rows > 1 or not counting else 6_000
    for i in range(count):
        ts = pa.array(START + i * 2_000_000 + np.arange(rows), pa.timestamp("us", "UTC"))
        batch = table.slice(i * rows, rows).set_column(0, "ts", ts).combine_chunks()
        began = time.thread_time()
        answers = monitor.push(batch)
        pushed = time.thread_time()
        times[bool(answers)].append(pushed - began)
        if answers:
            _ = answers[-1].table
            read.append(time.thread_time() - began)
    inside, ending = float(np.median(times[False])), float(np.median(times[True]))
    return inside, ending, float(np.median(read))


# Standard input -----------------------------------------------------------------------------------


def stdin(path: Path, progress: Progress) -> dict[str, Any]:
    """JSON lines through ``skyband topk -``, whose answers are read while rows are written.

    The time is that of the last three quarters of the rows.
    """
    progress("standard input")
    lines = path.read_bytes()
    begun = len(lines) // 4
    command = [sys.executable, "-m", "skyband", "topk", "-", "-k", "10", "--score", "bytes"]
    command += ["--id", "flow", "--time", "ts", "--window", "10 minutes", "--slide", "1 minute"]
    process = subprocess.Popen(
        [*command, "--watch", "--format", "json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    written = [0.0, 0.0]

    def write() -> None:
        assert process.stdin is not None
        process.stdin.write(lines[:begun])  # meanwhile the process starts and loads its kernels
        written[0] = time.perf_counter()
        process.stdin.write(lines[begun:])
        written[1] = time.perf_counter()
        process.stdin.close()

    writer = threading.Thread(target=write)
    writer.start()
    came = [time.perf_counter() for _ in process.stdout]
    writer.join()
    process.wait()
    ended = time.perf_counter()
    rows = lines[begun:].count(b"\n")
    early = sum(moment < written[1] for moment in came)
    return {
        "group": "JSON lines on standard input, score top-k",
        "case": f"{lines.count(bytes([10])):,} rows, {len(came):,} lines of answers",
        "M rows/s": rows / (ended - written[0]) / 1e6,
        "target": 1.0,
        "answers before the last row was written": early / max(len(came), 1),
    }
