"""Pushes of a few rows: those that need nothing but to be kept, and those that end a pane.

Most pushes to a live monitor hold a few good rows in open panes. They take a short way: one plan
per schema instead of a general reading, and rows that wait instead of a summary per push (see
``waiting.py``). Any other push takes the general way of ``Session.pushing``: bad rows, nulls, late
rows, groups of count windows, computed columns, many rows. Answers are the same on both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.engine.waiting import Plan, Waiting, plan_for
from skyband.engine.window_totals import SURELY_FITS
from skyband.errors import SchemaError

if TYPE_CHECKING:
    from skyband.engine.fold import Fold, Step
    from skyband.engine.session import Session

__all__ = ["SmallPushes", "small_pushes"]

_MOST_ROWS = 1024
"""Rows of a small push."""
_ONLY = ""
_BEYOND = int(np.iinfo(np.int64).max)


def small_pushes(session: Session) -> SmallPushes | None:
    """The short way into a session that has a fold; None if its query cannot take it."""
    fold, intake = session.fold, session.intake
    assert fold is not None
    if session.several or session.idle is not None or _ONLY not in intake.bound:
        return None
    asked = intake.asked[_ONLY]
    tests = session.synopsis.quick_tests(_ONLY)
    if asked.computed or tests is None or fold.panes.gaps:
        return None
    if fold.counting and fold.groups.names:
        return None
    return SmallPushes(session, fold)


class SmallPushes:
    """Takes small pushes of a query with one source, and no other."""

    def __init__(self, session: Session, fold: Fold) -> None:
        self.session = session
        self.fold = fold
        self.waiting = Waiting(_ONLY, fold)
        fold.open.waiting = self.waiting
        self.plans = 0
        """Plans made."""
        self.kept = 0
        """Pushes whose rows were only kept."""
        self.ended = 0
        """Pushes that took the short way and sealed a pane or ended a window."""
        self._schema: pa.Schema | None = None
        self._plan: Plan | None = None
        self._columns: list[Any] = []
        self._rows = 0
        """How many of the rows that were read count."""
        self._panes = 0, 0
        """The first and the last pane of the rows that were read."""
        self._follow = False
        """Whether the rows of a push are taken after what it ends."""
        self._seen = 0
        self._watermark = 0

    def fits(self, data: Any) -> int:
        """How many rows a batch has if it can take the short way, otherwise 0. Changes nothing."""
        rows: int = data.num_rows
        if not 0 < rows <= _MOST_ROWS or self.fold.open.blank is None:
            return 0
        if self.fold.totals.bound > SURELY_FITS:
            return 0
        schema = data.schema
        if self._schema is None or not schema.equals(self._schema):
            self._new_plan(schema)
        if self._plan is None:
            return 0
        columns = self._plan.read(data, rows)
        if columns is None:
            return 0
        mask, self._rows = self._plan.counting(data, rows), rows
        counting = columns
        if mask is not None:
            self._rows, chosen = int(mask.sum()), pa.array(mask)
            counting = [c[mask] if isinstance(c, np.ndarray) else c.filter(chosen) for c in columns]
        if self._rows and not self._plan.good(counting):
            return 0
        if self.session.intake.unfit(_ONLY, data) is not None:
            return 0
        self._columns = counting
        return rows if self.fold.counting or self._in_time(columns, rows) else 0

    def _new_plan(self, schema: pa.Schema) -> None:
        session = self.session
        self._schema = self._plan = None
        try:
            session.bind(_ONLY, schema)
        except SchemaError:
            return  # the general way says so
        tests = session.synopsis.quick_tests(_ONLY)
        assert tests is not None
        axis = session.synopsis.axes.get(_ONLY)
        names, where = session.synopsis.schemas[_ONLY].names, session.intake.asked[_ONLY].filter
        self._plan = plan_for(schema, names, tests, axis, where)
        self._schema = schema
        self.plans += 1

    def _in_time(self, columns: list[Any], rows: int) -> bool:
        """Whether no row is late, unused or beyond the clock; notes what the clock would show."""
        plan, clock, panes, limits = self._plan, self.fold.time, self.fold.panes, self._limits()
        assert plan is not None
        ticks = columns[plan.time]
        if plan.ticks is not None:
            ticks = plan.ticks(ticks)
        low = high = int(ticks[0])
        if rows > 1:
            low, high = int(ticks.min()), int(ticks.max())
        if low < limits[0] or high > limits[1] or clock.ignored:
            return False
        before, seen = clock.watermark, clock.seen[_ONLY]
        self._panes = self._panes_of(low, high) if self._rows == rows else self._panes_kept()
        if before is not None and self._panes[0] < panes.pane_of(before):
            return False
        self._seen = high if seen is None or high > seen else seen
        mark = self._seen - clock.lateness
        self._watermark = mark if before is None or mark > before else before
        return True

    def _panes_of(self, low: int, high: int) -> tuple[int, int]:
        """The first and last pane of rows, from their least and greatest tick."""
        panes = self.fold.panes
        first = int(panes.pane_of(low))
        return first, first if high == low else int(panes.pane_of(high))

    def _panes_kept(self) -> tuple[int, int]:
        """The first and last pane of the rows that count, which are not all of the rows."""
        assert self._plan is not None
        if not self._rows:
            return _BEYOND, _BEYOND
        ticks = self._columns[self._plan.time]
        if self._plan.ticks is not None:
            ticks = self._plan.ticks(ticks)
        return self._panes_of(int(ticks.min()), int(ticks.max()))

    def _limits(self) -> tuple[int, int]:
        limits, since = self.session.intake.limits, self.fold.panes.since
        assert limits is not None
        return limits.least if since is None else max(limits.least, since), limits.greatest

    def ends(self) -> bool:
        """Whether rows that fit would seal a pane or end a window."""
        rows, fold, panes = self._rows, self.fold, self.fold.panes
        if not fold.counting:
            upto = panes.pane_of(self._watermark)
            least = min(fold.open.least, self._panes[0])
            return not (least >= upto and fold.time.waits(self._watermark))
        now = int(fold.count.counts[0])
        self._panes = int(panes.pane_of(now)), int(panes.pane_of(now + rows - 1))
        least = min(fold.open.least, self._panes[0])
        return bool(
            least < panes.pane_of(now + rows) or now // panes.slide != (now + rows) // panes.slide
        )

    def keep(self, rows: int) -> None:
        """Take rows that fit and end nothing."""
        self._add(rows)
        if not self.fold.counting:
            self.fold.time.watermark = self._watermark
        self.kept += 1

    def _add(self, rows: int) -> None:
        fold, plan = self.fold, self._plan
        assert plan is not None
        counts, kept = self.session.rows, self._rows
        counts["rows_in"] += rows
        counts["rows_filtered"] += rows - kept
        arrival = int(fold.count.counts[0]) if fold.counting else 0
        if kept:
            self.waiting.add(plan, self._columns, kept, self._panes, arrival)
        if fold.counting:
            fold.count.counts[0] += kept
        else:
            fold.time.seen[_ONLY] = self._seen

    def end(self, rows: int) -> Answers | None:
        """Take rows that fit, seal what they end, and answer; an error leaves all as it was."""
        fold, session = self.fold, self.session
        self._follow = False
        mark, counted = fold.mark(), dict(session.rows)
        try:
            step = self._begun(rows)
            finished = fold.folded(step)
            if self._follow:
                self._add(rows)
        except BaseException:
            fold.rewind(mark)
            session.rows = counted
            raise
        self.ended += 1
        return fold.answered(step, finished)

    def _begun(self, rows: int) -> Step | None:
        fold = self.fold
        if fold.counting:
            before = fold.count.counts[:1].copy()
            self._add(rows)
            return fold.begin_counts(np.zeros(1, np.int64), before)
        # Rows of panes that stay open need not be summarised yet.
        self._follow = self._panes[0] >= fold.panes.pane_of(self._watermark)
        if not self._follow:
            self._add(rows)
        return fold.begin(self._watermark)
