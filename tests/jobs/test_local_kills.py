"""Local jobs killed at random moments: their sinks hold every window once.

The same from topic to topic of a real broker is in ``test_local_kafka.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.local_jobs import (
    QUERIES,
    corrected,
    delayed,
    job,
    last_revisions,
    out,
    rows,
    wanted,
    written,
)
from support.local_kills import until_killed

TIMES = [3, pytest.param(100, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]


@pytest.mark.parametrize("times", TIMES)
def test_files_hold_each_window_once(tmp_path: Path, times: int) -> None:
    parts: list[Path] = []

    def part(number: int) -> dict[str, Any]:
        parts.append(tmp_path / str(number))
        parts[-1].mkdir()
        written(parts[-1], rows(15, seed=number))
        return job(parts[-1])

    until_killed(times, times, part)
    for folder in parts:
        for name in QUERIES:
            assert out(folder, name) == wanted(folder, name)


@pytest.mark.parametrize("times", TIMES)
def test_postgres_holds_each_window_once(tmp_path: Path, dsn: str, times: int) -> None:
    import psycopg

    parts: list[Path] = []

    def part(number: int) -> dict[str, Any]:
        parts.append(tmp_path / str(number))
        parts[-1].mkdir()
        written(parts[-1], rows(15, seed=number))
        told = job(parts[-1])
        for name, query in told["queries"].items():
            table = f"kills_{times}_{number}_{name}"
            query["sink"] = {"kind": "postgres", "table": table, "dsn": dsn}
        return told

    until_killed(times, times, part)
    with psycopg.connect(dsn) as connection:
        for number, folder in enumerate(parts):
            for name in QUERIES:
                table = f"kills_{times}_{number}_{name}"
                query = f"SELECT * FROM {table} ORDER BY window_end, rank"
                found = connection.execute(query).fetchall()
                assert found == [tuple(row.values()) for row in wanted(folder, name)]


@pytest.mark.parametrize("times", TIMES)
def test_files_hold_each_revision_once(tmp_path: Path, times: int) -> None:
    parts: list[Path] = []

    def part(number: int) -> dict[str, Any]:
        parts.append(tmp_path / str(number))
        parts[-1].mkdir()
        written(parts[-1], delayed(rows(10, seed=number), 2_000))
        return corrected(job(parts[-1]))

    until_killed(times, times, part)
    for folder in parts:
        for name in QUERIES:
            table = pq.read_table(folder / "out" / name)
            keys = [table[column].to_pylist() for column in ("window_end", "revision", "rank")]
            assert len(set(zip(*keys, strict=True))) == table.num_rows
            assert max(keys[1]) > 0
            assert last_revisions(table) == wanted(folder, name)


@pytest.mark.parametrize("times", TIMES)
def test_postgres_holds_the_last_revision(tmp_path: Path, dsn: str, times: int) -> None:
    import psycopg

    parts: list[Path] = []

    def part(number: int) -> dict[str, Any]:
        parts.append(tmp_path / str(number))
        parts[-1].mkdir()
        written(parts[-1], delayed(rows(10, seed=number), 2_000))
        told = corrected(job(parts[-1]))
        for name, query in told["queries"].items():
            table = f"revised_{times}_{number}_{name}"
            query["sink"] = {"kind": "postgres", "table": table, "dsn": dsn}
        return told

    until_killed(times, times, part)
    with psycopg.connect(dsn) as connection:
        for number, folder in enumerate(parts):
            for name in QUERIES:
                cursor = connection.execute(f"SELECT * FROM revised_{times}_{number}_{name}")
                names = [column.name for column in cursor.description or ()]
                found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
                assert last_revisions(pa.Table.from_pylist(found)) == wanted(folder, name)
                ends = [(row["window_end"], row["rank"]) for row in found]
                assert len(set(ends)) == len(ends)
