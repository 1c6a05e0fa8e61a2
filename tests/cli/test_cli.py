"""The command line: formats, sources, live views, and deliberate mistakes."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb

pytest.importorskip("typer")

from skyband.cli import stdin
from support.command_line import (
    FIVE_MINUTES,
    PLAIN,
    T0,
    TERMINAL,
    TIMED,
    TOP,
    bad,
    good,
    run,
    table,
)


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    path = tmp_path / "flows.parquet"
    pq.write_table(table(), path)
    return path


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

    @pytest.mark.parametrize("words", [(), ("--watch",)])
    def test_a_sum_of_weights_is_called_so(self, flows: Path, words: tuple[str, ...]) -> None:
        query = ("heavy-hitters", flows, "-k", 2, "--item", "service", "--count", 6, *words)
        heads = good(*query, "--weight", "bytes", env=TERMINAL if words else PLAIN)
        assert "sum of bytes" in heads
        assert "count" not in heads
        assert "count" in good(*query, env=TERMINAL if words else PLAIN)
        assert '"count"' in good(*query, "--weight", "bytes", "-f", "csv")

    def test_shares_of_the_total(self, flows: Path) -> None:
        words = ("heavy-hitters", flows, "-k", 1, "--item", "service", "--count", 5, "--share")
        rows = [json.loads(line) for line in good(*words, "-f", "json").splitlines()]
        assert [list(row.values())[-4:] for row in rows] == [[3, 0, 5, 0.6]] * 2
        assert list(rows[0])[-2:] == ["total", "share"]
        assert "0.6" in good(*words, "--watch", env=TERMINAL)
        for more in ("--changes", "--serve"):
            assert "--share works only with whole answers" in bad(*words, more)

    def test_compiling_is_no_reading(
        self, flows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from skyband.engine.board import BoardSession
        from skyband.kernels import notice

        now, push = [0.0], BoardSession.push_each

        def slow(board: BoardSession, batch: Any) -> Any:
            now[0] += 1
            with notice.waiting():
                now[0] += 20
            return push(board, batch)

        monkeypatch.setattr(notice, "time", SimpleNamespace(perf_counter=lambda: now[0]))
        monkeypatch.setattr(BoardSession, "push_each", slow)
        result = run("topk", flows, *TIMED, "-o", tmp_path / "out.csv")
        assert "12 rows read in 2.00 s" in result.stderr  # two batches

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
        header = good("topk", path, *TIMED, "--changes", "-f", "csv")
        names = ("window_start", "window_end", "change", "flow", "from_rank", "to_rank")
        assert header.strip() == ",".join(f'"{name}"' for name in names)

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

    def test_windows_may_be_corrected(self, flows: Path) -> None:
        text = good("topk", flows, *TIMED, "--revise", "1 hour", "-f", "csv")
        assert text.startswith('"window_start","window_end","revision","rank"')
        assert "--revise must be positive" in bad("topk", flows, *TIMED, "--revise", "0 s")
        assert "--revise" in bad("topk", flows, *TOP, "--count", 5, "--revise", "1 hour")

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

    @pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
    def test_digits_are_never_cut(self, width: int) -> None:
        """A bar shrinks first, then texts; then columns go that do not rank or identify a row."""
        from rich.console import Console

        from skyband.cli.view import picture

        numbers = [123_456_789_012 + i for i in range(4)]
        rows = pa.table(
            {
                "ts": pa.array([T0 + i for i in range(4)], pa.timestamp("us")),
                "url": [f"https://example.org/a/long/path/that/goes/on/{i}" for i in range(4)],
                "host": [f"a-host-with-a-long-name-{i}" for i in range(4)],
                "bytes": numbers,
                "rate": [1_234_567.25 + i for i in range(4)],
            }
        )
        query = sb.TopK(k=4, score="bytes", id="url", time="ts", keep=("host", "rate"),
                        window=sb.TimeWindow("10 s"))  # fmt: skip
        (answer,) = sb.watch(rows, query)
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(picture(console, {None: answer}, {None: query}))
        text = console.export_text()
        assert all(f"{number:,}" in text for number in numbers)
        assert ("1,234,570.25" in text) == (width >= 100)
        assert ("no room for" in text) == (width < 100)
        assert ("█" in text) == (width >= 140)
        assert max(map(len, text.splitlines())) <= width


class TestTerminal:
    def test_watch_draws_in_place(self, flows: Path) -> None:
        text = good("topk", flows, *TIMED, "--watch", "--pace", 0, env=TERMINAL)
        assert "\x1b[?25l" in text  # the cursor is hidden while a table is redrawn
        assert "▼" in text
        assert "new" in text

    def test_watch_of_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.parquet"
        pq.write_table(table().slice(0, 0), path)
        assert "no window has any rows" in good("topk", path, *TIMED, "--watch", env=TERMINAL)

    def test_demo(self) -> None:
        text = good("demo", "--seconds", 0, env=TERMINAL)
        assert "Largest flows" in text
        assert "Try next:" in text

    def test_progress(self, flows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "12 rows" not in run("topk", flows, *TIMED, "-f", "csv", env=TERMINAL).stderr
        monkeypatch.setattr("skyband.embedded.progress._WAIT", 0.0)
        result = run("topk", flows, *TIMED, "-f", "csv", env=TERMINAL)
        assert result.exit_code == 0
        assert "12 rows" in result.stderr

    def test_a_mistake_is_red(self) -> None:
        result = run("topk", "nowhere.parquet", *TIMED, env=TERMINAL)
        assert "\x1b[31mno file matches" in result.stderr


class TestSources:
    @pytest.mark.parametrize("through", ["a file", "standard input", "the board's job"])
    def test_text_that_is_written_otherwise(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str
    ) -> None:
        text = "Zeit;Station;pm\n01.02.2024 10:00;A;5\n01.02.2024 10:20;B;9\n01.02.2024 10:40;C;7\n"
        file = tmp_path / "air.csv"
        file.write_text(text)
        words = ("-k", 1, "--score", "pm", "--id", "Station", "--time", "Zeit", "--delimiter", ";",
                 "--time-format", "%d.%m.%Y %H:%M", "--window", "30m", "-f", "json")  # fmt: skip
        if through == "the board's job":
            job = tmp_path / "job.toml"
            job.write_text(
                f"""name = "air"\ncheckpoint = "state"\n
                [source]\nkind = "files"\npath = "{file}"\ndelimiter = ";"\n
                [queries.worst]\nkind = "TopK"\nk = 1\nscore = "pm"\nid = "Station"
                time = {{ column = "Zeit", format = "%d.%m.%Y %H:%M" }}
                window = {{ size = "30 minutes" }}\n"""
            )
            assert "C" in good("board", job)
            assert "is fine" in good("check", job)
            return
        if through == "standard input":
            monkeypatch.setattr(stdin, "_arriving", lambda: io.BytesIO(text.encode()))
            monkeypatch.setattr("sys.stdin", io.StringIO())
        rows = good("topk", "-" if through == "standard input" else file, *words).splitlines()
        assert [json.loads(row)["Station"] for row in rows] == ["B", "C"]

    def test_a_delimiter_is_one_character(self, flows: Path) -> None:
        assert "--delimiter must be one character" in bad(
            "topk", flows, *TIMED, "--delimiter", ";;"
        )

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

    def test_windows_without_a_size(self, flows: Path) -> None:
        words = (*TOP, "--time", "seq", "--slide", 5, "-f", "csv")
        lines = good("topk", flows, *words, "--half-life", 10).splitlines()
        assert lines[0].startswith('"window_start","window_end","rank"')
        assert '"decayed"' in lines[0]
        assert lines[1].startswith(",5,1,")
        assert good("topk", flows, *words, "--since", 2).splitlines()[1].startswith("2,5,1,")
        assert good("topk", flows, *words, "--since", "first").splitlines()[1].startswith(",5,1,")
        assert "up to 5" in good("topk", flows, *words[:-2], "--half-life", 10)

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
        said = "--watch", "--format", "csv"
        stopped = run("topk", shuffled, path, *TIMED, *said)
        assert stopped.exit_code == 2
        line = stopped.stderr
        needed = re.search(r"--lateness '([^']+)'", line)
        assert needed is not None, line
        assert "--on-bad skip" in line
        good("topk", shuffled, path, *TIMED, *said, "--lateness", needed[1])
        result = run("topk", shuffled, path, *TIMED, *said, "--on-bad", "skip")
        assert result.exit_code == 0
        assert "6 late rows left out" in result.stderr

    def test_files_are_sorted_unless_watched(self, tmp_path: Path) -> None:
        from pyarrow import csv

        csv.write_csv(table().slice(6), tmp_path / "1.csv")
        csv.write_csv(table().slice(0, 6), tmp_path / "2.csv")
        words = (tmp_path / "1.csv", tmp_path / "2.csv", *TIMED, "-f", "csv", "--threads", 1)
        assert good("topk", *words).count("\n") == expected().num_rows + 1
        assert "threads must be" in bad("topk", *words, "--threads", 0)


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
            (("--half-life", "1 minute"), "give --slide"),
            (("--since", "soon", "--slide", "1 minute"), "--since 'soon' was not understood"),
            (("--since", "first", "--half-life", "1 s", "--slide", "1 s"), "--since first"),
            (("--count", 5, "--slide", "1 minute"), "--slide"),
            (("--count", 5, "--lateness", "1 s"), "--lateness"),
        ],
    )
    def test_bad_window(self, flows: Path, words: tuple[Any, ...], said: str) -> None:
        assert said in bad("topk", flows, *TOP, *words)

    @pytest.mark.parametrize(
        ("words", "meant"),
        [
            (("-k", 2, "--score", "byts", "--count", 5), "Did you mean 'bytes'?"),
            (("-k", 2, "--score", "BYTES / 2", "--count", 5), "Did you mean 'bytes'?"),
            (("-k", 2, "--score", "bytes", "--count", 5, "--by", "servise"), "mean 'service'?"),
            (("-k", 2, "--score", "bytes", "--count", 5, "--where", "flw = 'a'"), "mean 'flow'?"),
            ((*TOP, "--count", 5, "--algorithm", "mintop"), "mean 'mintopk'?"),
            ((*TOP, "--count", 5, "--ties", "shared"), "--ties must be one of"),
            ((*TOP, "--count", 5, "--algorithm", "pabf", "--epsilon", 1, "--option", "filtr=1"),
             "mean 'filter'?"),
            (("-k", 2, "--score", "packets", "--count", 5), "columns are: ts, seq, flow, service"),
        ],
    )  # fmt: skip
    def test_what_was_meant(self, flows: Path, words: tuple[Any, ...], meant: str) -> None:
        said = bad("topk", flows, *words)
        assert meant in said
        assert ("Did you mean" in said) == ("packets" not in words)

    def test_two_windows(self, flows: Path) -> None:
        said = bad("topk", flows, *TOP, "--window", "1h", "--count", 5)
        assert "you gave two windows, --window and --count; " in said
        said = bad("topk", flows, *TOP, "--since", "first", "--half-life", "1 h")
        assert "you gave two windows, --half-life and --since; " in said

    def test_another_delimiter(self, tmp_path: Path) -> None:
        (tmp_path / "air.csv").write_text("a;b;c\n1;2;3\n")
        said = bad("topk", tmp_path / "air.csv", "-k", 1, "--score", "b", "--count", 5)
        assert "If ';' separates the fields, give it as the delimiter" in said

    def test_a_verb_that_is_none(self) -> None:
        assert "Did you mean 'topk'?" in run("topkk").stderr

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

    def test_a_where_that_matches_no_row(self, flows: Path) -> None:
        """What the column holds is said; the exit code is 0, for an empty answer is an answer."""
        for more in ((), ("--watch", "--format", "json"), ("--changes",)):
            result = run("topk", flows, *TIMED, "--where", "service=webb", *more)
            assert result.exit_code == 0
            said = "no row has --where service=webb; service has dns, web"
            assert result.stderr.splitlines() == [said]
        many = run("topk", flows, *TIMED, "--where", "flow=flow,flow-12")
        first = ", ".join(f"flow-{m}" for m in (0, 1, 10, 11, 2, 3, 4, 5))
        said = f"no row has --where flow=flow,flow-12; flow has {first}, and 4 more"
        assert many.stderr.splitlines() == [said]
        together = run("topk", flows, *TIMED, "--where", "service=web", "--where", "flow=flow-1")
        said = "no row has --where service=web and --where flow=flow-1 together"
        assert together.stderr.splitlines() == [said]
        assert run("topk", flows, *TIMED, "--where", "service=web").stderr == ""

    def test_required_words(self, flows: Path) -> None:
        result = run("topk", flows, "--score", "bytes", "--count", 3)
        assert result.exit_code == 2
        assert "--k" in result.stderr
