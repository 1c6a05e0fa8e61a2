"""The command line: every verb and format, and mistakes made on purpose."""

from __future__ import annotations

import inspect
import io
import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb
from skyband.query import Query

typer = pytest.importorskip("typer")
testing = pytest.importorskip("typer.testing")

from skyband.cli import fields as cli_fields  # noqa: E402
from skyband.cli.app import app  # noqa: E402
from skyband.cli.explain import as_options  # noqa: E402
from skyband.cli.verbs import add_verb  # noqa: E402

SECOND = 1_000_000
T0 = 1_700_000_000 * SECOND
FIVE_MINUTES = sb.TimeWindow("5 minutes", slide="1 minute")


def table() -> pa.Table:
    minutes = range(12)
    return pa.table(
        {
            "ts": pa.array([T0 + 60 * SECOND * m for m in minutes], pa.timestamp("us", tz="UTC")),
            "seq": pa.array(minutes, pa.int64()),
            "flow": [f"flow-{m}" for m in minutes],
            "service": ["dns" if m % 2 else "web" for m in minutes],
            "bytes": [(7 * m) % 12 for m in minutes],
        }
    )


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help and tables of one width, whoever runs the tests."""
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    path = tmp_path / "flows.parquet"
    pq.write_table(table(), path)
    return path


def run(*words: object) -> Any:
    return testing.CliRunner().invoke(app, [str(word) for word in words])


def good(*words: object) -> str:
    result = run(*words)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def bad(*words: object) -> str:
    """The one line that a mistake is told in."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    return str(lines[0])


TOP = ("-k", 2, "--score", "bytes", "--id", "flow")
TIMED = (*TOP, "--time", "ts", "--window", "5 minutes", "--slide", "1 minute")


def expected(**settings: Any) -> pa.Table:
    query = sb.TopK(k=2, score="bytes", id="flow", time="ts", window=FIVE_MINUTES, **settings)
    return sb.rank(table(), query)


