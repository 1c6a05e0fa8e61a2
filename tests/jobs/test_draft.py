"""``skyband init`` drafts a job file from a look at the files."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.jobs import problems_of
from skyband.jobs.draft import draft, look_at
from support.local_jobs import rows, written


def test_a_first_job_takes_a_minute(tmp_path: Path) -> None:
    """``init`` drafts a job that runs as it is."""
    from typer.testing import CliRunner

    from skyband.cli.app import app

    tables = rows(2)
    times = [pa.array(t["ts"].to_numpy() * 1_000_000, pa.timestamp("us")) for t in tables]
    written(tmp_path, [t.set_column(0, "ts", s) for t, s in zip(tables, times, strict=True)])
    file = tmp_path / "first.toml"
    made = CliRunner().invoke(app, ["init", str(tmp_path / "in"), "-o", str(file)])
    assert made.exit_code == 0, made.output
    text = file.read_text()
    assert 'path = "in"' in text
    assert "2 files, 800 rows" in text
    assert 'score = "bytes"' in text
    assert CliRunner().invoke(app, ["check", str(file)]).output.endswith("first.toml is fine\n")
    again = CliRunner().invoke(app, ["init", str(tmp_path / "in"), "-o", str(file)])
    assert again.exit_code == 2
    ran = CliRunner().invoke(app, ["pipeline", str(file)])
    assert ran.exit_code == 0, ran.output
    answers = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert {row["query"] for row in answers} == {"best", "frequent"}


def test_a_draft_of_text_files_with_awkward_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('when,"the ""host""",bytes\n2026-01-05T10:00:00,x,5\n')
    (tmp_path / "b.csv").write_text('when,"the ""host""",bytes\n2026-01-05T11:00:00,y,7\n\n')
    look = look_at(str(tmp_path))
    assert look.rows == 2
    told = tomllib.loads(draft(look, 'my "first" job'))
    assert told["name"] == 'my "first" job'
    assert told["queries"]["best"]["id"] == 'the "host"'
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "a.jsonl").write_text('{"ts": 1, "id": "a", "n": 2}\n' * 3)
    look = look_at(str(tmp_path / "lines"))
    assert (look.rows, look.time, look.id, look.score) == (3, "ts", "id", "n")


@pytest.mark.parametrize("names", ["name,value", "value", "epoch,value"])
def test_a_draft_without_a_time_or_an_id_runs(tmp_path: Path, names: str) -> None:
    count = names.count(",") + 1
    lines = [",".join([str(i)] * count) for i in range(2_000)]
    (tmp_path / "rows.csv").write_text("\n".join([names, *lines]))
    job = tmp_path / "first.toml"
    job.write_text(draft(look_at(str(tmp_path / "rows.csv")), "first"))
    assert problems_of(job) == []
    queries = tomllib.loads(job.read_text())["queries"].values()
    over = [query.get("time", query["window"].get("count")) for query in queries]
    assert over == ["epoch" if "epoch" in names else 200] * 2
    assert "epoch" not in {query.get("item") for query in queries}


@pytest.mark.parametrize(
    ("head", "rows", "time"),
    [
        ("Zeit;Station;pm", "{:02}.01.2026;A;5", {"column": "Zeit", "format": "%d.%m.%Y"}),
        ("when;name;value", "01/{:02}/2026;A;5", {"column": "when", "format": "%m/%d/%Y"}),
        ("ts;name;value", "17000{:02}000;A;5", {"column": "ts", "unit": "s"}),
        ("eventTime;name;value", "17000{:02}000123;A;5", {"column": "eventTime", "unit": "ms"}),
        ("ts;name;value", "{};A;5", "ts"),
        ("code;name;value", "17000{:02}000;A;5", None),
    ],
)  # fmt: skip
def test_times_and_separators_of_other_forms(
    tmp_path: Path, head: str, rows: str, time: dict[str, str] | str | None
) -> None:
    (tmp_path / "in.csv").write_text("\n".join([head, *(rows.format(i) for i in range(1, 25))]))
    look = look_at(str(tmp_path / "in.csv"))
    file = tmp_path / "job.toml"
    file.write_text(draft(look, "job"))
    told = tomllib.loads(file.read_text())
    assert told["source"]["delimiter"] == ";"
    assert told["queries"]["frequent"].get("time") == time
    assert problems_of(file) == []
