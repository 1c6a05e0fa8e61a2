"""What a picture needs of answers: windows in order, and the rows of each as plain values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answer
from skyband.answers.tables import last_revisions
from skyband.answers.units import unit_of, units_of
from skyband.data.columns import is_number_type
from skyband.errors import QueryError, SchemaError
from skyband.query import Query
from skyband.query.base import REVISION
from skyband.window import DecayWindow

Answers = Any
"""The table of ``rank``, the answers of ``watch``, or a single answer."""

_EDGES = ("window_start", "window_end", REVISION)
_COMPUTED = ("count", "error", "topk_probability", "decayed")
_LONGEST = 32


@dataclass(frozen=True)
class PictureRow:
    """One row of an answer."""

    group: str
    """The group as text; empty if the query has no ``by``."""
    label: str
    """What identifies the row; a key that an answer shows twice is numbered."""
    rank: int | None
    value: float | None
    error: float
    row: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Group and label in one text."""
        return f"{self.group} · {self.label}" if self.group else self.label


@dataclass(frozen=True)
class PictureWindow:
    """One window: its end, its rows, and how much there was in all (None if not known)."""

    end: Any
    spots: tuple[PictureRow, ...]
    total: float | None = None
    start: Any = None


@dataclass(frozen=True)
class Frame:
    """Answers as a picture needs them, oldest first."""

    windows: tuple[PictureWindow, ...]
    value: str | None
    """The column that the answer is ranked by."""
    prefer: Mapping[str, str]
    """The columns of a skyline and their directions, if they are known."""
    columns: tuple[str, ...]
    """The numeric columns of the rows, in order."""
    unit: str | None = None
    """What the values are, for the label of an axis."""
    units: Mapping[str, str] = field(default_factory=dict)
    """The units of columns, where they are known."""
    named: bool = True
    """Whether labels name rows; those of a skyline without an id are only its two values."""

    def at(self, end: Any) -> PictureWindow:
        """The window with this end; the last one that has rows for None."""
        if end is None:
            filled = [window for window in self.windows if window.spots]
            return (filled or list(self.windows) or [PictureWindow(None, ())])[-1]
        for window in self.windows:
            if window.end == end:
                return window
        ends = ", ".join(str(window.end) for window in self.windows[-3:])
        raise QueryError(f"there is no window with the end {end!r}; the last ends are: {ends}")

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(spot.group for w in self.windows for spot in w.spots))

    @property
    def step(self) -> Any:
        """The least distance of two ends, which is how long an answer stands."""
        ends = [window.end for window in self.windows]
        steps = [late - early for early, late in pairwise(ends)]
        if steps:
            return min(steps)
        return timedelta(minutes=1) if ends and isinstance(ends[0], datetime) else 1


def frame_of(answers: Answers, query: Query | None, last: int | None) -> Frame:
    """Read answers; ``query`` names the columns, which are guessed from the table without it."""
    pieces = _pieces(answers)
    if last is not None and last < 1:
        raise QueryError(f"last must be 1 or more, not {last!r}")
    known = query or next((p.query for p in pieces if isinstance(p, Answer)), None)
    tables = [p.table if isinstance(p, Answer) else p for p in pieces]
    if not tables:
        return Frame((), None, getattr(known, "prefer", {}), ())
    names = tables[-1].column_names
    for edge in _EDGES[:2]:
        if edge not in names:
            raise SchemaError(
                f"column {edge!r} is missing; plots take the table of rank or the answers of watch,"
                f" and the columns here are: {', '.join(names)}"
            )
    units = {n: u for n in names if (u := unit_of(n))} if known is None else units_of(known, names)
    layout = _layout(tables[-1].schema, known, units)
    windows = _windows(pieces, layout, known)
    return Frame(
        tuple(windows[-last:] if last else windows),
        layout.value,
        dict(getattr(known, "prefer", {})),
        tuple(
            f.name
            for f in tables[-1].schema
            if f.name not in layout.fixed and is_number_type(f.type)
        ),
        getattr(known, "weight", None) or layout.value,
        units,
        layout.named,
    )


