"""The command line in a separate process: standard input, the demo, Spark."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import skyband as sb

pytest.importorskip("typer")

from support import spark_session
from support.command_line import TIMED, good, run, table


@pytest.fixture
def flows(tmp_path: Path) -> Path:
    path = tmp_path / "flows.parquet"
    pq.write_table(table(), path)
    return path


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

    def test_later_lines_are_parsed_for_the_columns_needed(self) -> None:
        from skyband.cli.stdin import stdin_batches
        from skyband.embedded.sources import ReadSettings

        for text in ('{"a": 1, "b": "x"}\n' * 5, "a,b\n" + "1,x\n" * 5):
            source: Any = Trickle(text.encode(), 10)
            tables = list(stdin_batches(source, ReadSettings(needed=lambda schema: ["a"])))
            assert tables[0].column_names == ["a", "b"]
            assert {tuple(table.column_names) for table in tables[1:]} == {("a",)}
            assert [row for t in tables for row in t["a"].to_pylist()] == [1] * 5

    def test_a_header_alone_tells_the_columns(self) -> None:
        from skyband.cli.stdin import stdin_batches

        for text in ("a,b", "a,b\n"):
            source: Any = Trickle(text.encode(), 10)
            (table,) = stdin_batches(source)
            assert (table.column_names, table.num_rows) == (["a", "b"], 0)

    def test_what_has_arrived_is_read(self) -> None:
        import os

        from skyband.cli.stdin import _next, _Rest

        out, into = os.pipe()
        arriving: Any = io.FileIO(out, closefd=False)
        os.write(into, b"ab")
        assert _next(arriving) == b"ab"
        for piece in (b"cdef", b"gh"):
            os.write(into, piece)
        rest: Any = _Rest(b"", arriving)
        assert rest.read(3) == b"cde"
        os.close(into)
        assert rest.read(-1) == b"fgh"
        assert _next(arriving) == b""
        os.close(out)

    def test_an_arrow_stream(self) -> None:
        from skyband.cli.stdin import stdin_batches

        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table().schema) as stream:
            stream.write_table(table(), max_chunksize=5)
        found = pa.concat_tables(stdin_batches(io.BytesIO(sink.getvalue())))
        assert found.equals(table())

    @pytest.mark.parametrize("text", ["", "\n"])
    def test_no_rows(self, text: str) -> None:
        from skyband.cli.stdin import stdin_batches

        assert list(stdin_batches(io.BytesIO(text.encode()))) == []

    def test_text_that_is_no_table(self) -> None:
        from skyband.cli.stdin import stdin_batches

        with pytest.raises(sb.SchemaError, match="standard input could not be read"):
            list(stdin_batches(io.BytesIO(b"a,b\n1,2\n1,2,3\n")))

    def test_no_thread_holds_text_that_could_not_be_parsed(self) -> None:
        """Arrow's threads let go of it later; a process that has ended meanwhile would abort."""
        from skyband.embedded.text_files import read_csv

        for number in range(30):
            text = b"a,b\n1,2\n1,2,3\n" + b"1,2\n" * (1_000_000 + number)
            holders = sys.getrefcount(text)
            try:
                read_csv(text, ",", threads=True)
            except ValueError:
                pass
            else:
                pytest.fail("it was parsed")
            assert sys.getrefcount(text) == holders


