"""``sb.sql`` beside DuckDB, which runs the same statement over materialised windows."""

from __future__ import annotations

import contextlib
import random
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

import skyband as sb
from support import sql_cases


def in_duckdb(text: str, windowed: pa.Table) -> pa.Table:
    with pytest.importorskip("duckdb").connect() as connection:
        connection.register("windowed", windowed)
        return connection.sql(text).to_arrow_table()


def check(rng: random.Random) -> int:
    """Compare one statement over one table; the number of rows of the answer."""
    case = sql_cases.drawn(rng)
    table = sql_cases.flows(rng, rng.choice([0, 1, 8, 40]))
    ours = sb.sql(case.statement, flows=table)
    theirs = in_duckdb(case.elsewhere, sql_cases.windowed(table, case))
    problem = sql_cases.difference(case, ours, theirs)
    assert problem is None, f"{case.statement}\n{case.elsewhere}\n{table.to_pylist()}\n{problem}"
    return int(ours.num_rows)


@given(st.randoms(use_true_random=False))
@given_settings(max_examples=100)
def test_a_statement_means_what_duckdb_says(rng: random.Random) -> None:
    check(rng)


def test_statements_have_answers() -> None:
    assert sum(check(random.Random(seed)) > 3 for seed in range(40)) > 10


WORDS = (
    "( ) , * - = < AND OR NOT IN IS NULL 3 'a' x AS BY OVER COUNT MAX LIMIT JOIN HAVING :: ; \" --"
)


@given(st.randoms(use_true_random=False))
@given_settings(max_examples=200)
def test_a_broken_statement_is_read_or_refused(rng: random.Random) -> None:
    words = re.findall(r"'[^']*'|\w+|\S|\s+", sql_cases.drawn(rng).statement)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(words))
        words[at : at + rng.randrange(2)] = rng.choice([[], [f" {rng.choice(WORDS.split())} "]])
    with contextlib.suppress(sb.SkybandError):
        sb.sql.query("".join(words))


SKYLINE = """
    SELECT * FROM windowed AS a WHERE NOT EXISTS (
        SELECT 1 FROM windowed AS b WHERE a.window_end = b.window_end AND a.ok = b.ok
        AND b.bytes <= a.bytes AND b.x * 2 >= a.x * 2 AND (b.bytes < a.bytes OR b.x > a.x)
    )"""


@pytest.mark.parametrize("seed", range(10))
def test_a_skyline_is_what_nothing_dominates(seed: int) -> None:
    rng = random.Random(seed)
    table = sql_cases.flows(rng, 40)
    case = sql_cases.Case("", "", slide=5, size=15)
    text = "SELECT * FROM HOP(flows, ts, 5, 15) SKYLINE OF bytes MIN, x * 2 MAX, ok DIFF"
    theirs = in_duckdb(SKYLINE, sql_cases.windowed(table, case))
    ours = sb.sql(text, flows=table)
    assert ours.column_names == theirs.column_names
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))
