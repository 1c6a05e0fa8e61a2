"""The fold over panes: summaries in, answers out. Both engines use it.

take(summaries)  ─►  open panes  ─►  begin(watermark)  ─►  combine, admit  ─►  folded  ─►  answered
                                          │
                                          └─ clock: which windows are due
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.answers.answer import Answers
from skyband.answers.later import Later
from skyband.answers.tables import Shape, answer_schema, answers_of
from skyband.arrays import Ints
from skyband.contract.rows import Faults, Windows
from skyband.contract.runs import Runs, run_starts
from skyband.contract.synopsis import Synopsis
from skyband.data.group_table import GroupTable
from skyband.engine.clocks import CountClock, TimeClock
from skyband.engine.fold_state import restore_fold, saved_fold
from skyband.engine.groups import LiveGroups
from skyband.engine.open_panes import OpenPanes
from skyband.engine.window_totals import last_windows, totals_for
from skyband.panes import SidePanes
from skyband.query.base import Query
from skyband.window import CountWindow

__all__ = ["Fold", "Step"]

_NONE = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Step:
    """The effect of one move of the clock: the panes it seals and the windows it ends."""

    windows: Windows
    sealed: Runs | None
    """Sealed panes; None if not even an empty summary is known."""
    ahead: Runs | None = None
    """Sealed panes to fold first: they precede those in ``sealed`` and the end of every window."""
    mended: Runs | None = None
    """Sealed panes after ``admit`` removed bad rows; None if it removed none."""
    faults: Faults | None = None
    """The rows that ``admit`` removed."""
    partial: Runs | None = None
    """After ``seal``: this fold's part of the windows' answers, before ``finish``."""


class Fold:
    """Open panes, the clock and the synopsis of one query."""

    def __init__(
        self,
        query: Query,
        synopsis: Synopsis[Any],
        groups: GroupTable,
        judge: Callable[[Faults], None],
        sources: Sequence[str],
    ) -> None:
        self.query = query
        self.judge = judge
        """Called with the rows that ``admit`` found bad; raises unless they are to be skipped."""
        self.panes = query.window.panes
        self.synopsis = synopsis
        self.groups = groups
        self.shape = Shape(query, synopsis, groups)
        self.live = LiveGroups(groups, synopsis.forget)
        self.counting = isinstance(query.window, CountWindow)
        self.time = TimeClock(self.panes, getattr(query.window, "lateness_ticks", 0), sources)
        self.count = CountClock(self.panes)
        self.open = OpenPanes(synopsis.combine)
        self.totals = totals_for(self.panes, self.counting)
        self._before: dict[int, pa.Table | Later] = {}
        self.windows_out = 0
        self.short: Ints = np.zeros(0, np.int64)
        """By group: a snapshot of version 0.1 may lack data from before this pane."""

    @property
    def before(self) -> dict[int, pa.Table]:
        """The last table of each group (key 0 if all groups share windows)."""
        self._before = {
            group: made.table if isinstance(made, Later) else made
            for group, made in self._before.items()
        }
        return self._before

    @before.setter
    def before(self, tables: dict[int, pa.Table]) -> None:
        self._before = dict(tables)

    def share_groups(self, first: Fold) -> None:
        """Have one table of groups with another fold, whose codes are the same."""
        if self.groups is first.groups:
            return
        self.live.join(first.live)
        self.groups = self.live.table
        self.shape = Shape(self.query, self.synopsis, self.groups)

    # Taking ------------------------------------------------------------------------------------

    def take(self, runs: Runs) -> None:
        """Take summaries of panes that are still open."""
        if len(runs):
            self.live.saw(runs)
        self.open.take(runs)

    def resume(
        self, clock: dict[str, Any] | None, panes: Sequence[Runs], parts: Sequence[Runs] = ()
    ) -> None:
        """Start from a clock and the summaries of all panes that a future window covers.

        The synopsis then answers as if it had taken all panes from the beginning. ``parts`` are
        those of a state that outlives its panes.
        """
        if clock is not None:
            self.time.restore(clock)
        if parts:
            state = Runs.concat(parts)
            self.open.take(state.slice(0, 0))
            self.live.saw(state)
            self.synopsis.resume(state)
        upto = self.time.sealed
        sealed = [runs for runs in panes if len(runs) and runs.stamp[0] < upto]
        for runs in panes:
            if not len(runs) or runs.stamp[0] >= upto:
                self.take(self.synopsis.saved_runs(runs))
        if sealed:
            runs = self.synopsis.saved_runs(Runs.concat(sealed).ordered())
            self.open.take(runs.slice(0, 0))
            self.live.saw(runs)
            self.totals.add(runs)
            self.synopsis.fold(runs, self.windows(_NONE))

    # Sealing -----------------------------------------------------------------------------------

    def begin(self, watermark: int) -> Step | None:
        """Seal the panes that end by the watermark; ``folded`` and ``answered`` do the rest."""
        return self._time_step(watermark, apart=not self.synopsis.admits)

    def begin_counts(self, groups: Ints, before: Ints) -> Step | None:
        """Seal the panes that these groups have filled since their counts were ``before``."""
        upto = self.panes.pane_of(self.count.counts)
        if not self.groups.names and self.open.least >= int(upto[0]):
            slide, now = self.panes.slide, int(self.count.counts[0])
            if not len(before) or int(before[0]) // slide == now // slide:
                return None
        _, whole, rest = self.open.split(lambda runs: runs.stamp < upto[runs.group])
        sealed, _ = self._admitted(whole)
        self.open.keep(rest)
        numbers, owners = self.count.due(groups, before)
        if sealed is None and not len(numbers):
            return None
        self.totals.add(sealed)
        ranks = self.groups.ranks
        order = np.lexsort((ranks[owners], numbers))
        numbers, owners = numbers[order], owners[order]
        windows = Windows(
            numbers,
            np.maximum(self.panes.first_pane(numbers), 0),
            self.panes.end_pane(numbers),
            ranks,
            owners.astype(np.int32) if self.groups.names else None,
        )
        return Step(windows, self.open.blank if sealed is None else sealed)

    def folded(self, step: Step | None) -> Runs | None:
        """Fold the sealed panes of a step; return the finished rows of the windows that it ends."""
        final = self.synopsis.finishes
        found = None if step is None else self._fold(step, final)
        return found if final or found is None else self.synopsis.finish([found])

    def _fold(self, step: Step, final: bool = False) -> Runs | None:
        if step.ahead is not None:
            self.synopsis.fold(step.ahead, self.windows(_NONE))
        if step.sealed is None:
            return None
        return self.synopsis.fold(step.sealed, step.windows, final)

    def answered(self, step: Step | None, finished: Runs | None) -> Answers | None:
        """The answers of the windows that a step ends, from what ``folded`` returned."""
        if step is None or not len(step.windows):
            return None
        return self._finished(finished, step.windows)

    def seal(self, watermark: int, elsewhere: Ints = _NONE) -> Step | None:
        """Like ``begin``, but return this fold's part of the answers, in ``Step.partial``.

        ``elsewhere`` are panes that have rows in other folds, if that decides what is answered.
        """
        step = self._time_step(watermark, elsewhere=elsewhere)
        return None if step is None else self.partly(step)

    def partly(self, step: Step) -> Step:
        """A step with this fold's part of the answers."""
        return replace(step, partial=self._fold(step))

    def _time_step(
        self, watermark: int, apart: bool = False, elsewhere: Ints = _NONE
    ) -> Step | None:
        upto = int(self.panes.pane_of(watermark))
        if self.open.least >= upto and not len(elsewhere) and self.time.waits(watermark):
            self.time.watermark = watermark
            return None  # most small pushes end here
        ahead, sealed, rest = self.open.split(lambda runs: runs.stamp < upto, apart)
        admitted, faults = self._admitted(sealed)
        both = [runs for runs in (ahead, admitted) if runs is not None]
        filled = np.concatenate([_NONE, *(r.stamp[run_starts(r.stamp)] for r in both)])
        if len(elsewhere):
            filled = np.union1d(filled, elsewhere[elsewhere < upto])
        lasts = None
        if isinstance(self.panes, SidePanes):
            lasts = np.concatenate([_NONE, *(last_windows(self.panes, runs) for runs in both)])
        numbers = self.time.advance(watermark, filled, lasts)
        self.open.keep(rest)
        if admitted is None and not len(numbers):
            return None
        windows = self.windows(numbers)
        if ahead is not None and admitted is not None and (windows.end <= ahead.stamp[-1]).any():
            admitted = Runs.concat([ahead, admitted])
            ahead = None
        for runs in (ahead, admitted):
            self.totals.add(runs)
        mended = None if admitted is sealed or sealed is None else admitted
        # If there is no blank either, this fold was restored after its last pane had expired.
        folded = self.open.blank if admitted is None else admitted
        return Step(windows, folded, ahead, mended, faults)

    def windows(self, numbers: Ints) -> Windows:
        """The time windows with these numbers."""
        first, end = self.panes.first_pane(numbers), self.panes.end_pane(numbers)
        return Windows(numbers, first, end, self.groups.ranks)

    def _admitted(self, sealed: Runs | None) -> tuple[Runs | None, Faults | None]:
        if sealed is None or not self.synopsis.admits:
            return sealed, None
        admitted, faults = self.synopsis.admit(sealed)
        if faults is not None:
            self.judge(faults)
        return admitted, faults

    # Answers -----------------------------------------------------------------------------------

    def answer(self, partials: Sequence[Runs], windows: Windows) -> Answers:
        """Answers of at least one window from the partials of all shards, with our group codes."""
        return self._finished(self.synopsis.finish(partials) if partials else None, windows)

    def _finished(self, finished: Runs | None, windows: Windows) -> Answers:
        runs = None if finished is None else finished.ordered(windows.ranks)
        ends, starts = self.panes.end_of(windows.number), self.panes.start_of(windows.number)
        edges = (np.maximum(starts, 0) if self.counting else starts), ends
        totals = self.totals.of(windows)
        later = self.open.waiting is not None  # small pushes, of whose answers few may be read
        answers = answers_of(self.shape, runs, windows, edges, totals, self._before, later)
        self._before = self._before | answers.last() if self.counting else answers.last()
        self.windows_out += len(answers)
        self.forget(windows)
        return answers

    def peeks_from(self, groups: npt.NDArray[np.int32]) -> Ints:
        """The first pane of each group that ``peek`` can still read."""
        found = np.zeros(len(groups), np.int64)
        known = groups < len(self.short)
        found[known] = self.short[groups[known]]
        return found

    def schema(self) -> pa.Schema:
        """Columns of an answer."""
        return answer_schema(self.shape)

    def forget(self, windows: Windows) -> None:
        """Drop what only these windows needed.

        Groups without live rows are freed if the groups have doubled since the last time.
        """
        self.totals.expire(windows, self.count.counts)
        if self.counting:
            return  # groups of a count window are never forgotten
        gone = self.live.expired(int(windows.first[-1]))
        if gone is not None:
            self.live.release(gone)

    # State -------------------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """The state that a failed push must restore."""
        counts, newest = self.count.counts.copy(), self.live.newest.copy()
        kept = self.open.mark(), self.time.copied(), counts, newest, self.totals.copied()
        return *kept, self.synopsis.savepoint()

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to the state that ``mark`` returned."""
        pieces, self.time, self.count.counts, self.live.newest, self.totals, state = mark
        self.open.rewind(pieces)
        if state is not None:
            self.synopsis.restore(state)

    def stats(self) -> dict[str, int | float]:
        """Windows answered, the synopsis's own counts, and the size of the whole state."""
        held = (
            self.open.nbytes + self.live.nbytes + self.totals.nbytes
        )  # first: rows may wait there
        own = self.synopsis.stats() if self.synopsis.ready else {"retained": 0, "state_bytes": 0}
        return {"windows_out": self.windows_out, **own, "state_bytes": own["state_bytes"] + held}

    def snapshot(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Plain values and flat arrays."""
        return saved_fold(self)

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Restore a snapshot of the same query, bound to the same columns."""
        restore_fold(self, header, arrays)
