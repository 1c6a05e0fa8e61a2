"""From a file to the answer: Parquet, chunked tables, text, small pushes, memory.

Ten million rows of one hour with five columns are in one Parquet file with row groups of a million.
Ours gives the sliding answers, 10 minutes every minute. It is compared with DuckDB on the same file
and the same number of threads: once computing only the panes, which is less work, and once giving
the same sliding answers. `pyarrow` only reads the needed columns. For text files the comparison is
pyarrow's own reading of the whole file. In memory, chunks are compared with one chunk and two
threads with one. Memory is the peak of a separate process that reads a long file once.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

import skyband as sb
from lab.bench import Progress, best_of, compared
from lab.benchmarks.live import pushes, stdin

ROWS = 10_000_000
TEXT_ROWS = 2_000_000
LONG_BYTES = 10 << 30
THREADS = 2
WINDOW = sb.TimeWindow("10 minutes", slide="1 minute")
START = 1_700_000_040_000_000  # a full minute
COMMON: dict[str, Any] = {"k": 10, "time": "ts", "window": WINDOW}
QUERIES: dict[str, sb.Query] = {
    "score top-k": sb.TopK(score="bytes", id="flow", **COMMON),
    "count top-k": sb.HeavyHitters(item="item", **COMMON),
    "weighted text top-k": sb.HeavyHitters(item="host", weight="bytes", **COMMON),
}
COLUMNS = {
    "score top-k": ["ts", "flow", "bytes"],
    "count top-k": ["ts", "item"],
    "weighted text top-k": ["ts", "host", "bytes"],
}
AIMS = {"score top-k": (1.5, 4.0), "count top-k": (1.3, 3.0), "weighted text top-k": (1.2, 3.0)}
PANES = {
    "score top-k": """
        select epoch_us(ts) // 60000000 as pane, max_by(flow, bytes, 10) as flows,
            max(bytes, 10) as best from rows_in group by all""",
    "count top-k": """
        select epoch_us(ts) // 60000000 as pane, item, count(*) as n from rows_in group by all""",
    "weighted text top-k": """
        select epoch_us(ts) // 60000000 as pane, host as item, sum(bytes) as n
        from rows_in group by all""",
}


def run(scale: float, progress: Progress) -> list[dict[str, Any]]:
    rows = max(200_000, int(ROWS * scale))
    with tempfile.TemporaryDirectory(prefix="skyband-bench-") as folder:
        table = hour(rows)
        return [
            *parquet(table, Path(folder), progress),
            *memory_chunks(table, progress),
            *texts(table.slice(0, max(100_000, int(TEXT_ROWS * scale))), Path(folder), progress),
            stdin(Path(folder) / "flows.jsonl", progress),
            *pushes(hour, progress),
            peak(Path(folder), max(64 << 20, int(LONG_BYTES * scale)), progress),
        ]


def hour(rows: int) -> pa.Table:
    """An hour of flows: times ascend, items and hosts follow Zipf's law."""
    rng = np.random.default_rng(13)
    item = np.minimum(rng.zipf(1.2, rows), 5_000) - 1
    names = pa.array([f"host-{i}.example" for i in range(5_000)])
    times = START + np.sort(rng.integers(0, 3_600_000_000, rows))
    return pa.table(
        {
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "flow": rng.integers(0, 1_000_000, rows),
            "bytes": np.floor(rng.random(rows) * 1e6),
            "host": names.take(pa.array(item)),
            "item": item,
        }
    )


# Parquet ------------------------------------------------------------------------------------------


def sliding(name: str) -> str:
    """The answers of all windows in DuckDB, from the panes."""
    steps = f"range(1, 11) steps(step) where pane + step <= {START // 60_000_000 + 60}"
    if name == "score top-k":
        return f"""
            with panes as ({PANES[name]}),
            singles as (select pane, unnest(flows) as flow, unnest(best) as bytes from panes)
            select * from (select pane + step as ending, flow, bytes, row_number() over
                (partition by pane + step order by bytes desc) as place from singles, {steps})
            where place <= 10 order by ending, place"""
    return f"""
        with panes as ({PANES[name]}),
        windows as (select pane + step as ending, item, sum(n) as n from panes, {steps}
            group by all)
        select * from (select *, row_number() over
            (partition by ending order by n desc, item) as place from windows)
        where place <= 10 order by ending, place"""


def parquet(table: pa.Table, folder: Path, progress: Progress) -> list[dict[str, Any]]:
    path = folder / "flows.parquet"
    pq.write_table(table, path, row_group_size=1_000_000)
    connection = duckdb.connect(config={"threads": THREADS})
    connection.execute(f"create view rows_in as select * from '{path}'")
    found = []
    for name, query in QUERIES.items():
        progress(f"Parquet, {name}")
        ours = sb.rank(path, query, threads=THREADS)
        theirs = connection.sql(sliding(name)).to_arrow_table()
        _agree(name, ours, theirs)
        work: dict[str, Callable[[], Any]] = {
            "skyband": lambda q=query: sb.rank(path, q, threads=THREADS),
            "duckdb, panes alone": lambda n=name: connection.sql(PANES[n]).to_arrow_table(),
            "duckdb": lambda n=name: connection.sql(sliding(n)).to_arrow_table(),
            "pyarrow reading": lambda n=name: pq.read_table(path, columns=COLUMNS[n]),
        }
        panes, whole = AIMS[name]
        found.append(
            compared(
                {"group": "From a Parquet file", "case": name},
                dict.fromkeys(work, table.num_rows),
                work,
            )
            | {"target × panes alone": panes, "target × duckdb": whole}
        )
    return found


