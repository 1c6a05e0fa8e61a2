"""``skyband sql`` and ``skyband explain``."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import skyband as sb

pytest.importorskip("typer")

from support.command_line import bad, good, table

BEST = (
    "SELECT {} FROM HOP(TABLE flows, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES) "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY bytes DESC) <= 2"
)


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    path = tmp_path / "flows.parquet"
    pq.write_table(table(), path)
    return path


def test_a_statement_over_files(flows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    good("sql", BEST.format("*"), flows, "-o", out)
    want = sb.sql(BEST.format("*"), flows=table())
    assert pq.read_table(out).equals(want)
    lines = good("sql", BEST.format("bytes AS total, flow"), flows, "-f", "json").splitlines()
    rows = [json.loads(line) for line in lines]
    named = [{"total": row["bytes"], "flow": row["flow"]} for row in want.to_pylist()]
    assert rows == named


def test_a_table_for_people_needs_no_window(flows: Path) -> None:
    shown = good("sql", BEST.format("flow, bytes"), flows)
    assert "window" not in shown
    assert "flow-10" in shown
    assert "window" in good("sql", BEST.format("*"), flows)


def test_a_table_as_a_whole(flows: Path) -> None:
    text = "SELECT flow FROM f QUALIFY ROW_NUMBER() OVER (ORDER BY bytes DESC) = 1"
    assert good("sql", text, flows, "-f", "csv") == '"flow"\n"flow-5"\n'


def test_explain_shows_the_query() -> None:
    shown = good("explain", BEST.format("flow"))
    assert shown.startswith("TopK(")
    assert "keep=('flow',)" in shown
    assert "largest" not in shown.splitlines()[0]  # what is so by default is left out
    assert "5 panes per window" in shown


def test_mistakes_are_one_line(flows: Path) -> None:
    assert "line 1, column 15, at '< 3': Expected table name" in bad(
        "sql", "SELECT * FROM < 3", flows
    )
    assert "nothing is ranked" in bad("explain", "SELECT * FROM flows")
    assert "there is no column 'port'" in bad("sql", BEST.format("port"), flows)
    assert "no file matches" in bad("sql", BEST.format("*"), "nothing.parquet")
