"""docs/comparison.md: what can be run here gives what Skyband gives."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import skyband as sb
from skyband.cli.flows import flows

PAGE = Path(__file__).parent.parent.parent / "docs" / "comparison.md"

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="only a checkout has the page")


def code(section: str) -> str:
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2]
    found = re.search(r"^```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def test_duckdb_gives_the_same_answers() -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = flows(rows=3_000, minutes=15)
    window = sb.TimeWindow("10 minutes", slide="1 minute")
    query = sb.HeavyHitters(k=10, item="host", weight="bytes", time="ts", window=window)
    want: dict[Any, dict[str, int]] = {}
    for row in sb.rank(rows, query).to_pylist():
        want.setdefault(row["window_end"].timestamp(), {})[row["host"]] = row["count"]
    con = duckdb.connect()
    con.execute("SET TimeZone = 'UTC'")
    con.register("flows", rows)
    got: dict[Any, dict[str, int]] = {}
    for end, host, total in con.execute(code("DuckDB")).fetchall():
        got.setdefault(end.timestamp(), {})[host] = int(total)
    assert len(got) == 15
    assert {end: sorted(v.values()) for end, v in got.items()} == {
        end: sorted(v.values()) for end, v in want.items() if end in got
    }


@pytest.mark.parametrize("section", ["Flink", "RisingWave"])
def test_statements_of_others_are_queries(section: str) -> None:
    pytest.importorskip("sqlglot")
    text = code(section).partition("VIEW busiest AS")
    rows = flows(rows=3_000, minutes=15)
    window = sb.TimeWindow("10 minutes", slide="1 minute")
    query = sb.HeavyHitters(k=10, item="host", weight="bytes", time="ts", window=window)
    found = sb.sql(text[2] or text[0], flows=rows)
    assert found.column_names[:4] == ["window_start", "window_end", "host", "total"]
    assert found["total"].to_pylist() == sb.rank(rows, query)["count"].to_pylist()


def test_datasketches_runs() -> None:
    datasketches = pytest.importorskip("datasketches")
    rows = flows(rows=500, minutes=5).to_pylist()
    space: dict[str, Any] = {"datasketches": datasketches, "rows": rows}
    exec(code("DataSketches"), space)
    assert space["sketch"].get_estimate(rows[0]["host"]) > 0


def test_river_runs() -> None:
    sketch = pytest.importorskip("river.sketch")
    rows = flows(rows=500, minutes=5).to_pylist()
    space: dict[str, Any] = {"sketch": sketch, "rows": rows}
    exec(code("river"), space)
    assert len(space["hitters"].most_common(10)) == 10
