"""``skyband check`` says everything that is wrong with a job file."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.jobs import CardView, check_ready, explain, load_job, parse_job, problems_of
from skyband.jobs.parsing import LineIndex
from support import command_line

FAULTY = """\
name = " "                                           # 1 empty
checkpoint = "state"
engine = "local"
on_bad = "ignore"                                    # 4 not a choice
shards = 0                                           # 5 too few
colour = "red"                                       # 6 unknown

[source]
kind = "files"
path = "in"
format = "xls"                                       # 11 unknown format
rows_per_batch = -1                                  # 12 too few
reader = "me"                                        # 13 unknown reader
topic = "x"                                          # 14 not of this kind

[queries.busiest]                                    # 16 needs score
kind = "TopK"
k = 0                                                # 18 too few
id = 5                                               # 19 no column
distinct = "worst"                                   # 20 not a choice
time = "ts"
colour = "red"                                       # 22 unknown
size = 3                                             # 23 unknown
window = { size = "an hour", slide = "0 s", hop = 3 }    # 24 three things
sink = { kind = "files", path = "out", format = "xls", rows = 3 }    # 25 two things

[queries.talkers]
kind = "HeavyHitters"
k = 3
item = "host"
algorithm = "quick"                                  # 31 unknown
time = "ts"
window = { size = "10 minutes", lateness = "soon" }  # 33 not a duration

[queries.talkers.sink]
kind = "postgres"                                    # 35 no dsn
table = "a; b"                                       # 37 no name

[queries.others]
kind = "BestOf"                                      # 40 unknown
window = "long"                                      # 41 no table

[dead_letters]
kind = "files"
path = "bad"
format = "xls"                                       # 46 unknown

[trigger]
every = "never"                                      # 49 not a duration
close = true                                         # 50 without once

[metrics]
port = 0                                             # 53 no port
"""


def test_a_file_of_many_faults(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(FAULTY)
    found = [(each.line, each.text) for each in problems_of(tmp_path / "job.toml")]
    wanted = [
        (1, "name is empty"),
        (4, "on_bad must be one of skip, raise"),
        (5, "shards must be a whole number of at least 1"),
        (6, "the job has no key 'colour'"),
        (11, "[source] format must be one of"),
        (12, "[source] rows_per_batch must be a whole number of at least 1"),
        (13, "[source] reader must be one of"),
        (14, "[source] has no key 'topic'"),
        (16, "[queries.busiest] needs 'score'"),
        (18, "[queries.busiest] k must be a whole number of at least 1"),
        (19, "[queries.busiest] id must be"),
        (20, "[queries.busiest] distinct must be"),
        (22, "[queries.busiest] has no key 'colour'"),
        (23, "[queries.busiest] has no key 'size'"),
        (24, "[queries.busiest.window] has no key 'hop'"),
        (24, "[queries.busiest.window] size"),
        (24, "[queries.busiest.window] slide"),
        (25, "[queries.busiest.sink] format must be one of"),
        (25, "[queries.busiest.sink] has no key 'rows'"),
        (31, "[queries.talkers] "),
        (33, "[queries.talkers.window] lateness"),
        (35, "[queries.talkers.sink] needs either dsn"),
        (37, "[queries.talkers.sink] table must be a plain name"),
        (40, "[queries.others] kind must be one of"),
        (41, "[queries.others.window] must be a table, such as window = {"),
        (46, "[dead_letters] format must be one of"),
        (49, "[trigger] every"),
        (50, "[trigger] close = true closes a finite job"),
        (53, "[metrics] port must be from 1"),
    ]
    told = "\n".join(f"{line}: {text}" for line, text in found)
    assert len(found) == len(wanted), told
    for (line, text), (where, start) in zip(found, wanted, strict=True):
        assert line == where, told
        assert text.startswith(start), told


def test_what_this_machine_lacks_is_said_with_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOWHERE_DSN", raising=False)
    (tmp_path / "job.toml").write_text(
        """name = "best"
