"""Local jobs: Parquet against ``sb.rank``, JSON from Kafka, and what a checkpoint costs.

The job of the first table reads the same files as ``sb.rank``, keeps a checkpoint, and writes its
answers to files. Kafka is measured where a broker can be started, as the tests do it (Java, Maven
and confluent-kafka); the broker runs on the same cores as the job, and its time is not part of the
processor time that is shown. The time of a run includes its start. The last table runs a job with a
large state and measures its snapshots, and the lines that it writes before each batch.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb
from lab.bench import Progress, best_of
from lab.bench.kafka import broker, send
from skyband.jobs import parse_job
from skyband.jobs.local.local_job import LocalJob, run_local
from skyband.query import KINDS

ROWS = 10_000_000
FILES = 10
RECORDS = 2_000_000
WINDOW = {"size": "10 minutes", "slide": "1 minute"}
QUERIES: dict[str, dict[str, Any]] = {
    "score": {"kind": "TopK", "k": 10, "score": "bytes", "id": "flow", "time": "ts"},
    "count": {"kind": "HeavyHitters", "k": 10, "item": "flow", "time": "ts"},
}


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    found = []
    rows = max(100_000, int(ROWS * scale))
    with tempfile.TemporaryDirectory(prefix="skyband-") as name:
        folder = Path(name)
        _write(folder / "in", rows)
        for query in QUERIES:
            progress(f"Parquet, {query}")
            found.append(_parquet(folder, query, rows))
        progress("checkpoint")
        found.append(_checkpoint(folder, rows))
        progress("Kafka")
        found.append(_kafka(folder, max(20_000, int(RECORDS * scale))))
    return found


def _write(folder: Path, rows: int) -> None:
    """An hour of flows in some files."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    for i in range(FILES):
        count, length = rows // FILES, 3_600_000_000 // FILES
        times = np.sort(rng.integers(i * length, (i + 1) * length, count)) + 1_767_600_000_000_000
        table = pa.table(
            {
                "ts": pa.array(times).view(pa.timestamp("us", tz="UTC")),
                "flow": rng.integers(0, 1_000_000, count),
                "bytes": rng.integers(40, 1_500, count),
                "note": pa.array(["nobody reads this"] * count).dictionary_encode(),
            }
        )
        pq.write_table(table, folder / f"{i:02}.parquet", row_group_size=1_000_000)


def _job(folder: Path, number: int, query: dict[str, Any], source: dict[str, Any]) -> Any:
    return parse_job(
        {
            "name": "bench",
            "engine": "local",
            "checkpoint": str(folder / f"state-{number}"),
            "source": source,
            "query": {"window": WINDOW} | query,
            "sink": {"kind": "files", "path": str(folder / f"out-{number}")},
            "trigger": {"once": True, "close": True},
        }
    )


_numbers = iter(range(1_000_000))


def _parquet(folder: Path, name: str, rows: int) -> dict[str, Any]:
    source = {"kind": "files", "path": str(folder / "in")}
    settings = {key: value for key, value in QUERIES[name].items() if key != "kind"}
    query = KINDS[QUERIES[name]["kind"]](**settings, window=sb.TimeWindow(**WINDOW))

    def job() -> int:
        number = next(_numbers)
        run_local(_job(folder, number, QUERIES[name], source))
        return number

    number, wanted = job(), sb.rank(folder / "in", query)
    got = pq.read_table(folder / f"out-{number}")
    got = got.sort_by([("window_end", "ascending"), ("rank", "ascending")])
    if got.to_pylist() != wanted.to_pylist():
        raise AssertionError(f"the job answers {name} differently")
    seconds = best_of({"job": job, "rank": lambda: sb.rank(folder / "in", query)})
    return {
        "group": "Parquet",
        "case": name,
        "rows": rows,
        "job M rows/s": rows / seconds["job"] / 1e6,
        "rank M rows/s": rows / seconds["rank"] / 1e6,
        "times rank": seconds["job"] / seconds["rank"],
        "target": 1.2,
    }


def _checkpoint(folder: Path, rows: int) -> dict[str, Any]:
    """A job whose state holds about a million items."""
    source = {"kind": "files", "path": str(folder / "in")}
    running = LocalJob(_job(folder, next(_numbers), QUERIES["count"], source))
    entered, spent = running.checkpoint.enter, [0.0]

    def enter(batch: Any) -> None:
        began = time.perf_counter()
        entered(batch)
        spent[0] += time.perf_counter() - began

    running.checkpoint.enter = enter  # type: ignore[method-assign]
    costs, sizes = [], []
    began = time.perf_counter()
    saving = 0.0
    for _ in running.steps(lambda: False):
        before = running.progress.saving
        running._save()
        costs.append(running.progress.saving - before)
        saving += costs[-1]
        sizes.append((Path(running.job.checkpoint) / "snapshot").stat().st_size)
    took = time.perf_counter() - began - saving
    cost = max(costs)
    return {
        "group": "checkpoint",
        "case": "count, a million items",
        "rows": rows,
        "snapshot MB": max(sizes) / 1e6,
        "snapshot s": cost,
        "share of time, every 10 s": cost / max(10.0, 20.0 * cost),
        "share of time, lines before batches": spent[0] / took,
        "target": 0.05,
    }


def _kafka(folder: Path, records: int) -> dict[str, Any]:
    row = {"group": "Kafka", "case": "JSON records", "rows": records, "target": 1.0}
    with ExitStack() as stack:
        try:
            servers = stack.enter_context(broker(folder / "kafka"))
        except Exception as problem:  # noqa: BLE001  (no broker, so there is nothing to measure)
            return row | {"M records/s": f"not measured: {problem}"}
        send(servers, "bench", _records(records))
        source = {"kind": "kafka", "servers": servers, "topic": "bench"}
        source |= {"schema": "ts bigint, flow string, bytes bigint"}
        query = QUERIES["score"] | {"window": {"size": 600_000, "slide": 60_000}}
        seconds = []
        for _ in range(3):  # the first one compiles
            job = _job(folder, next(_numbers), query, source)
            began, cpu = time.perf_counter(), time.process_time()
            done = run_local(job)
            seconds.append((time.perf_counter() - began, time.process_time() - cpu))
            if done.rows != records:
                raise AssertionError(f"{done.rows} of {records} records were read")
    best, processor = min(seconds[1:])
    return row | {
        "M records/s": records / best / 1e6,
        "M records per s of processor": records / processor / 1e6,
    }


def _records(count: int) -> Iterator[bytes]:
    rng = np.random.default_rng(2)
    flows, sizes = rng.integers(0, 100_000, count), rng.integers(40, 1_500, count)
    for i in range(count):
        text = {
            "ts": int(i * 3_600_000 / count),
            "flow": f"f{flows[i]}",
            "bytes": int(sizes[i]),
        }
        yield json.dumps(text).encode()
