"""How far a long ``rank`` is: a bar in a notebook or at a prompt, after two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from skyband.data.columns import as_table
from skyband.embedded.formats import format_of
from skyband.embedded.sources import FileSet, is_files, is_table, paths_of
from skyband.errors import SkybandError
from skyband.kernels.notice import in_notebook

if TYPE_CHECKING:
    from skyband.engine.board import BoardSession

Progress: TypeAlias = Callable[[int], None]
_WAIT = 2.0
"""Seconds before something is shown."""
_PAUSE = 0.2
"""Seconds between two pictures, at least; between two lines of a log, ``_PAUSE_OF_LINES``."""
_PAUSE_OF_LINES = 10.0
_WIDTH = 24


def progress_of(progress: bool | Progress | None, board: BoardSession, source: Any) -> Progress:
    """What is called with the rows read so far: the user's function, or a bar, or nothing."""
    if callable(progress):
        return progress
    prompt = hasattr(sys, "ps1") and sys.stderr is not None and sys.stderr.isatty()
    if progress is False or (progress is None and not (prompt or in_notebook())):
        return _nothing
    return ProgressBar(board, source)


def _nothing(rows: int) -> None:
    pass


class ProgressBar:
    """A line that is drawn over itself; where that is not possible, some lines."""

    def __init__(self, board: BoardSession, source: Any) -> None:
        self._board, self._source = board, source
        self._began = time.monotonic()
        self._due = self._began + _WAIT
        self._most: int | None = None
        self._handle: Any = None
        self._shown = False

    def __call__(self, rows: int) -> None:
        """Show that so many rows were read, if it is time to."""
        now = time.monotonic()
        if now < self._due:
            return
        if not self._shown:
            self._most = rows_of(self._source)
        self._shown = True
        drawn = in_notebook() or sys.stderr.isatty()
        self._due = now + (_PAUSE if drawn else _PAUSE_OF_LINES)
        self._show(self._text(rows, now))

    def close(self) -> None:
        """Remove the line; a notebook and a log keep what there was in all."""
        if self._shown and sys.stderr.isatty() and not in_notebook():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        elif self._shown:
            self._most = None
            self._show(self._text(self._board.rows_in, time.monotonic()))

    def _text(self, rows: int, now: float) -> str:
        windows = self._board.stats()["windows_out"]
        seconds = now - self._began
        words = f"{rows:,} rows, {windows:,} windows, {rows / seconds / 1e6:.2f} M rows/s"
        if not self._most:
            return f"{words}, {seconds:.0f} s"
        share = min(rows / self._most, 1.0)
        bar = "█" * round(share * _WIDTH)
        return f"{bar:░<{_WIDTH}} {share:4.0%}  {words}"

    def _show(self, text: str) -> None:
        if in_notebook():
            from IPython.display import display

            shown: Any = {"text/plain": text}
            if self._handle is None:
                self._handle = display(shown, raw=True, display_id=True)
            else:
                self._handle.update(shown, raw=True)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
        else:
            sys.stderr.write(f"{text}\n")


def rows_of(source: Any) -> int | None:
    """How many rows a source has, if tables or the footers of Parquet files tell it."""
    import pyarrow.parquet as pq

    try:
        rows = 0
        for each in source.values() if isinstance(source, Mapping) else [source]:
            if is_table(each):
                rows += as_table(each).num_rows
                continue
            if not is_files(each):
                return None
            words = each.words if isinstance(each, FileSet) else (each,)
            paths = [path for word in words for path in paths_of(word)]
            if any(format_of(path) != "parquet" for path in paths):
                return None
            rows += sum(int(pq.read_metadata(path).num_rows) for path in paths)
    except (OSError, ValueError, SkybandError):
        return None  # reading it says what is wrong
    return rows
