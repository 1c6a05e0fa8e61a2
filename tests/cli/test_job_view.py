"""The view of a running job: a line per batch, or a frame with figures and the last answers."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.jobs import parse_job, run_job
from skyband.jobs.report import Report, newest_window, report_line

pytest.importorskip("rich", reason="the command line is an extra")

JOB: dict[str, Any] = {
    "name": "best",
    "engine": "local",
    "checkpoint": "state",
    "source": {"kind": "files", "path": "in.parquet"},
    "query": {
        "kind": "TopK",
        "k": 2,
        "score": "v",
        "id": "id",
        "time": "ts",
        "window": {"size": 10},
    },
    "sink": {"kind": "files", "path": "out"},
    "trigger": {"once": True},
}
ANSWER = pa.table(
    {
        "window_start": [0, 10, 10],
        "window_end": [10, 20, 20],
        "rank": pa.array([1, 1, 2], pa.int32()),
        "id": ["old", "[b]", "c"],
        "v": [1.0, 1234.5, 3.0],
    }
)


def test_a_line_per_batch() -> None:
    line = report_line(
        Report(
            batch=3,
            rows=12_000,
            rate=4_000.4,
            late=1,
            bad=0,
            windows=7,
            state_bytes=12_300,
            watermark=1_794_821_000.0,
            lag=30.0,
        )
    )
    assert line == (
        "batch 3  12,000 rows  4,000 rows/s  watermark 2026-11-16 09:23:20 (30 s behind)  "
        "1 late  0 bad  7 windows  state 12.3 kB"
    )


def test_times_beyond_the_calendar() -> None:
    assert "watermark 1,000,000,000,000 s" in report_line(Report(0, 0, watermark=1e12))


@pytest.mark.parametrize("moment", ["+12345-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z"])
def test_a_watermark_beyond_the_calendar_of_python_or_none_yet(moment: str) -> None:
    pytest.importorskip("pyspark", reason="the figures are Spark's")
    from skyband.spark.metrics import read_progress

    row = SimpleNamespace(asDict=lambda: {"rows_in": 7})
    told = SimpleNamespace(
        observedMetrics={"skyband|TopK-1|in|": row},
        eventTime={"watermark": moment},
        batchId=1,
        batchDuration=5,
    )
    assert read_progress(told) == {"rows_in": 7, "batch_id": 1, "batch_seconds": 0.005}


def test_the_watermark_moves_in_batches_without_rows() -> None:
    pytest.importorskip("pyspark", reason="the figures are Spark's")
    from skyband.spark.metrics import Progress

    progress = Progress()
    for batch, (seen, moment) in enumerate([(60_000, "00"), (50_000, "40"), (None, "55")]):
        row = SimpleNamespace(asDict=lambda seen=seen: {"rows_in": 1, "seen": seen})
        told = SimpleNamespace(
            name="best",
            observedMetrics={"skyband|TopK-1|in|": row},
            eventTime={"watermark": f"1970-01-01T00:00:{moment}.000Z"},
            batchId=batch,
            batchDuration=5,
        )
        progress.onQueryProgress(SimpleNamespace(progress=told))
        totals = progress.snapshot()["best"]
        lag = {"00": None, "40": 20.0, "55": 5.0}[moment]
        assert (totals["seen_seconds"], totals.get("watermark_lag_seconds")) == (60.0, lag)


def test_a_frame() -> None:
    from rich.console import Console

    from skyband.cli.job_view import job_frame

    console = Console(width=100, record=True, file=io.StringIO())
    job = parse_job(JOB)
    console.print(job_frame(job, Report(batch=0, rows=5), 40))
    assert "no window has ended yet" in console.export_text()
    report = Report(
        batch=1,
        rows=1_234_567_890,
        rate=3_210_000.0,
        late=12,
        bad=3,
        windows=7,
        state_bytes=12_300,
        watermark=1_794_821_000.0,
        lag=30.0,
        answers={"best": newest_window(ANSWER)},
    )
    console.width = 80
    console.print(job_frame(job, report, 40))
    shown = console.export_text()
    lines = shown.splitlines()
    assert lines[0].split() == ["best", "on", "this", "process,", "batch", "1"]
    assert lines[2].split()[:4] == ["rows/s", "3,210,000", "watermark", "2026-11-16"]
    assert lines[2].split()[5:] == ["late", "12", "windows", "7"]
    assert lines[3].split() == (
        ["rows", "1,234,567,890", "behind", "30", "s", "bad", "3", "state", "12.3", "kB"]
    )
    assert "best  [10, 20)" in shown
    assert "[b]" in shown
    assert "1,234.50" in shown
    assert "old" not in shown


def test_reports_of_a_job_in_this_process(tmp_path: Any) -> None:
    import pyarrow.parquet as pq

    rows = pa.table({"ts": list(range(40)), "id": [f"i{n % 5}" for n in range(40)], "v": range(40)})
    pq.write_table(rows, tmp_path / "in.parquet")
    told: list[Report] = []
    run_job(parse_job(JOB, tmp_path), tell=told.append)
    assert told[-1].rows == 40
    assert told[-1].windows == 3
    assert told[-1].answers["best"]["window_end"].to_pylist() == [30, 30]


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_the_view_moves_while_spark_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's processes start without an error stream; the view must not stand still with it."""
    pytest.importorskip("pyspark", reason="the wait is for Spark")
    from skyband.cli.job_view import telling
    from skyband.spark.sessions import _silent_children

    ours, theirs = os.openpty()
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w"):
        os.set_blocking(ours, False)
        before = os.dup(2)
        os.dup2(theirs, 2)
        try:
            with os.fdopen(2, "w", closefd=False) as errors, monkeypatch.context() as patch:
                patch.setattr(sys, "stderr", errors)
                with telling(parse_job(JOB)) as tell, _silent_children():
                    tell(Report(batch=7, rows=1))
                    shown = screen.read() or b""
        finally:
            os.dup2(before, 2)
            os.close(before)
        assert b"batch 7" in shown


