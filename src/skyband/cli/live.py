"""The live view: shows the latest answer in place, with its changes of rank."""

from __future__ import annotations

import time
from collections.abc import Iterable

from rich.console import Console
from rich.live import Live

from skyband.answers.answer import Answer
from skyband.cli.view import answer_line, answer_table, change_lines
from skyband.query import Query

__all__ = ["room", "watch_live"]

_FRAME = 7
"""Lines of a table that are not rows: title, rules, header, caption."""


def room(console: Console) -> int:
    """How many rows of a table fit into the terminal."""
    return max(3, console.height - _FRAME)


def watch_live(
    answers: Iterable[Answer], query: Query, pace: float = 0.2, changes: bool = False
) -> None:
    """Show answers as they come: in place on a terminal, otherwise one line per answer.

    With ``changes``, the changes of every answer are printed instead, one line each.
    """
    console = Console(highlight=False)
    if changes:
        for answer in answers:
            for line in change_lines(answer, query):
                console.print(line, soft_wrap=True)
        return
    if not console.is_terminal:
        for answer in answers:
            console.print(answer_line(answer, query), soft_wrap=True, markup=False)
        return
    shown = 0
    with Live(console=console, auto_refresh=False) as live:
        for answer in answers:
            began = time.perf_counter()
            live.update(answer_table(answer, query, rows=room(console)), refresh=True)
            shown += 1
            rest = pace - (time.perf_counter() - began)
            if rest > 0:
                time.sleep(rest)
    if not shown:
        console.print("no window has any rows", style="dim")
