"""Writes a first job file for a source, from a look at its columns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from skyband.data.columns import is_number_type, output_type
from skyband.data.time_forms import TimeForm
from skyband.embedded.formats import format_of
from skyband.embedded.sources import FileSet, batches_of, paths_of
from skyband.embedded.text_files import blocks, ending_of, open_text
from skyband.errors import SchemaError

# Guesses which columns of a sample a first job would use, and says why ---------------------------
#
# Each column gets points for the words in its name, its type, its nulls and its different values.
# A guess is only a start: the draft shows the reason beside it.


_FORMATS = (
    "iso", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M",
    "%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y", "%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M",
    "%d/%m/%Y", "%d/%b/%Y:%H:%M:%S %z",
)  # fmt: skip
"""How times may be written that are text."""
_UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000}
_SINCE, _UNTIL = 1e9, 4.2e9
"""Numbers between these may be seconds since 1970, from 2001 to 2103."""
_TIMES = ("ts", "time", "timestamp", "event_time", "date", "at", "when", "created", "epoch")


def _words(text: str) -> tuple[str, ...]:
    """The words of a name such as ``bytes_read`` or ``userName``, in small letters."""
    parts = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", text)
    return tuple(part.lower() for part in parts)


_SUBJECTS = frozenset(
    _words(
        "id name user host word url item key flow symbol station player room product service "
        "customer account device sensor client server ip address domain path page title tag label "
        "term query country city number code isbn sku"
    )
)
"""Words in the name of a column that says what a row is about."""
_MEASURES = _words(
    "score value bytes amount revenue volume price cost size length load power count total sum "
    "magnitude duration latency speed"
)
"""Words in the name of a column that rows are ranked by, the likeliest first."""
_PLACES = frozenset(
    _words(
        "lat lon lng latitude longitude x y z pos position index offset row line seq sequence rank "
        "season year month day hour minute second week type kind class flag status version port "
        "zip confidence probability rate ratio"
    )
)
"""Words in the name of a number that says where or of what kind something is, not how much."""
_MOST_NULL = 0.25


@dataclass(frozen=True)
class ColumnGuess:
    """A column, and why it was taken."""

    name: str
    why: str


@dataclass(frozen=True)
class _Column:
    name: str
    kind: pa.DataType
    words: frozenset[str]
    rows: int
    values: int
    nulls: float

    @property
    def text(self) -> bool:
        return bool(pa.types.is_string(self.kind) or pa.types.is_large_string(self.kind))

    @property
    def subject(self) -> float:
        """Points for saying what a row is about; below 0 if it does not."""
        named = bool(self.words & _SUBJECTS)
        if self.nulls > _MOST_NULL or not (self.text or (pa.types.is_integer(self.kind) and named)):
            return -1
        if named and not self.text and self.words & {*_MEASURES, *_PLACES}:
            return -1  # dst_host_count counts hosts, and is none
        whole = self.name.lower() in _SUBJECTS
        varied = 2 * (self.values > 1) + self.values / self.rows
        kind = bool(self.words & _PLACES)
        return 3 * named + whole + self.text + varied - kind - self.nulls

    @property
    def named(self) -> float:
        """Points for an id: only a name can say that it is one."""
        return self.subject if self.words & _SUBJECTS else -1

    @property
    def counted(self) -> float:
        """Points for an item: nothing is frequent if every row has a value of its own."""
        return self.subject - 4 * (1 < self.rows == self.values) if self.subject >= 0 else -1

    @property
    def measure(self) -> float:
        """Points for saying how much; below 0 if it does not."""
        ranks = [len(_MEASURES) - i for i, word in enumerate(_MEASURES) if word in self.words]
        if not is_number_type(self.kind) or self.nulls > 2 * _MOST_NULL:
            return -1
        if not ranks and self.words & (_PLACES | _SUBJECTS):
            return -1
        return max(ranks, default=0) + (0 if pa.types.is_integer(self.kind) else 0.5)


def guesses(sample: pa.Table) -> dict[str, ColumnGuess]:
    """What a query could have as its time, score, id and item, where a column fits."""
    time = _time(sample)
    columns = [each for each in _columns(sample) if each.name != time]
    chosen = {
        "time": None if time is None else ColumnGuess(time, ""),
        "score": _guess(columns, "measure"),
        "id": _guess(columns, "named"),
        "item": _guess(columns, "counted"),
    }
    return {role: guess for role, guess in chosen.items() if guess is not None}


def _time(sample: pa.Table) -> str | None:
    """A column of times, or of integers that is named like one."""
    times = [field.name for field in sample.schema if is_time(field.type)]
    for whole in (True, False):
        for word in _TIMES:
            for name in times:
                if name.lower() == word if whole else word in name.lower():
                    return str(name)
    numbers = [f.name for f in sample.schema if pa.types.is_integer(f.type)]
    return next((str(n) for n in (*times, *numbers) if n in times or n.lower() in _TIMES), None)


def _guess(columns: Sequence[_Column], points: str) -> ColumnGuess | None:
    """The column that has most points of a kind."""
    fitting = [each for each in columns if getattr(each, points) >= 0]
    best = max(fitting, key=lambda each: getattr(each, points), default=None)
    if best is None:
        return None
    if points == "measure":
        named = best.words & set(_MEASURES)
        return ColumnGuess(best.name, "its name says that it is a measure" if named else "a number")
    why = "its name says what a row is about" if best.words & _SUBJECTS else "text"
    values = f"{best.values:,} value{'s' * (best.values != 1)} in {best.rows:,} rows"
    own = 1 < best.values == best.rows
    return ColumnGuess(best.name, f"{why}; {'every row has its own' if own else values}")


def _with_times(sample: pa.Table) -> tuple[pa.Table, dict[str, TimeForm]]:
    """The sample, with text and numbers that look like times as timestamps, and their forms."""
    forms: dict[str, TimeForm] = {}
    for at, name in enumerate(sample.column_names):
        form = _form_of(name, sample.column(at).drop_null())
        if form is not None:
            forms[name] = form
            sample = sample.set_column(at, name, form.read(name, sample.column(at)))
    return sample, forms


def _form_of(name: str, column: pa.ChunkedArray) -> TimeForm | None:
    kind = output_type(column.type)
    if not len(column):
        return None
    if pa.types.is_string(kind):
        some = column.slice(0, _FEW)
        for form in (TimeForm(written, None) for written in _FORMATS):
            if not form.read(name, some).null_count and not form.read(name, column).null_count:
                return form
    if pa.types.is_integer(kind) and {*_words(name)} & {*_TIMES}:
        least, most = pc.min_max(column).as_py().values()
        for unit, scale in _UNITS.items():
            if _SINCE * scale <= least and most <= _UNTIL * scale:
                return TimeForm(None, unit)
    return None


def _delimiter(path: Path) -> str | None:
    """What separates the fields of a CSV file, if it is no comma."""
    if format_of(path) != "csv" or ending_of(path) == ".tsv":
        return None
    with closing(open_text(path)) as file:
        head = next(blocks(file, 1 << 16), b"").split(b"\n")[0].decode(errors="replace")
    signs = [sign for sign in (";", "\t", "|") if sign in head and "," not in head]
    return max(signs, key=head.count, default=None)


def is_time(kind: pa.DataType) -> bool:
    """Whether values are moments or days."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _columns(sample: pa.Table) -> list[_Column]:
    columns, rows = [], sample.num_rows
    for name, column in zip(sample.column_names, sample.columns, strict=True):
        kind = output_type(column.type)
        plain = column.cast(kind) if pa.types.is_dictionary(column.type) else column
        try:
            values = pc.count_distinct(plain).as_py()
        except pa.ArrowException:  # lists, for example
            values = 0
        nulls = column.null_count / max(rows, 1)
        columns.append(_Column(name, kind, frozenset(_words(name)), rows, values, nulls))
    return columns