def test_a_second_run_says_that_there_is_nothing_new(tmp_path: Path) -> None:
    from support.command_line import run

    pq.write_table(
        pa.table({"ts": [1, 12, 25], "id": ["a", "b", "c"], "v": [1.0, 2.0, 3.0]}),
        tmp_path / "in.parquet",
    )
    (tmp_path / "job.toml").write_text(
        """
        name = "best"\nengine = "local"\ncheckpoint = "state"
        source = { kind = "files", path = "in.parquet" }
        query = { kind = "TopK", k = 2, score = "v", time = "ts", window = { size = 10 } }
        trigger = { once = true }
        """
    )
    first, second = (run("pipeline", tmp_path / "job.toml") for _ in range(2))
    assert len(first.stdout.splitlines()) == 2
    assert "nothing new" not in first.stderr
    assert second.stdout == ""
    assert "best: nothing new to read since the last run" in second.stderr
    assert "batch -1" not in second.stderr
    third = run("pipeline", "--explain", tmp_path / "job.toml")
    assert "nothing new" not in third.stderr
    assert "query  TopK by skyband, window 10" in third.stdout


def test_on_a_terminal_the_view_takes_the_place_of_the_console(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from skyband.cli.job_view import as_shown

    job = parse_job(JOB | {"sink": {"kind": "console"}})
    assert as_shown(job) is job
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the error stream for a terminal
    assert as_shown(job) is job  # answers may be piped
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert as_shown(job).sinks["best"]["rows"] == 0
    files = parse_job(JOB)
    assert as_shown(files).sinks == files.sinks


def test_a_job_says_that_it_waits_for_files(tmp_path: Path) -> None:
    from support.command_line import run

    text = """
        name = "best"\nengine = "local"\ncheckpoint = "state"
        source = { kind = "files", path = "nowhere" }
        query = { kind = "TopK", k = 2, score = "v", time = "ts", window = { size = 10 } }
        """
    (tmp_path / "job.toml").write_text(text)
    found = run("check", tmp_path / "job.toml")
    assert found.exit_code == 0
    assert found.stdout.endswith("job.toml is fine\n")
    assert "[source] path: no file matches" in found.stderr
    assert "the job waits until there are some" in found.stderr
    (tmp_path / "job.toml").write_text(text + "trigger = { once = true }\n")
    assert run("check", tmp_path / "job.toml").exit_code == 2


@pytest.mark.parametrize("width", [60, 80, 120])
def test_frames_and_tables_fit(width: int) -> None:
    from rich.console import Console

    from skyband.cli.job_view import job_frame
    from skyband.cli.output import _drawn

    numbers = [123_456_789_012, 123_456_789_011]
    answer = pa.table(
        {
            "window_start": [0, 0],
            "window_end": [10, 10],
            "rank": pa.array([1, 2], pa.int32()),
            "id": [f"https://example.org/a/long/path/that/goes/on/{i}" for i in range(2)],
            "v": numbers,
            "host": [f"a-host-with-a-long-name-{i}.example.org" for i in range(2)],
            "rate": [1_234_567.25, 1_234_568.25],
        }
    )
    job = parse_job(JOB)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(job_frame(job, Report(batch=1, rows=5, answers={"best": answer}), 40, width))
    framed = console.export_text()
    for part in _drawn(answer, job.queries["best"], width):
        console.print(part)
    for text in (framed, console.export_text()):
        assert all(f"{number:,}" in text for number in numbers)
        assert ("1,234,567.25" in text) == ("no room for" not in text)
        assert max(map(len, text.splitlines())) <= width
    assert ("no room for" in framed) == (width == 60)