class TestFormats:
    def test_parquet_is_the_table_of_rank(self, flows: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.parquet"
        good("topk", flows, *TIMED, "-o", out)
        assert pq.read_table(out).equals(expected())

    def test_csv_reads_back(self, flows: Path, tmp_path: Path) -> None:
        from pyarrow import csv

        out = tmp_path / "out.csv"
        good("topk", flows, *TIMED, "-o", out)
        back = csv.read_csv(out).cast(expected().schema)
        assert back.equals(expected())

    def test_json_reads_back_line_by_line(self, flows: Path) -> None:
        lines = good("topk", flows, *TIMED, "--format", "json").splitlines()
        rows = [json.loads(line) for line in lines]
        wanted = expected().to_pylist()
        assert [row["flow"] for row in rows] == [row["flow"] for row in wanted]
        assert rows[0]["window_end"] == wanted[0]["window_end"].isoformat()

    def test_a_written_file_is_a_source_again(self, flows: Path, tmp_path: Path) -> None:
        for ending in ("csv", "jsonl", "parquet"):
            out = tmp_path / f"out.{ending}"
            good("topk", flows, *TIMED, "-o", out)
            again = good("topk", out, "-k", 1, "--score", "bytes", "--count", 5, "-f", "csv")
            assert again.startswith('"window_start","window_end","rank","bytes"')

    def test_infinite_scores_are_words_in_json(self, tmp_path: Path) -> None:
        path = tmp_path / "scores.parquet"
        pq.write_table(pa.table({"s": [float("inf"), 1.0, float("-inf")]}), path)
        text = good("topk", path, "-k", 3, "--score", "s", "--count", 3, "-f", "json")
        assert [json.loads(line)["s"] for line in text.splitlines()] == [
            "Infinity", 1.0, "-Infinity",
        ]  # fmt: skip

    def test_the_table_is_whole_for_few_windows(self, flows: Path) -> None:
        text = good("topk", flows, *TOP, "--count", 4)
        assert text.count("flow-") == 6
        assert "[0, 4)" in text
        assert "[8, 12)" in text

    def test_the_table_says_what_it_leaves_out(self, flows: Path) -> None:
        text = good("topk", flows, *TIMED)
        windows = len(set(expected()["window_end"].to_pylist()))
        assert f"… {windows - 6} more windows …" in text
        assert f"{windows} windows; --format csv, json or parquet writes them all" in text

    def test_no_rows_at_all(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.parquet"
        pq.write_table(table().slice(0, 0), path)
        assert "no window has any rows" in good("topk", path, *TIMED)
        assert good("topk", path, *TIMED, "-f", "csv").startswith('"window_start"')
        assert good("topk", path, *TIMED, "-f", "json") == ""

    def test_limit_stops_early(self, flows: Path) -> None:
        rows = good("topk", flows, *TIMED, "--limit", 2, "-f", "json").splitlines()
        assert len({json.loads(row)["window_end"] for row in rows}) == 2

    def test_limit_of_an_empty_source(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.parquet"
        pq.write_table(table().slice(0, 0), path)
        for extra in (("--limit", 2), ("--changes",)):
            assert "no window has any rows" in good("topk", path, *TIMED, *extra)

    def test_changes(self, flows: Path) -> None:
        rows = [
            json.loads(line)
            for line in good("topk", flows, *TIMED, "--changes", "-f", "json").splitlines()
        ]
        query = sb.TopK(k=2, score="bytes", id="flow", time="ts", window=FIVE_MINUTES)
        wanted = [
            (answer.end.isoformat(), row["change"], row["flow"], row["from_rank"], row["to_rank"])
            for answer in sb.watch(table(), query)
            for row in answer.changes.to_pylist()
        ]
        names = ("window_end", "change", "flow", "from_rank", "to_rank")
        assert [tuple(row[name] for name in names) for row in rows] == wanted


class TestWatch:
    def test_a_line_a_window_without_a_terminal(self, flows: Path) -> None:
        lines = good("topk", flows, *TIMED, "--watch").splitlines()
        assert len(lines) == len(set(expected()["window_end"].to_pylist()))
        assert "1. flow-" in lines[0]
        assert "in" in lines[0]

    def test_changes_a_line_each(self, flows: Path) -> None:
        lines = good("topk", flows, *TIMED, "--watch", "--changes", "--limit", 1).splitlines()
        assert [line.split()[4] for line in lines] == ["enter"]

    def test_json_as_it_comes(self, flows: Path) -> None:
        text = good("topk", flows, *TIMED, "--watch", "-f", "json")
        assert text == good("topk", flows, *TIMED, "-f", "json")

    def test_csv_has_one_header(self, flows: Path) -> None:
        text = good("topk", flows, *TIMED, "--watch", "-f", "csv")
        assert text == good("topk", flows, *TIMED, "-f", "csv")

    def test_parquet_cannot_be_watched(self, flows: Path, tmp_path: Path) -> None:
        assert "--watch" in bad("topk", flows, *TIMED, "--watch", "-o", tmp_path / "x.parquet")

    def test_live_table_marks_what_moved(self) -> None:
        from rich.console import Console

        from skyband.cli.view import answer_table

        query = sb.TopK(k=3, score="bytes", id="flow", window=sb.CountWindow(6, slide=3))
        answers = list(sb.watch(table(), query))
        console = Console(width=100, record=True, file=io.StringIO())
        for answer in answers:
            console.print(answer_table(answer, query, rows=2))
        text = console.export_text()
        assert "new" in text
        assert re.search(r"[▲▼]\d", text)
        assert "1 more not shown" in text
        assert "exact" in text


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Output that rich takes for a terminal."""
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "140")
    monkeypatch.setenv("LINES", "30")


@pytest.mark.usefixtures("terminal")
class TestTerminal:
    def test_watch_draws_in_place(self, flows: Path) -> None:
        text = good("topk", flows, *TIMED, "--watch", "--pace", 0)
        assert "\x1b[?25l" in text  # the cursor is hidden while a table is redrawn
        assert "▼" in text
        assert "new" in text

    def test_watch_of_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.parquet"
        pq.write_table(table().slice(0, 0), path)
        assert "no window has any rows" in good("topk", path, *TIMED, "--watch")

    def test_demo(self) -> None:
        text = good("demo", "--seconds", 0)
        assert "Largest flows" in text
        assert "Try next:" in text

    def test_progress_and_a_remark(self, flows: Path) -> None:
        result = run("topk", flows, *TIMED, "-f", "csv")
        assert result.exit_code == 0
        assert "reading" in result.stderr
        assert "12 rows" in result.stderr

    def test_a_mistake_is_red(self) -> None:
        result = run("topk", "nowhere.parquet", *TIMED)
        assert "\x1b[31mno file matches" in result.stderr


class TestSources:
    def test_several_files_and_globs(self, tmp_path: Path) -> None:
        for part, start in (("a", 0), ("b", 6)):
            pq.write_table(table().slice(start, 6), tmp_path / f"{part}.parquet")
        one = good("topk", tmp_path / "a.parquet", tmp_path / "b.parquet", *TIMED, "-f", "csv")
        assert one == good("topk", tmp_path / "*.parquet", *TIMED, "-f", "csv")
        assert one == good("topk", tmp_path, *TIMED, "-f", "csv")
        assert one.count("\n") == expected().num_rows + 1

    def test_integer_time(self, flows: Path) -> None:
        words = (*TOP, "--time", "seq", "--window", 5, "--slide", 1, "-f", "csv")
        assert good("topk", flows, *words).splitlines()[1].startswith("-4,1,1,")

    def test_groups_and_the_other_direction(self, flows: Path, tmp_path: Path) -> None:
        out = tmp_path / "out.parquet"
        good("topk", flows, *TIMED, "--by", "service", "--no-largest", "-o", out)
        assert pq.read_table(out).equals(expected(by=("service",), largest=False))

    def test_late_rows_are_told(self, tmp_path: Path) -> None:
        path = tmp_path / "late.csv"
        shuffled = tmp_path / "early.csv"
        from pyarrow import csv

        csv.write_csv(table().slice(6), shuffled)
        csv.write_csv(table().slice(0, 6), path)
        line = bad("topk", shuffled, path, *TIMED)
        needed = re.search(r"--lateness '([^']+)'", line)
        assert needed is not None, line
        assert "--on-bad skip" in line
        good("topk", shuffled, path, *TIMED, "--lateness", needed[1])
        result = run("topk", shuffled, path, *TIMED, "--on-bad", "skip")
        assert result.exit_code == 0
        assert "6 late rows left out" in result.stderr


class Trickle(io.RawIOBase):
    """A stream that gives a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, step: int) -> None:
        self.data = data
        self.step = step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        taken = len(self.data) if size < 0 else min(size, self.step)
        found, self.data = self.data[:taken], self.data[taken:]
        return found


class TestStandardInput:
    @pytest.mark.parametrize("step", [1, 7, 1 << 20])
    @pytest.mark.parametrize("ended", [True, False])
    def test_lines_in_any_pieces(self, step: int, ended: bool) -> None:
        from skyband.cli.stdin import stdin_batches

        rows = [{"a": n, "b": f"x{n}"} for n in range(5)]
        lines = "\n".join(json.dumps(row) for row in rows) + "\n" * ended
        comma = "a,b\n" + "\n".join(f"{row['a']},{row['b']}" for row in rows) + "\n" * ended
        for text in (lines, comma):
            tables = list(stdin_batches(Trickle(text.encode(), step)))  # type: ignore[arg-type]
            assert pa.concat_tables(tables).to_pylist() == rows
            assert len(tables) <= 2 or step < 100

    def test_an_arrow_stream(self) -> None:
        from skyband.cli.stdin import stdin_batches

        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table().schema) as stream:
            stream.write_table(table(), max_chunksize=5)
        found = pa.concat_tables(stdin_batches(io.BytesIO(sink.getvalue())))
        assert found.equals(table())

    @pytest.mark.parametrize("text", ["", "a,b", "a,b\n", "\n"])
    def test_no_rows(self, text: str) -> None:
        from skyband.cli.stdin import stdin_batches

        assert list(stdin_batches(io.BytesIO(text.encode()))) == []

    def test_text_that_is_no_table(self) -> None:
        from skyband.cli.stdin import stdin_batches

        with pytest.raises(sb.SchemaError, match="standard input could not be read"):
            list(stdin_batches(io.BytesIO(b"a,b\n1,2\n1,2,3\n")))


class TestMistakes:
    def test_missing_column(self, flows: Path) -> None:
        line = bad("topk", flows, "-k", 2, "--score", "byts", "--count", 3)
        assert "'byts'" in line
        assert "bytes" in line

    def test_missing_file(self) -> None:
        assert "no file matches 'nowhere.parquet'" in bad("topk", "nowhere.parquet", *TIMED)

    def test_not_the_format_its_name_says(self, tmp_path: Path) -> None:
        path = tmp_path / "x.parquet"
        path.write_text("a,b\n1,2\n")
        assert "could not be read as parquet" in bad("topk", path, *TIMED)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ((), "--window '10 minutes'"),
            (("--window", "5 minutes", "--count", 3), "--window '10 minutes'"),
            (("--window", "5 parsecs"), "--window '5 parsecs': unknown unit"),
            (("--window", "5 months"), "months and years"),
            (("--window", "5 minutes"), "needs --time"),
            (("--window", "5 minutes", "--slide", 3), "all durations or all integers"),
            (("--count", 0), "--count must be positive"),
            (("--count", 5, "--slide", "1 minute"), "--slide"),
            (("--count", 5, "--lateness", "1 s"), "--lateness"),
        ],
    )
    def test_bad_window(self, flows: Path, words: tuple[Any, ...], said: str) -> None:
        assert said in bad("topk", flows, *TOP, *words)

    def test_unknown_algorithm(self, flows: Path) -> None:
        line = bad("topk", flows, *TIMED, "--algorithm", "bogus")
        assert "'bogus'" in line
        assert "skyband" in line

    def test_unknown_option_of_an_algorithm(self, flows: Path) -> None:
        assert "wheels" in bad("topk", flows, *TIMED, "--option", "wheels=4")
        assert "name=value" in bad("topk", flows, *TIMED, "--option", "wheels")

    def test_output_that_cannot_be(self, flows: Path, tmp_path: Path) -> None:
        assert "no folder" in bad("topk", flows, *TIMED, "-o", tmp_path / "none" / "out.csv")
        assert "--format" in bad("topk", flows, *TIMED, "-o", tmp_path / "out.xyz")
        (tmp_path / "folder.csv").mkdir()
        assert "folder.csv" in bad("topk", flows, *TIMED, "-o", tmp_path / "folder.csv")

    def test_several_streams_where_one_was_given(self, flows: Path) -> None:
        line = bad(
            "skyline-join", flows, "--left", "a", "--right", "b", "--on", "flow",
            "--prefer", "bytes=min", "--time", "ts", "--window", "5 minutes",
        )  # fmt: skip
        assert "a=PATH b=PATH" in line or "no algorithm" in line

    def test_spark_without_spark(self, flows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from skyband.cli import with_spark

        monkeypatch.setattr(with_spark, "find_spec", lambda name: None)
        line = bad("topk", flows, *TIMED, "--engine", "spark")
        assert "pip install 'skyband[spark]'" in line

    def test_bad_rows_are_told_or_counted(self, tmp_path: Path) -> None:
        path = tmp_path / "nan.parquet"
        pq.write_table(pa.table({"flow": ["a", "b"], "bytes": [1.0, float("nan")]}), path)
        line = bad("topk", path, *TOP, "--count", 1)
        assert "'bytes'" in line
        result = run("topk", path, *TOP, "--count", 1, "--on-bad", "skip", "-f", "csv")
        assert result.exit_code == 0
        assert "1 bad row left out" in result.stderr

    def test_required_words(self, flows: Path) -> None:
        result = run("topk", flows, "--score", "bytes", "--count", 3)
        assert result.exit_code == 2
        assert "--k" in result.stderr


class TestFields:
    """Options follow from the fields of a query and their types."""

    def test_every_field_of_every_query_is_an_option(self) -> None:
        for kind in Query.__subclasses__():
            if not kind.__module__.startswith("skyband."):
                continue
            text = good(cli_fields.verb_of(kind), "--help")
            for each in fields(kind):
                if each.init and each.name not in cli_fields.COMMON:
                    assert f"--{each.name.replace('_', '-')}" in text, (kind, each.name)

    def test_fields_do_not_collide_with_common_options(self) -> None:
        from skyband.cli.verbs import _common

        for kind in Query.__subclasses__():
            own = {p.name for p in cli_fields.field_parameters(kind)}
            assert not own & {p.name for p in _common(kind)}, kind

    def test_a_new_query_appears_by_itself(self) -> None:
        @dataclass(frozen=True, kw_only=True)
        class Median(Query):
            kind: ClassVar[str] = "Skyline"  # borrows the algorithms of a query that exists
            column: str
            quantiles: tuple[str, ...] = ()
            strict: bool = False

        try:
            mine = typer.Typer()
            mine.callback()(lambda: None)
            add_verb(mine, Median)
            text = testing.CliRunner().invoke(mine, ["median", "--help"]).stdout
            for option in ("--column", "--quantiles", "--strict", "--window", "--format"):
                assert option in text
        finally:
            from skyband.query import Skyline, base

            base._KINDS["Skyline"] = Skyline

    @pytest.mark.parametrize(
        ("kind", "words", "value"),
        [
            (sb.FusedTopK, {"time": ["ts"]}, {"time": "ts"}),
            (sb.FusedTopK, {"time": ["a=ts,b=at"]}, {"time": {"a": "ts", "b": "at"}}),
            (sb.FusedTopK, {"bounds": ["0:2"]}, {"bounds": (0.0, 2.0)}),
            (sb.FusedTopK, {"bounds": ["0,2"]}, {"bounds": (0, 2)}),
            (sb.FusedTopK, {"bounds": ["a=0:2", "b=1:3"]}, {"pairs": ((0.0, 2.0), (1.0, 3.0))}),
            (sb.FusedTopK, {"combine": ["max"]}, {"combine": "max"}),
            (sb.FusedTopK, {"combine": ["a=1,b=0.5"]}, {"weights": (1.0, 0.5)}),
            (sb.FusedTopK, {"combine": ["0.25,0.75"]}, {"weights": (0.25, 0.75)}),
            (sb.FusedTopK, {"recurrences": ["3"]}, {"recurrences": 3}),
            (sb.FusedTopK, {"recurrences": ["estimate"]}, {"recurrences": "estimate"}),
            (sb.HeavyHitters, {"item": ["host"]}, {"item": "host"}),
            (sb.HeavyHitters, {"item": ["host,port"]}, {"item": ("host", "port")}),
            (sb.HeavyHitters, {"item": ["host", "port"]}, {"item": ("host", "port")}),
            (sb.HeavyHitters, {"item": ["1"], "by": ["2"]}, {"item": "1", "by": ("2",)}),
            (sb.Skyline, {"prefer": ["a=min,b=max"]}, {"prefer": {"a": "min", "b": "max"}}),
        ],
    )
    def test_words_become_values(
        self, kind: type[Query], words: dict[str, Any], value: Mapping[str, Any]
    ) -> None:
        examples: dict[str, dict[str, Any]] = {
            "FusedTopK": {"k": 1, "id": "i", "value": "v", "streams": ["a,b"], "time": ["ts"]},
            "HeavyHitters": {"k": 1, "item": ["x"], "time": "ts"},
            "Skyline": {"prefer": ["a=min"], "time": "ts"},
        }
        query = cli_fields.query_of(kind, FIVE_MINUTES, examples[kind.kind] | words)
        for name, wanted in value.items():
            assert getattr(query, name) == wanted

    @pytest.mark.parametrize("words", [["price"], ["price=min", "volume"], [" , "]])
    def test_bad_words(self, words: list[str]) -> None:
        with pytest.raises(sb.QueryError, match="--prefer"):
            cli_fields.query_of(sb.Skyline, FIVE_MINUTES, {"prefer": words, "time": "ts"})

    def test_messages_speak_of_options(self) -> None:
        message = "give epsilon > 0, time='x y', on_bad='skip' or prefer="
        said = as_options(message, ["time", "on_bad"])
        assert said == "give epsilon > 0, --time 'x y', --on-bad skip or prefer="


class TestHelp:
    def test_the_verbs(self) -> None:
        text = good("--help")
        verbs = ["demo", "topk", "heavy-hitters", "uncertain", "fused", "skyline", "skyline-join"]
        found = re.findall(r"^│ ([a-z-]+) ", text, re.MULTILINE)
        assert [verb for verb in found if verb in verbs] == verbs
        assert {"bench", "reproduce"} <= set(found)

    def test_topk_as_it_was_seen_last(self) -> None:
        """A snapshot of what is said, not of how it is drawn, which is typer's own.

        When it differs on purpose, write the new text over the old one.
        """
        verb = typer.main.get_command(app).commands["topk"]
        lines = [" ".join((verb.help or "").split()), (verb.epilog or "").strip(), ""]
        for each in verb.params:
            names = ", ".join([*each.opts, *each.secondary_opts])
            needed = " (required)" if each.required else ""
            lines.append(f"{names}{needed}: {getattr(each, 'help', '')}")
        text = re.sub("One of: [^.]+[.]", "One of: ….", "\n".join(lines) + "\n")
        seen = Path(__file__).with_name("cli_help_topk.txt")
        assert text == seen.read_text(encoding="utf-8")

    def test_every_verb_has_help_from_its_query(self) -> None:
        for kind in (sb.TopK, sb.UncertainTopK, sb.SkylineJoin):
            first = (inspect.getdoc(kind) or "").partition("\n")[0].replace("``", "")
            text = " ".join(good(cli_fields.verb_of(kind), "--help").split())
            assert first in text

    def test_version(self) -> None:
        assert re.fullmatch(r"skyband \d+\.\d+\.\d+\S*\n", good("--version"))


class TestDemo:
    def test_without_a_terminal(self) -> None:
        text = good("demo")
        assert text.count("1. ") >= 10
        assert "Try next:" in text
        assert "M rows/s" in text

    def test_what_it_suggests_works(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        lines = good("demo").partition("Try next:")[2].splitlines()
        commands = [line.strip() for line in lines if line.strip() and "#" not in line]
        assert len(commands) >= 4
        for command in commands:
            words = command.partition("skyband ")[2].split()
            result = run(*words)
            assert result.exit_code == 0, (command, result.output)

    def test_the_same_stream_for_the_same_seed(self) -> None:
        from skyband.datasets.flows import flows

        first, again, other = (flows(rows=2_000, minutes=10, seed=seed) for seed in (3, 3, 4))
        assert first.equals(again)
        assert not first.equals(other)
        assert first.num_rows == 2_000
        moments = first["ts"].to_pylist()
        assert moments == sorted(moments)
        assert len(set(first["flow"].to_pylist())) == 2_000


class TestProcess:
    def test_a_mistake_in_a_process_of_its_own(self, flows: Path) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "skyband", "topk", str(flows), "-k", "1", "--score", "x",
             "--count", "3"],
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith("error: column 'x' is missing")
        assert "Traceback" not in done.stderr

    def test_answers_into_a_pipe(self, flows: Path) -> None:
        command = [sys.executable, "-m", "skyband", "topk", str(flows), "-k", "1", "--score"]
        done = subprocess.run(
            [*command, "bytes", "--count", "6", "-f", "csv"],
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[1:] == ["0,6,1,11", "6,12,1,10"]

    def test_answers_while_standard_input_is_open(self) -> None:
        command = [sys.executable, "-m", "skyband", "topk", "-", "-k", "1", "--score", "a"]
        with subprocess.Popen(
            [*command, "--count", "2", "--watch", "-f", "json"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("a\n3\n8\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["a"] == 8
            process.stdin.write("5\n4\n")
            process.stdin.close()
            assert json.loads(process.stdout.readline())["a"] == 5
            assert process.wait(timeout=100) == 0

    def test_without_the_extra(self) -> None:
        code = "import sys; sys.modules['typer'] = None\nfrom skyband.__main__ import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 2
        assert done.stderr == "skyband: the command line needs typer: pip install 'skyband[cli]'\n"


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_spark_writes_what_the_embedded_engine_writes(flows: Path) -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("skyband.spark")
    words = [sys.executable, "-m", "skyband", "topk", str(flows), *map(str, TIMED), "-f", "csv"]
    done = subprocess.run(
        [*words, "--engine", "spark", "--master", "local[1]"],
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == good("topk", flows, *TIMED, "-f", "csv")