_SAMPLE = 10_000
_FEW = 20
_MOST_COUNTED = 64 << 20
"""Bytes of text files whose lines are counted."""


@dataclass(frozen=True)
class SourceSample:
    """What a look at a source found."""

    path: str
    files: int
    rows: int | None
    """None if counting them would mean reading everything."""
    schema: pa.Schema
    sample: pa.Table
    guesses: Mapping[str, ColumnGuess]
    """The likely ``time``, ``score``, ``id`` and ``item`` of a query, where a column fits."""
    forms: Mapping[str, TimeForm] = field(default_factory=dict)
    """How the times are written that are text or numbers."""
    delimiter: str | None = None

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


def look_at(path: str) -> SourceSample:
    """Look at the columns and the first rows of files."""
    files = paths_of(path)
    delimiter = _delimiter(files[0])
    source = FileSet((files[0],), delimiter)
    first = list(islice((t for t in batches_of(source) if t.num_rows), 1))
    if not first:
        raise SchemaError(f"{files[0].name!r} has no rows; give a file with some")
    sample, forms = _with_times(first[0].slice(0, _SAMPLE))
    found = (sample.schema, sample, guesses(sample), forms, delimiter)
    return SourceSample(path, len(files), _rows(files), *found)


def draft(look: SourceSample, name: str) -> str:
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
{"" if look.delimiter is None else f"delimiter = {_quoted(look.delimiter)}{chr(10)}"}
{_best(look)}
[queries.frequent]               # the most frequent items
{_frequent(look)}
[trigger]
once = true                      # read all there is and stop; leave it out to wait for more
close = true                     # answer the last windows at the end
"""


def _left_out(look: SourceSample) -> str:
    """The columns that were not taken because many of their rows are null, with the share."""
    return "".join(
        f"#\n# {column.name} was left out: {100 * column.nulls:.0f} % of its values are null\n"
        for column in _columns(look.sample)
        if column.nulls > _MOST_NULL and column.words & _SUBJECTS
    )


def _best(look: SourceSample) -> str:
    if look.score is None:
        return "# no column looks like a score; to rank rows, add a query of kind TopK\n"
    return (
        "[queries.best]                   # the rows with the greatest score\n"
        f'kind = "TopK"\nk = 10\n{_chosen(look, "score")}{_chosen(look, "id")}{_over(look)}'
        'sink = { kind = "console" }     # or files, postgres, kafka, http\n'
    )


def _frequent(look: SourceSample) -> str:
    other = next((n for n in look.schema.names if n != look.time), look.schema.names[0])
    item = _chosen(look, "item") or f"item = {_quoted(look.id or look.score or other)}\n"
    return f'kind = "HeavyHitters"\nk = 10\n{item}{_over(look)}sink = {{ kind = "console" }}\n'


def _chosen(look: SourceSample, role: str) -> str:
    """The line of a column, with the reason for it."""
    if role not in look.guesses:
        return ""
    guess = look.guesses[role]
    return f"{f'{role} = {_quoted(guess.name)}':<32} # {guess.why}\n"


def _over(look: SourceSample) -> str:
    """The time column and the window; without a time, a window over the last rows."""
    if look.time is None:
        comment = "# no time column was found; with one: time = ..., window = { size = ... }"
        count = max(min((look.rows or 1_000_000) // 10, 100_000), 1)
        return f"window = {{ count = {count}, slide = {max(count // 10, 1)} }}   {comment}\n"
    size, slide = _window(look, look.time)
    window = f"window = {{ size = {size}, slide = {slide} }}\n"
    time, form = _quoted(look.time), look.forms.get(look.time)
    if form is not None:
        key, word = ("unit", form.unit) if form.unit else ("format", form.format)
        time = f"{{ column = {time}, {key} = {_quoted(word or '')} }}"
    return f"time = {time}\n{window}"


def _quoted(text: str) -> str:
    """Text as TOML writes it."""
    return json.dumps(text, ensure_ascii=False)


def _window(look: SourceSample, time: str) -> tuple[str, str]:
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
    kinds = {format_of(path) for path in files}
    if kinds == {"parquet"}:
        return sum(int(pa.parquet.read_metadata(path).num_rows) for path in files)
    if kinds <= {"csv", "json"} and sum(path.stat().st_size for path in files) <= _MOST_COUNTED:
        heads = sum(format_of(path) == "csv" for path in files)
        return sum(map(_lines, files)) - heads
    return None


def _lines(path: Path) -> int:
    """Lines that are not empty."""
    with closing(open_text(path)) as file:
        return sum(
            bool(line.strip()) for text in blocks(file, 1 << 20) for line in text.split(b"\n")
        )
