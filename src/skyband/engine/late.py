"""Which rows of a batch are late, and by how much: for those who write such rows down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from skyband.contract.rows import Faults
from skyband.data.columns import one_batch_of
from skyband.engine.clock import TimeClock
from skyband.engine.fold import Fold
from skyband.engine.intake import Intake
from skyband.panes import Panes
from skyband.window import duration_text

__all__ = ["LateJudge", "late_judge"]


class LateJudge(NamedTuple):
    """What late rows are judged by: how far a stream has come before a batch."""

    panes: Panes
    watermark: int
    integer: bool
    """Whether times are integers, whose unit nobody knows."""

    def rows(
        self, intake: Intake, source: str, table: pa.Table, faults: Faults | None
    ) -> Iterator[tuple[int, str]]:
        """The late rows of a batch that was read, which are not bad, and how late each is."""
        axis = intake.synopsis.axes.get(source)
        if axis is None or not table.num_rows:
            return
        batch = one_batch_of(table.select(intake.bound[source].names))
        ticks, timed = axis.ticks_of(batch.column(axis.name))
        panes = self.panes.of(source)
        pane = panes.pane_of(ticks)
        late = panes.used(pane) & (pane < panes.pane_of(self.watermark))
        if not late.any():
            return
        if panes.since is not None:
            late &= ticks >= panes.since
        if timed is not None:
            late &= timed
        if faults is not None:
            late &= ~faults.mask
        if intake.filters[source].filtering:
            late &= intake.filters[source].filter.mask(batch)
        for row in np.flatnonzero(late).tolist():
            behind = self.watermark - int(ticks[row])
            yield row, f"late by {behind if self.integer else duration_text(behind)}"


def late_judge(fold: Fold | None) -> LateJudge | None:
    """The judge of the next rows of a fold; None if none of them can be late."""
    clock = None if fold is None else fold.clock
    if fold is None or not isinstance(clock, TimeClock):
        return None
    if clock.watermark is None or clock.waiting:
        return None
    return LateJudge(clock.panes, clock.watermark, fold.query.window.integer)
