"""A session that is fed summaries and a watermark instead of rows, as on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.arrays import Ints, Mask
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
from skyband.data.keys import hash_columns
from skyband.engine.fold import Step
from skyband.engine.intake import Intake
from skyband.engine.open_panes import OpenPanes
from skyband.engine.session import Session

__all__ = ["SummarySession"]


class SummarySession(Session):
    """Takes summaries of panes and returns its part of each answer, or the finished answers.

    Summaries carry the group codes of ``groups``. The caller stores the summaries and ``clock``; a
    new session can ``resume`` from them.
    """

    def __init__(self, intake: Intake, on_bad: str) -> None:
        super().__init__(intake.query, on_bad, intake=intake)
        self._fold = self.start(tuple(intake.bound))

    @property
    def groups(self) -> GroupTable:
        return self._fold.groups

    @property
    def clock(self) -> dict[str, Any]:
        """How far event time and the answers have come, as plain values."""
        return self._fold.time.state()

    @property
    def last_answer(self) -> pa.Table | None:
        """The table of the last window answered, from which changes are computed."""
        return self._fold.before.get(0)

    @property
    def retained(self) -> int | float:
        """The number of items that the synopsis keeps."""
        return self.synopsis.stats()["retained"]

    def resume(
        self,
        clock: dict[str, Any] | None,
        panes: Sequence[Runs],
        last_answer: pa.Table | None,
        parts: Sequence[Runs] = (),
    ) -> None:
        """Continue from the summaries of all panes that a future window covers.

        ``parts`` are those of a state that outlives its panes.
        """
        self._fold.resume(clock, panes, parts)
        if last_answer is not None:
            self._fold.before = {0: last_answer}

    def take(self, runs: Runs) -> None:
        """Take summaries of panes that are still open."""
        self._fold.take(runs)

    @property
    def open(self) -> OpenPanes:
        """The summaries of open panes."""
        return self._fold.open

    def seal(self, watermark: int, elsewhere: Ints) -> Step | None:
        """Seal the panes that end by the watermark; return this session's part of the answers.

        ``elsewhere`` are panes that have rows in other sessions, if that decides what is answered.
        """
        return self._fold.seal(watermark, elsewhere)

    @property
    def sealed(self) -> int:
        """The first pane that still takes rows."""
        return self._fold.time.sealed

    def covered(self, panes: Ints) -> Mask:
        """Whether a window that is still to be answered covers each of these panes."""
        answered = self._fold.time.answered
        if answered is None:
            return np.ones(len(panes), np.bool_)
        return np.asarray(self._fold.panes.last_window_of(panes) > answered)

    def changed(self) -> list[tuple[int, Runs]]:
        """The changed parts of a state that outlives its panes."""
        if not self.synopsis.accumulates or not self.synopsis.ready:
            return []
        groups = self._fold.groups
        stable = np.zeros(groups.bound, np.uint64)
        if groups.names:
            stable[groups.live] = hash_columns(groups.gather(groups.live))
        return self.synopsis.changed(stable)

    def finish(self, partials: Sequence[Runs], numbers: Ints) -> Answers:
        """The answers of these windows (at least one) from the parts of all sessions."""
        return self._fold.answer(partials, self._fold.windows(numbers))

    def forget(self, windows: Windows) -> None:
        """Drop what only these windows needed, once they have been answered elsewhere."""
        self._fold.forget(windows)
