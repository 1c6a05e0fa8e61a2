"""``skyband board``: the queries of a job file in one view."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import load_board

pytest.importorskip("typer")

from support.command_line import TERMINAL, bad, good, run, table

JOB = """
[source]
kind = "files"
path = "flows.parquet"

[queries.busiest]
kind = "TopK"
k = 2
score = "bytes"
id = "flow"
time = "ts"
window = { size = "5 minutes", slide = "1 minute" }

[queries.widest]
kind = "TopK"
k = 3
score = "bytes"
id = "flow"
time = "ts"
window = { size = "10 minutes", slide = "2 minutes" }

[queries.services]
kind = "HeavyHitters"
k = 1
item = "service"
time = "ts"
window = { size = "6 minutes" }
sink = { kind = "console" }
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    pq.write_table(table(), tmp_path / "flows.parquet")
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path / "job.toml"


def test_every_answer_in_one_line_each(job: Path) -> None:
    lines = good("board", job, "--watch").splitlines()
    want = [answer.name for answer in sb.watch(table(), load_board(job).queries)]
    assert [line.split()[0] for line in lines] == want
    assert set(want) == {"busiest", "widest", "services"}
    assert len(good("board", job, "--watch", "--limit", 2).splitlines()) == 2


def test_the_last_answers_and_the_live_view(job: Path) -> None:
    for words in ((), ("--watch", "--pace", 0)):
        shown = run("board", job, *words, env=TERMINAL).stdout
        assert all(name in shown for name in ("busiest", "widest", "services"))
        assert "flow-" in shown
        assert "dns" in shown


def test_explain_says_who_shares(job: Path) -> None:
    told = good("board", job, "--explain")
    assert told.strip() == sb.explain(load_board(job).queries)
    assert "keeps its own state: no other query differs from it only in k" in told
    assert "services: HeavyHitters by exact" in told


def test_a_job_of_one_query(job: Path) -> None:
    job.write_text(JOB.partition("[queries.widest]")[0].replace("queries.busiest", "query"))
    assert good("board", job, "--watch").startswith("job  20")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('kind = "files"\npath', 'kind = "socket"\nhost = "localhost"\nport = 9\nfile', "file"),
        ("[queries.", "[nothing.", "quer"),
        ('score = "bytes"', 'score = "bites"', "bites"),
        ("[source]", "[source", "TOML"),
    ],
)
def test_mistakes(job: Path, old: str, new: str, told: str) -> None:
    job.write_text(JOB.replace(old, new))
    assert told in bad("board", job)


def test_why_a_query_keeps_its_own_state() -> None:
    window = sb.TimeWindow(10)
    board: dict[str, sb.Query] = {
        "arrivals": sb.TopK(k=1, score="x", window=sb.CountWindow(10, slide=2)),
        "small": sb.TopK(k=1, score="x", time="t", window=window, algorithm="mintopk"),
        "odd": sb.Skyline(prefer={"x": "min", "y": "max"}, time="t", window=sb.TimeWindow(9, 4)),
        "even": sb.Skyline(prefer={"x": "min", "y": "max"}, time="t", window=sb.TimeWindow(8, 3)),
    }
    told = sb.explain(board)
    assert "arrivals: TopK by skyband, exact, k 1, score x\n" in told
    assert "every 2; 5 panes per window\n  keeps its own state: no other query differs" in told
    assert "keeps its own state, as every query by mintopk does" in told
    assert "prefer x=min y=max" in told
    with pytest.raises(sb.QueryError, match="at least one query"):
        sb.explain({})
