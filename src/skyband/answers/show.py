"""Answers as small tables for people: text for a terminal, HTML for a notebook."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.answers.plain_text import plain

if TYPE_CHECKING:
    from skyband.answers.answer import Answer

__all__ = ["answer_html", "answer_text"]

_MOST = 20
"""Rows that are shown; the table of the answer has them all."""
_EDGES = ("window_start", "window_end")
_BAR = "#dfe7f7"


def answer_text(answer: Answer) -> str:
    """The answer as text: a line about the window, then the rows in columns."""
    head = f"<Answer{_name(answer)} {_span(answer)}: {_rows(answer)}{_promise(answer)}>"
    table, numeric = _shown(answer.table), _numeric(answer.table)
    if not table.num_rows:
        return head
    cells = [[name, *map(plain, table[name].to_pylist())] for name in table.column_names]
    widths = [max(map(len, column)) for column in cells]
    lines = []
    for row in zip(*cells, strict=True):
        padded = zip(row, widths, table.column_names, strict=True)
        parts = [v.rjust(w) if name in numeric else v.ljust(w) for v, w, name in padded]
        lines.append("  ".join(parts).rstrip())
    more = answer.table.num_rows - table.num_rows
    return "\n".join([head, *lines, *([f"… {more:,} more"] if more else [])])


def answer_html(answer: Answer) -> str:
    """The answer as an HTML table, with a bar behind the value that it is ranked by."""
    table, numeric = _shown(answer.table), _numeric(answer.table)
    value = _value(answer, table.column_names)
    most = max((abs(v) for v in _finite(table[value])), default=0) if value else 0
    name = f"<b>{escape(answer.name)}</b> " if answer.name else ""
    caption = f"{name}{escape(_span(answer))}: {_rows(answer)}{escape(_promise(answer))}"
    heads = "".join(f"<th{_side(n in numeric)}>{escape(n)}</th>" for n in table.column_names)
    body = []
    for row in table.to_pylist():
        cells = "".join(_cell(row[n], n in numeric, n == value, most) for n in row)
        body.append(f"<tr>{cells}</tr>")
    more = answer.table.num_rows - table.num_rows
    if more:
        body.append(f'<tr><td colspan="{table.num_columns}">… {more:,} more</td></tr>')
    return (
        '<table class="skyband-answer" style="border-collapse:collapse;'
        'font-variant-numeric:tabular-nums"><caption style="text-align:left">'
        f"{caption}</caption><thead><tr>{heads}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    )


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


def _value(answer: Answer, names: list[str]) -> str | None:
    """The column that the answer is ranked by, where it has one."""
    query = answer.query
    wanted = (*query.extra_columns[:1], "decayed", getattr(query, "score", None), "score")
    return next((n for n in wanted if n in names), None) if query.ranked else None


def _finite(column: pa.ChunkedArray) -> list[float]:
    values = [v for v in column.to_pylist() if isinstance(v, (int, float))]
    return [v for v in values if math.isfinite(v)]


def _name(answer: Answer) -> str:
    return "" if answer.name is None else f" {answer.name}"


def _span(answer: Answer) -> str:
    start = "…" if answer.start is None else plain(answer.start)
    return f"[{start}, {plain(answer.end)})"


def _rows(answer: Answer) -> str:
    rows = answer.table.num_rows
    return f"{rows:,} row{'s' if rows != 1 else ''}, total {plain(answer.total)}"


def _promise(answer: Answer) -> str:
    if answer.exact:
        return ""
    told = ", ".join(f"{name} {plain(value)}" for name, value in answer.bounds.items())
    return f", approximate ({told})" if told else ", approximate"