def _agree(name: str, ours: pa.Table, theirs: pa.Table) -> None:
    """Raise unless DuckDB gave the same scores or counts."""
    mine = ours["bytes" if name == "score top-k" else "count"].to_pylist()
    other = [float(v) for v in theirs["bytes" if name == "score top-k" else "n"].to_pylist()]
    if not np.allclose(mine, other, rtol=1e-9):
        raise AssertionError(f"DuckDB and Skyband disagree about {name}")


# Tables in memory ---------------------------------------------------------------------------------


def memory_chunks(table: pa.Table, progress: Progress) -> list[dict[str, Any]]:
    whole = table.combine_chunks()
    cut = -(-whole.num_rows // 80)
    many = pa.concat_tables([whole.slice(i * cut, cut) for i in range(80)])
    found = []
    for name, query in QUERIES.items():
        progress(f"in memory, {name}")
        sb.rank(whole.slice(0, 100_000), query)
        took = best_of(
            {
                "one": lambda q=query: sb.rank(whole, q, threads=1),
                "80 chunks": lambda q=query: sb.rank(many, q, threads=1),
                "two threads": lambda q=query: sb.rank(whole, q, threads=2),
            },
            repeat=5,
        )
        found.append(
            {"group": "In memory", "case": name, "rows": whole.num_rows}
            | {"one chunk, one thread M rows/s": whole.num_rows / took["one"] / 1e6}
            | {"time of 80 chunks ÷ one": took["80 chunks"] / took["one"]}
            | {"two threads: times as fast": took["one"] / took["two threads"]}
        )
    return found


# Text ---------------------------------------------------------------------------------------------


def texts(table: pa.Table, folder: Path, progress: Progress) -> list[dict[str, Any]]:
    pyarrow.csv.write_csv(table, folder / "flows.csv")
    seconds = table["ts"].cast(pa.timestamp("s", "UTC"), safe=False).cast(pa.timestamp("s"))
    lines = table.set_column(0, "ts", seconds.cast(pa.string()))
    with (folder / "flows.jsonl").open("w", encoding="utf-8") as file:
        for batch in lines.to_batches(max_chunksize=100_000):
            file.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
    readers: dict[str, Callable[[Path], Any]] = {
        "csv": pyarrow.csv.read_csv,
        "jsonl": pyarrow.json.read_json,
    }
    found = []
    for ending, read in readers.items():
        progress(f"text, {ending}")
        path = folder / f"flows.{ending}"
        ours = partial(sb.rank, path, QUERIES["score top-k"])
        ours()
        took = best_of({"ours": ours, "read": partial(read, path)})
        found.append(
            {"group": "Text files, score top-k", "case": ending, "rows": table.num_rows}
            | {"skyband M rows/s": table.num_rows / took["ours"] / 1e6}
            | {"time ÷ pyarrow's reading": took["ours"] / took["read"], "target": 1.3}
        )
    return found


# Memory -------------------------------------------------------------------------------------------

_READ_ONCE = """
import re, sys, skyband as sb
window = sb.TimeWindow("10 minutes", slide="1 minute")
query = sb.TopK(k=10, score="bytes", id="flow", time="ts", window=window)
sb.rank(sys.argv[1], query)
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024)
"""


def peak(folder: Path, size: int, progress: Progress) -> dict[str, Any]:
    """The peak memory of a process that reads one long Parquet file."""
    progress("memory: writing a long file")
    path = folder / "long.parquet"
    block = hour(1_000_000)
    with pq.ParquetWriter(path, block.schema) as writer:
        step = 0
        while not path.exists() or path.stat().st_size < size:
            times = pa.array(np.asarray(block["ts"].cast("int64")) + step * 3_600_000_000)
            writer.write_table(block.set_column(0, "ts", times.cast(pa.timestamp("us", "UTC"))))
            step += 1
    progress("memory: reading it once")
    with _timed() as took:
        done = subprocess.run(
            [sys.executable, "-c", _READ_ONCE, str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
    return {
        "group": "Memory, score top-k from a Parquet file",
        "case": f"{path.stat().st_size / 1e9:.1f} GB, {step} row groups of a million",
        "seconds": took[0],
        "peak MB": int(done.stdout) / 1e6,
        "target MB": 600,
    }


@contextmanager
def _timed() -> Iterator[list[float]]:
    found = [0.0]
    began = time.perf_counter()
    yield found
    found[0] = time.perf_counter() - began
