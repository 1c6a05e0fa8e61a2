"""What is kept so that a late row can correct answers that were given already.

    watermark - revise                 watermark
           ├──────── revise ───────────────┤
    ├──────┼──────┼──────┼──────┼──────┼───┤     sealed panes, each as its summary
    ├─────────────┤ a late row × here changes the windows that cover it
         ├────────×────┤

The summaries of all panes that such a window covers are kept (``Fold.archive``), and of each window
that may change its last answer (``WindowHistory``). A correction reads the archived panes again,
from the first pane of the first window that it changes up to now, together with the late rows. So
it takes as long as answering that stretch of the stream from its summaries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers, LazyTable, now
from skyband.arrays import Ints
from skyband.data.flat_state import require, whole
from skyband.data.ipc import sound_table, table_to_array

_FAR = 1 << 62
Table: TypeAlias = pa.Table | LazyTable


class WindowHistory:
    """The last answer of each window of a reader that may be corrected, and its revision."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[int, Table]] = {}
        """By window, in the order in which they were first answered."""
        self.newest: int | None = None
        """The newest window of all that were answered."""
        self.keeps_tables = True
        """Whether changes are asked for; otherwise only revisions are kept."""

    def next_revisions(self, windows: Ints) -> Ints:
        """The revisions of the next answers of these windows."""
        return np.array([self.known[n][0] + 1 if n in self.known else 0 for n in windows.tolist()])

    def noted(
        self, answers: Answers, windows: Ints, last: dict[int, Table], expired: int
    ) -> tuple[Answers, dict[int, Table]]:
        """Note the answers of windows; ``last`` is the table of the newest window before them.

        Returns the answers with what each is compared with, and the new ``last``: a correction is
        compared with its window's answer before; the first answer of a window with the newest
        window before it. Windows before ``expired`` cannot change any more.
        """
        before: list[Table | None] = []
        assert answers.revision is not None
        for i, (number, revision) in enumerate(
            zip(windows.tolist(), answers.revision.tolist(), strict=True)
        ):
            follows = self.newest is None or number >= self.newest
            earlier = self.known.get(number)
            before.append(earlier[1] if earlier else last.get(0) if follows else None)
            table = answers.cut(i) if self.keeps_tables else answers.made.slice(0, 0)
            self.known[number] = revision, table
            if follows:
                self.newest, last = number, {0: table}
        while (oldest := next(iter(self.known), expired)) < expired:
            del self.known[oldest]
        return replace(answers, compared=before), last

    def snapshot(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The window, the revision and the rows of each answer, and all rows as one table."""
        tables = {number: now(table) for number, (_, table) in self.known.items()}
        header = [[n, self.known[n][0], table.num_rows] for n, table in tables.items()]
        some = [table for table in tables.values() if table.num_rows]
        rows = {"rows": table_to_array(pa.concat_tables(some))} if some else {}
        return {"windows": header}, rows

    def restore(
        self, header: Mapping[str, Any], arrays: Mapping[str, Any], schema: pa.Schema
    ) -> None:
        """Restore what ``snapshot`` returned; answers have these columns."""
        table = sound_table(arrays["rows"]) if arrays else schema.empty_table()
        require(table.schema.equals(schema), "an answer with other columns")
        at = 0
        for number, revision, rows in header["windows"]:
            self.known[whole(number, -_FAR)] = whole(revision), table.slice(at, whole(rows))
            at += rows
        self.newest = max(self.known, default=None)
        require(at == table.num_rows, "rows of no answer")
