"""Writes a first job file for a source, from a look at its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from skyband.embedded.sources import READERS, batches_of, paths_of
from skyband.errors import SchemaError
from skyband.jobs.guesses import Guess, guesses, is_time, mostly_null

__all__ = ["Look", "draft", "look_at"]

_SAMPLE = 10_000
_MOST_COUNTED = 64 << 20
"""Bytes of text files whose lines are counted."""


@dataclass(frozen=True)
class Look:
    """What a look at a source found."""

    path: str
    files: int
    rows: int | None
    """None if counting them would mean reading everything."""
    schema: pa.Schema
    sample: pa.Table
    guesses: Mapping[str, Guess]
    """The likely ``time``, ``score``, ``id`` and ``item`` of a query, where a column fits."""

    @property
    def time(self) -> str | None:
        return self._name("time")

    @property
    def score(self) -> str | None:
        return self._name("score")

    @property
    def id(self) -> str | None:
        return self._name("id")

    def _name(self, role: str) -> str | None:
        return self.guesses[role].name if role in self.guesses else None


def look_at(path: str) -> Look:
    """Look at the columns and the first rows of files."""
    files = paths_of(path)
    first = list(islice((t for t in batches_of(files[0]) if t.num_rows), 1))
    if not first:
        raise SchemaError(f"{files[0].name!r} has no rows to look at; give a file with some")
    sample = first[0].slice(0, _SAMPLE)
    return Look(path, len(files), _rows(files), sample.schema, sample, guesses(sample))


def draft(look: Look, name: str) -> str:
    """A commented job file for a source."""
    shown = "\n".join(f"#   {field.name:<24} {field.type}" for field in look.schema)
    rows = "" if look.rows is None else f", {look.rows:,} rows"
    count = f"{look.files} file{'s' if look.files != 1 else ''}{rows}"
    return f"""\
# A job for Skyband, drafted from {look.path}: {count}, with the columns
{shown}
{_left_out(look)}#
# Check it with: skyband check {name}.toml      Run it with: skyband pipeline {name}.toml

name = {_quoted(name)}
engine = "local"                 # or "spark": the same job on Spark
checkpoint = {_quoted(f"state/{name}")}        # delete this folder to start from the first row
on_bad = "skip"                  # "raise" stops the job at the first bad row

[source]
kind = "files"                   # new files are read as they appear
path = {_quoted(look.path)}

{_best(look)}
[queries.frequent]               # the most frequent items
{_frequent(look)}
[trigger]
once = true                      # read all there is and stop; leave it out to wait for more
close = true                     # answer the last windows at the end
"""


def _left_out(look: Look) -> str:
    return "".join(f"#\n# {why}\n" for why in mostly_null(look.sample))


def _best(look: Look) -> str:
    if look.score is None:
        return "# no number says how much: to rank rows, add a query of kind TopK with a score\n"
    return (
        "[queries.best]                   # the rows with the greatest score\n"
        f'kind = "TopK"\nk = 10\n{_chosen(look, "score")}{_chosen(look, "id")}{_over(look)}'
        'sink = { kind = "console" }     # or files, postgres, kafka, http\n'
    )


def _frequent(look: Look) -> str:
    other = next((n for n in look.schema.names if n != look.time), look.schema.names[0])
    item = _chosen(look, "item") or f"item = {_quoted(look.id or look.score or other)}\n"
    return f'kind = "HeavyHitters"\nk = 10\n{item}{_over(look)}sink = {{ kind = "console" }}\n'


def _chosen(look: Look, role: str) -> str:
    """The line of a column, with the reason for it."""
    if role not in look.guesses:
        return ""
    found = look.guesses[role]
    return f"{f'{role} = {_quoted(found.name)}':<32} # {found.why}\n"


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


def _window(look: Look, time: str) -> tuple[str, str]:
    """A size and a slide that show some windows of the source."""
    kind = look.schema.field(time).type
    if not is_time(kind):
        return "1000", "100"
    if pa.types.is_date(kind):
        return '"10 days"', '"1 day"'
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
