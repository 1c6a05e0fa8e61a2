"""Draws answers for a terminal: one table per window, with the changes since the previous one."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from skyband.answers.answer import Answer
from skyband.answers.plain_text import clock, moment_text, plain
from skyband.answers.tables import TOTAL
from skyband.data.columns import is_number_type
from skyband.query import Query

_BAR, _LEAST_BAR = 12, 4
"""Columns of a bar; it is left out where it has fewer than the least."""
_MARK, _GAP = 3, 3
"""Columns of a mark, and between two columns of a table."""
_LEAST_TEXT = 14
_BLOCKS = " ▏▎▍▌▋▊▉█"


def head_of(query: Query | None, name: str) -> str:
    """The head of an answer's column for people: a count with weights is a sum."""
    weight = getattr(query, "weight", None)
    return f"sum of {weight}" if weight and name == "count" else name


def span(start: Any, end: Any) -> str:
    """A window as text; the date is shown once if both ends share it."""
    if start is None:
        return f"up to {plain(end)}"
    if not isinstance(start, datetime):
        return f"[{start:,}, {end:,})"
    if start.date() == end.date():
        return f"{start:%Y-%m-%d} {clock(start)} – {clock(end)}"
    return f"{moment_text(start)} – {moment_text(end)}"


def with_share(table: pa.Table, query: Query | None) -> pa.Table:
    """The table with each item's share of the total, if ``--share`` made it show totals."""
    shown = (TOTAL,) if query is None else (*query.groups, *query.key, *query.kept)
    if TOTAL not in table.column_names or TOTAL in shown:
        return table
    value = table["value" if "value" in table.column_names else "count"]
    total = table[TOTAL].cast(pa.float64(), safe=False)
    share = pc.divide(value.cast(pa.float64(), safe=False), total)
    return table.append_column("share", pc.if_else(pc.greater(total, 0), share, None))


def answer_table(
    answer: Answer,
    query: Query,
    title: str | None = None,
    rows: int | None = None,
    width: int = 1_000,
) -> Table:
    """The answer of one window, with marks for new and moved rows; at most ``rows`` rows.

    In a narrow terminal, of ``width`` columns, bars and long texts become shorter, but numbers do
    not; columns that have no room at all are named below.
    """
    table = with_share(answer.table, query)
    names = [n for n in table.column_names if n not in ("window_start", "window_end")]
    measure = query.ranked_by
    drawn = Table(
        title=title or span(answer.start, answer.end),
        title_justify="left",
        title_style="bold",
        caption_justify="left",
        header_style="dim",
        border_style="dim",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        min_width=min(66, width),
    )
    shown = table.slice(0, rows) if rows is not None else table
    cells = {n: [_near(v, answer) for v in shown[n].to_pylist()] for n in names}
    drawn.add_column("", width=_MARK)
    fit, bar = add_columns(drawn, cells, table.schema, query, width, measure is not None)
    if bar:
        drawn.add_column("", width=bar)
    marks = _marks(answer, query)
    values = shown.to_pylist()
    tops = _tops(values, query, measure)
    for i, row in enumerate(values):
        mark = marks.get(_identity(row, query, names), Text("·", style="dim"))
        line = [mark, *(Text(cells[name][i], _style(name, measure)) for name in fit)]
        if bar and measure is not None:
            line.append(Text(_bar(row[measure], tops[_group(row, query)], bar), style="cyan"))
        drawn.add_row(*line)
    left_out = [head_of(query, name) for name in names if name not in fit]
    drawn.caption = _caption(answer, query, table.num_rows - shown.num_rows, left_out)
    return drawn


def add_columns(
    drawn: Table,
    cells: Mapping[str, Sequence[str]],
    schema: pa.Schema,
    query: Query | None,
    room: int,
    bar: bool = False,
    overflow: Any = "ellipsis",
) -> tuple[list[str], int]:
    """Add the columns that fit to a table: their names, and the width of the bar.

    Texts may be cut or folded; numbers and times are shown in full.
    """
    natural = {n: max(map(cell_len, [head_of(query, n), *cells[n]])) for n in cells}
    kinds = {name: schema.field(name).type for name in cells}
    firm = {n for n, k in kinds.items() if is_number_type(k) or pa.types.is_temporal(k)}
    first: set[str | None] = {"rank"}
    if query is not None:
        first |= {*query.groups, *query.key, query.ranked_by}
    widths, bar_width = _fitted(natural, firm, first, bar, room)
    for name, width in widths.items():
        side: Any = "right" if is_number_type(kinds[name]) else "left"
        drawn.add_column(
            head_of(query, name),
            justify=side,
            no_wrap=overflow != "fold",
            overflow=overflow,
            width=width,
        )
    return list(widths), bar_width


