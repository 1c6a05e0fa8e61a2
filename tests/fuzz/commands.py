"""The command line with random arguments and files: exit code 0, 1 or 2, never a traceback."""

from __future__ import annotations

import functools
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import typer.main
import typer.testing

import skyband as sb
from fuzz import files

CODES = (0, 1, 2)
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "FORCE_COLOR": None}
SECONDS = 60

TOPK = ("-k", "2", "--score", "x", "--id", "id")
VERBS: dict[str, tuple[str, ...]] = {
    "topk": TOPK,
    "heavy-hitters": ("-k", "2", "--item", "id"),
    "uncertain": (*TOPK, "--probability", "x"),
    "fused": ("-k", "2", "--id", "id", "--value", "x", "--streams", "a,b", "--stream", "id"),
    "skyline": ("--prefer", "x=min,t=max"),
    "skyline-join": ("--left", "l", "--right", "r", "--on", "id", "--prefer", "x=min"),
}
WINDOWS = (
    ("--window", "5", "--slide", "2", "--time", "t"),
    ("--window", "5", "--time", "t", "--lateness", "3", "--offset", "1"),
    ("--count", "4", "--slide", "3"),
    ("--window", "5 minutes", "--time", "t"),
    (),
)
EXTRAS = (
    ("--on-bad", "skip"), ("--format", "json"),
    ("--format", "csv"), ("--format", "table"), ("--watch",),
    ("--limit", "2"), ("--changes",), ("-o", "out.parquet"), ("-o", "out.csv"), ("-o", "out.jsonl"),
    ("--algorithm", "fsw"), ("--algorithm", "mintopk"),
    ("--option", "kmax=3"), ("--by", "id"),
    ("--pace", "0"), ("--no-largest",), ("--time", "nowhere"), ("--format", "parquet"),
)  # fmt: skip
JUNK = (
    "", " ", "-1", "0", "1e999", "NaN", "x", "🙂", "--", "-", "--nonsense", "=",
    "a=b", "a=b=c", "[", "%s",
    "9" * 40, "nowhere/*.parquet", "\n", "10 parsecs", ".", "..", "*", "/dev/null", "rank",
    "inf", "x=min,x=max",
)  # fmt: skip
NEVER = ("--engine", "--master")
"""Options that would start Spark."""


def case(rng: random.Random) -> Iterator[str]:
    """Some commands over one table, run in this process."""
    table = files.table_of(rng)
    with _empty_folder():
        for _ in range(4):
            path, words, plain = _words(rng, table)
            code, output, out = invoke(words)
            shown = f"{words}: exit {code}\n{output[-2000:]}"
            assert code in CODES, shown
            assert "Traceback" not in output, shown
            if plain and code == 0 and table.num_rows:
                wanted = sb.rank(path, files.QUERY).to_pylist()
                assert [json.loads(line) for line in out.splitlines()] == wanted, shown
            yield "commands"


@contextmanager
def _empty_folder() -> Iterator[None]:
    """Work in a new folder, whose parent is new too: a command may read all that is in ".."."""
    with tempfile.TemporaryDirectory() as folder:
        inner = Path(folder, "inner")
        inner.mkdir()
        with chdir(inner):
            yield


def invoke(words: list[str]) -> tuple[Any, str, str]:
    """Run a command: its exit code, all it wrote, and what it wrote to the standard output.

    Like ``CliRunner.invoke``, but the command is built only once, which takes most of the time.
    """
    with typer.testing.CliRunner().isolation(env=PLAIN) as (out, _, both):
        try:
            code = _command().main(words, prog_name="skyband")
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        sys.stderr.flush()
        texts = [stream.getvalue().decode(errors="replace") for stream in (both, out)]
    return code or 0, texts[0], texts[1]


def process(rng: random.Random) -> Iterator[str]:
    """One command in a separate process, with or without piped input."""
    with _empty_folder():
        table = files.table_of(rng)
        path, words, _ = _words(rng, table)
        data = path.read_bytes() if path.is_file() else b""
        if rng.random() < 0.5:
            words = [word if word != str(path) else "-" for word in words]
        found = subprocess.run(
            [sys.executable, "-m", "skyband", *words], check=False, timeout=SECONDS,
            input=files._flip(rng, data) if rng.random() < 0.3 else data, capture_output=True,
            env={n: v for n, v in (os.environ | PLAIN).items() if v is not None},
        )  # fmt: skip
        shown = f"{words}: exit {found.returncode}\n{found.stderr[-2000:].decode(errors='replace')}"
        assert found.returncode in CODES, shown
        assert b"Traceback" not in found.stderr, shown
    yield "processes"


def _words(rng: random.Random, table: Any) -> tuple[Path, list[str], bool]:
    """A file, the arguments of a command, and whether it is QUERY written as JSON."""
    path = files.write(rng, table, Path())
    if rng.random() < 0.2:
        path.write_bytes(rng.choice(files.DAMAGES)(rng, path.read_bytes()))
    elif rng.random() < 0.3:
        return path, ["topk", str(path), *TOPK, *WINDOWS[0], "--format", "json"], True
    verb = rng.choice(list(VERBS))
    sources = [f"l={path}", f"r={path}"] if verb == "skyline-join" else [str(path)]
    if verb == "fused" and rng.random() < 0.3:
        sources = [f"a={path}", f"b={path}"]
    words = [*sources, *VERBS[verb], *rng.choice(WINDOWS)]
    for extra in rng.sample(EXTRAS, rng.choice((0, 1, 2, 3))):
        words += extra
    if rng.random() < 0.01:  # drawing the panels takes long
        words.append("--help")
    for _ in range(rng.choice((0, 0, 1, 2, 4))):
        _spoil(rng, words)
    return path, [verb, *(word for word in words if not word.startswith(NEVER))], False


def _spoil(rng: random.Random, words: list[str]) -> None:
    if not words:
        return
    at = rng.randrange(len(words))
    change = rng.choice(("drop", "junk", "junk", "insert", "repeat", "swap"))
    if change == "drop":
        del words[at]
    elif change == "junk":
        words[at] = rng.choice(JUNK)
    elif change == "insert":
        words.insert(at, rng.choice(JUNK))
    elif change == "repeat":
        words.append(words[at])
    else:
        other = rng.randrange(len(words))
        words[at], words[other] = words[other], words[at]


@functools.cache
def _command() -> Any:
    from skyband.cli.app import app

    return typer.main.get_command(app)
