"""Answers as small tables for people: text for a terminal, HTML for a notebook."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skyband.answers.plain_text import plain
from skyband.errors import SchemaError
from skyband.query.base import REVISION

if TYPE_CHECKING:
    from skyband.answers.answer import Answer

_MOST = 20
"""Rows of a window that are shown; the table has them all."""
_EDGES = ("window_start", "window_end", REVISION)
_MEASURES = ("gain", "ratio", "value", "count", "decayed", "topk_probability", "score")
"""Columns that answers are ranked by, where the query is not known."""
_BAR = "rgba(90,130,230,.28)"
"""The bar behind a value: light enough on white, and on black, to read what stands on it."""
_STYLE = "border-collapse:collapse;font-variant-numeric:tabular-nums"


def show(answers: Any, last: int = 3) -> AnswerTable:
    """Show the ``last`` windows of some answers as a table, in a notebook or a terminal.

    ``answers`` is what ``rank`` returns, for a query or a board, or the answers of ``watch``.

    >>> import pyarrow as pa, skyband as sb
    >>> flows = pa.table({"flow": ["a", "b", "c", "d"], "bytes": [10, 30, 20, 5]})
    >>> query = sb.TopK(k=2, score="bytes", id="flow", window=sb.CountWindow(2))
    >>> sb.show(sb.rank(flows, query), last=1)
    4 rows, 2 windows; the last 1:
    [2, 4)
    rank  flow  bytes
       1  c        20
       2  d         5
    """
    if isinstance(answers, Mapping):
        tables = dict(answers)
    elif hasattr(answers, "__arrow_c_stream__"):
        tables = {"": pa.table(answers)}
    else:
        tables = _by_name(answers)
    for name, table in tables.items():
        if "window_end" not in table.column_names:
            where = f" of {name!r}" if name else ""
            raise SchemaError(f"the table{where} lacks 'window_end'; give what rank returns")
    return AnswerTable(tables, last)


def _by_name(answers: Iterable[Answer]) -> dict[str, pa.Table]:
    tables: dict[str, list[pa.Table]] = {}
    for answer in answers:
        tables.setdefault(answer.name or "", []).append(answer.table)
    return {name: pa.concat_tables(pieces) for name, pieces in tables.items()}


class AnswerTable:
    """The last windows of some answers as text or HTML; returned by ``show``."""

    def __init__(self, tables: Mapping[str, pa.Table], last: int) -> None:
        self._tables, self._last = tables, last

    def __repr__(self) -> str:
        parts = []
        for name, table in self._tables.items():
            windows = _windows(table)
            parts.append(f"{name}: " * bool(name) + self._head(table, windows))
            for window in windows[-self._last :]:
                parts += [_span(window), *_lines(window)]
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        parts = []
        for name, table in self._tables.items():
            windows = _windows(table)
            bold = f"<b>{escape(name)}</b> " * bool(name)
            value = _measure(windows[-self._last :])
            body = "".join(
                f'<tr><th colspan="{table.num_columns}" style="text-align:left;padding:2px 8px">'
                f"{escape(_span(window))}</th></tr>{_body(window, value)}"
                for window in windows[-self._last :]
            )
            parts.append(_html(bold + escape(self._head(table, windows)), table, body))
        return "".join(parts)

    def _head(self, table: pa.Table, windows: list[pa.Table]) -> str:
        some = f"; the last {self._last:,}:" if len(windows) > self._last else ""
        return f"{_count(table.num_rows, 'row')}, {_count(len(windows), 'window')}{some}"


def _measure(windows: list[pa.Table]) -> str | None:
    """The column of the values that rank the rows: one that is known, or goes down with ranks."""
    names = windows[0].column_names if windows else []
    known = next((name for name in _MEASURES if name in names), None)
    if known is not None or "rank" not in names:
        return known
    table = pa.concat_tables(windows)
    further = np.diff(table["rank"].to_numpy()) > 0
    for name in names[names.index("rank") + 1 :]:
        if name in _numeric(table) and not table[name].null_count:
            values = table[name].cast(pa.float64(), safe=False).to_numpy()
            steps = np.diff(values)[further]
            if steps.any() and ((steps <= 0).all() or (steps >= 0).all()):
                return str(name)
    return None


def _windows(table: pa.Table) -> list[pa.Table]:
    """The rows of each window, in order."""
    if not table.num_rows:
        return []
    cuts = {0, table.num_rows}
    for name in _EDGES[1:]:
        if name in table.column_names:
            values = table[name].combine_chunks()
            changes = pc.indices_nonzero(pc.not_equal(values[1:], values[:-1])).to_pylist()
            cuts.update(at + 1 for at in changes)
    return [table.slice(a, b - a) for a, b in pairwise(sorted(cuts))]


def _span(window: pa.Table) -> str:
    return _interval(*(window[n][0].as_py() for n in _EDGES if n in window.column_names))


def _interval(start: Any, end: Any, revision: int = 0) -> str:
    corrected = f", revision {revision}" if revision else ""
    return f"[{'…' if start is None else plain(start)}, {plain(end)}){corrected}"


def answer_text(answer: Answer) -> str:
    """The answer as text: a line about the window, then the rows in columns."""
    name = "" if answer.name is None else f" {answer.name}"
    head = f"<Answer{name} {_interval(answer.start, answer.end, answer.revision)}: {_rows(answer)}"
    return "\n".join([f"{head}{_promise(answer)}>", *_lines(answer.table)])


def answer_html(answer: Answer) -> str:
    """The answer as an HTML table, with a bar behind the value that it is ranked by."""
    name = f"<b>{escape(answer.name)}</b> " if answer.name else ""
    span = escape(_interval(answer.start, answer.end, answer.revision))
    caption = f"{name}{span}: {_rows(answer)}{escape(_promise(answer))}"
    return _html(caption, answer.table, _body(answer.table, _value(answer)))


def _lines(whole: pa.Table) -> list[str]:
    """The rows of a window in columns."""
    table, numeric = _shown(whole), _numeric(whole)
    if not table.num_rows:
        return []
    cells = [[name, *map(plain, table[name].to_pylist())] for name in table.column_names]
    widths = [max(map(len, column)) for column in cells]
    lines = []
    for row in zip(*cells, strict=True):
        padded = zip(row, widths, table.column_names, strict=True)
        parts = [v.rjust(w) if name in numeric else v.ljust(w) for v, w, name in padded]
        lines.append("  ".join(parts).rstrip())
    more = whole.num_rows - table.num_rows
    return [*lines, *([f"… {more:,} more"] if more else [])]


def _html(caption: str, table: pa.Table, body: str) -> str:
    names, numeric = _shown(table).column_names, _numeric(table)
    heads = "".join(f"<th{_side(n in numeric)}>{escape(n)}</th>" for n in names)
    return (
        f'<table class="skyband-answer" style="{_STYLE}"><caption style="text-align:left">'
        f"{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    )


def _body(whole: pa.Table, value: str | None) -> str:
    table, numeric = _shown(whole), _numeric(whole)
    most = max((abs(v) for v in _finite(table[value])), default=0) if value else 0
    rows = []
    for row in table.to_pylist():
        cells = "".join(_cell(row[n], n in numeric, n == value, most) for n in row)
        rows.append(f"<tr>{cells}</tr>")
    more = whole.num_rows - table.num_rows
    if more:
        rows.append(f'<tr><td colspan="{table.num_columns}">… {more:,} more</td></tr>')
    return "".join(rows)


def _cell(value: Any, numeric: bool, ranked: bool, most: float) -> str:
    style = f"text-align:{'right' if numeric else 'left'};padding:2px 8px"
    if ranked and most and isinstance(value, (int, float)) and math.isfinite(value):
        share = min(100.0, 100 * abs(value) / most)
        style += f";background:linear-gradient(90deg,{_BAR} {share:.1f}%,transparent {share:.1f}%)"
    return f'<td style="{style}">{escape(plain(value))}</td>'


def _side(numeric: bool) -> str:
    return f' style="text-align:{"right" if numeric else "left"};padding:2px 8px"'


def _shown(table: pa.Table) -> pa.Table:
    return table.select([n for n in table.column_names if n not in _EDGES]).slice(0, _MOST)


def _numeric(table: pa.Table) -> set[str]:
    kinds = {each.name: each.type for each in table.schema}
    return {n for n, k in kinds.items() if pa.types.is_integer(k) or pa.types.is_floating(k)}


def _value(answer: Answer) -> str | None:
    """The column that the answer is ranked by, where it has one."""
    query = answer.query
    wanted = (*query.extra_columns[:1], "decayed", getattr(query, "score", None), "score")
    return (
        next((n for n in wanted if n in answer.table.column_names), None) if query.ranked else None
    )


def _finite(column: pa.ChunkedArray) -> list[float]:
    values = [v for v in column.to_pylist() if isinstance(v, (int, float))]
    return [v for v in values if math.isfinite(v)]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def _rows(answer: Answer) -> str:
    return f"{_count(answer.table.num_rows, 'row')}, total {plain(answer.total)}"


def _promise(answer: Answer) -> str:
    if answer.exact:
        return ""
    bounds = ", ".join(f"{name} {plain(value)}" for name, value in answer.bounds.items())
    return f", approximate ({bounds})" if bounds else ", approximate"
