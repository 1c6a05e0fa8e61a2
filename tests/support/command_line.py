"""Running the command line in tests, and the rows that its tests rank."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import typer.testing

import skyband as sb
from skyband.cli.app import app

SECOND = 1_000_000
T0 = 1_700_000_000 * SECOND
FIVE_MINUTES = sb.TimeWindow("5 minutes", slide="1 minute")

TOP = ("-k", 2, "--score", "bytes", "--id", "flow")
TIMED = (*TOP, "--time", "ts", "--window", "5 minutes", "--slide", "1 minute")

# The same width of help and tables everywhere, and output that rich treats as a terminal.
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": None}
TERMINAL = {"COLUMNS": "170", "LINES": "30", "FORCE_COLOR": "1", "NO_COLOR": None} | {
    "TERM": "xterm-256color"
}


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


def run(*words: object, env: dict[str, Any] | None = None) -> Any:
    runner = typer.testing.CliRunner()
    return runner.invoke(app, [str(word) for word in words], env=env or PLAIN)


def good(*words: object, env: dict[str, Any] | None = None) -> str:
    """The output of a command, which must succeed."""
    result = run(*words, env=env)
    assert result.exit_code == 0, result.output
    return str(result.stdout)


def bad(*words: object) -> str:
    """The error message of a command, which must fail and report the mistake in one line."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("error: ")
    return str(lines[0])
