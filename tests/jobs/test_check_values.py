"""``skyband check``: files that are not there, windows that are no tables, large expressions."""

from __future__ import annotations

from pathlib import Path

import pytest

from skyband.jobs import problems_of

QUERY = """
[queries.best]
kind = "TopK"
k = 1
score = "n"
id = "id"
time = "ts"
window = { size = "1 minute" }
"""


@pytest.mark.parametrize(
    ("engine", "path", "more", "said"),
    [
        ("local", "in", "", "[source] path: no file matches"),
        ("local", "empty", "", "[source] path: folder"),
        ("local", "in/*.csv", "", "[source] path: no file matches"),
        ("spark", "in", "", "[source] path: no file matches"),
        ("spark", "in", 'schema = "n int"', "[source] path: no file matches"),
        ("spark", "in/*.csv", "", "[source] path: no file matches"),
        ("spark", "in/*.csv", 'schema = "n int"', None),  # Spark waits for them
        ("spark", "in/{a,b}.csv", "", None),  # only Spark reads such patterns
        ("spark", "s3://in", "", None),
    ],
)
def test_files_that_are_not_there(
    tmp_path: Path, engine: str, path: str, more: str, said: str | None
) -> None:
    (tmp_path / "empty").mkdir()
    job = tmp_path / "job.toml"
    source = f'[source]\nkind = "files"\npath = "{path}"\n{more}'
    text = f'name = "x"\nengine = "{engine}"\ncheckpoint = "state"\n{source}{QUERY}'
    job.write_text(f"{text}[trigger]\nonce = true\n")
    found = problems_of(job)
    assert [each.text.startswith(said) for each in found if said] == [True] * bool(said), found
    assert said or not found
    if said:
        assert text.splitlines()[found[0].line - 1].startswith("path")
    job.write_text(text)
    assert bool(problems_of(job)) == (engine == "spark" and bool(said))  # a local job waits


@pytest.mark.parametrize(
    ("score", "said"),
    [
        (" + ".join(["n"] * 600), "more than 100 columns and numbers"),
        (f"n * {'9' * 5_000}", "the number 9999999999... is too large"),
    ],
)
def test_expressions_that_are_too_large(tmp_path: Path, score: str, said: str) -> None:
    (tmp_path / "rows.csv").write_text("ts,id,n\n2026-01-05T10:00:00,a,1\n")
    job = tmp_path / "job.toml"
    source = '[source]\nkind = "files"\npath = "rows.csv"'
    text = QUERY.replace('score = "n"', f'score = "{score}"')
    job.write_text(f'name = "x"\nengine = "local"\ncheckpoint = "state"\n{source}{text}')
    (found,) = problems_of(job)
    assert said in found.text
    columns = f'columns = {{ ts = "timestamp", id = "value", n = "{score.replace("n", "value")}" }}'
    source = f'[source]\nkind = "rate"\n{columns}'
    job.write_text(f'name = "x"\nengine = "local"\ncheckpoint = "state"\n{source}{QUERY}')
    assert any(said in each.text for each in problems_of(job))


def test_a_window_is_a_table(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    rest = '[source]\nkind = "files"\npath = "in"' + QUERY
    for window, said in (
        ('"10 minutes"', "such as window = { size = \"10 minutes\" }, not '10 minutes'"),
        ("600", "such as window = { size = 600 }, not 600"),
        ("[1, 2]", 'such as window = { size = "10 minutes" }, not [1, 2]'),
        ("true", 'such as window = { size = "10 minutes" }, not True'),
    ):
        told = rest.replace('{ size = "1 minute" }', window)
        job.write_text(f'name = "x"\nengine = "local"\ncheckpoint = "state"\n{told}')
        (found,) = problems_of(job)
        assert found.text == f"[queries.best.window] must be a table, {said}"
        assert told.splitlines()[found.line - 4].startswith("window")