def _fitted(
    natural: dict[str, int], firm: set[str], first: set[str | None], bar: bool, room: int
) -> tuple[dict[str, int], int]:
    """The widths of the columns that fit, and that of the bar, which is the first to shrink.

    Then texts do, but not what is ``firm``. After that columns go, the last ones before others,
    and none of those that come ``first``.
    """
    names = list(natural)
    while True:
        least = {n: natural[n] if n in firm else min(natural[n], _LEAST_TEXT) for n in names}
        free = room - _MARK - 2 - _GAP * len(names)
        if sum(least.values()) <= free or set(names) <= first:
            break
        names.remove(next(name for name in reversed(names) if name not in first))
    widths = dict(least)
    free -= sum(widths.values())
    for name in sorted(names, key=lambda each: natural[each] - least[each]):
        more = min(natural[name] - widths[name], max(0, free))
        widths[name] += more
        free -= more
    bar_width = min(_BAR, free - _GAP)
    return widths, bar_width if bar and bar_width >= _LEAST_BAR else 0


def answer_line(answer: Answer, query: Query) -> str:
    """The answer of one window in one line, for output that is not a terminal."""
    table = answer.table
    measure = query.ranked_by
    shown = (measure,) if measure is not None else getattr(query, "prefer", ())
    names = query.key or tuple(shown)
    parts = []
    for row in table.slice(0, 3).to_pylist():
        label = " ".join(plain(row[name]) for name in (*query.groups, *names))
        tail = f" {plain(row[measure])}" if measure is not None and measure not in names else ""
        parts.append(f"{row['rank']}. {label}{tail}" if query.ranked else label)
    more = f" … {table.num_rows - 3} more" if table.num_rows > 3 else ""
    return f"{span(answer.start, answer.end)}  {'  '.join(parts)}{more}  ({_counts(answer)})"


def _counts(answer: Answer) -> str:
    """How many rows entered, left and moved since the window before."""
    kinds = answer.changes["change"].to_pylist()
    words = (("enter", "in"), ("leave", "out"), ("move", "moved"))
    counts = [f"{kinds.count(kind)} {word}" for kind, word in words if kind in kinds]
    return ", ".join(counts) or "no change"


def change_lines(answer: Answer, query: Query) -> list[Text]:
    """The changes of this answer, one line per change."""
    lines = []
    changes = answer.changes
    names = [n for n in changes.column_names if n not in ("change", "from_rank", "to_rank")]
    for row in changes.to_pylist():
        kind, old, new = row["change"], row["from_rank"], row["to_rank"]
        style = {"enter": "green", "leave": "red"}.get(kind, "")
        ranks = f"{'' if old is None else old:>4} → {'' if new is None else new:<4}"
        label = "  ".join(plain(row[name]) for name in names)
        moment = span(answer.start, answer.end)
        parts = [moment, f"{kind:<5}", *([ranks] if query.ranked else []), label]
        lines.append(Text("  ".join(parts), style=style))
    return lines


# Parts --------------------------------------------------------------------------------------------


def _marks(answer: Answer, query: Query) -> dict[tuple[Any, ...], Text]:
    """The mark of each row of the answer that is new or has moved."""
    marks = {}
    changes = answer.changes
    names = [n for n in changes.column_names if n not in ("change", "from_rank", "to_rank")]
    for row in changes.to_pylist():
        if row["change"] == "leave":
            continue
        if row["change"] == "enter":
            mark = Text("new", style="bold green")
        else:
            steps = row["from_rank"] - row["to_rank"]
            mark = Text(f"▲{steps}", "green") if steps > 0 else Text(f"▼{-steps}", "red")
        place = (row["to_rank"],) if _by_rank(query) else tuple(_hashable(row[n]) for n in names)
        marks[_group(row, query) + place] = mark
    return marks


def _by_rank(query: Query) -> bool:
    """Whether a rank identifies a row within its group."""
    return query.ranked and query.tied_by is None


