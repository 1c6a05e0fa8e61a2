"""Writes a first job file for a source, from a look at its columns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from skyband.data.columns import is_number_type
from skyband.embedded.sources import READERS, batches_of, paths_of
from skyband.errors import SchemaError

__all__ = ["Look", "draft", "look_at"]

_SAMPLE = 10_000
_MOST_COUNTED = 64 << 20
"""Bytes of text files whose lines are counted."""
_SCORES = ("score", "value", "bytes", "amount", "price", "size", "count", "total", "magnitude")
_IDS = ("id", "user", "item", "key", "name", "host", "flow", "station", "player", "symbol")
_TIMES = ("ts", "time", "timestamp", "event_time", "date", "at", "when", "created", "epoch")


@dataclass(frozen=True)
class Look:
    """What a look at a source found."""

    path: str
    files: int
    rows: int | None
    """None if counting them would mean reading everything."""
    schema: pa.Schema
    sample: pa.Table
    time: str | None
    id: str | None
    score: str | None


def look_at(path: str) -> Look:
    """Look at the columns and the first rows of files."""
    files = paths_of(path)
    first = list(islice((t for t in batches_of(files[0]) if t.num_rows), 1))
    if not first:
        raise SchemaError(f"{files[0].name!r} has no rows to look at; give a file with some")
    sample = first[0].slice(0, _SAMPLE)
    time = _guess(sample.schema, _TIMES, _is_time) or _counting(sample)
    taken = {time}
    score = _guess(sample.schema, _SCORES, is_number_type, taken)
    taken.add(score)
    return Look(
        path=path,
        files=len(files),
        rows=_rows(files),
        schema=sample.schema,
        sample=sample,
        time=time,
        id=_guess(sample.schema, _IDS, _is_key, taken),
        score=score,
    )


def draft(look: Look, name: str) -> str:
    """A commented job file for a source."""
    shown = "\n".join(f"#   {field.name:<24} {field.type}" for field in look.schema)
    rows = "" if look.rows is None else f", {look.rows:,} rows"
    count = f"{look.files} file{'s' if look.files != 1 else ''}{rows}"
    return f"""\
# A job for Skyband, drafted from {look.path}: {count}, with the columns
{shown}
#
# Check it with: skyband check {name}.toml      Run it with: skyband pipeline {name}.toml

name = {_quoted(name)}
engine = "local"                 # or "spark": the same job on Spark
checkpoint = {_quoted(f"state/{name}")}        # delete this folder to start from the first row
on_bad = "skip"                  # "raise" stops the job at the first bad row

[source]
kind = "files"                   # new files are read as they appear
path = {_quoted(look.path)}

[queries.best]                   # the rows with the greatest score
{_best(look)}
[queries.frequent]               # the most frequent items
{_frequent(look)}
[trigger]
once = true                      # read all there is and stop; leave it out to wait for more
close = true                     # answer the last windows at the end
"""


def _best(look: Look) -> str:
    column = "" if look.id is None else f"id = {_quoted(look.id)}\n"
    score = _quoted(look.score or "?")
    mark = "" if look.score else "                    # no column of numbers was found: name one"
    return (
        f'kind = "TopK"\nk = 10\nscore = {score}{mark}\n{column}{_over(look)}'
        'sink = { kind = "console" }     # or files, postgres, kafka, http\n'
    )


def _frequent(look: Look) -> str:
    names = [name for name in look.schema.names if name != look.time]
    item = look.id or look.score or (names or look.schema.names)[0]
    return (
        f'kind = "HeavyHitters"\nk = 10\nitem = {_quoted(item)}\n{_over(look)}'
        'sink = { kind = "console" }\n'
    )


def _over(look: Look) -> str:
    """The time column and the window; without a time, a window over the last rows."""
    if look.time is None:
        told = "# no time was found; with one: time = ..., window = { size = ... }"
        count = max(min((look.rows or 1_000_000) // 10, 100_000), 1)
        return f"window = {{ count = {count}, slide = {max(count // 10, 1)} }}   {told}\n"
    size, slide = _window(look, look.time)
    window = f"window = {{ size = {size}, slide = {slide} }}\n"
    return f"time = {_quoted(look.time)}\n{window}"


def _quoted(text: str) -> str:
    """Text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False)


# Guesses ------------------------------------------------------------------------------------------


def _guess(schema: pa.Schema, words: Sequence[str], fits: Any, taken: Any = ()) -> str | None:
    """The column of a fitting type whose name is the most likely one."""
    fitting = [str(f.name) for f in schema if fits(f.type) and f.name not in taken]
    for exact in (True, False):
        for word in words:
            for name in fitting:
                if name.lower() == word if exact else word in name.lower():
                    return name
    return fitting[0] if fitting else None


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _is_key(kind: pa.DataType) -> bool:
    text = bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
    return text or bool(pa.types.is_integer(kind) or pa.types.is_dictionary(kind))


def _counting(sample: pa.Table) -> str | None:
    """A column of integers that is named like a time and never falls."""
    for field in sample.schema:
        if pa.types.is_integer(field.type) and field.name.lower() in _TIMES:
            return str(field.name)
    return None


def _window(look: Look, time: str) -> tuple[str, str]:
    """A size and a slide that show some windows of the source."""
    if not _is_time(look.schema.field(time).type):
        return "1000", "100"
    times = look.sample[time].cast(pa.timestamp("us", tz=None), safe=False)
    span = pa.compute.min_max(times.cast(pa.int64())).as_py()
    seconds = ((span["max"] or 0) - (span["min"] or 0)) / 1e6
    if look.rows is not None and look.sample.num_rows:
        seconds *= max(look.rows / look.sample.num_rows, 1.0)
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 20 * length:
            return f'"10 {unit}s"', f'"1 {unit}"'
    return '"10 seconds"', '"1 second"'


def _rows(files: Sequence[Path]) -> int | None:
    """The number of rows, if files tell it, or if they are lines that are counted quickly."""
    kinds = {READERS.get(path.suffix.lower()) for path in files}
    if kinds == {"parquet"}:
        return sum(int(pa.parquet.read_metadata(path).num_rows) for path in files)
    if kinds <= {"csv", "json"} and sum(path.stat().st_size for path in files) <= _MOST_COUNTED:
        heads = sum(READERS[path.suffix.lower()] == "csv" for path in files)
        return sum(map(_lines, files)) - heads
    return None


def _lines(path: Path) -> int:
    """Lines that are not empty."""
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())
