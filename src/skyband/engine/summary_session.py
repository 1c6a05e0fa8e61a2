"""A session that is fed summaries and a watermark instead of rows, as on Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.arrays import Ints
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.group_table import GroupTable
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
    ) -> None:
        """Continue from the summaries of all panes that a future window covers."""
        self._fold.resume(clock, panes)
        if last_answer is not None:
            self._fold.before = {0: last_answer}

    def take(self, runs: Runs) -> None:
        """Take summaries of panes that are still open."""
        self._fold.take(runs)

    @property
    def open(self) -> OpenPanes:
        """The summaries of open panes."""
        return self._fold.open

    def seal(self, watermark: int) -> Step | None:
        """Seal the panes that end by the watermark; return this session's part of the answers."""
        return self._fold.seal(watermark)

    def finish(self, partials: Sequence[Runs], numbers: Ints) -> Answers:
        """The answers of these windows (at least one) from the parts of all sessions."""
        return self._fold.answer(partials, self._fold.windows(numbers))

    def forget(self, windows: Windows) -> None:
        """Free the groups without live rows, once these windows have been answered elsewhere."""
        self._fold.forget(windows)
