"""Writes answers: as a table for people, or as JSON lines, CSV or Parquet for programs."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from skyband.answers.plain_text import plain
from skyband.cli.explain import Format, say
from skyband.cli.view import add_columns, span, with_share
from skyband.data.json_text import escaped_text, json_text
from skyband.errors import QueryError
from skyband.query import Query

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.answers.answer import Answer

_AT_ONCE = 1 << 16
_ENDS = 3
_MANY = 8
"""With more windows than this, a table for people shows only the first and last few."""

_UNPRINTABLE = 10_000
"""A width at which no row of a table is cut off, for files and pipes."""


_ENDINGS = {
    ".json": Format.json,
    ".jsonl": Format.json,
    ".ndjson": Format.json,
    ".csv": Format.csv,
    ".parquet": Format.parquet,
    ".pq": Format.parquet,
    ".txt": Format.table,
}


def format_of(format_: Format | None, output: Path | None) -> Format:
    """The requested format, otherwise that of the file extension, otherwise a table."""
    if output is not None and not output.parent.is_dir():
        raise QueryError(f"--output {output}: there is no folder {output.parent}; create it first")
    if format_ is not None:
        return format_
    if output is None:
        return Format.table
    if output.suffix.lower() not in _ENDINGS:
        known = ", ".join(_ENDINGS)
        raise QueryError(
            f"--output {output.name} has no known file extension ({known}); give --format too"
        )
    return _ENDINGS[output.suffix.lower()]


class AnswerWriter:
    """Writes tables of answers to one output, one after another."""

    def __init__(self, file: IO[bytes], format_: Format, query: Query | None = None) -> None:
        self.file = file
        self.query = query
        self.format = format_
        self.rows = 0
        self._headed = False
        self._open: Any = None

    def write(self, table: pa.Table) -> None:
        """Write a table and flush it, so that a reader sees it at once."""
        table = with_share(table, self.query)
        self.rows += table.num_rows
        if self.format is Format.json:
            self._json(table)
        elif self.format is Format.csv:
            self._csv(table)
        elif self.format is Format.parquet:
            self._parquet(table)
        else:
            self._table(table)
        self.file.flush()

    def close(self) -> None:
        if self._open is not None:
            self._open.close()

    def _json(self, table: pa.Table) -> None:
        for start in range(0, table.num_rows, _AT_ONCE):
            rows = table.slice(start, _AT_ONCE).to_pylist()
            text = "\n".join(json_text(row, escaped_text) for row in rows)
            self.file.write(text.encode() + b"\n")

    def _csv(self, table: pa.Table) -> None:
        from pyarrow import csv

        flat = pa.table({f.name: _flat(table[f.name], f.type) for f in table.schema})
        options = csv.WriteOptions(include_header=not self._headed)
        self._headed = True
        csv.write_csv(flat, self.file, options)

    def _parquet(self, table: pa.Table) -> None:
        import pyarrow.parquet as pq

        if self._open is None:
            self._open = pq.ParquetWriter(self.file, table.schema)
        self._open.write_table(table)

    def _table(self, table: pa.Table) -> None:
        terminal = self.file is sys.stdout.buffer and sys.stdout.isatty()
        text = io.TextIOWrapper(self.file, encoding="utf-8", write_through=True)
        console = Console(
            file=sys.stdout if terminal else text,
            width=None if terminal else _UNPRINTABLE,
            highlight=False,
        )
        try:
            for part in _drawn(table, self.query, console.width):
                console.print(part)
        finally:
            text.detach()


@contextmanager
def writer(
    format_: Format, output: Path | None, query: Query | None = None, *, growing: bool = False
) -> Iterator[AnswerWriter]:
    """A Writer of a query's answers onto a file, or onto standard output.

    A file is there once it is whole; one that others read while it grows has its name at once.
    """
    if output is None and format_ is Format.parquet and sys.stdout.isatty():
        raise QueryError(
            "Parquet is binary and cannot be shown on a terminal; give --output FILE, or pipe "
            "it into a program"
        )
    with _opened(output, growing) as file:
        opened = AnswerWriter(file, format_, query)
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def _opened(output: Path | None, growing: bool) -> Iterator[IO[bytes]]:
    if output is None:
        yield sys.stdout.buffer
        return
    device = output.exists() and not output.is_file()
    if growing or device or not os.access(output.parent, os.W_OK):
        with output.open("wb") as file:
            yield file
        return
    target = output.resolve()  # what a link points to
    draft = target.with_name(f"{target.name}.part")
    try:
        with draft.open("wb") as file:
            yield file
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _drawn(table: pa.Table, query: Query | None, width: int) -> Iterator[Any]:
    """A table of answers for people, with one section per window.

    In a narrow terminal long texts are folded; columns that have no room at all are named below.
    """
    if not table.num_rows:
        yield Text("no window has any rows", style="dim")
        return
    windowed = {"window_start", "window_end"} <= set(table.column_names)
    edges = ("window_start", "window_end") if windowed else ()
    names = [name for name in table.column_names if name not in edges]
    sections = _sections(table) if windowed else [(0, table.num_rows)]
    many = len(sections) > _MANY
    shown = [*sections[:_ENDS], *sections[-_ENDS:]] if many else sections
    rows = pa.concat_tables([table.slice(start, length) for start, length in shown])
    cells = {name: list(map(plain, rows[name].to_pylist())) for name in names}
    spans = [span(*_window(table, start)) for start, _ in shown] if windowed else [""]
    drawn = Table(header_style="bold", border_style="dim")
    if windowed:
        drawn.add_column("window", no_wrap=True, style="dim")
    room = width - max(map(len, spans)) + 1
    fit, _ = add_columns(drawn, cells, table.schema, query, room, overflow="fold")
    row = 0
    for number, (_, length) in enumerate(shown):
        if many and number == _ENDS:
            hidden = len(sections) - len(shown)
            drawn.add_row(f"… {hidden:,} more windows …", end_section=True)
        for place in range(length):
            head = [Text(spans[number] if not place else "")] if windowed else []
            line = [Text(cells[name][row]) for name in fit]
            drawn.add_row(*head, *line, end_section=place == length - 1)
            row += 1
    yield drawn
    remarks = [f"no room for {n}" for n in [", ".join(n for n in names if n not in fit)] if n]
    if many:
        remarks.insert(0, f"{len(sections):,} windows")
    if remarks:
        yield Text(
            f"{'; '.join(remarks)}; --format csv, json or parquet writes them all", style="dim"
        )


def _window(table: pa.Table, row: int) -> tuple[Any, Any]:
    start, end = (table[name][row].as_py() for name in ("window_start", "window_end"))
    return start, end


def _sections(table: pa.Table) -> list[tuple[int, int]]:
    """Start and length of the rows of each window."""
    ends = table["window_end"].to_pylist()
    starts = [i for i in range(len(ends)) if not i or ends[i] != ends[i - 1]]
    return [(a, b - a) for a, b in zip(starts, [*starts[1:], len(ends)], strict=True)]


def _flat(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column that CSV can hold."""
    if pa.types.is_dictionary(kind):
        return column.cast(kind.value_type)
    if pa.types.is_nested(kind):
        texts = [None if v is None else json_text(v, escaped_text) for v in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return column


# ``--plot FILE.png``: a picture of the answers, next to whatever else a verb writes --------------


_WINDOWS = 240
"""Windows that a picture shows: the last ones."""
_ANSWERS = 5_000
"""Answers that are kept for it; with groups in count windows there is one per group and window."""


class Picture:
    """Collects answers and draws them at the end; without a path it does nothing."""

    def __init__(self, query: Query, path: Path | None, kind: str | None, verb: str) -> None:
        self.query = query
        self.path = path
        self.verb = verb
        self._kept: deque[Any] = deque(maxlen=_ANSWERS)
        if path is None:
            if kind is not None:
                raise QueryError("--plot-as says how to draw; give --plot FILE.png, too")
            return
        from skyband.plot.files import KINDS, check_path, kind_of

        self.kind = kind or kind_of(query)
        if self.kind not in KINDS:
            raise QueryError(f"--plot-as {kind}: choose one of {', '.join(KINDS)}")
        check_path(path)
        if (self.kind in ("bump", "bars")) > query.ranked:
            raise QueryError(f"--plot-as {kind}: {query.kind} has no ranks; use skyline, timeline")

    def take(self, piece: Answer | pa.Table) -> None:
        """Remember an answer, or a table of answers."""
        if self.path is not None:
            self._kept.append(piece)

    def close(self) -> None:
        """Draw what was taken."""
        if self.path is None:
            return
        import pyarrow as pa

        from skyband.plot.files import save

        pieces: Any = list(self._kept)
        if pieces and isinstance(pieces[0], pa.Table):
            pieces = pa.concat_tables(pieces)
        last = {"last": _WINDOWS} if self.kind in ("bump", "totals", "timeline") else {}
        save(self.path, pieces, kind=self.kind, query=self.query, title=self.title, **last)
        say(f"picture written to {self.path}")

    @property
    def title(self) -> str:
        """What was asked, in a few words."""
        query = self.query
        what = getattr(query, "score", None) or getattr(query, "weight", None) or ""
        named = ", ".join(query.key)
        window = query.window
        size = getattr(window, "size", None) or getattr(window, "half_life", None)
        parts = [self.verb, f"{named} by {what}" if named and what else named or str(what)]
        if size is not None:
            parts.append(f"over {size:,} rows" if window.sort == "sized" and isinstance(size, int)
                         and query.time is None else f"over {size}")  # fmt: skip
        return " · ".join(part for part in parts if part)
