"""Guesses which columns of a sample a first job would use, and says why.

Each column gets points for the words in its name, its type, its nulls and how many different values
it has. A guess is only a start: the draft shows the reason beside it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from skyband.data.columns import is_number_type, output_type

__all__ = ["Guess", "guesses", "is_time", "mostly_null"]

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
class Guess:
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


def guesses(sample: pa.Table) -> dict[str, Guess]:
    """What a query could have as its time, score, id and item, where a column fits."""
    time = _time(sample)
    columns = [each for each in _columns(sample) if each.name != time]
    found = {
        "time": None if time is None else Guess(time, ""),
        "score": _guess(columns, "measure"),
        "id": _guess(columns, "named"),
        "item": _guess(columns, "counted"),
    }
    return {role: guess for role, guess in found.items() if guess is not None}


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


def _guess(columns: Sequence[_Column], points: str) -> Guess | None:
    """The column that has most points of a kind."""
    fitting = [each for each in columns if getattr(each, points) >= 0]
    found = max(fitting, key=lambda each: getattr(each, points), default=None)
    if found is None:
        return None
    if points == "measure":
        named = found.words & set(_MEASURES)
        return Guess(found.name, "its name says that it is a measure" if named else "a number")
    why = "its name says what a row is about" if found.words & _SUBJECTS else "text"
    values = f"{found.values:,} value{'s' * (found.values != 1)} in {found.rows:,} rows"
    own = 1 < found.values == found.rows
    return Guess(found.name, f"{why}; {'every row has its own' if own else values}")


def mostly_null(sample: pa.Table) -> list[str]:
    """The columns that were not taken because many of their rows are null, with the share."""
    return [
        f"{each.name} was not taken: {each.nulls:.0%} of it is null".replace("%", " %")
        for each in _columns(sample)
        if each.nulls > _MOST_NULL and each.words & _SUBJECTS
    ]


def is_time(kind: pa.DataType) -> bool:
    """Whether values are moments or days."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def _columns(sample: pa.Table) -> list[_Column]:
    return [_column(name, sample[name], sample.num_rows) for name in sample.column_names]


def _column(name: str, column: pa.ChunkedArray, rows: int) -> _Column:
    kind = output_type(column.type)
    plain = column.cast(kind) if pa.types.is_dictionary(column.type) else column
    try:
        values = pc.count_distinct(plain).as_py()
    except pa.ArrowException:  # lists, for example
        values = 0
    words = frozenset(_words(name))
    return _Column(name, kind, words, rows, values, column.null_count / max(rows, 1))
