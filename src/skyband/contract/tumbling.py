"""A ready-made state for windows of one pane: what answers them is the summary of their pane."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from skyband.arrays import Ints, Saved, State
from skyband.contract.rows import Windows
from skyband.contract.runs import Runs, expand
from skyband.data.flat_state import require

_NONE = np.zeros(0, np.int64)


class Tumbling:
    """Keeps the last panes as they came, and reads a pane when its window ends.

    For time windows, and for count windows without groups. Cost: O(groups) per window beside that
    of ``read``. State: the summaries of the last pane with rows, until the next window.
    """

    def __init__(self, read: Callable[[Runs, Ints], Runs]) -> None:
        """``read`` makes the partial answers of some runs of panes, in this order."""
        self.read = read
        self.last: Runs | None = None
        """Panes that a window to come, or a peek at the last one, may need; None at first."""

    @property
    def nbytes(self) -> int:
        return 0 if self.last is None else self.last.nbytes

    def stats(self) -> dict[str, int | float]:
        """The size of the state."""
        parts = {} if self.last is None else self.last.parts
        return {"retained": sum(map(len, parts.values())), "state_bytes": self.nbytes}

    def fold(self, panes: Runs, windows: Sequence[Windows]) -> list[Runs | None]:
        """As ``Synopsis.fold_readers``; the readers differ in k only, and share an answer."""
        own = windows[0]
        pieces = [panes] if self.last is None else [self.last, panes]
        low, high = (np.searchsorted(pieces[0].stamp, edges) for edges in (own.first, own.end))
        needed = pieces if (high > low).any() else pieces[-1:]
        answers = [self._answered(runs, own) for runs in needed if len(own)]
        self._keep(pieces, int(own.first[-1]) if len(own) else None)
        return [Runs.concat(answers) if answers else None] * len(windows)

    def _answered(self, panes: Runs, windows: Windows) -> Runs:
        """The answers of the windows whose pane is among these, groups in the order of ranks."""
        low = np.searchsorted(panes.stamp, windows.first)
        high = np.searchsorted(panes.stamp, windows.end)
        some = np.flatnonzero(high > low)
        low, high, ranks = low[some], high[some], windows.ranks
        if len(ranks) <= panes.group.max(initial=0):
            ranks = np.arange(int(panes.group.max()) + 1)
        runs = expand(low, high - low)
        runs = runs[np.lexsort((ranks[panes.group[runs]], panes.stamp[runs]))]
        answers = self.read(panes, runs)
        return answers.stamped(np.repeat(windows.number[some], high - low))

    def _keep(self, pieces: Sequence[Runs], needed: int | None) -> None:
        """Keep the panes from ``needed`` on, as copies: what they came in can then be freed."""
        live = []
        for runs in pieces:
            first = 0 if needed is None else int(np.searchsorted(runs.stamp, needed))
            left = runs.slice(first, len(runs))
            live.append(left if runs is self.last else left.take(np.arange(len(left))))
        self.last = Runs.concat([runs for runs in live if len(runs)] or live[-1:])

    def live(self, first: int, end: int, group: int | None = None) -> Ints:
        """Which runs of ``last`` are in the panes ``[first, end)``: those of at most one pane."""
        if self.last is None:
            return _NONE
        inside = (self.last.stamp >= first) & (self.last.stamp < end)
        if group is not None:
            inside &= self.last.group == group
        return np.flatnonzero(inside)

    def partial(self, first: int, end: int, group: int | None = None) -> Runs:
        """As ``Synopsis.partial``."""
        if self.last is None:
            return Runs(_NONE, np.zeros(0, np.int32), {})
        return self.read(self.last, self.live(first, end, group))

    def state(self) -> State:
        """Flat arrays for a snapshot."""
        return {} if self.last is None else {"last": np.frombuffer(self.last.pack(), np.uint8)}

    def restore(self, arrays: Saved) -> None:
        """Restore from a snapshot."""
        packed = arrays.get("last")
        self.last = None if packed is None else Runs.unpack(packed.tobytes())[0]
        if self.last is not None:
            require(self.last.ordered() is self.last, "panes that are not in order")

    def _check(self) -> None:
        if self.last is not None:
            assert not self.last.repeats.any()
            assert self.last.ordered() is self.last