checkpoint = "state"
engine = "spark"
[source]
kind = "http"
schema = "n bigint, x double"
[queries.best]
kind = "TopK"
k = 1
score = "x"
time = "n"
window = { size = 3 }
sink = { kind = "postgres", table = "t", dsn_env = "NOWHERE_DSN" }
[queries.worst]
kind = "TopK"
k = 0
score = "x"
time = "n"
window = { size = 3 }
[trigger]
once = true
close = true
"""
    )
    found = [(each.line, each.text) for each in problems_of(tmp_path / "job.toml")]
    assert [line for line, _ in found][:3] == [5, 13, 16]
    assert "for local jobs" in found[0][1]
    assert "NOWHERE_DSN" in found[1][1]
    result = command_line.run("check", tmp_path / "job.toml", "--engine", "local")
    assert result.exit_code == 2
    assert [line.split(":")[1] for line in result.stdout.splitlines()] == ["13", "16"]


def test_lines_of_tables_and_keys() -> None:
    lines = LineIndex(
        """a = 1 # b = 2
"quoted.not" = 3
text = '''
k = 3
'''
[one.two]
k = { inner = "x = y, z = 1", other = 2 }
x.y = 3
[[many]]
k = 1
"""
    )
    assert lines.places == {
        "a": 1,
        "quoted": 2,
        "quoted.not": 2,
        "text": 3,
        "one": 6,
        "one.two": 6,
        "one.two.k": 7,
        "one.two.k.inner": 7,
        "one.two.k.other": 7,
        "one.two.x": 8,
        "one.two.x.y": 8,
        "many": 9,
        "many.k": 10,
    }
    assert lines.find("one.two", "k must be") == 7
    assert lines.find("one.two.k", "other is wrong") == 7
    assert lines.find("one.three", "something is missing") == 6
    assert lines.find("", "nothing fits") == 1


def test_everything_that_is_wrong_at_once(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        """name = "best"
checkpoint = 3
[source]
kind = "files"
pth = "in"
[queries.best]
kind = "TopK"
k = 0
score = "x"
time = "ts"
window = { size = 3 }
sink = { kind = "printer" }
[trigger]
once = true
every = "1 s"
"""
    )
    found = [(each.line, each.text.split(";")[0]) for each in problems_of(tmp_path / "job.toml")]
    assert [line for line, _ in found] == [2, 3, 5, 8, 12, 14]
    assert "checkpoint must be text" in found[0][1]
    assert "needs 'path'" in found[1][1]
    assert "no key 'pth'" in found[2][1]
    assert "k must be" in found[3][1]
    assert "kind must be one of" in found[4][1]
    assert "every and once" in found[5][1]


def test_columns_that_the_files_lack(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1], "id": ["a"]}), tmp_path / "rows.parquet")
    job = tmp_path / "job.toml"
    text = """\