class TestDemo:
    def test_without_a_terminal(self) -> None:
        text = good("demo")
        assert text.count("1. ") >= 10
        assert "Try next:" in text
        assert "M rows/s" in text
        assert "compiling" not in text

    def test_what_it_suggests_works(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        lines = good("demo").partition("Try next:")[2].splitlines()
        commands = [line.strip() for line in lines if line.strip() and "#" not in line]
        assert len(commands) >= 4
        for command in commands:
            words = command.partition("skyband ")[2].split()
            result = run(*words)
            assert result.exit_code == 0, (command, result.output)

    def test_saves_the_stream_that_it_shows(self, tmp_path: Path) -> None:
        from skyband.cli.demo import QUERIES
        from skyband.cli.view import answer_line

        good("demo", "--save", tmp_path / "flows.parquet", "--seed", 3)
        saved = pq.read_table(tmp_path / "flows.parquet")
        lines = {
            f"{each.name}  {answer_line(each, QUERIES[str(each.name)])}"
            for each in sb.watch(saved, QUERIES)
        }
        shown = [line for line in good("demo", "--seed", 3).splitlines() if "1. " in line]
        assert len(shown) > 5
        assert set(shown) <= lines

    def test_the_same_stream_for_the_same_seed(self) -> None:
        from skyband.cli.flows import flows

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

    @pytest.mark.parametrize("watch", [["--watch"], []], ids=["watch", ""])
    def test_answers_while_standard_input_is_open(self, watch: list[str]) -> None:
        command = [sys.executable, "-m", "skyband", "topk", "-", "-k", "1", "--score", "a"]
        with subprocess.Popen(
            [*command, "--count", "2", *watch, "-f", "json"],
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
        assert done.stderr == (
            "skyband: the command line needs typer: pip install 'skyband[cli]'"
            " (in a checkout: pip install -e '.[cli]')\n"
        )


class TestInterrupts:
    """Ctrl-C: exit code 130, no traceback, and no file that is half written."""

    def test_while_it_works(self) -> None:
        draws = np.random.default_rng(1).random((6_000, 3))
        rows = [f"1,{a},{b},{c},{-a - b - c}\n" for a, b, c in draws.tolist()]  # all in the skyline
        for wait in (0.05, 0.15, 0.25, 0.35, 0.45):
            with subprocess.Popen(
                [sys.executable, "-m", "skyband", "skyline", "-", "--prefer", "a=min,b=min,c=min",
                 "--prefer", "d=min", "--time", "t", "--window", "1", "-f", "json"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            ) as process:  # fmt: skip
                assert process.stdin is not None
                assert process.stdout is not None
                assert process.stderr is not None
                process.stdin.write("t,a,b,c,d\n0,0.5,0.5,0.5,0.5\n1,2.5,2.5,2.5,2.5\n")
                process.stdin.flush()
                assert json.loads(process.stdout.readline())["t"] == 0
                process.stdin.write("".join([*rows, "2,0.5,0.5,0.5,0.5\n"]))
                process.stdin.flush()
                time.sleep(wait)
                process.send_signal(signal.SIGINT)
                code = process.wait(timeout=100)
                assert (code, process.stderr.read()) == (130, "")

    def test_before_a_verb_begins(self) -> None:
        """Python itself prints a traceback until `main` is called."""
        code = (
            "import os, signal, sys\n"
            "class Interrupted:\n"
            "    def find_spec(self, name, *rest):\n"
            "        if name == 'rich': os.kill(os.getpid(), signal.SIGINT)\n"
            "sys.meta_path.insert(0, Interrupted())\n"
            "from skyband.__main__ import main\n"
            "main()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, timeout=100, check=False
        )
        assert (done.returncode, done.stderr) == (130, b"")

    @pytest.mark.parametrize("shape", ["json", "csv", "parquet"])
    def test_a_file_keeps_what_it_had(self, tmp_path: Path, shape: str) -> None:
        from skyband.cli.explain import Format
        from skyband.cli.output import writer

        def interrupted(output: Path) -> None:
            with writer(Format(shape), output) as out:
                out.write(table())
                raise KeyboardInterrupt

        path, link = tmp_path / "out", tmp_path / "link"
        path.write_text("old")
        link.symlink_to(path)
        path.chmod(0o604)
        for output in (path, link):
            with pytest.raises(KeyboardInterrupt):
                interrupted(output)
            assert path.read_text() == "old"
            assert set(tmp_path.iterdir()) == {path, link}
        with writer(Format(shape), link) as out:
            out.write(table())
        assert path.read_bytes()[:3] != b"old"
        assert link.is_symlink()
        assert path.stat().st_mode & 0o777 == 0o604
        assert set(tmp_path.iterdir()) == {path, link}


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_spark_writes_what_the_embedded_engine_writes(flows: Path) -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("skyband.spark")
    words = [sys.executable, "-m", "skyband", "topk", str(flows), *map(str, TIMED), "-f", "csv"]
    done = subprocess.run(
        [*words, "--engine", "spark", "--master", "local[1]"],
        env=os.environ | {"SPARK_SUBMIT_OPTS": spark_session.java_options()},
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == good("topk", flows, *TIMED, "-f", "csv")
