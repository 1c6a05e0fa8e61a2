"""A job of two queries over files of rows, which tests of local jobs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import skyband as sb

WINDOW: dict[str, Any] = {"size": 300, "slide": 60}
QUERIES: dict[str, dict[str, Any]] = {
    "busiest": {"kind": "TopK", "k": 2, "score": "bytes", "id": "flow", "time": "ts"},
    "talkers": {"kind": "HeavyHitters", "k": 3, "item": "flow", "time": "ts"},
}


def rows(hours: int, each: int = 400, seed: int = 5) -> list[pa.Table]:
    """One table per hour, in the order of time."""
    rng = np.random.default_rng(seed)
    return [
        pa.table(
            {
                "ts": np.sort(rng.integers(hour * 3600, (hour + 1) * 3600, each)),
                "flow": rng.integers(0, 20, each),
                "bytes": rng.integers(0, 10_000, each),
            }
        )
        for hour in range(hours)
    ]


def written(folder: Path, tables: list[pa.Table], first: int = 0) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    for i, table in enumerate(tables, first):
        pq.write_table(table, folder / "in" / f"{i:03}.parquet")
    return folder / "in"


def job(folder: Path, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": "network",
        "engine": "local",
        "checkpoint": str(folder / "state"),
        "source": {"kind": "files", "path": str(folder / "in"), "rows_per_batch": 150},
        "queries": {
            name: query
            | {"window": WINDOW, "sink": {"kind": "files", "path": str(folder / "out" / name)}}
            for name, query in QUERIES.items()
        },
        "trigger": {"once": True, "close": True},
    }
    return told | changes


def query_of(name: str) -> sb.query.Query:
    told = QUERIES[name] | {"window": sb.TimeWindow(**WINDOW)}
    return sb.query.KINDS[told.pop("kind")](**told)


def out(folder: Path, name: str) -> list[dict[str, Any]]:
    found = pq.read_table(folder / "out" / name)
    ordered = found.sort_by([("window_end", "ascending"), ("rank", "ascending")])
    return list(ordered.to_pylist())


def wanted(folder: Path, name: str) -> list[dict[str, Any]]:
    return list(sb.rank(folder / "in", query_of(name)).to_pylist())
