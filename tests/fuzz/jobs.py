"""Job files for ``skyband pipeline``, with mistakes or without: refused, or run in this process.

A mistake is refused with exit code 2 before anything starts, or it makes no difference, or the job
stops with a message. A job without mistakes writes what ``rank`` answers.
"""

from __future__ import annotations

import copy
import json
import math
import random
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import skyband as sb
from fuzz import files
from fuzz.commands import CODES, invoke

QUERIES: tuple[dict[str, Any], ...] = (
    {"kind": "TopK", "k": 2, "score": "x", "id": "id", "time": "t"},
    {"kind": "TopK", "k": 1, "score": "x * 2", "time": "t", "by": ["id"], "keep": ["x"]},
    {"kind": "HeavyHitters", "k": 2, "item": "id", "time": "t", "where": {"id": ["a", "é"]}},
    {"kind": "Skyline", "prefer": {"x": "min", "t": "max"}, "time": "t"},
)
WINDOWS: tuple[dict[str, Any], ...] = (
    {"size": 5, "slide": 2},
    {"size": 3, "lateness": 2, "offset": 1},
    {"since": "first", "slide": 4},
)
NAMES = ("busiest", "b", "ü", "🙂", "a b", 'q"')
JUNK: tuple[Any, ...] = (
    "", " ", "x", "🙂", "10 parsecs", "5 minutes", "\n", "files", "console", "raise", "nothing[",
    -1, 0, 1, 1 << 62, 0.5, math.inf, math.nan, True, False, [], [1, "a"], {}, {"a": {"b": 1}},
)  # fmt: skip
NEVER = ("engine", "master", "spark")
"""Keys that are left alone, since they would start Spark."""


def case(rng: random.Random) -> Iterator[str]:
    """A job over one file: as it is, and with several mistakes."""
    table = files.table_of(rng)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("in").mkdir()
        path = files.write(rng, table, Path("in"))
        told = _job(rng, path.suffix)
        whole = path.read_bytes()
        if table.num_rows:
            _fine(told)
            yield "jobs"
        for number in range(3):
            wrong = json.loads(json.dumps(told)) | {"checkpoint": f"state{number}"}
            for _ in range(rng.choice((1, 1, 2, 4))):
                _spoil(rng, wrong)
            text = toml(wrong).encode()
            if rng.random() < 0.3:
                text = rng.choice(files.DAMAGES)(rng, text)
            # Other times may be far apart, and a landmark window answers every slide between them.
            if rng.random() < 0.2 and b'"since"' not in text:
                path.write_bytes(rng.choice(files.DAMAGES)(rng, path.read_bytes()))
            _run(text)
            path.write_bytes(whole)
            yield "jobs"


def _job(rng: random.Random, ending: str) -> dict[str, Any]:
    source: dict[str, Any] = {"kind": "files", "path": f"in/*{ending}"}
    if rng.random() < 0.5:
        source["rows_per_batch"] = rng.choice((1, 4, 100))
    told: dict[str, Any] = {"name": "fuzz", "checkpoint": "state", "source": source}
    told["on_bad"] = rng.choice(("skip", "raise"))
    told["trigger"] = {"once": True, "close": True}
    queries = {
        name: rng.choice(QUERIES) | {"window": rng.choice(WINDOWS)}
        for name in rng.sample(NAMES, rng.choice((1, 2, 3)))
    }
    for number, query in enumerate(queries.values()):
        query["sink"] = {"kind": "files", "path": f"out{number}"}
    if len(queries) == 1 and rng.random() < 0.5:
        told["query"] = next(iter(queries.values()))
        told["sink"] = told["query"].pop("sink")
    else:
        told["queries"] = queries
    return told


def _fine(told: dict[str, Any]) -> None:
    """Run a job without mistakes, and compare what it wrote with what ``rank`` answers."""
    Path("job.toml").write_text(toml(told), "utf-8")
    code, output, _ = invoke(["pipeline", "job.toml", "--engine", "local"])
    assert code == 0, f"{told}: exit {code}\n{output[-2000:]}"
    queries = told.get("queries") or {"": told["query"] | {"sink": told["sink"]}}
    for query in queries.values():
        settings = {name: query[name] for name in query if name not in ("kind", "window", "sink")}
        window = _window(query["window"])
        wanted = sb.rank("in", getattr(sb, query["kind"])(**settings, window=window))
        found = list(Path(query["sink"]["path"]).glob("*.parquet"))
        rows = [row for path in found for row in pq.read_table(path).to_pylist()]
        # Files of batches are in no certain order, and rows of a skyline have no rank.
        assert sorted(map(str, rows)) == sorted(map(str, wanted.to_pylist())), f"{told}: {rows}"


def _window(told: dict[str, Any]) -> Any:
    if "since" in told:
        return sb.LandmarkWindow(slide=told["slide"])
    return sb.TimeWindow(**told)


def _run(text: bytes) -> None:
    """Explain a job that may be wrong, and run it for a moment if nothing was found."""
    Path("job.toml").write_bytes(text)
    words = ["pipeline", "job.toml", "--engine", "local"]
    for more, codes in ((["--explain"], (0, 2)), (["--seconds", "0.05"], CODES)):
        code, output, _ = invoke([*words, *more])
        shown = f"{text!r} {more}: exit {code}\n{output[-2000:]}"
        assert code in codes, shown
        assert "Traceback" not in output, shown
        if code:
            return


def _spoil(rng: random.Random, told: dict[str, Any]) -> None:
    """Change, drop or add a setting somewhere."""
    table = told
    while True:
        inner = [name for name, value in table.items() if isinstance(value, dict) and value]
        if not inner or rng.random() < 0.25:
            break
        table = table[rng.choice(inner)]
    names = [name for name in table if name not in NEVER]
    junk = copy.deepcopy(rng.choice(JUNK))  # a table of it may be spoilt later
    change = rng.choice(("junk", "junk", "junk", "drop", "add", "move"))
    if change == "add" or not names:
        table[rng.choice(("x", "", "ü", "k", "window", "options", "kind"))] = junk
        return
    name = rng.choice(names)
    if change == "drop":
        del table[name]
    elif change == "move":
        table[rng.choice(names)] = copy.deepcopy(table[name])
    else:
        table[name] = junk


def toml(told: dict[str, Any]) -> str:
    """A job as TOML, with inline tables."""
    return "".join(f"{_text(name)} = {_value(value)}\n" for name, value in told.items())


def _value(value: Any) -> str:
    if isinstance(value, dict):
        inside = (f"{_text(name)} = {_value(each)}" for name, each in value.items())
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return _text(value) if isinstance(value, str) else str(value)  # inf and nan are as in Python


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