def _identity(row: dict[str, Any], query: Query, names: Sequence[str]) -> tuple[Any, ...]:
    groups = _group(row, query)
    if _by_rank(query):
        return (*groups, row["rank"])
    computed = (*query.groups, "rank", *query.extra_columns)
    keys = [*query.groups, *(query.key or (n for n in names if n not in computed))]
    return groups + tuple(_hashable(row[n]) for n in keys)


def _caption(answer: Answer, query: Query, hidden: int, left_out: Sequence[str]) -> Text:
    unit = getattr(query, "weight", None) or "rows"
    parts = [f"{plain(answer.total)} {unit} in the window"]
    parts.append("exact" if answer.exact else _bounds(answer))
    if cut := answer.bounds.get("cut"):
        parts.append(f"{plain(cut)} more tie")
    left = answer.changes["change"].to_pylist().count("leave")
    if left:
        parts.append(f"{left} left")
    if hidden:
        parts.append(f"{hidden} more not shown")
    if left_out:
        parts.append(f"no room for {', '.join(left_out)}")
    return Text(" · ".join(parts), style="dim")


def _bounds(answer: Answer) -> str:
    said = ", ".join(f"{name} {plain(value)}" for name, value in answer.bounds.items())
    return f"approximate ({said})" if said else "approximate"


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, (dict, list)) else value


def _style(name: str, measure: str | None) -> str:
    return "bold" if name == measure else "dim" if name == "rank" else ""


def _group(row: dict[str, Any], query: Query) -> tuple[Any, ...]:
    return tuple(_hashable(row[name]) for name in query.groups)


def _tops(
    rows: Sequence[dict[str, Any]], query: Query, measure: str | None
) -> dict[tuple[Any, ...], float]:
    """The greatest finite value of each group, which is drawn as a full bar."""
    tops: dict[tuple[Any, ...], float] = {}
    if measure is None:
        return tops
    for row in rows:
        value, group = row[measure], _group(row, query)
        size = abs(float(value)) if _is_number(value) and math.isfinite(value) else 0.0
        tops[group] = max(tops.get(group, 0.0), size)
    return tops


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)


def _bar(value: Any, top: float, width: int) -> str:
    """A bar with a resolution of an eighth of a character, full for the greatest value."""
    if not _is_number(value) or not top:
        return ""
    share = min(abs(float(value)) / top, 1.0)
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def _near(value: Any, answer: Answer) -> str:
    """A value as text; only the time of day if the whole window is on the same day."""
    if isinstance(value, datetime) and isinstance(answer.start, datetime):
        days = {moment.date() for moment in (value, answer.start, answer.end)}
        if len(days) == 1:
            return f"{value:%H:%M:%S}"
    return plain(value)


# The live view: shows the latest answer in place, with its changes of rank -----------------------


_FRAME = 7
"""Lines of a table that are not rows: title, rules, header, caption."""


def room(console: Console) -> int:
    """How many rows of a table fit into the terminal."""
    return max(3, console.height - _FRAME)


def picture(
    console: Console,
    latest: Mapping[Any, Answer],
    queries: Mapping[Any, Query],
    whole: bool = False,
) -> Group:
    """The latest answers, one table per query, in the order of the board."""
    shown = [(name, latest[name]) for name in queries if name in latest]
    rows = room(console)
    if len(shown) > 1:
        rows = max(1, rows // len(shown) - 3)
    titles = [
        f"{name}  {moment}" if name else moment
        for name, moment in ((name, span(answer.start, answer.end)) for name, answer in shown)
    ]
    return Group(
        *(
            answer_table(answer, queries[name], title, None if whole else rows, console.width)
            for title, (name, answer) in zip(titles, shown, strict=True)
        )
    )


def watch_live(answers: Iterable[Answer], queries: Mapping[Any, Query], pace: float) -> None:
    """Show the latest answer of every query in place; without a terminal, one line per answer."""
    console = Console(highlight=False)
    if not console.is_terminal:
        for answer in answers:
            line = answer_line(answer, queries[answer.name])
            line = f"{answer.name}  {line}" if answer.name else line
            console.print(line, soft_wrap=True, markup=False)
        return
    latest: dict[Any, Answer] = {}
    with Live(console=console, auto_refresh=False) as live:
        for answer in answers:
            began = time.perf_counter()
            latest[answer.name] = answer
            live.update(picture(console, latest, queries), refresh=True)
            time.sleep(max(0.0, pace - (time.perf_counter() - began)))
    if not latest:
        console.print("no window has any rows", style="dim")
