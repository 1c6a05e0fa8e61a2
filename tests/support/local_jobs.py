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


def delayed(tables: list[pa.Table], most: int, seed: int = 5) -> list[pa.Table]:
    """The same rows, as they come if each is late by up to ``most`` seconds."""
    whole = pa.concat_tables(tables)
    late = np.random.default_rng(seed).integers(0, most, len(whole))
    whole = whole.take(np.argsort(whole["ts"].to_numpy() + late, kind="stable"))
    each = -(-len(whole) // len(tables))
    return [whole.slice(at, each) for at in range(0, len(whole), each)]


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


def corrected(job: dict[str, Any]) -> dict[str, Any]:
    """The job with windows that late rows correct."""
    for query in job["queries"].values():
        query["window"] = WINDOW | {"revise": 1_000_000}
    return job


def last_revisions(found: pa.Table) -> list[dict[str, Any]]:
    """The rows of each window in its last revision, without it, in order."""
    last: dict[int, int] = {}
    for end, revision in zip(
        *(found[n].to_pylist() for n in ("window_end", "revision")), strict=True
    ):
        last[end] = max(revision, last.get(end, 0))
    ordered = found.sort_by([("window_end", "ascending"), ("rank", "ascending")]).to_pylist()
    kept = [row for row in ordered if row["revision"] == last[row["window_end"]]]
    return [{n: value for n, value in row.items() if n != "revision"} for row in kept]


def out(folder: Path, name: str) -> list[dict[str, Any]]:
    found = pq.read_table(folder / "out" / name)
    ordered = found.sort_by([("window_end", "ascending"), ("rank", "ascending")])
    return list(ordered.to_pylist())


def wanted(folder: Path, name: str) -> list[dict[str, Any]]:
    return list(sb.rank(folder / "in", query_of(name)).to_pylist())
