"""A query of a job file as a statement."""

from __future__ import annotations

from pathlib import Path

import pytest

import skyband as sb
from skyband.jobs import parse_job, run_job
from support.local_jobs import QUERIES, job, out, rows, wanted, written

OVER = "OVER (PARTITION BY window_start, window_end ORDER BY {} DESC)"
STATEMENTS = {
    "busiest": "SELECT window_start, window_end, rank, flow, bytes, ts FROM (SELECT *, ROW_NUMBER()"
    f"{OVER.format('bytes')} AS rank FROM HOP(flows, ts, 60, 300)) WHERE rank <= 2",
    "talkers": "SELECT window_start, window_end, flow, COUNT(*) AS count FROM HOP(flows, ts, 60, "
    "300) GROUP BY window_start, window_end, flow QUALIFY ROW_NUMBER() "
    f"{OVER.format('count')} <= 3",
}


def test_statements_of_a_job_are_its_queries(tmp_path: Path) -> None:
    written(tmp_path, rows(2))
    told = job(tmp_path)
    for name, text in STATEMENTS.items():
        told["queries"][name] = {"sql": text, "sink": told["queries"][name]["sink"]}
    run_job(parse_job(told))
    for name in QUERIES:
        want = [
            {column: row[column] for column in row if column not in ("flow", "ts")}
            for row in wanted(tmp_path, name)
        ]
        got = [{column: row[column] for column in want[0]} for row in out(tmp_path, name)]
        assert got == want


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            STATEMENTS["busiest"].replace(
                "SELECT window_start, window_end, rank, flow, bytes, ts", "SELECT *"
            ),
            r"\[query\] sql: .*name them instead",
        ),
        (STATEMENTS["busiest"].replace("bytes, ts", "bytes AS b"), "'b' is called 'bytes'"),
        ("SELECT x FROM t QUALIFY ROW_NUMBER() OVER (ORDER BY x) < 9", "a job has no end"),
        ("SELECT x FROM t", r"\[query\] SQL, line 1, column 8, .* nothing is ranked"),
    ],
)
def test_what_a_job_refuses(tmp_path: Path, text: str, said: str) -> None:
    told = job(tmp_path)
    sink = told.pop("queries")["busiest"]["sink"]
    with pytest.raises(sb.QueryError, match=said):
        parse_job(told | {"query": {"sql": text}, "sink": sink})


def test_a_statement_says_all_of_its_query(tmp_path: Path) -> None:
    told = job(tmp_path)
    told["queries"]["busiest"] |= {"sql": STATEMENTS["busiest"]}
    with pytest.raises(sb.QueryError, match="leave out 'kind': sql defines the whole query"):
        parse_job(told)