name = "columns"
engine = "local"
checkpoint = "state"
[source]
kind = "files"
path = "PATH"
[queries.often]
kind = "HeavyHitters"
k = 1
item = "id"
time = "?"
window = { size = 4 }
sink = { kind = "console" }
"""
    job.write_text(text.replace("PATH", "rows.parquet"))
    (found,) = problems_of(job)
    assert (found.line, found.text) == (7, "column '?' is missing; the columns are: n, id")
    assert problems_of(job, "spark") == []  # it may find more columns
    job.write_text(text.replace("PATH", "later/*.parquet"))
    assert problems_of(job) == []  # there is nothing to look at yet


QUERY = """
[queries.best]
kind = "TopK"
k = 1
score = "n"
id = "id"
time = "ts"
window = { size = "1 minute" }
"""


LACKS = 'kind = "files"\npath = "lacks.csv"'
RECORDS = 'servers = "x:1"\ntopic = "t"\nschema = "ts bigint, id string, n int"'
AVRO = 'servers = "x:1"\ntopic = "t"\nformat = "avro"\navro_schema = "row.avsc"'
LINES = 'host = "x"\nport = 1\nschema = "ts timestamp, id string, n string"'


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ('kind = "http"\nschema = "ts timestamp, id int"', "[queries", "column 'n' is missing"),
        ('kind = "http"\nschema = "ts time, id int"', "schema =", "ts has type 'time'"),
        (f'kind = "kafka"\n{RECORDS}', "time =", "time column 'ts' holds integers"),
        (f'kind = "kafka"\n{RECORDS}\nstarting = "now"', "starting", "earliest or latest"),
        (f'kind = "socket"\n{LINES}', "score =", "score column 'n' has type string"),
        ('kind = "rate"\ncolumns = { n = "value" }', "id =", "column 'id' is missing"),
        ('kind = "rate"\ncolumns = { n = "date(value)" }', "[source]", "A local job computes"),
        ('kind = "rate"\ncolumns = { n = "size" }', "[source]", "column 'size' of the expression"),
        (f'kind = "kafka"\n{AVRO}', "format", "format 'avro' cannot be read by a local job"),
        (LACKS, "[queries", "column 'n' is missing; the columns are: ts, id"),
        (f'{LACKS}\nschema = "n int"', "schema", "schema is for Spark's readers"),
        (f'{LACKS}\nformat = "orc"', "format", "format 'orc' cannot be read by a local job"),
    ],
)
def test_sources_that_a_local_job_cannot_read(
    tmp_path: Path, source: str, line: str, said: str
) -> None:
    (tmp_path / "lacks.csv").write_text("ts,id\n2026-01-05T10:00:00,a\n")
    (tmp_path / "row.avsc").write_text('{"type": "record", "name": "row", "fields": []}')
    text = f'name = "x"\nengine = "local"\ncheckpoint = "state"\n[source]\n{source}{QUERY}'
    job = tmp_path / "job.toml"
    job.write_text(text)
    found = next(each for each in problems_of(job) if said in each.text)
    assert text.splitlines()[found.line - 1].startswith(line)
    with pytest.raises(sb.SkybandError, match=re.escape(said)):
        check_ready(load_job(job), serving=True)


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    job = tmp_path / "job.toml"
    rest = '[source]\nkind = "files"\npath = "in"' + QUERY
    job.write_text(
        f'name = "x"\nengine = "local"\ncheckpoint = "file/state"\n{rest}'
        'sink = { kind = "files", path = "file" }\n'
    )
    found = [(each.line, each.text) for each in problems_of(job)]
    assert [line for line, _ in found] == [3, 14], found
    assert all("is a file; give a folder" in text for _, text in found), found


def test_rows_from_a_server_need_the_server(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    schema = '[source]\nkind = "http"\nschema = "ts timestamp, id string, n int"'
    job.write_text(f'name = "x"\nengine = "local"\ncheckpoint = "state"\n{schema}{QUERY}')
    assert problems_of(job) == []
    check_ready(load_job(job), serving=True)
    with pytest.raises(sb.QueryError, match="use skyband serve"):
        check_ready(load_job(job))


def test_a_count_window_is_explained(tmp_path: Path) -> None:
    job = tmp_path / "job.toml"
    rest = '[source]\nkind = "files"\npath = "in"' + QUERY
    counted = rest.replace('size = "1 minute"', "count = 100, slide = 10")
    job.write_text(f'name = "x"\nengine = "local"\ncheckpoint = "state"\n{counted}')
    assert "window the last 100 arrivals, every 10" in explain(load_job(job))


def test_a_job_says_how_it_is_shown(tmp_path: Path) -> None:
    """The keys of cards stand beside those of queries, and change no query."""
    told = {
        "name": "net", "title": "The network", "checkpoint": "state", "engine": "local",
        "source": {"kind": "rate", "columns": {"ts": "timestamp", "bytes": "id"}},
        "queries": {
            "b": {
                "kind": "TopK", "k": 1, "score": "bytes", "id": "bytes", "time": "ts",
                "window": {"size": "1 minute"}, "title": "Largest", "wide": True, "unit": "bytes",
            },
        },
    }  # fmt: skip
    job = parse_job(told, tmp_path)
    assert job.title == "The network"
    assert job.cards == {"b": CardView("Largest", "bytes", wide=True)}
    for key in ("title", "wide", "unit"):
        del told["queries"]["b"][key]  # type: ignore[index]
    plain = parse_job(told, tmp_path)
    assert plain.cards == {"b": CardView()}
    assert plain.queries["b"].fingerprint == job.queries["b"].fingerprint
    told["queries"]["b"]["wide"] = "yes"  # type: ignore[index]
    with pytest.raises(sb.QueryError, match="wide must be true or false, not 'yes'"):
        parse_job(told, tmp_path)