def plain(value: Any) -> str:
    """A value as a label."""
    if isinstance(value, float):
        text = f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    elif isinstance(value, int) and not isinstance(value, bool):
        text = f"{value:,}"
    else:
        text = "–" if value is None else str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def short(value: float, unit: str | None = None) -> str:
    """A number of at most four digits, with a prefix.

    >>> short(1_234_567), short(0.25), short(950), short(-2e9), short(2e9, "bytes")
    ('1.23 M', '0.25', '950', '-2 G', '2 GB')
    """
    named = "B" if unit == "bytes" else unit
    for size, prefix in ((1e12, " T"), (1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(value) >= size:
            at = 1e3 if prefix == " k" else size
            text = f"{value / at:.3g}{prefix}"
            return text if named is None else f"{text}{'' if named == 'B' else ' '}{named}"
    text = plain(float(value)) if value != int(value) else f"{int(value):,}"
    return text if named is None else f"{text} {named}"


# Reading what was given ---------------------------------------------------------------------------


def _pieces(answers: Answers) -> list[Any]:
    """Answers, or a single table."""
    if isinstance(answers, (Answer, pa.Table)):
        return [answers]
    if isinstance(answers, Mapping):
        names = ", ".join(map(str, answers))
        raise QueryError(f"a board has several answers; draw one of them: {names}")
    if hasattr(answers, "__arrow_c_stream__"):
        return [pa.table(answers)]
    if not isinstance(answers, Iterable) or isinstance(answers, (str, bytes)):
        raise QueryError(f"plots take the table of rank or the answers of watch, not {answers!r}")
    pieces = list(answers)
    for each in pieces:
        if not isinstance(each, Answer):
            raise QueryError(f"plots take answers of watch, but one of these is {each!r}")
    several = list(dict.fromkeys(str(each.name) for each in pieces))
    if len(several) > 1:
        raise QueryError(
            f"these are answers of {', '.join(several)}; draw one query: "
            "[a for a in answers if a.name == ...]"
        )
    return pieces


@dataclass(frozen=True)
class _Layout:
    """Which columns of an answer mean what."""

    groups: tuple[str, ...]
    key: tuple[str, ...]
    value: str | None
    ranked: bool
    units: Mapping[str, str]
    named: bool = True

    @property
    def fixed(self) -> tuple[str, ...]:
        return (*_EDGES, *self.groups, "rank")


def _layout(schema: pa.Schema, query: Query | None, units: Mapping[str, str]) -> _Layout:
    names = [n for n in schema.names if n not in _EDGES]
    ranked = "rank" in names
    if query is not None:
        fixed = (*query.groups, "rank", *query.extra_columns, *query.kept)
        wishes = tuple(n for n in getattr(query, "prefer", {}) if n not in query.groups)
        key = query.key or wishes or tuple(n for n in names if n not in fixed)
        value = query.ranked_by if query.ranked_by in names else None
        return _Layout(query.groups, key, value, ranked, units, bool(query.key) or ranked)
    if not ranked:
        # A skyline: groups cannot be told from other columns, and the first text column names rows.
        texts = [n for n in names if not is_number_type(schema.field(n).type)]
        return _Layout((), tuple(texts[:1] or names[:2]), None, False, units, bool(texts))
    at = names.index("rank")
    groups, rest = tuple(names[:at]), names[at + 1 :]
    if "count" in rest and "error" in rest:
        value = next((n for n in ("ratio", "gain") if n in rest), "count")
        at = rest.index("count")
        if at > 1 and rest[at - 1] == "value":
            at, value = at - 1, "value"
        return _Layout(groups, tuple(rest[:at]), value, True, units)
    value = next((n for n in ("topk_probability", "decayed") if n in rest), None)
    plain_ = [n for n in rest if n not in _COMPUTED]
    numbers = [n for n in plain_ if is_number_type(schema.field(n).type)]
    first = plain_[:1]
    named = bool(first) and (first[0] not in numbers or len(numbers) > 1)
    scores = [n for n in numbers if not named or n != first[0]]
    value = value or (scores or [None])[0]
    return _Layout(groups, tuple(first if named else plain_), value, True, units)


def _windows(pieces: list[Any], layout: _Layout, query: Query | None) -> list[PictureWindow]:
    by_end: dict[Any, tuple[list[PictureRow], float | None, Any]] = {}
    for piece in pieces:
        if isinstance(piece, Answer):
            spots = by_end.setdefault(piece.end, ([], None, None))[0]
            spots = spots * (not piece.revision) + _spots(piece.table, layout)
            by_end[piece.end] = (spots, piece.total, piece.start)
            continue
        if piece.column_names[2:3] == [REVISION]:
            piece = last_revisions(piece)  # noqa: PLW2901
        ends = piece["window_end"].to_pylist()
        cuts = [i for i in range(len(ends)) if not i or ends[i] != ends[i - 1]]
        counted = "total" in piece.column_names and not layout.groups and layout.value == "count"
        totals = piece["total"].to_pylist() if counted else [None] * len(ends)
        for low, high in pairwise([*cuts, len(ends)]):
            spots = by_end.setdefault(ends[low], ([], None, None))[0]
            spots += _spots(piece.slice(low, high - low), layout)
            by_end[ends[low]] = (spots, totals[low], piece["window_start"][low].as_py())
    windows = [
        PictureWindow(end, tuple(spots), total, start)
        for end, (spots, total, start) in sorted(by_end.items())
    ]
    decays = query is not None and isinstance(query.window, DecayWindow)
    return windows if decays or len(windows) < 3 else _with_gaps(windows)


def _with_gaps(windows: list[PictureWindow]) -> list[PictureWindow]:
    """Windows without rows are missing from a table; one empty window stands for each gap."""
    step = min(b.end - a.end for a, b in pairwise(windows))
    filled = windows[:1]
    for window in windows[1:]:
        if window.end - filled[-1].end > 1.5 * step:
            filled.append(PictureWindow(filled[-1].end + step, ()))
        filled.append(window)
    return filled


def _told(value: Any, layout: _Layout, name: str) -> str:
    """A part of a label; values that stand for a name have their units."""
    measured = not layout.named and isinstance(value, (int, float))
    return short(value, layout.units.get(name)) if measured else plain(value)


def _spots(table: pa.Table, layout: _Layout) -> list[PictureRow]:
    spots = []
    seen: dict[tuple[str, str], int] = {}
    for row in table.to_pylist():
        group = ", ".join(plain(row[name]) for name in layout.groups)
        label = ", ".join(_told(row[name], layout, name) for name in layout.key)
        times = seen[group, label] = seen.get((group, label), 0) + 1
        value = row[layout.value] if layout.value else None
        spots.append(
            PictureRow(
                group,
                label if times == 1 else f"{label} ({times})",
                row["rank"] if layout.ranked else None,
                None if value is None else float(value),
                float(row.get("error") or 0) if layout.value == "count" else 0.0,
                row,
            )
        )
    return spots
