"""A ready-made state for windows that no row leaves: one summary per group, of all rows so far."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from skyband.arrays import Codes, Hashes, Ints, Saved, State
from skyband.contract.pane_by_pane import PaneByPane
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs
from skyband.data.flat_state import require

PARTS = 64
"""The state is stored in this many parts, so that a batch rewrites only those it has changed."""


class Accumulated(PaneByPane):
    """A mixin for synopses whose summaries are also their state and their partial answers.

    The rows so far are one big pane, so ``combine`` merges a sealed pane into the state. It is
    called for every pane, even if there is nothing to merge it with. Cost: what ``combine`` costs
    for the groups that have rows in the pane; a copy of the state for each pane; a copy of the
    state for each answer.
    """

    combine: Callable[[Runs], Runs]
    """See ``Synopsis.combine``."""
    saved_runs: Callable[..., Runs]
    """See ``Synopsis.saved_runs``."""
    many_groups = True
    kept: Runs | None = None
    """One run per group, in the order of group codes; None before the first pane."""
    newest: Ints = np.zeros(0, np.int64)
    """The newest pane with rows, by group code; kept only for ``changed``."""
    storing = False
    """Whether an engine stores the state in parts, so that changes have to be noted."""
    _touched: Ints = np.zeros(0, np.int64)
    """Groups that have changed since they were last stored."""

    def read(self, kept: Runs, end: int) -> Runs:
        """What an answer before pane ``end`` needs of the state; all of it by default."""
        return kept

    # The fold ---------------------------------------------------------------------------------

    def fold(self, panes: Runs, windows: Windows) -> Runs | None:
        """See ``PaneByPane.fold``."""
        if self.kept is None:
            self.push(panes.slice(0, 0))
        return super().fold(panes, windows)

    def seal(self, first: int, end: int) -> None:
        """No pane expires."""

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        """See ``Synopsis.partial``."""
        if self.kept is None:
            return Runs(np.zeros(0, np.int64), np.zeros(0, np.int32), {})
        kept = self.kept if group is None else self.kept.take(self.kept.group == group)
        found = self.read(kept, end)
        return found.with_scalars(end=np.full(len(found), end))

    def push(self, panes: Runs) -> None:
        """Merge sealed panes into the state."""
        fresh = panes.stamped(np.zeros(len(panes), np.int64)).ordered()
        if self.kept is None:
            self.kept = fresh.slice(0, 0)
        if not len(fresh):
            return
        if np.array_equal(self.kept.group, fresh.group):  # always, if there are no groups
            self.kept = self.combine(Runs.concat([self.kept, fresh]).ordered())
        else:
            mine = np.isin(self.kept.group, fresh.group)
            merged = self.combine(Runs.concat([self.kept.take(mine), fresh]).ordered())
            self.kept = Runs.concat([self.kept.take(~mine), merged]).ordered()
        self.touch(panes)

    def touch(self, panes: Runs) -> None:
        """Note which groups have changed."""
        if self.storing:
            self._touched = np.union1d(self._touched, panes.group)
        most = int(panes.group.max(initial=-1)) + 1
        if most > len(self.newest):
            self.newest = np.append(self.newest, np.zeros(most, np.int64))
        self.newest[panes.group] = panes.stamp  # panes ascend

    def forget(self, groups: Codes) -> None:
        """See ``Synopsis.forget``."""
        if self.kept is not None:
            self.kept = self.kept.take(~np.isin(self.kept.group, groups))
            self._touched = np.setdiff1d(self._touched, groups)

    # State ------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """See ``Synopsis.snapshot``."""
        return {} if self.kept is None else {"kept": np.frombuffer(self.kept.pack(), np.uint8)}

    def restore(self, arrays: Saved) -> None:
        """See ``Synopsis.restore``."""
        self.kept = None
        if arrays:
            self.kept = self.saved_runs(Runs.unpack(arrays["kept"].tobytes())[0], False)
            ordered = (np.diff(self.kept.group) > 0).all() and not self.kept.stamp.any()
            require(ordered, "a group is there twice")

    def changed(self, stable: Hashes) -> list[tuple[int, Runs]]:
        """The parts of the state that have changed since the last call, by number.

        ``stable[group]`` is a hash of the group's key, the same in every process: a group belongs
        to one part. The stamp of a run is the newest pane in which its group has rows. A part
        without runs is empty.
        """
        if self.kept is None:
            return []
        touched = self._touched if self.storing else self.kept.group
        dirty = np.unique(stable[touched] % np.uint64(PARTS))
        self.storing, self._touched = True, self._touched[:0]
        part = stable[self.kept.group] % np.uint64(PARTS)
        return [(int(each), self.stored(self.kept.take(part == each))) for each in dirty]

    def stored(self, kept: Runs) -> Runs:
        """These groups, stamped with the newest pane of each."""
        return kept.stamped(self.newest[kept.group])

    def resume(self, parts: Runs) -> None:
        """Continue from the parts that ``changed`` returned, each in its last form."""
        parts = parts.ordered()
        self.touch(parts)
        self.storing, self._touched = True, self._touched[:0]
        self.kept = self.joined(parts.stamped(np.zeros(len(parts), np.int64)).ordered())

    def joined(self, parts: Runs) -> Runs:
        """The state from all its parts."""
        return parts

    def stats(self) -> dict[str, int | float]:
        """See ``Synopsis.stats``."""
        if self.kept is None:
            return {"retained": 0, "state_bytes": 0}
        retained = sum(len(part) for part in self.kept.parts.values())
        return {"retained": retained, "state_bytes": self.kept.nbytes}

    def _check(self) -> None:
        """Assert that each group has one run."""
        if self.kept is not None:
            assert (np.diff(self.kept.group) > 0).all()
            assert (self.kept.stamp == 0).all()
