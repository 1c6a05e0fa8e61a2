"""Late rows as dead letters: each one whole, once, with how late it is for which query."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import explain, parse_job, run_job
from skyband.jobs.local.local_job import LocalJob

WINDOWS = {
    "busiest": {"size": 30, "slide": 10, "lateness": 5},
    "talkers": {"size": 25, "slide": 10, "lateness": 20},
}


def tables() -> list[pa.Table]:
    """Rows that come up to 60 late, some of them bad, some of no interest to one query."""
    rng = np.random.default_rng(3)
    found = []
    for number in range(8):
        at = 1_000 + number * 40 + rng.integers(0, 40, 25)
        at -= np.where(rng.random(25) < 0.3, rng.integers(0, 60, 25), 0)
        score = rng.random(25)
        columns = {
            "ts": pa.array(at),
            "id": pa.array([f"{number}/{i}" for i in range(25)]),
            "g": pa.array(rng.choice(["x", "y"], 25)),
            "score": pa.array(score, mask=score < 0.1),
            "note": pa.array([f"whole {i}" for i in range(25)]),
        }
        found.append(pa.table(columns))
    return found


def end_of_pane(time: int, size: int, slide: int) -> int:
    """The first cut after a time: cuts are the edges of windows."""
    return min(-(-(time + 1 + rest) // slide) * slide - rest for rest in (0, size % slide))


def expected(batches: list[pa.Table]) -> Counter[tuple[str, str]]:
    """The id of each row that is late or bad, and the reason: by the definition, row by row."""
    found: dict[str, list[str]] = {}
    for name, window in WINDOWS.items():
        watermark = 0
        for batch in batches:
            for row in batch.to_pylist():
                counts = name == "busiest" or row["g"] == "x"
                ends = end_of_pane(row["ts"], window["size"], window["slide"])
                if name == "busiest" and row["score"] is None:
                    why = "busiest: column 'score': the score is null (None)"
                    found.setdefault(row["id"], []).insert(0, why)
                elif counts and ends <= watermark:
                    why = f"late by {watermark - row['ts']} for query {name}"
                    found.setdefault(row["id"], []).append(why)
            watermark = max(watermark, max(batch["ts"].to_pylist()) - window["lateness"])
    return Counter((id_, "; ".join(reasons)) for id_, reasons in found.items())


def job(folder: Path, **changes: Any) -> Any:
    queries: dict[str, dict[str, Any]] = {
        "busiest": {"kind": "TopK", "k": 2, "score": "score", "id": "id", "time": "ts"},
        "talkers": {"kind": "HeavyHitters", "k": 2, "item": "id", "time": "ts"},
    }
    queries["talkers"]["where"] = {"g": "x"}
    for name, query in queries.items():
        query["window"] = WINDOWS[name]
        query["sink"] = {"kind": "files", "path": str(folder / name)}
    told: dict[str, Any] = {
        "name": "network",
        "engine": "local",
        "checkpoint": str(folder / "state"),
        "late": "letters",
        "source": {"kind": "files", "path": str(folder / "in"), "files_per_batch": 1},
        "queries": queries,
        "dead_letters": {"kind": "files", "path": str(folder / "bad")},
        "trigger": {"once": True},
    }
    return parse_job({key: each for key, each in (told | changes).items() if each is not None})


def written(folder: Path, count: int = 8) -> list[pa.Table]:
    (folder / "in").mkdir()
    for i, table in enumerate(found := tables()[:count]):
        pq.write_table(table, folder / "in" / f"{i}.parquet")
        os.utime(folder / "in" / f"{i}.parquet", (1_000 + i,) * 2)  # Spark reads the oldest first
    return found


def check(folder: Path, batches: list[pa.Table]) -> None:
    whole = {row["id"]: row for batch in batches for row in batch.to_pylist()}
    found: Counter[tuple[str, str]] = Counter()
    for path in sorted((folder / "bad").glob("*.json")):
        for line in path.read_text().splitlines():
            letter = json.loads(line)
            row = json.loads(letter["record"])
            assert row == whole[row["id"]]
            assert letter["file"].endswith(f"{row['id'][0]}.parquet")
            found[row["id"], letter["reason"]] += 1
    assert found == expected(batches)
    assert sum("late by" in reason for _, reason in found) > 10
    assert any("; late" in reason for _, reason in found)


@pytest.mark.parametrize("kill_after", [None, 2, 5])
def test_each_late_row_is_a_letter(tmp_path: Path, kill_after: int | None) -> None:
    batches = written(tmp_path)
    told = job(tmp_path)
    assert "late   dead letters to files" in explain(told)
    if kill_after is not None:
        running = LocalJob(told)
        running._save = lambda: None  # type: ignore[method-assign]
        steps = running.steps(lambda: False)
        for _ in range(kill_after):
            next(steps)
        steps.close()
    run_job(told)
    check(tmp_path, batches)


@pytest.mark.spark
def test_on_spark_each_late_row_is_a_letter_too(spark: Any, tmp_path: Path) -> None:
    batches = written(tmp_path, 5)
    run_job(job(tmp_path, engine="spark", shards=1), spark)
    check(tmp_path, batches)


def test_bad_rows_may_stop_a_job_whose_late_rows_are_letters(tmp_path: Path) -> None:
    """And times are told in words where they are times."""
    (tmp_path / "in").mkdir()
    told = {"kind": "TopK", "k": 1, "score": "score", "id": "id", "time": "ts"}
    told |= {"window": {"size": "1 minute", "lateness": "5 minutes"}}
    for minute in (10, 2):
        times = pa.array([minute * 60_000_000], pa.timestamp("us", "UTC"))
        table = pa.table({"ts": times, "id": ["a"], "g": ["x"], "score": [1.0]})
        pq.write_table(table, tmp_path / "in" / f"{minute}.parquet")
        run_job(job(tmp_path, queries=None, query=told, on_bad="raise"))
    (path,) = (tmp_path / "bad").glob("*.json")
    assert json.loads(path.read_text())["reason"] == "late by 3 minutes"


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(sb.QueryError, match=r"late must be .*count.*letters"):
        job(tmp_path, late="keep")
    with pytest.raises(sb.QueryError, match=r"\[dead_letters\], which is missing"):
        job(tmp_path, dead_letters=None)
