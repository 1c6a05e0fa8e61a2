"""``sb.live``: answers that replace one another in a notebook or a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from skyband.embedded.run import watch
from skyband.kernels.notice import in_notebook
from skyband.query import Query
from skyband.query.board import Board
from skyband.query.checks import OnBad
from skyband.window import Duration

if TYPE_CHECKING:
    from skyband.answers.answer import Answer
    from skyband.embedded.sources import Source

_PAUSE = 0.1
"""Seconds between two pictures, at least; answers in between are not shown."""


def live(
    source: Source | Mapping[str, Source],
    query: Query | Board,
    on_bad: OnBad = "raise",
    idle: Duration | float | None = None,
) -> Answer | dict[str, Answer] | None:
    """Watch a source and show the newest answer of each query, in place, until the source ends.

    A notebook shows an HTML table and a terminal a text table, both updated in place; elsewhere
    only the last answers are printed. Ctrl-C also stops it. Return the last answer; for a board, a
    dict of answers by name.
    """
    newest: dict[str | None, Answer] = {}
    show, due = _place(), 0.0
    try:
        for answer in watch(source, query, on_bad=on_bad, idle=idle):
            newest[answer.name] = answer
            now = time.monotonic()
            if now >= due:
                show(list(newest.values()), last=False)
                due = now + _PAUSE
    except KeyboardInterrupt:
        pass
    show(list(newest.values()), last=True)
    if isinstance(query, Mapping):
        return {str(name): answer for name, answer in newest.items()}
    return newest.get(None)


def _place() -> Callable[..., None]:
    """Where answers are shown."""
    return _Notebook().show if in_notebook() else _Terminal().show


class _Notebook:
    """One output cell, whose content is replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, answers: list[Answer], last: bool) -> None:
        from IPython.display import HTML, display

        shown = HTML("".join(answer._repr_html_() for answer in answers))
        if self._handle is None:
            self._handle = display(shown, display_id=True)
        else:
            self._handle.update(shown)


class _Terminal:
    """Lines that are drawn over the lines before them."""

    def __init__(self) -> None:
        self._lines = 0

    def show(self, answers: list[Answer], last: bool) -> None:
        drawn = sys.stdout.isatty()
        if not answers or not (drawn or last):
            return
        text = "\n".join(map(repr, answers))
        back = f"\x1b[{self._lines}A\x1b[J" if drawn and self._lines else ""
        sys.stdout.write(f"{back}{text}\n")
        sys.stdout.flush()
        self._lines = text.count("\n") + 1
